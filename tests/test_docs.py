"""What the documentation says that can be looked up: names, files, signatures, tests of faults."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import launch
import pages
import pytest
from macprunning import MACPRUN

import acp_mpi as acp
from acp_mpi import config

DOCS = launch.ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *launch.ROOT.glob("*.md")])


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub and MyST make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_variable_is_documented_and_every_documented_one_is_read():
    page = (DOCS / "environment.md").read_text()
    assert set(re.findall(r"^\| `(ACP_\w+)`", page, re.MULTILINE)) == set(config.VARIABLES)


def test_the_defaults_of_the_page_are_those_of_the_settings():
    page = (DOCS / "environment.md").read_text()
    rows = re.findall(r"^\| `ACP_(\w+)` \| ([\d.]+) \|", page, re.MULTILINE)
    settings = config.Settings({})
    assert len(rows) > 5
    for name, default in rows:
        assert float(getattr(settings, name.lower())) == float(default), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_links_of_a_page_lead_somewhere(page):
    for place, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", page.read_text()):
        if "://" in place:
            continue
        target = page.parent / place if place else page
        assert target.exists(), place
        assert not anchor or anchor in anchors(target), f"{place}#{anchor}"


def test_every_paper_that_is_cited_is_on_the_page_of_sources():
    sources = (DOCS / "sources.md").read_text()
    for folder in ("acp_mpi", "benchmarks", "docs", "examples", "tests"):
        for path in (launch.ROOT / folder).rglob("*.*"):
            if path.suffix in (".py", ".pxi", ".pyx", ".md"):
                for number in re.findall(r"\bpaper (\d{3})\b", path.read_text()):
                    assert f"| paper {number} |" in sources, path


def test_what_the_pages_call_of_the_package_is_there():
    for page in PAGES:
        for name in re.findall(r"(?<!/)\bacp\.(?!h\b)([A-Za-z]\w*)", page.read_text()):
            assert hasattr(acp, name), f"{page.name}: acp.{name}"


def test_each_block_of_readme_and_tour_says_its_language_or_why_it_does_not_run():
    for page in pages.FIRST_USE:
        text, found = (launch.ROOT / page).read_text(), pages.blocks(page)
        assert len(found) * 2 == len(re.findall("^```", text, re.MULTILINE))
        assert text.count("<!-- not run: ") == sum(block.why_not is not None for block in found)
        for block in found:
            assert block.language in pages.LANGUAGES, f"{page}: {block}"
            assert block.why_not is None or block.language == "sh", f"{page}: it runs, {block}"


TEXTS = [*PAGES, *(launch.ROOT / "examples").rglob("*.*"), *(launch.ROOT / "docs").rglob("*.py")]
# What pages of earlier versions have named, and programs use.
ENTRIES = {
    "acp_mpi.comm": ("testall", "waitall", "waitany"),
    "acp_mpi.datastructs": ("Counter", "Deque", "List", "Map", "MultiSet", "Set", "Vector"),
    "acp_mpi.errors": ("Error", "HeapFullError", "PeerLostError"),
    "acp_mpi.rma": (),
    "acp_mpi.spawn": ("MPI",),
}
COMMANDS = ("acp_mpi", "acp_mpi.spawn")
# Errors that programs may meet and that acp_mpi itself has no name for.
ERRORS = ("AstrayError", "AstrayTypeError", "FinalizingError")


def said(pattern: str) -> set[tuple[str, str]]:
    """Return what the pages and the examples say that is two groups of a pattern."""
    texts = [path.read_text() for path in TEXTS if path.suffix in (".md", ".py", ".sh")]
    return {pair for text in texts for pair in re.findall(pattern, text, re.MULTILINE)}


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a Python that finds the installed package."""
    command = [sys.executable, "-P", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_what_the_pages_import_is_there():
    """In a process of its own: one of the names starts a job."""
    imports = said(r"\bfrom (acp_mpi[\w.]*) import (\w+(?:, \w+)*)")
    imports |= {(module, ", ".join(names)) for module, names in ENTRIES.items() if names}
    assert ("acp_mpi.spawn", "MPI") in imports
    lines = [f"import {module}" for module in ENTRIES]
    lines += [f"from {module} import {names}" for module, names in sorted(imports)]
    done = python("-c", "\n".join(lines))
    assert done.returncode == 0, done.stderr


def test_the_commands_of_the_pages_are_there():
    commands = {name for name, _ in said(r"\bpython -m (acp_mpi(?:\.\w+)*)()")} | {*COMMANDS}
    for name in sorted(commands):
        done = python("-m", name, "--help")
        assert done.returncode == 0, done.stderr
        assert f"python -m {name}" in done.stdout
    done = subprocess.run([MACPRUN, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "macprun" in done.stdout


def test_every_public_name_is_on_a_page():
    text = "\n".join(page.read_text() for page in DOCS.glob("*.md"))
    for name in acp.__all__:
        if name[0] == "i" and name[1:] in acp.__all__:
            continue  # a page says that what waits has such a variant
        if re.fullmatch(r"fetch_\w+", name):
            continue  # one of the family stands for all
        assert re.search(rf"\b{name}\b", text), name


def test_the_reference_has_every_public_name_on_one_page():
    """`make docs` fails where the built inventory lacks one."""
    entries = []
    for page in sorted((DOCS / "reference").glob("*.md")):
        entries += re.findall(
            r"^\.\. (?:auto|py:)\w+:: (\w+)(?:\(\))?$", page.read_text(), re.MULTILINE
        )
    assert "Vector" in entries
    assert sorted(entries) == sorted([*acp.__all__, *ERRORS, "MPI"])
    for package in ("comm", "datastructs", "rma"):
        module = importlib.import_module(f"acp_mpi.{package}")
        for name in getattr(module, "__all__", ()):
            assert name in entries, f"acp_mpi.{package}.{name}"


def message(node: ast.JoinedStr) -> str:
    """Return the text of an f-string, with … for what is filled in."""
    parts = [str(each.value) if isinstance(each, ast.Constant) else "…" for each in node.values]
    return re.sub("…+", "…", "".join(parts)).removeprefix("…: ")


def test_the_messages_of_errors_are_those_of_the_page():
    found = set()
    for node in ast.walk(ast.parse((launch.ROOT / "acp_mpi" / "errors.py").read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Error") and node.args:
            text = node.args[-1]
            assert isinstance(text, ast.JoinedStr)
            found.add(message(text))
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "said":
            assert isinstance(node.value, ast.JoinedStr)
            found.add(message(node.value))
    page = (DOCS / "reference" / "errors.md").read_text()
    assert len(found) > 20
    said = re.findall(r"^ *- (?:`\w+`: )?(`+)(.+)\1$", page, re.MULTILINE)
    assert {text for _, text in said} == found


def test_the_architecture_has_every_folder():
    page, package = (DOCS / "architecture.md").read_text(), launch.ROOT / "acp_mpi"
    table = page[page.index("| folder |") : page.index("\n## Roads")]
    rooms = [path for path in package.rglob("*") if path.is_dir() and path.name != "__pycache__"]
    for path in rooms:
        name = path.relative_to(package).as_posix()
        if path.parent == package / "engine":
            assert f"`{path.name}/`" in table or f"`acp_mpi/{name}/`" in table, name
        elif path.parent == package and path.name != "engine":
            assert f"`acp_mpi/{name}/`" in table, name


# What is named as a file of the package; words such as `.pxi` and NAME.c are none.
NAMED = re.compile(r"`(?:[\w/]+/)?([a-z_][a-z0-9_]*\.(?:c|h|pxi|py|pyx|pyi|toml|build))`")


@pytest.mark.parametrize(
    "page",
    [DOCS / "architecture.md", *sorted((launch.ROOT / "acp_mpi" / "engine").glob("*/README.md"))],
    ids=lambda page: page.parent.name,
)
def test_files_that_are_named_as_the_way_through_the_code_are_there(page):
    there = {path.name for top in ("acp_mpi", "tests") for path in (launch.ROOT / top).rglob("*")}
    named = set(NAMED.findall(page.read_text()))
    assert named, page
    assert not named - there, f"{page}: rename these, or take them out"


def signatures() -> dict[str, ast.arguments]:
    """Return the arguments of functions as `c_names.md` has them, methods left out."""
    page = (DOCS / "c_names.md").read_text()
    containers = page[page.index("\n## Containers") : page.index("\n## Global memory access")]
    page = re.sub(r"^\| `Request`.*$", "", page.replace(containers, ""), flags=re.MULTILINE)
    found = {}
    for text in re.findall(r"`([a-z]\w+\([^`…]*\))`", page):
        name = text.partition("(")[0]
        if inspect.isroutine(getattr(acp, name, None)):
            function = ast.parse(f"def {text}: pass").body[0]
            assert isinstance(function, ast.FunctionDef)
            found[text] = function.args
    return found


def test_functions_take_the_arguments_that_the_page_of_names_says():
    assert len(signatures()) > 40
    for text, arguments in signatures().items():
        real = inspect.signature(getattr(acp, text.partition("(")[0])).parameters
        given = [*arguments.posonlyargs, *arguments.args]
        defaults = [None] * (len(given) - len(arguments.defaults)) + arguments.defaults
        every = [*zip(given, defaults, strict=True)]
        every += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        for argument, default in every:
            assert argument.arg in real, f"{text}: there is no {argument.arg}"
            parameter = real[argument.arg]
            shown = None if default is None else ast.unparse(default)
            if shown is None:
                assert parameter.default is parameter.empty, f"{text}: {argument.arg} has a default"
            else:
                expected = getattr(acp, shown, None) if shown.isupper() else eval(shown)
                assert parameter.default == expected, f"{text}: {argument.arg}"
            if argument in arguments.kwonlyargs:
                assert parameter.kind is parameter.KEYWORD_ONLY, f"{text}: {argument.arg}"


def has_test(test: str) -> bool:
    """Say whether a file of Python has this function, or one in C, which may lie in any folder."""
    name, _, function = test.partition("::")
    files = list((launch.TESTS / "engine").rglob(name)) if "/" not in name else []
    if files:
        pattern = rf"^static .*\b{function}\(" if function else ""
        return len(files) == 1 and bool(re.search(pattern, files[0].read_text(), re.MULTILINE))
    tree = ast.parse((launch.TESTS / name).read_text())
    return any(isinstance(n, ast.FunctionDef) and n.name == function for n in tree.body)


def test_each_known_fault_has_its_tests():
    faults = tomllib.loads((launch.TESTS / "known_faults.toml").read_text())["fault"]
    assert [fault["number"] for fault in faults] == [*range(1, 15), *range(23, 46)]
    for fault in faults:
        assert fault["tests"] or fault["open"], fault
        for test in fault["tests"]:
            assert has_test(test), f"fault {fault['number']}: there is no {test}"


def test_the_page_on_security_names_tests_that_are_there():
    page = (DOCS / "security.md").read_text()
    named = set(re.findall(r"`((?:\w+/)?test_\w+\.(?:py::test_\w+|c(?:::\w+)?))`", page))
    assert len(named) > 30
    for test in sorted(named):
        assert has_test(test), f"docs/security.md: there is no {test}"


def test_who_cites_the_package_cites_its_version_and_licence():
    project = tomllib.loads((launch.ROOT / "pyproject.toml").read_text())["project"]
    said = dict(
        re.findall(r"^([\w-]+): (.+)$", (launch.ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    )
    assert said["cff-version"] == "1.2.0"
    assert said["version"] == project["version"]
    assert said["license"] == project["license"]


# Words of those who make this library, and what they may say otherwise.
INSIDE = re.compile(r"\b(seed|room|opponent)s?\b", re.IGNORECASE)
ORDINARY = re.compile(
    r"\b(?:a fixed|a fresh|its|random) seed\b(?! \d)"
    r"|\b(?:no|find|have|for) room\b(?! of\b)",
    re.IGNORECASE,
)
ROAD = re.compile(r"\broads?\b", re.IGNORECASE)
FOR_USERS = [
    page for page in [launch.ROOT / "README.md", *sorted(DOCS.glob("*.md")),
                      *sorted(DOCS.glob("reference/*.md"))]
    if page.name != "architecture.md"
]  # fmt: skip


def words_of_the_inside(text: str) -> list[str]:
    """Return where a text says such a word, with what stands around it."""
    text = ORDINARY.sub("", " ".join(text.split()))
    return [text[max(m.start() - 30, 0) : m.end() + 30] for m in INSIDE.finditer(text)]


def docstrings() -> dict[str, str]:
    """Return those of public names and of their public members."""
    found = {}
    for name in acp.__all__:
        members = {name: getattr(acp, name)}
        if inspect.isclass(members[name]):
            members |= {f"{name}.{k}": m for k, m in vars(members[name]).items() if k[0] != "_"}
        found |= {key: inspect.getdoc(member) or "" for key, member in members.items()}
    return found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("as in seed 003, table 3", True),
        ("a fixed seed 003", True),
        ("from a fixed seed, a few", False),
        ("Each room of the engine", True),
        ("a rank has no room for it", False),
        ("the ways for room of messages", True),
        ("what finds\nno room any more", False),
        ("its opponent", True),
    ],
)
def test_words_of_the_inside_are_found(text, found):
    assert bool(words_of_the_inside(text)) == found


@pytest.mark.parametrize("page", FOR_USERS, ids=lambda page: page.stem)
def test_pages_for_users_are_in_words_for_users(page):
    text = page.read_text()
    assert not words_of_the_inside(text)
    assert page.stem == "glossary" or not ROAD.search(text) or "glossary.md" in text, (
        f"{page.name} says road: link the glossary, or say it otherwise"
    )


def test_docstrings_are_in_words_for_users():
    texts = docstrings()
    assert len(texts) > 200
    for name, text in texts.items():
        assert not words_of_the_inside(text), name
        assert not ROAD.search(text), name
