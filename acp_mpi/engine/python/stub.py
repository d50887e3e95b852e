"""Write the engine's stub, for type checkers: `python stub.py SOURCE STUB DEPENDENCIES`.

The type of an argument is its annotation, else its C type. A result `A if x is T else B` makes two
overloads. A comment `# type: T` refines the type of read-only attributes, or the bases of a class.
"""

import linecache
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from Cython.Compiler import Errors, ExprNodes, Main, Nodes, Options
from Cython.Compiler.Scanning import FileSourceDescriptor

HEADER = """\
# Made from the engine's .pxi as it was built.

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload
from typing import SupportsIndex as Int  # integers of NumPy, too

_Buffer = TypeVar("_Buffer")
_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)
_K = TypeVar("_K")
_V = TypeVar("_V")
"""
OTHERWISE = {"None": "_Buffer", "Int": "slice"}  # the type of an argument in the second overload
PYTHON_TYPES = {None: "Any", "object": "Any", "bint": "bool", "double": "float", "str": "str"}
PYTHON_TYPES |= {"bytes": "bytes", "list": "list[Any]", "tuple": "tuple[Any, ...]"}
SILENT = {"__class_getitem__", "__dealloc__", *vars(object)} - {"__init__"}


def statements(node: Any) -> Iterator[Any]:
    """Yield the statements of a body, those of included files in place of the `include`."""
    for each in node.stats if isinstance(node, Nodes.StatListNode) else [node]:
        if isinstance(each, Nodes.StatListNode):
            yield from statements(each)
        else:
            yield each


def written(annotation: Any) -> str:
    """Return an annotation as it is written, None where there is none."""
    text = annotation.string.value if annotation else "None"
    return text.decode() if isinstance(text, bytes) else text  # bytes in Cython 3.0


class Stub:
    """The stub of one module, line by line."""

    def __init__(self, source: Path) -> None:
        Errors.init_thread()
        options = Options.CompilationOptions(Options.default_options, language_level=3)
        context = Main.Context.from_options(options)
        file = FileSourceDescriptor(str(source))
        scope = context.find_module(source.stem, pos=(file, 1, 0), need_pxd=False)
        tree = context.parse(file, scope, pxd=False, full_module_name=source.stem)
        body = list(statements(tree.body))
        self.classes = {each.class_name for each in body if isinstance(each, Nodes.CClassDefNode)}
        self.lines = [HEADER]
        for each in body:
            self._statement(each, "")

    def _statement(self, node: Any, indent: str) -> None:
        """Add what a module or a class shows of one of its statements."""
        match node:
            case Nodes.CClassDefNode(body=None):
                pass  # declared; the class itself comes later
            case Nodes.CClassDefNode(class_name=name, bases=bases):
                self._class(node, name, [base.name for base in bases.args])
            case Nodes.PyClassDefNode(name=name):
                self._class(node, name, [])
            case Nodes.DefNode(name="__getbuffer__"):
                self.lines.append(f"{indent}def __buffer__(self, flags: int, /) -> memoryview: ...")
            case Nodes.DefNode(name="__cinit__", args=args):
                if len(args) > 1:  # else `__init__` has them, or there are none
                    self._signature(node, "__init__", indent, "None", {})
            case Nodes.DefNode(name=name) if name not in SILENT:
                self._function(node, indent)
            case Nodes.CVarDefNode(visibility="readonly"):
                self._attributes(node, indent)
            case Nodes.SingleAssignmentNode(lhs=ExprNodes.NameNode(name=name), rhs=value):
                if not name.startswith("_"):
                    self.lines.append(f"{indent}{name}: {self._constant(value)}")

    def _class(self, node: Any, name: str, bases: list[str]) -> None:
        if refined := self._refined(node):
            bases = [refined]
        self.lines.append(f"\nclass {name}({', '.join(bases)}):" if bases else f"\nclass {name}:")
        self._docstring(node.doc or "", "    ")
        for each in statements(node.body):
            self._statement(each, "    ")

    def _docstring(self, text: str, indent: str) -> None:
        text = text.replace("\\", r"\\").replace('"""', r"\"\"\"")
        self.lines.append(f'{indent}"""{text}"""' if text else f"{indent}...")

    def _constant(self, value: Any) -> str:
        if isinstance(value, ExprNodes.TupleNode):
            return f"tuple[{', '.join(map(self._constant, value.args))}]"
        return value.function.name if isinstance(value, ExprNodes.SimpleCallNode) else "int"

    def _type_of(self, base: Any) -> str:
        name = base.name
        return PYTHON_TYPES.get(name, name if name in self.classes else "int")

    def _refined(self, node: Any) -> str:
        line = linecache.getline(node.pos[0].filename, node.pos[1])
        return line.partition("# type: ")[2].strip()

    def _attributes(self, node: Any, indent: str) -> None:
        for each in node.declarators:
            self.lines.append(f"{indent}@property")
            kind = self._refined(node) or self._type_of(node.base_type)
            self.lines.append(f"{indent}def {each.name}(self) -> {kind}: ...")

    def _function(self, node: Any, indent: str) -> None:
        result = node.return_type_annotation
        if result is None and node.name != "__init__":
            file, line, _ = node.pos
            sys.exit(f"{file.filename}:{line}: {node.name} has no `-> type`; say what it returns")
        for each in node.decorators or ():
            self.lines.append(f"{indent}@{each.decorator.name}")
        first, _, condition = written(result).partition(" if ")
        switch, _, rest = condition.partition(" is ")
        if switch:
            given, _, second = rest.partition(" else ")
            for kind, type_of_it in (first, given), (second, OTHERWISE[given]):
                self.lines.append(f"{indent}@overload")
                self._signature(node, node.name, indent, kind, {switch: type_of_it})
        else:
            self._signature(node, node.name, indent, first, {})

    def _signature(
        self, node: Any, name: str, indent: str, result: str, given: dict[str, str]
    ) -> None:
        parts = [self._argument(each, given) for each in node.args]
        if node.star_arg:
            parts.append(f"*{node.star_arg.name}: Any")
        elif node.num_kwonly_args:
            parts.insert(len(parts) - node.num_kwonly_args, "*")
        self.lines.append(f"{indent}def {name}({', '.join(parts)}) -> {result}:")
        self._docstring(node.doc or "", indent + "    ")

    def _argument(self, node: Any, given: dict[str, str]) -> str:
        name: str = node.declarator.name
        if name == "self":
            return name
        noted = written(node.annotation) if node.annotation else ""
        kind = given.get(name) or noted or self._type_of(node.base_type)
        if not node.default:
            return f"{name}: {kind}"
        optional = node.default.is_none and not noted and kind != "Any"
        return f"{name}: {kind} | None = ..." if optional else f"{name}: {kind} = ..."


def main() -> None:
    """Write a stub, and for Ninja the names of the files that it was made from."""
    source, output, dependencies = map(Path, sys.argv[1:])
    output.write_text("\n".join(Stub(source).lines) + "\n")
    files = " ".join(map(str, sorted(source.parent.glob("*.p*"))))
    dependencies.write_text(f"{output}: {files}\n")


if __name__ == "__main__":
    main()
