"""A worker: the leader of a group pulls jobs from the global counter, members help with each."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import acp_mpi as acp

from . import orders
from .basis import Molecules
from .cast import Cast
from .data import Data
from .jobs import FREE, ROW_BYTES, Row, pack_row
from .molecule import InputError
from .orders import Order
from .reading import Calculation
from .scf import NotConverged
from .team import Team


def work(calculation: Calculation, cast: Cast, comm: Any) -> None:
    """Do what the master orders until it says that it is over."""
    group = cast.group_of(acp.rank())
    assert group is not None
    own = cast.groups[group]
    molecules = Molecules(calculation.fragments, calculation.basis)
    leads = acp.rank() == own[0]
    if leads:
        orders.report_sizes(cast.master, sizes(molecules))
    first = orders.take(1, (cast.master, *cast.servers, *own))
    if leads:
        _tell(own[1:], first, 1)
    if first.kind == orders.STOP:
        return
    data = Data(orders.kept(first.pairs, first.length), acp)
    team = Team(comm, calculation, molecules, data)
    team.meet()  # all have read the first order: the next one may take its place
    if leads:
        orders.report(cast.master, group, 1)
        Leader(cast, group, team, data).serve()
    else:
        _serve_as_member(cast, own, team, data)


def sizes(molecules: Molecules) -> Any:
    """Return what the master, who knows no basis sets, must know; or what is wrong with them."""
    try:
        return molecules.sizes()
    except InputError as error:
        return str(error)


def _tell(members: Sequence[int], order: Order, serial: int) -> None:
    for member in members:
        orders.give(order, member, serial)


class Leader:
    """The first worker of a group."""

    def __init__(self, cast: Cast, group: int, team: Team, data: Data) -> None:
        self._cast = cast
        self._group = group
        self._members = cast.groups[group][1:]
        self._team = team
        self._data = data
        self._told = 1
        self._needed = (cast.master, *cast.servers, *cast.groups[group])

    def serve(self) -> None:
        """Do the rounds that the master orders."""
        serial = 2
        while (order := orders.take(serial, self._needed)).kind != orders.STOP:
            self.do(order, serial)
            serial += 1
        self._tell(order)

    def do(self, order: Order, serial: int) -> None:
        """Do this group's share of a round: the jobs that it pulls."""
        counter = acp.Counter.attach(order.counter)
        sequence = read_numbers(order.sequence, order.number)
        pairs = read_pairs(order)
        self._data.turn_to(order.sweep)
        while True:
            began, waited = time.time(), self._data.waited
            start = time.perf_counter()
            place = counter.next()
            self._data.waited += time.perf_counter() - start
            if place >= order.number:
                break
            job = int(sequence[place])
            orders.check_present(self._needed)
            if order.kind != FREE:
                self._tell(order._replace(number=job))
            try:
                row = self._team.lead(order.kind, job, pairs)._replace(stamp=serial)
            except NotConverged:
                row = Row(stamp=-serial)
            row = row._replace(
                begin=began, end=time.time(), waited=self._data.waited - waited, group=self._group
            )
            self._put_row(order.rows + job * ROW_BYTES, row)
        orders.report(self._cast.master, self._group, serial)

    def _put_row(self, ga: int, row: Row) -> None:
        """Write a result, its stamp last: a group that dies leaves no half of one."""
        start = time.perf_counter()
        acp.put(ga + 8, pack_row(row)[8:], flag=(ga, row.stamp))
        orders.count_event(self._cast.master)
        self._data.waited += time.perf_counter() - start

    def _tell(self, order: Order) -> None:
        self._told += 1
        _tell(self._members, order, self._told)


def _serve_as_member(cast: Cast, own: Sequence[int], team: Team, data: Data) -> None:
    needed = (cast.master, *cast.servers, *own)
    serial = 2
    known = (0, 0, 0)
    pairs: list[tuple[int, int]] = []
    while (order := orders.take(serial, needed)).kind != orders.STOP:
        serial += 1
        table = (order.kind, order.pairs, order.length)
        if known != table:
            known, pairs = table, read_pairs(order)
        data.turn_to(order.sweep)
        team.help(order.kind, order.number, pairs)


def read_numbers(ga: int, count: int) -> np.ndarray:
    """Return 64-bit integers at an address."""
    numbers = np.empty(count, np.int64)
    acp.get(ga, numbers)
    return numbers


def read_pairs(order: Order) -> list[tuple[int, int]]:
    """Return the table of pairs that an order is about."""
    if not order.length:
        return []
    flat = read_numbers(order.pairs, 2 * order.length).tolist()
    return list(zip(flat[::2], flat[1::2], strict=True))
