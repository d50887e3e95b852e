"""What the example openfmo_like shows: progress, tables, the picture."""

import errno
import io
import itertools
import os
from xml.etree import ElementTree

import openfmo  # noqa: F401 - makes openfmo_like importable
from openfmo_like import dump, gantt, jobs, molecule, report
from openfmo_like.fmo import Result, Sweep
from openfmo_like.jobs import Phase, Row
from openfmo_like.molecule import Atom
from openfmo_like.progress import Progress
from openfmo_like.reading import Calculation

ROWS = tuple(
    Row(stamp=1, begin=100.0 + job // 2, end=101.0 + job // 2, waited=0.01, group=job % 2)
    for job in range(6)
)
PHASES = [Phase("SCF pairs", 100.0, 104.0, ROWS)]


class Terminal(io.StringIO):
    """A terminal, as far as progress goes."""

    def isatty(self):
        return True


def test_a_bar_fills_and_estimates_the_time():
    screen = Terminal()
    progress = Progress(screen)
    progress.phase("SCF pairs")
    for done in range(1, 5):
        progress.show(done, 4)
    lines = screen.getvalue().split("\r")
    assert [line.count("#") for line in lines[1:]] == [7, 15, 22, 30]
    assert all("s left" in line for line in lines[1:])
    assert "4/4, 0 s left" in lines[-1]


def test_a_file_gets_no_bar_for_every_job():
    file = io.StringIO()
    progress = Progress(file)
    progress.phase("monomers")
    for done in range(1, 1001):
        progress.show(done, 1000)
    progress.clear()
    assert file.getvalue().count("\n") <= 1
    assert "\r" not in file.getvalue()


def test_the_picture_has_every_job_in_the_lane_of_its_group(tmp_path):
    gantt.write_gantt(tmp_path / "who.svg", PHASES, "a < b & c")
    root = ElementTree.parse(tmp_path / "who.svg").getroot()
    space = {"": "http://www.w3.org/2000/svg"}
    bars = [bar for bar in root.findall("rect", space) if bar.find("title", space) is not None]
    lanes = {bar.get("y") for bar in bars}
    assert (len(bars), len(lanes)) == (6, 2)
    # One lane's bars follow each other: no group does two jobs at a time.
    for lane in lanes:
        own = sorted(
            (float(bar.get("x")), float(bar.get("width"))) for bar in bars if bar.get("y") == lane
        )
        for (left, width), (after, _) in itertools.pairwise(own):
            assert left + width <= after + 0.01


def test_the_tables_say_how_evenly_groups_were_busy():
    fragment = molecule.Fragment("one", (Atom("O", 0, 0, 0),) + (Atom("H", 0, 0, 1),) * 9)
    calculation = Calculation((fragment,), "STO-3G", 1.0, 2.0, 2.0)
    result = Result(-75.0, -75.0, (Sweep(-75.0, 0.0),), (-75.0,), (), (), (), ())
    text = report.tables(calculation, result, PHASES, [0.1] * 10)
    assert "75.0%" in text  # three of the four seconds
    assert "1.00%" in text
    assert max(map(len, text.splitlines())) < 100
    assert "-75.0000000000 hartree" in text


def test_a_row_survives_its_way_through_memory():
    rows = [Row(3, -75.1, 1e-300, 0.5, 1.7e9, 1.7e9 + 1, 0.25, 1.0), Row(-2)]
    assert jobs.unpack_rows(b"".join(map(jobs.pack_row, rows))) == rows


def test_a_dump_that_cannot_be_written_leaves_the_old_one_and_the_calculation_goes_on(
    tmp_path, capsys, monkeypatch
):
    calculation = Calculation((), "STO-3G", 1.0, 2.0, 2.0)
    kept = dump.Dump(tmp_path / "a.dump", 0.0, calculation, memory=None)
    kept.after_phase("SCF pairs", {0: (1.0, 2.0)})
    before = kept.path.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    kept.after_phase("SCF pairs", {0: (1.0, 2.0), 1: (3.0, 4.0)})
    assert "No space left on device" in capsys.readouterr().err
    assert kept.path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [kept.path]
