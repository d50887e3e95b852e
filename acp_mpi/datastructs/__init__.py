"""Containers in global memory, made on one rank and used from every rank without its help.

The user's view of each; the native half is the file of the same name in `engine`.
"""

from acp_mpi.datastructs.counter import Counter
from acp_mpi.datastructs.cursor import Cursor
from acp_mpi.datastructs.deque import Deque
from acp_mpi.datastructs.key_cursor import KeyCursor
from acp_mpi.datastructs.list import List
from acp_mpi.datastructs.map import Map
from acp_mpi.datastructs.multiset import MultiSet
from acp_mpi.datastructs.set import Set
from acp_mpi.datastructs.vector import Vector
from acp_mpi.datastructs.workspace import Workspace
from acp_mpi.engine._engine import ListCursor

__all__ = [
    "Counter",
    "Cursor",
    "Deque",
    "KeyCursor",
    "List",
    "ListCursor",
    "Map",
    "MultiSet",
    "Set",
    "Vector",
    "Workspace",
]
