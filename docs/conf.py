import ast
import inspect
import re
import tomllib
from importlib import import_module
from pathlib import Path

from sphinx.errors import ExtensionError

import acp_mpi as acp
from acp_mpi.engine import _engine

with (Path(__file__).parent.parent / "pyproject.toml").open("rb") as file:
    metadata = tomllib.load(file)["project"]

project = "acp_mpi"
author = "acp_mpi developers"
copyright = f"2026, {author}"
version = release = metadata["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx_copybutton"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
nitpicky = True
# Types of Python, NumPy and mpi4py have no pages here; names of acp_mpi have to be found.
nitpick_ignore_regex = [
    ("py:.*", r"(?!acp_mpi\.).*"),
    ("py:.*", r"acp_mpi\.[\w.]*\.(?:[KSTV]|Plain\w*)"),  # variables of types
]

add_module_names = False
autosummary_generate = False
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"
copybutton_exclude = ".linenos, .gp, .go"

html_theme = "furo"
html_title = f"acp_mpi {version}"
html_static_path = ["_static"]
html_css_files = ["wide.css"]

# The built extension has no annotations at run time; the stub that is built beside it has them.
STUB = {}
for node in ast.parse(Path(_engine.__file__).with_name("_engine.pyi").read_text()).body:
    for each in node.body if isinstance(node, ast.ClassDef) else [node]:
        if isinstance(each, ast.FunctionDef):
            owner = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
            STUB.setdefault(owner + each.name, []).append(each)

DEFAULTS = {
    ("source", acp.ANY_SOURCE): "ANY_SOURCE",
    ("tag", acp.ANY_TAG): "ANY_TAG",
    ("recvtag", acp.ANY_TAG): "ANY_TAG",
    ("order", acp.HANDLE_NULL): "HANDLE_NULL",
    ("handle", acp.HANDLE_ALL): "HANDLE_ALL",
}


def typed(variants: list[ast.FunctionDef], name: str | None) -> str:
    """Return the type of a parameter, None: of the result; Any where overloads differ in it."""
    found = set()
    for variant in variants:
        arguments = {each.arg: each for each in [*variant.args.args, *variant.args.kwonlyargs]}
        node = getattr(arguments.get(name), "annotation", None) if name else variant.returns
        found.add(ast.unparse(node) if node else "")
    text = found.pop() if len(found) == 1 else "Any"
    return re.sub(r"\b_(Buffer|[KTV])(?:_co)?\b", r"\1", re.sub(r"\bInt\b", "SupportsIndex", text))


def sign(app, what, name, obj, options, signature, returns):
    """Give a function of the engine the types of the stub."""
    variants = STUB.get(getattr(obj, "__qualname__", ""))
    if not variants or inspect.isfunction(obj) or not callable(obj):
        return None
    parts = []
    keyword_only = False
    for parameter in inspect.signature(obj).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            parts.append("*")
        text = parameter.name
        if annotation := typed(variants, parameter.name):
            text += f": {annotation}"
        if parameter.default is not parameter.empty:
            default = DEFAULTS.get((parameter.name, parameter.default), repr(parameter.default))
            text += f" = {default}"
        parts.append(text)
    return f"({', '.join(parts)})", typed(variants, None)


def parameters(obj) -> set[str]:
    """Return the names that are arguments where a docstring has them, not functions."""
    try:
        return set(inspect.signature(obj).parameters)
    except (TypeError, ValueError):
        return set()


def mark_up(app, what, name, obj, options, lines):
    """Let `names` of a docstring lead to their pages, and papers to theirs; all else is code."""
    owner = getattr(acp, name.split(".")[1], None) if name.count(".") > 1 else None
    owner = obj if what == "class" and obj.__name__ in acp.__all__ else owner
    arguments = parameters(obj)

    def link(match):
        text = match[1]
        plain = text.removesuffix("()").removeprefix("acp.")
        if plain in arguments or not plain.isidentifier():
            return f"``{text}``"
        member = inspect.getattr_static(owner, plain, None) if inspect.isclass(owner) else None
        if member is not None and not name.endswith(f".{plain}"):
            if inspect.isroutine(member) and member.__doc__:
                return f":py:obj:`{text} <acp_mpi.{owner.__name__}.{plain}>`"
            return f"``{text}``"
        if plain in ("wait", "test") and "request" in match.string[: match.start()].lower():
            return f"``{text}``"  # the method of a request
        if plain in acp.__all__ and not name.endswith(f".{plain}"):
            return f":py:obj:`{text} <acp_mpi.{plain}>`"
        return f"``{text}``"

    text = "\n".join(lines).replace("*", r"\*")
    text = re.sub(r"`([^`]+)`", lambda m: link(m).replace(r"\*", "*"), text)
    text = re.sub(r"\bpaper (\d{3})\b", r":doc:`paper \1 </sources>`", text)
    bare = "|".join(each for each in acp.__all__ if each.endswith("Error") or each.isupper())
    text = re.sub(rf"(?<![\w.`/])({bare})(?![\w`])", r":py:obj:`\1 <acp_mpi.\1>`", text)
    lines[:] = text.split("\n")


def complete(app, env):
    """Fail where a public name has no entry; enter the names of packages for `objects.inv`."""
    known = env.get_domain("py").objects
    if missing := [name for name in acp.__all__ if f"acp_mpi.{name}" not in known]:
        raise ExtensionError(f"docs/reference has no {', '.join(missing)}: add each to one page")
    for package in ("acp_mpi.comm", "acp_mpi.datastructs", "acp_mpi.errors"):
        module = import_module(package)
        for name in acp.__all__:
            if getattr(module, name, None) is getattr(acp, name):
                entry = known[f"acp_mpi.{name}"]
                known.setdefault(f"{package}.{name}", entry._replace(aliased=True))


def setup(app):
    app.connect("autodoc-process-signature", sign)
    app.connect("autodoc-process-docstring", mark_up)
    app.connect("env-updated", complete)
