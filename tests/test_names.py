"""The contract of names: what the package shows, what it lists, what the type stubs say."""

import ast
import inspect
import json
import pickle
import pkgutil
import pydoc
import subprocess
import sys
from pathlib import Path

import launch
import pytest

import acp_mpi as acp
from acp_mpi.engine import _engine

ATOMICS = [
    f"{word}{size}" for word in ("cas", "swap", "add", "xor", "or", "and") for size in (4, 8)
]
INTERFACE = {
    "init", "finalize", "is_initialized", "refresh", "ranks", "is_alive", "losses", "reset",
    "abort", "sync", "barrier",
    "rank", "procs", "groups", "group", "publish", "withdraw", "lookup", "bcast", "allgather",
    "query_starter_ga", "register_memory", "unregister_memory", "query_ga", "query_address", "view",
    "malloc", "free", "heap_statistics", "progress",
    "query_rank", "query_color", "colors", "empty", "zeros", "remote", "AtKey",
    "copy", "copy_many", "complete", "inquire", "wait", "test", "iput", "iget", "put", "get",
    "wait_until", "GA_NULL", "HANDLE_NULL", "HANDLE_ALL", "HANDLE_CONT",
    "Error", "NotInitializedError", "RankError", "AddressError", "AlignmentError",
    "HeapFullError", "PeerLostError", "TruncationError", "Counter", "Cursor", "Deque", "List",
    "Group", "KeyCursor", "ListCursor", "Session",  # for annotations
    "Map", "MultiSet", "Set", "Vector", "Workspace",
    "reduce", "allreduce", "scan", "exscan", "gather", "scatter", "alltoall", "reduce_scatter",
    "ibarrier", "ibcast", "ireduce", "iallreduce", "iscan", "iexscan", "igather", "iscatter",
    "iallgather", "ialltoall", "ireduce_scatter",
    *ATOMICS, *(f"fetch_{name}" for name in ATOMICS), *(f"fetch_{name}_many" for name in ATOMICS),
}  # fmt: skip


CONTAINER = "attach destroy ga serial statistics"
SEQUENCE = (
    f"{CONTAINER} append append_ga assign assign_ga assign_range at back begin capacity clear count"
    " dtype duplicate empty end erase erase_range extend extend_ga fill fill_ga front index insert"
    " insert_ga insert_range insert_range_ga pop pop_back pop_front push_back push_back_ga"
    " push_front push_front_ga reserve resize shrink_to_fit size swap to_list tolist"
)
HASHED = (
    f"{CONTAINER} assign begin clear empty end find find_ga insert insert_ga local merge move ranks"
    " remove remove_ga retrieve retrieve_ga size swap update"
)
METHODS = {
    "Counter": f"{CONTAINER} next read reset take",
    "Deque": f"{SEQUENCE} appendleft appendleft_ga popleft",
    "List": f"{CONTAINER} append append_ga appendleft appendleft_ga assign assign_range back begin"
    " clear dtype duplicate empty end erase erase_range extend fill fill_ga find front insert"
    " insert_ga merge pop pop_back pop_front popleft push_back push_back_ga push_front"
    " push_front_ga remove remove_ga reverse size sort splice splice_range swap to_list unique",
    "Map": f"{HASHED} accumulate add assign_ga get get_many items keys pop popitem"
    " setdefault to_dict values",
    "MultiSet": f"{HASHED} add count discard items keys remove_all remove_all_ga to_dict",
    "Set": f"{HASHED} add discard isdisjoint to_set",
    "Vector": f"{SEQUENCE} view",
    "Workspace": f"{CONTAINER} accumulate default_size read read_ga size write write_ga",
}


def test_every_name_of_the_interface_is_there():
    assert not INTERFACE - set(dir(acp))


def test_dir_shows_exactly_what_all_lists():
    shown = {name for name in dir(acp) if not name.startswith("_")}
    assert shown == {name for name in acp.__all__ if not name.startswith("_")}
    assert len(acp.__all__) == len(set(acp.__all__))


def test_all_names_can_be_had_and_functions_are_documented():
    for name in acp.__all__:
        thing = getattr(acp, name)
        if callable(thing):
            assert inspect.getdoc(thing), f"acp_mpi.{name} has no docstring"


@pytest.mark.parametrize("container", METHODS)
def test_containers_show_what_users_call_and_nothing_else(container):
    shown = {name for name in dir(getattr(acp, container)) if not name.startswith("_")}
    assert shown == set(METHODS[container].split())


def test_help_names_no_module_that_users_do_not_have():
    text = pydoc.plain(pydoc.render_doc(acp))
    assert "class Channel(" in text
    assert "_engine" not in text
    assert acp.Request.__module__ == "acp_mpi"
    assert pickle.loads(pickle.dumps(acp.Request)) is acp.Request


