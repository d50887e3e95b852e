"""The Python packages stand on the floors of `architecture.toml`: imports point down only."""

import ast
import pkgutil
from collections.abc import Iterator
from typing import NamedTuple

import launch
import pytest
from architecture import PLAN, circles

import acp_mpi

PYTHON = {
    ".".join(path.relative_to(launch.ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((launch.ROOT / "acp_mpi").rglob("*.py"))
}
FLOORS = {name: floor for floor, names in enumerate(PLAN["python"]) for name in names}


class Import(NamedTuple):
    """A module, and one of this package that it loads."""

    user: str
    used: str

    def __str__(self) -> str:
        return f"{self.user} -> {self.used}"


def loads(tree: ast.AST) -> Iterator[str]:
    """Yield what a module loads, also inside functions; not what only type checkers read."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if is_module(name) else node.module for name in names)
        else:
            yield from loads(node)


def is_module(name: str) -> bool:
    return name in PYTHON or name.rpartition(".")[2].startswith("_")


@pytest.fixture(scope="module")
def imports() -> list[Import]:
    return [
        Import(user, used)
        for user, path in PYTHON.items()
        for used in loads(ast.parse(path.read_text()))
        if used.partition(".")[0] == "acp_mpi" and used != "acp_mpi.__version__"
    ]


def package(module: str) -> str:
    """Return the entry of `architecture.toml` for a module: the longest name that begins its."""
    parts = module.split(".")
    names = (".".join(parts[1:end]) for end in range(len(parts), 1, -1))
    return next((name for name in names if name in FLOORS), parts[0])


def test_every_python_package_has_a_floor():
    assert {package(module) for module in PYTHON} | {"util._system"} >= set(FLOORS) - {"acp_mpi"}


def test_python_imports_point_to_the_same_package_or_down(imports):
    upward = {
        str(each)
        for each in imports
        if each.user != "acp_mpi"  # whose names are loaded from everywhere
        and (user := package(each.user)) != (used := package(each.used))
        and FLOORS[used] >= FLOORS[user]
    }
    assert not upward, "points up:\n" + "\n".join(sorted(upward))


def test_python_modules_load_each_other_in_no_circle(imports):
    edges: dict[str, set[str]] = {name: set() for name in PYTHON}
    for each in imports:
        if each.used in PYTHON and each.user != "acp_mpi" != each.used:
            edges[each.user].add(each.used)
    assert [circle for circle in circles(edges) if len(circle) > 1] == []


def test_the_top_of_the_package_has_few_modules_and_no_private_one():
    shown = [module.name for module in pkgutil.iter_modules(acp_mpi.__path__)]
    plain = [module.name for module in pkgutil.iter_modules(acp_mpi.__path__) if not module.ispkg]
    assert len(plain) <= 6
    assert [name for name in shown if name.startswith("_")] == ["__main__"]
