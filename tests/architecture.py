"""The plan of the house, `architecture.toml`, and circles in it."""

import tomllib
from collections.abc import Mapping
from typing import TypeVar

import launch

PLAN = tomllib.loads((launch.TESTS / "architecture.toml").read_text())
Node = TypeVar("Node")


def circles(edges: Mapping[Node, set[Node]]) -> list[list[Node]]:
    """Return the strongly connected parts of a graph (Tarjan)."""
    index: dict[Node, int] = {}
    low: dict[Node, int] = {}
    stack: list[Node] = []
    found = []

    def visit(node: Node) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in edges[node]:
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            at = stack.index(node)
            found.append(stack[at:])
            del stack[at:]

    for node in edges:
        if node not in index:
            visit(node)
    return found