def test_rooms_are_loaded_with_the_first_of_their_names():
    program = (
        "import sys, acp_mpi as acp;"
        "later = {'acp_mpi.datastructs', 'acp_mpi.rma.arrays', 'pickle', 'numpy'};"
        "assert not later & set(sys.modules), later & set(sys.modules);"
        "acp.Map; assert 'acp_mpi.datastructs' in sys.modules;"
        "assert acp.datastructs.Map is acp.Map"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("acp_mpi.spawn.groups.fork_server", "re typing contextlib logging socket subprocess"),
        ("acp_mpi.spawn.groups.registry_server", "re typing logging secrets subprocess"),
        ("acp_mpi.launch.macprun.supervisor", "secrets hmac pathlib"),
    ],
)
def test_a_process_that_starts_others_loads_little(module, heavy):
    program = (
        "import sys; before = set(sys.modules);"
        f"import {module}; print(*sorted(set({heavy.split()}) & (set(sys.modules) - before)))"
    )
    assert subprocess.check_output([sys.executable, "-P", "-c", program], text=True) == "\n"


def test_no_module_of_the_package_takes_the_place_of_a_name():
    assert not set(acp.__all__) & {module.name for module in pkgutil.iter_modules(acp.__path__)}


def test_the_stub_imports_each_name_from_where_it_is_loaded():
    stub = ast.parse(Path(acp.__file__).with_suffix(".pyi").read_text())
    imported = {
        node.module: tuple(alias.asname for alias in node.names)
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
    }
    assert imported == acp._ROOMS


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'acp_mpi' has no attribute 'Nothing'"):
        acp.Nothing  # noqa: B018


def stub_names(path: Path) -> set[str]:
    """Return the names that a stub defines at module level."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        match node:
            case ast.FunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.Assign(targets=[ast.Name(id=name)]):
                names.add(name)
    return names


def test_the_engine_s_stub_names_what_the_engine_has():
    stub = Path(_engine.__file__).with_name("_engine.pyi")
    there = {
        name
        for name, thing in vars(_engine).items()
        if not name.startswith("_") and not inspect.ismodule(thing)
    }
    listed = {name for name in stub_names(stub) if not name.startswith("_")}
    assert listed == there


def parameters(function: ast.FunctionDef) -> list[tuple[str, bool]]:
    """Return names of arguments in a stub, and whether each has a default."""
    a = function.args
    ordinary = [*a.posonlyargs, *a.args]
    required = len(ordinary) - len(a.defaults)
    found = [(each.arg, place >= required) for place, each in enumerate(ordinary)]
    found += [(a.vararg.arg, False)] if a.vararg else []
    keywords = zip(a.kwonlyargs, a.kw_defaults, strict=True)
    return found + [(each.arg, default is not None) for each, default in keywords]


def test_the_engine_s_stub_gives_functions_the_arguments_that_they_have():
    stub = ast.parse(Path(_engine.__file__).with_name("_engine.pyi").read_text())
    rooms = [(_engine, stub.body)]
    rooms += [
        (getattr(_engine, node.name), node.body)
        for node in stub.body
        if isinstance(node, ast.ClassDef)
    ]
    for room, body in rooms:
        for node in body:
            if isinstance(node, ast.FunctionDef) and node.name.strip("_") == node.name:
                thing = getattr(room, node.name)
                if not callable(thing):
                    continue  # a property
                real = inspect.signature(thing).parameters.values()
                there = [(each.name, each.default is not each.empty) for each in real]
                assert parameters(node) == there, node.name


def test_the_engine_s_stub_says_what_functions_are_for():
    stub = ast.parse(Path(_engine.__file__).with_name("_engine.pyi").read_text())
    functions = [node for node in stub.body if isinstance(node, ast.FunctionDef)]
    told = {node.name: ast.get_docstring(node) for node in functions}
    assert told == {name: inspect.getdoc(getattr(_engine, name)) for name in told}


def test_a_function_of_the_engine_says_what_it_returns(tmp_path):
    source = tmp_path / "_engine.pyx"
    source.write_text("def rank():\n    return 0\n")
    stub = launch.ROOT / "acp_mpi" / "engine" / "python" / "stub.py"
    command = [sys.executable, stub, source, tmp_path / "_engine.pyi", tmp_path / "_engine.d"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 1
    assert f"{source}:1: rank has no `-> type`; say what it returns" in done.stderr


def test_what_type_checkers_accept_runs():
    subprocess.run([sys.executable, Path(__file__).with_name("typed.py")], check=True, timeout=600)


def test_the_package_is_marked_as_typed():
    assert Path(acp.__file__).with_name("py.typed").exists()


def modules():
    return [
        module.name
        for module in pkgutil.walk_packages(acp.__path__, "acp_mpi.")
        if not module.name.endswith("__main__")
    ]


@pytest.fixture(scope="module")
def docstrings():
    """What each module says of itself, in a process of its own: one of them starts a job."""
    code = (
        "import importlib, json, sys\n"
        "docs = {name: importlib.import_module(name).__doc__ for name in sys.argv[1:]}\n"
        "print(json.dumps(docs))"
    )
    command = [sys.executable, "-c", code, *modules()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", modules())
def test_every_module_says_what_it_is_for(name, docstrings):
    if not name.endswith("._engine"):
        assert (docstrings[name] or "").strip(), f"{name} has no docstring"
