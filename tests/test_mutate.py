"""How changes are planted in the engine: `mutate.py` itself."""

import subprocess

import mutate
import pytest
from mutation import source

CODE = """#define A(x) ((x) <= 1)
/* if (a <= b) */
static int f(int a, int b)
{
    if (a <= b && g(a, h(b)))
        return a + 1; /* a + 1 */
    return strlen("a < b");
}

int one(int a) { return !a; }
"""
TABLE = """
[[mutant]]
what = "it is longer"
function = "f"
search = "a <= b &&"
replace = "a <= b + 1 &&"
tests = ["test_none"]

[[equivalent]]
function = "f"
line = "return a + 1; /* a + 1 */"
becomes = "return a; /* a + 1 */"
reason = "nobody looks"
"""


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """Have a library of one file in a folder of its own."""
    monkeypatch.setattr(source, "TOP", tmp_path)
    monkeypatch.setattr(source, "SOURCES", tmp_path / "acp_mpi")
    monkeypatch.setattr(source, "ENTRIES", tmp_path / "entries.toml")
    (tmp_path / "acp_mpi").mkdir()
    (tmp_path / "acp_mpi" / "a.c").write_text(CODE)
    (tmp_path / "entries.toml").write_text(TABLE)
    return tmp_path / "acp_mpi" / "a.c"


def test_operators_change_code_and_nothing_else(engine):
    made = {m.lines()[1] for m in source.operated(engine)}
    assert made == {
        "if (a < b && g(a, h(b)))",
        "if (a <= b)",
        "if ((a <= b && g(a, h(b))) && 0)",
        "return a;",
    }
    assert {m.function for m in source.operated(engine)} == {"f"}
    (mutant,) = (m for m in source.operated(engine) if m.line == 6)
    assert mutant.apply() == CODE.replace("return a + 1;", "return a;")


def test_a_function_s_name_is_neither_an_attribute_s_nor_a_macro_s(engine):
    weak = "__attribute__((weak)) void point(void) {}\n"
    fast = "static __attribute__((always_inline)) FAST int folded(int a)\n{\n    return a;\n}\n"
    engine.write_text("ATOMIC(swap, int)\nATOMIC(add, int)\n\n" + CODE + weak + fast)
    assert [each.name for each in source.functions(engine)] == ["f", "one", "point", "folded"]


def test_entries_are_found_wherever_their_function_is(engine):
    (entry,) = source.entries()
    assert (entry.line, entry.tests) == (5, ("test_none",))
    assert entry.apply() == CODE.replace("a <= b &&", "a <= b + 1 &&")
    engine.rename(engine.with_name("b.h"))
    assert source.entries()[0].file == engine.with_name("b.h")


@pytest.mark.parametrize("there", ["", CODE.replace("<= b &&", "< b &&"), CODE + CODE])
def test_an_entry_that_does_not_apply_is_named(engine, there):
    engine.write_text(there)
    with pytest.raises(source.StaleEntryError, match=r"'a <= b &&' is found [02] times"):
        source.entries()


def test_what_is_written_down_applies_to_the_engine_as_it_is():
    assert source.entries()
    assert source.equivalents(source.candidates())


def test_what_changes_nothing_is_known_by_its_line(engine):
    (mutant,) = (m for m in source.operated(engine) if m.line == 6)
    known = {(mutant.function, *mutant.lines()): "nobody looks"}
    assert source.equivalents(source.candidates()) == known
    engine.write_text(CODE.replace("/* a + 1 */", "/* one more */"))
    assert source.equivalents(source.candidates()) == known
    engine.write_text(CODE.replace("a + 1;", "a + 2;"))
    with pytest.raises(source.StaleEntryError, match="'f' does the line 'return a"):
        source.equivalents(source.candidates())


def test_what_changes_nothing_is_what_an_operator_makes(engine):
    source.ENTRIES.write_text(TABLE.replace("return a; /", "return b; /"))
    with pytest.raises(source.StaleEntryError, match=r"'f' does .* become 'return b;'"):
        source.equivalents(source.candidates())


def _draw(count, seed=1):
    return [(m.what, *m.lines()) for m in source.drawn(source.candidates(), count, seed)]


