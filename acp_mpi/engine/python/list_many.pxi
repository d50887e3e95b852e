# Lists, many elements at a time: rows put in, batches taken out, changes of the chain.

cdef class ListHandle(ListReader):  # type: ListReader[_T]
    """A chain of elements on some rank."""

    def _put_block(self, str function, uint64_t where, uint64_t node, uint64_t number,
                   list records: list[tuple[int, int, int]]) -> tuple[int, tuple[int, int]]:
        """Put in elements with their bytes in blocks: of (size, address, block) each.

        Returns how many went in, and (node, number) of the first; these leave the list. So do all if an
        exception comes while they may still go in, as then they go in or back without the caller.
        """
        cdef list_put head
        cdef list_record record
        cdef Call c
        cdef list_id *id
        memset(&head, 0, sizeof(list_put))
        memset(&record, 0, sizeof(list_record))
        head.at.node = node
        head.at.number = number
        parts = [(<char *>&head)[:sizeof(list_put)]]
        for record.size, record.payload, record.block in records:
            parts.append((<char *>&record)[:sizeof(list_record)])
        c = call_new(METHOD_LIST_PUT, self.ga, self.serial, where, b"".join(parts), sizeof(list_id))
        try:
            call_run(function, c)
        except BaseException:
            if engine != NULL and not acp_done(engine, c.pending):
                leave_orphans([block for _, _, block in records], c)
                records.clear()
            raise
        finally:
            del records[:c.call.result[1]]
        if c.call.result[0] == LIST_STALE:
            stale(function)
        id = <list_id *>PyByteArray_AS_STRING(c.brought)
        return c.call.result[1], (id.node, id.number)

    def _put_row(self, str function, uint64_t where, uint64_t node, uint64_t number,
                 data) -> tuple[int, int] | None:
        """Put in elements of one width from the bytes `data`; returns (node, number) of the first.

        In pieces of 64 KiB.
        """
        cdef list_put head
        cdef uint64_t at = 0, width = self._element.width, most
        head.at.node = node
        head.at.number = number
        head.width = width
        first = None
        view = memoryview(data).cast("B")
        most = (ACP_CALL_MOST - sizeof(list_put)) // width * width
        while at < len(view):
            piece = (<char *>&head)[:sizeof(list_put)] + bytes(view[at:at + most])
            count, id = self.put(function, where, piece)
            first = first or id
            at += count * width
        return first

    def _put_many(self, str function, uint64_t where, uint64_t node, uint64_t number,
                  elements: Sequence[bytes]) -> tuple[int, int] | None:
        """Put in elements of the bytes given, in pieces of 64 KiB; (node, number) of the first.

        Each has at most `inline_most`.
        """
        cdef list_put head
        cdef list_record record
        cdef uint64_t size, room
        memset(&record, 0, sizeof(list_record))
        head.at.node = node
        head.at.number = number
        head.width = 0
        first = None
        done = 0
        while done < len(elements):
            parts = [(<char *>&head)[:sizeof(list_put)]]
            size = sizeof(list_put)
            for data in elements[done:done + ACP_CALL_MOST // sizeof(list_record)]:
                record.size = len(data)
                room = (record.size + 7) & ~<uint64_t>7
                size += sizeof(list_record) + room
                if size > ACP_CALL_MOST:
                    break
                parts.append((<char *>&record)[:sizeof(list_record)])
                parts.append(data.ljust(room, b"\0"))
            count, id = self.put(function, where, b"".join(parts))
            first = first or id
            done += count
        return first

    def _take(self, str function, uint64_t where, uint64_t how, uint64_t most, uint64_t node,
              uint64_t number) -> Batch | None:
        """Take out up to `most` elements but not what they hold: a Batch with `blocks`.

        `blocks` are (size, address, block). None if there is no element.
        """
        cdef list_id id
        id.node = node
        id.number = number
        cdef Call c = self.called(
            function, METHOD_LIST_TAKE, where | most << 8 | how << 32,
            (<char *>&id)[:sizeof(list_id)] if where == LIST_AT else None,
            ACP_CALL_MOST if most > 1 else sizeof(list_answer) + sizeof(list_record))
        if c.call.result[0] == LIST_EMPTY:
            return None
        return self.filled(batch_new(), PyByteArray_AS_STRING(c.brought), False)

    cdef bytes span(self, at, first, last, ListHandle other, uint64_t changes):
        cdef list_span s
        s.at.node, s.at.number = at
        s.first.node, s.first.number = first
        s.last.node, s.last.number = last
        s.source = other.ga
        s.from_serial = other.serial
        s.changes = changes
        return (<char *>&s)[:sizeof(list_span)]

    def _erase_between(self, str function, first: tuple[int, int], last: tuple[int, int]) -> int:
        """Erase the elements from `first` up to `last`; returns how many."""
        cdef Call c = self.called(function, METHOD_LIST_ERASE, 0,
                                  self.span((0, 0), first, last, self, 0), 0)
        return c.call.result[1]

    def _splice_from(self, str function, at: tuple[int, int], ListHandle other,
                     first: tuple[int, int], last: tuple[int, int], uint64_t changes) -> int:
        """Move elements of a list of the same rank here; returns the number of changes then."""
        cdef Call c = self.called(function, METHOD_LIST_SPLICE, 0,
                                  self.span(at, first, last, other, changes), 0)
        return c.call.result[1]

    def _exchange(self, str function, ListHandle other) -> None:
        """Swap all elements with a list of the same rank."""
        self.called(function, METHOD_LIST_SWAP, 0,
                    self.span((0, 0), (0, 0), (0, 0), other, 0), 0)

    def _drop_all(self, str function) -> None:
        """Take out all elements; their blocks are given back later."""
        self.called(function, METHOD_LIST_CLEAR, 0, None, 0)

    def _bury_some(self, str function) -> tuple[bool, list[int]]:
        """Give back memory of what was erased; (more to do, blocks of other ranks)."""
        cdef Call c = self.called(function, METHOD_LIST_BURY, 0, None, ACP_CALL_MOST)
        return c.call.result[1] != 0, list(memoryview(c.brought).cast("Q"))

    def reverse(self) -> None:
        """Turn the order of the elements round. Atomic, O(n)."""
        self.called("List.reverse", METHOD_LIST_REVERSE, 0, None, 0)

    def _order(self, str function, uint64_t changes, uint64_t count, uint64_t kept,
               bytes nodes) -> None:
        """Give the first `kept` of all nodes this order and erase the others.

        RuntimeError if the list has changed since it had `changes`.
        """
        cdef list_order o
        o.changes = changes
        o.count = count
        o.kept = kept
        o.block = 0
        if len(nodes) <= ACP_CALL_MOST - sizeof(list_order):
            self.called(function, METHOD_LIST_ORDER, 0, (<char *>&o)[:sizeof(list_order)] + nodes,
                        0)
            return
        cdef Call c = None
        o.block = block_take(function, acp_ga_rank(self.ga), len(nodes))
        try:
            put(o.block, nodes)
            c = call_new(METHOD_LIST_ORDER, self.ga, self.serial, 0,
                         (<char *>&o)[:sizeof(list_order)])
            call_run(function, c)
            if c.call.result[0] == LIST_CHANGED:
                changed(function)
        except BaseException:
            leave_orphans([o.block], c)
            raise
