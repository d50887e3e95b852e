"""Energies of the example openfmo_like against those of other programs; one process is the job."""

import openfmo
import pytest
from openfmo import WATER

pytestmark = openfmo.needs_pyscf

OFF, GAMESS, OPENFMO = (0, 0, 0), (0, 2, 2), (1, 2, 2)

TRIMER = """\
 $CONTRL RUNTYP=ENERGY $END
 $BASIS GBASIS=STO NGAUSS=3 $END
 $FMO
   NFRAG=3 RESPAP=0 RESPPC=0 RESDIM=0
   ICHARG(1)=0,0,0  FRGNAM(1)=wat1,wat2,wat3
   INDAT(1)=0, 1,-3,0, 4,-6,0, 7,8,9,0
 $END
 $FMOXYZ
 O 8.0 0 0 0
 H 1.0 0 0 .957200
 H 1.0 .926627 0 -.239987
 O 8.0 2.542027 .893763 -1.001593
 H 1.0 1.991815 1.623962 -1.284979
 H 1.0 2.958433 .581215 -1.804806
 O 8.0 .162059 2.462918 -1.477183
 H 1.0 -.189749 1.755643 -.936605
 H 1.0 -.375542 2.449889 -2.269046
 $END
"""
H2_CHAIN = "6\n\nH 0 0 0\nH 0 0 .8\nH 0 0 2\nH 0 0 2.8\nH 0 0 4\nH 0 0 4.8\n"
HLI_CHAIN = "6\n\nH 0 0 0\nLi 0 0 1.8\nH 0 0 3\nH 0 0 3.8\nH 0 0 5\nH 0 0 5.8\n"


@pytest.fixture
def energy(passes, tmp_path):
    """energy(text or path, options) calculates in one process and returns what it wrote."""

    def run(source, *options, limit=60.0):
        if isinstance(source, str):
            path = tmp_path / "molecules.in"
            path.write_text(source)
            source = path
        command = openfmo.program(tmp_path, source, *options, "--json", "result.json")
        passes(command, {"ACP_MPI": "0"}, limit)
        return openfmo.result(tmp_path)

    return run


def at(limits):
    names = ("--respap", "--resppc", "--resdim")
    return [word for pair in zip(names, limits, strict=True) for word in pair]


@pytest.mark.parametrize(
    ("molecules", "limits", "expected"),
    [
        (3, OFF, -224.89577963),
        (3, GAMESS, -224.89577963),
        (3, OPENFMO, -224.89577854),
        pytest.param(8, OFF, -599.74543092, marks=pytest.mark.slow),
        pytest.param(8, GAMESS, -599.74543451, marks=pytest.mark.slow),
        (8, OPENFMO, -599.74540636),
        pytest.param(16, OFF, -1199.53563326, marks=pytest.mark.slow),
        pytest.param(16, GAMESS, -1199.53559282, marks=pytest.mark.slow),
        pytest.param(16, OPENFMO, -1199.53548035, marks=pytest.mark.slow),
    ],
)
def test_water_in_the_small_basis(energy, molecules, limits, expected):
    found = energy(WATER, "--first", molecules, *at(limits))
    assert found["energy"] == pytest.approx(expected, abs=2e-7)
    assert found["thresholds"] == list(limits)
    pairs = {(8, OPENFMO): (23, 5), (16, OPENFMO): (77, 43)}.get((molecules, limits))
    if pairs:
        assert (found["pairs_scf"], found["pairs_es"]) == pairs


@pytest.mark.slow
@pytest.mark.parametrize(
    ("molecules", "limits", "expected"),
    [
        (4, OFF, -303.95483211),
        (4, GAMESS, -303.95483211),
        (4, OPENFMO, -303.95483574),
        (8, OFF, -607.94217516),
        (8, GAMESS, -607.94217794),
        (8, OPENFMO, -607.94213464),
    ],
)
def test_water_in_the_larger_basis(energy, molecules, limits, expected):
    found = energy(WATER, "--first", molecules, "--basis", "6-31G", *at(limits))
    assert found["energy"] == pytest.approx(expected, abs=2e-7)


def test_the_water_trimer_that_gamess_publishes(energy):
    found = energy(TRIMER)
    assert found["energy"] == pytest.approx(-224.910612407, abs=2e-7)
    assert [fragment["name"] for fragment in found["fragments"]] == ["wat1", "wat2", "wat3"]
    assert energy(TRIMER, *at(GAMESS))["energy"] == pytest.approx(-224.910612407, abs=2e-7)


def test_a_chain_of_hydrogen_molecules(energy):
    assert energy(H2_CHAIN, *at(OFF))["energy"] == pytest.approx(-3.2834656458, abs=1e-6)


def test_a_chain_with_lithium_hydride(energy):
    found = energy(HLI_CHAIN, "--fragments", "1-2,3-4,5-6", *at(OFF))
    assert found["energy"] == pytest.approx(-10.0106046405, abs=1e-6)


def test_the_energy_is_the_sum_of_its_parts(energy):
    found = energy(WATER, "--first", 3)
    assert found["sum_monomer"] == pytest.approx(sum(found["monomers"]), abs=1e-10)
    parts = sum(pair["energy"] for pair in found["corrections"])
    parts += sum(found["electrostatic_batches"])
    assert found["energy"] == pytest.approx(found["sum_monomer"] + parts, abs=1e-10)
    assert sum(found["atomic_charges"]) == pytest.approx(0.0, abs=1e-9)
    last, before = found["sweeps"][-1], found["sweeps"][-2]
    assert abs(last["energy"] - before["energy"]) < 1e-8
    assert last["change"] < 1e-5
    assert found["basis"] == "STO-3G"
    assert {phase["name"] for phase in found["phases"]} >= {"monomers", "SCF pairs"}