def test_lines_that_come_or_go_elsewhere_leave_a_draw_as_it_is(engine):
    again = "    if (a <= b)\n        a++;\n"
    more = CODE.replace("    return s", again + again + "    return s")
    engine.write_text(more)
    before = _draw(100)
    assert len(before) == 8
    engine.write_text("int two(int c)\n{\n    return c == 1;\n}\n" + more)
    after = _draw(100)
    assert len(after) == 9
    assert [m for m in after if "c == 1" not in m[1]] == before
    engine.rename(engine.with_name("b.h"))
    assert _draw(100) == after


def test_a_draw_goes_on_where_a_shorter_one_ends_and_has_a_seed(engine):
    assert _draw(2) == _draw(4)[:2]
    assert sorted(_draw(4)) == sorted(_draw(4, seed=2))
    assert any(_draw(4) != _draw(4, seed=seed) for seed in range(2, 9))


def _git(top, *words):
    identity = ("-c", "user.name=a", "-c", "user.email=a", "-c", "diff.noprefix=true")
    subprocess.run(["git", *identity, *words], cwd=top, check=True, capture_output=True)


def test_changed_lines_are_those_of_this_side(engine, tmp_path):
    other = engine.with_name("other.c")
    other.write_text("int a;\n")
    _git(tmp_path, "init", "-q", "-b", "base")
    _git(tmp_path, "config", "diff.noprefix", "true")
    _git(tmp_path, "add", ".")
    _git(tmp_path, "commit", "-qm", "all")
    _git(tmp_path, "checkout", "-qb", "change")
    engine.write_text(CODE.replace("a + 1;", "a + 2;\n    a++;"))
    _git(tmp_path, "commit", "-qam", "change")
    engine.write_text(engine.read_text() + "int b;\n")
    engine.with_name("new.h").write_text("int c;\nint d;\n")
    _git(tmp_path, "stash", "-u")
    _git(tmp_path, "checkout", "-q", "base")
    other.write_text("int e;\n")
    _git(tmp_path, "commit", "-qam", "elsewhere")
    _git(tmp_path, "checkout", "-q", "change")
    _git(tmp_path, "stash", "pop")
    assert mutate.changed_lines("base") == {engine: {6, 7, 12}, engine.with_name("new.h"): {1, 2}}


def test_a_base_that_is_none_is_named(engine, tmp_path, monkeypatch, capsys):
    _git(tmp_path, "init", "-q")
    monkeypatch.setattr("sys.argv", ["mutate.py", "--changed", "nowhere"])
    assert mutate.main() == 2
    assert "nowhere" in capsys.readouterr().err


def test_a_line_s_tests_are_those_of_its_statement_and_its_folder(engine, monkeypatch, tmp_path):
    monkeypatch.setattr(mutate.build, "TOP", tmp_path)
    monkeypatch.setattr(mutate.build, "TESTS", tmp_path)
    (tmp_path / "acp_mpi" / "test_near.c").write_text("")
    lines = {"test_few": [5], "test_far": [4, 5], "test_near": [3, 4, 5], "test_body": [5, 6, 7, 8]}
    cover = mutate.build.Coverage({}, {t: {"acp_mpi/a.c": n} for t, n in lines.items()})
    by_line = {m.line: cover.tests(m) for m in source.operated(engine)}
    assert by_line == {5: ["test_body", "test_near", "test_few", "test_far"], 6: ["test_body"]}
    none = mutate.build.Coverage({}, {"test_next": {"acp_mpi/a.c": [7]}})
    assert [none.tests(m) for m in source.operated(engine) if m.line == 6] == [["test_next"]]


class Tried:
    """What becomes of each is said beforehand."""

    def __init__(self, *results):
        self.results = iter(results)

    def run(self, mutant):
        return next(self.results), "why"


def test_the_rate_counts_what_can_be_noticed(engine, monkeypatch, capsys):
    monkeypatch.setattr(mutate.build, "JOBS", 1)
    mutants = list(source.operated(engine))
    tried = Tried(mutate.NOTICED, mutate.SURVIVED, mutate.EQUIVALENT, mutate.NO_C)
    assert mutate.report("all", tried, mutants, False) == 1
    said = capsys.readouterr().out
    assert "survived: acp_mpi/a.c:5 f: " in said
    assert "noticed: acp" not in said
    assert "all: 1 of 2 noticed (50.0 %), 1 equivalent, 1 do not compile" in said
