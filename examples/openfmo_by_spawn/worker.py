"""A worker: the leader of a group gets jobs from the master, members get them from the leader."""

import array
import time
from collections.abc import Sequence
from typing import Any

from mpi4py import MPI
from openfmo_like.basis import Molecules
from openfmo_like.data import Data
from openfmo_like.jobs import FREE, Row, pack_row
from openfmo_like.reading import Calculation
from openfmo_like.scf import NotConverged
from openfmo_like.team import Team
from openfmo_like.worker import sizes

from .messages import Servers
from .scheduler import END, JOB, ROW


def work(calculation: Calculation) -> None:
    """Do the jobs that the master gives out, phase by phase, until it says that it is over."""
    world, parent = MPI.COMM_WORLD, MPI.Comm.Get_parent()
    group, ports = _told(world, parent)
    servers = [world.Connect(port) for port in ports]
    molecules = Molecules(calculation.fragments, calculation.basis)
    if world.rank == 0:
        parent.send(sizes(molecules), 0)
    memory = Servers([(server, 0) for server in servers])
    if (places := _told(world, parent)) is not None:
        data = Data(places, memory)
        _calculate(group, Team(world, calculation, molecules, data), data)
    for comm in (*servers, parent):
        comm.Disconnect()


def _calculate(group: int, team: Team, data: Data) -> None:
    """Do the jobs of all phases, as one of a group."""
    world, parent = MPI.COMM_WORLD, MPI.Comm.Get_parent()
    while (phase := _told(world, parent)) is not None:
        kind, sweep, pairs = phase
        data.turn_to(sweep)
        if world.rank == 0:
            _lead(group, kind, pairs, team, data)
        elif kind != FREE:
            _help(kind, pairs, team)


def _told(world: MPI.Intracomm, parent: MPI.Intercomm) -> Any:
    """Return what the master tells the leader, on all processes of the group."""
    return world.bcast(parent.recv(source=0) if world.rank == 0 else None)


def _lead(group: int, kind: int, pairs: Sequence[tuple[int, int]], team: Team, data: Data) -> None:
    """Do the jobs of one phase that the master gives this group."""
    world, parent = MPI.COMM_WORLD, MPI.Comm.Get_parent()
    number = array.array("q", [0])
    while True:
        began, waited = time.time(), data.waited
        start = time.perf_counter()
        parent.Recv(number, 0, JOB)
        data.waited += time.perf_counter() - start
        if kind != FREE:
            world.Bcast(number)
        if number[0] == END:
            return
        try:
            row = team.lead(kind, number[0], pairs)._replace(stamp=1)
        except NotConverged:
            row = Row(stamp=-1)
        spent = data.waited - waited
        row = row._replace(begin=began, end=time.time(), waited=spent, group=group)
        parent.Send(pack_row(row), 0, ROW)


def _help(kind: int, pairs: Sequence[tuple[int, int]], team: Team) -> None:
    """Do this member's parts of the jobs that its leader gets."""
    number = array.array("q", [0])
    while True:
        MPI.COMM_WORLD.Bcast(number)
        if number[0] == END:
            return
        team.help(kind, number[0], pairs)
