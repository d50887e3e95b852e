"""What the example openfmo_like reads, and what it refuses."""

import openfmo
import pytest
from openfmo_like import molecule, options, reading
from openfmo_like.molecule import Atom, InputError

ETHANE = """\
8

C 0 0 0
H 1.03 0 -.36
H -.51 .89 -.36
H -.51 -.89 -.36
C 0 0 1.53
H -1.03 0 1.89
H .51 .89 1.89
H .51 -.89 1.89
"""
TWO_WATERS = """\
 $FMO NFRAG=2 INDAT(1)=1,1,1,2,2,2 $END
 $FMOXYZ
 O O 0 0 0
 H H .96 0 0
 H H -.24 .93 0
 O O 0 0 3
 H H .96 0 3
 H H -.24 .93 3
 $END
"""


@pytest.fixture
def read(tmp_path):
    """read(text, options) returns the calculation that a file with this text describes."""

    def run(text, **options):
        path = tmp_path / "molecules.in"
        path.write_text(text)
        return reading.read(path, **options)

    return run


def test_water_falls_into_its_molecules():
    calculation, _ = reading.read(openfmo.WATER, first=5)
    assert [molecule.formula(fragment) for fragment in calculation.fragments] == ["H2O"] * 5
    assert calculation.thresholds == (1.0, 2.0, 2.0)
    assert calculation.basis == "STO-3G"


def test_a_molecule_stays_whole(read):
    calculation, _ = read(ETHANE)
    assert [molecule.formula(fragment) for fragment in calculation.fragments] == ["C2H6"]


def test_the_distance_of_fragments_is_in_radii():
    a = molecule.Fragment("a", (Atom("O", 0, 0, 0), Atom("H", 0, 0, 1)))
    b = molecule.Fragment("b", (Atom("O", 0, 0, 3.6),))
    assert molecule.distance(a, b) == pytest.approx(2.6 / (1.2 + 1.4))
    assert molecule.distance(b, a) == molecule.distance(a, b)


def test_an_input_of_gamess_says_all(read):
    text = TWO_WATERS + (
        " $BASIS GBASIS=N31 NGAUSS=6 NDFUNC=1 $END\n $GDDI NGROUP=3 $END\n"
        " $SCF DIRSCF=.TRUE. $END\n"
    )
    calculation, said = read(text.replace("NFRAG=2", "NFRAG=2 RESPAP=0 RESDIM=3.5"))
    assert calculation.basis == "6-31G*"
    assert calculation.thresholds == (0.0, 2.0, 3.5)
    assert [len(fragment.atoms) for fragment in calculation.fragments] == [3, 3]
    assert said.groups == 3


def test_openfmo_names_the_basis_directly(read):
    assert read(TWO_WATERS + " $BASIS GBASIS=6-31G* $END\n")[0].basis == "6-31G*"


def test_options_win_over_the_file(read):
    text = TWO_WATERS + " $BASIS GBASIS=6-31G* $END\n"
    calculation, _ = read(text, basis="cc-pVDZ", thresholds=(0.0, None, None), first=1)
    assert calculation.basis == "cc-pVDZ"
    assert calculation.thresholds == (0.0, 2.0, 2.0)
    assert len(calculation.fragments) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["empty"]),
        ("hello\n", ["hello", "XYZ"]),
        ("2\n\nO 0 0 0\n", ["2 atoms", "1"]),
        ("1\n\nXx 0 0 0\n", ["Xx", "unknown element"]),
        ("1\n\nO 0 0\n", ["line 3"]),
        ("1\n\nO 0 0 nan\n", ["line 3"]),
        ("1\n\nH 0 0 0\n", ["1 electrons", "charge"]),
        ("2\n\nO 0 0 0\nO 0 0 .1\n", ["overlap", "0.100"]),
        (" $FMO NFRAG=1 $END\n", ["$FMOXYZ"]),
        (TWO_WATERS.replace("NFRAG=2", "NFRAG=3"), ["NFRAG=3"]),
        (TWO_WATERS.replace("1,1,1,2,2,2", "1,1,2,2,2"), ["INDAT", "6 atoms"]),
        (TWO_WATERS.replace("O O 0 0 3", "O O 0 0 x"), ["numbers"]),
        (TWO_WATERS.replace("O O 0 0 3", "O O 0 0 inf"), ["numbers"]),
        (TWO_WATERS.replace("NFRAG=2", "NFRAG=2 RESDIM=nan"), ["thresholds", "nan"]),
        (TWO_WATERS + " $GDDI NGROUP=-3 $END\n", ["NGROUP=-3"]),
        (TWO_WATERS.replace("NFRAG=2", "NFRAG=2 NBODY=3"), ["NBODY=3"]),
        (TWO_WATERS + " $FMOBND\n -1 2 STO-3G\n $END\n", ["$FMOBND", "not supported"]),
    ],
)
def test_what_is_wrong_is_said(read, text, words):
    with pytest.raises(InputError) as caught:
        read(text)
    for word in ["molecules.in", *words]:
        assert word in str(caught.value)


def test_a_bond_between_fragments_is_not_cut(read):
    with pytest.raises(InputError, match=r"bond between atoms 1 \(C\) and 5 \(C\)"):
        read(ETHANE, fragments="1-4,5-8")


def test_a_fragment_has_each_atom_once(read):
    with pytest.raises(InputError, match="each of the 8 atoms once"):
        read(ETHANE, fragments="1-4,4-8")


@pytest.mark.parametrize("fragments", ["1-99999999999", "0-8", "4-1", "1-4,5-x", "-1"])
def test_fragments_are_of_the_atoms_that_there_are(read, fragments):
    with pytest.raises(InputError, match=r"atoms from 1 to 8 as in"):
        read(ETHANE, fragments=fragments)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--groups", "x"),
        ("--groups", "-1"),
        ("--charges", "1,,2"),
        ("--dump-every", "nan"),
        ("--dump-every", "-1"),
    ],
)
def test_what_an_option_expects_is_said(capsys, option, value):
    with pytest.raises(SystemExit):
        options.parse([str(openfmo.WATER), f"{option}={value}"])
    assert f"argument {option}: '{value}': expected" in capsys.readouterr().err


def test_charges_make_electrons_even(read):
    ions = "2\n\nNa 0 0 0\nF 0 0 2\n"
    with pytest.raises(InputError, match="11 electrons"):
        read(ions)
    calculation, _ = read(ions, charges=[1, -1])
    assert [fragment.electrons for fragment in calculation.fragments] == [10, 10]


@pytest.mark.parametrize("first", [0, 17])
def test_more_molecules_than_there_are(first):
    with pytest.raises(InputError, match="16 molecules"):
        reading.read(openfmo.WATER, first=first)


@openfmo.needs_pyscf
def test_an_unknown_basis_ends_the_program(fails, tmp_path):
    command = openfmo.program(tmp_path, openfmo.WATER, "--first", "2", "--basis", "6-32G")
    output = fails(command, {"ACP_MPI": "0"})
    assert "'6-32G'" in output
    assert "Traceback" not in output
