# The heaps of other processes, seen from outside; no engine is needed.

cdef extern from "inspect/query.h":
    pass

cdef extern from "inspect/ranks.h":
    pass

cdef extern from "inspect/heap_walk.h" nogil:
    enum:
        USE_VACANT, USE_FREE, USE_MALLOC, USE_SPARE, USE_UNKNOWN, USE_MESSAGES, USE_CONTAINER
        KIND_COUNTER, KIND_DEQUE, KIND_LIST, KIND_MAP, KIND_MULTISET, KIND_SET, KIND_VECTOR
        KIND_WORKSPACE
    acp_ga_t acp_ga(uint32_t, uint32_t, uint64_t)
    const uint32_t SURVEY_USES
    ctypedef struct survey_container "struct survey_container":
        uint64_t kind, offset, elements, blocks, bytes
    ctypedef struct survey "struct survey":
        acp_heap_statistics heap
        uint64_t others, first, top
        bint whole
        survey_container *containers
        uint32_t count
        uint64_t *cells
    ctypedef struct survey_member "struct survey_member":
        uint32_t rank, pid
        int memory_fd
        uint64_t nonce
    int c_survey_heap "heap_walk_rank"(int, uint64_t, uint32_t, survey *)
    void heap_walk_free(survey *)
    ctypedef struct survey_work "struct survey_doing":
        uint32_t rank, doing, awaited
        uint64_t notice
    int c_survey_doing "heap_walk_doing"(int, uint64_t, survey_work *)
    enum:
        NOTICE_OFFSET
        POST_OFFSET
        QUERY_MOST
    size_t query_ask(c_seal *, unsigned char *)
    int query_hear(c_seal *, unsigned char *, size_t, survey_work *)
    int c_survey_members "ranks_members"(int, survey_member *, uint32_t, uint32_t *)

DEF MEMBERS = 4096  # that share a node

NOTICE = NOTICE_OFFSET - POST_OFFSET  # a word of `post_ga` that observers get

_USES = {
    USE_VACANT: "vacant", USE_FREE: "free", USE_MALLOC: "malloc", USE_SPARE: "spare",
    USE_UNKNOWN: "unknown", USE_MESSAGES: "messages", USE_CONTAINER + KIND_COUNTER: "Counter",
    USE_CONTAINER + KIND_DEQUE: "Deque", USE_CONTAINER + KIND_LIST: "List",
    USE_CONTAINER + KIND_MAP: "Map", USE_CONTAINER + KIND_MULTISET: "MultiSet",
    USE_CONTAINER + KIND_SET: "Set", USE_CONTAINER + KIND_VECTOR: "Vector",
    USE_CONTAINER + KIND_WORKSPACE: "Workspace",
}


def survey_members(int fd) -> list[tuple[int, int, int, int]]:
    """Return (rank, pid, descriptor of its memory, nonce) of the processes in a table of ranks.

    `fd` is a descriptor of the table. ValueError if it is none.
    """
    cdef survey_member members[MEMBERS]
    cdef uint32_t count = 0
    if c_survey_members(fd, members, MEMBERS, &count) != ACP_OK:
        raise ValueError("survey_members: no table of ranks of this version of acp_mpi")
    return [(m.rank, m.pid, m.memory_fd, m.nonce) for m in members[:min(count, MEMBERS)]]


def survey_doing(int fd, uint64_t nonce) -> tuple[int, int | None, int] | None:
    """Return what the process with the memory file `fd` and that nonce does (acp_doing).

    And the rank that owes it a message or room for one, or None; and its word at NOTICE. None
    instead of all three if it has left the job, or the file is another process's.
    """
    cdef survey_work work
    if c_survey_doing(fd, nonce, &work) != ACP_OK:
        return None
    return work.doing, work.awaited - 1 if work.awaited else None, work.notice


def doing_question(Handshake opened not None) -> bytes:
    """Return what to send to the links of a process, after the handshake, to learn what it does."""
    cdef unsigned char question[QUERY_MOST]
    cdef size_t size = query_ask(opened.keys(), question)
    return question[:size]


def doing_answer(Handshake opened not None, bytes answer not None) -> tuple[int, int, int | None, int]:
    """Return the rank that has given this answer, of as many bytes as the query, and its state.

    The state has what it does, the rank it waits for and its word, as `survey_doing`. ValueError:
    not an answer.
    """
    cdef survey_work work
    cdef unsigned char copy[QUERY_MOST]
    cdef size_t size = min(len(answer), QUERY_MOST)
    memcpy(copy, PyBytes_AS_STRING(answer), size)
    if query_hear(opened.keys(), copy, size, &work) != ACP_OK:
        raise ValueError("doing_answer: a damaged answer, or one of another version of acp_mpi")
    return work.rank, work.doing, work.awaited - 1 if work.awaited else None, work.notice


def survey_heap(int fd, uint32_t rank, uint64_t nonce, uint32_t cells) -> tuple[
        bool, tuple[int, int, int, int, int, int, int, int], int, tuple[int, int],
        list[dict[str, int]], list[tuple[str, int, int, int, int]]] | None:
    """Look at the heap in the memory file `fd` of the process with that rank and nonce.

    Return whether nothing has changed meanwhile, what `heap_look` returns, the bytes committed
    outside the heap, the first and the last + 1 address of its blocks, these in `cells` equal
    parts, each as {use: bytes}, and (kind, address, elements, blocks, bytes) of its containers.
    None if the process has left the job. ValueError if the file is no such memory.
    """
    cdef survey seen
    cdef uint64_t *row
    cdef uint32_t cell, use
    cdef int rc
    with nogil:
        rc = c_survey_heap(fd, nonce, cells, &seen)
    try:
        if rc == ACP_E_CLOSED:
            return None
        if rc == ACP_E_ARGUMENT:
            raise ValueError("survey_heap: no memory of this version of acp_mpi")
        if rc == ACP_E_FULL:
            raise MemoryError("survey_heap")
        if rc != ACP_OK:
            raise OSError("survey_heap: the memory of the process cannot be mapped")
        s = seen.heap
        parts = []
        for cell in range(cells):
            row = seen.cells + cell * SURVEY_USES
            part = {}
            for use in range(SURVEY_USES):
                if row[use]:
                    part[_USES[use]] = row[use]
            parts.append(part)
        containers = [(_USES[USE_CONTAINER + k.kind], acp_ga(rank, 0, k.offset), k.elements, k.blocks, k.bytes)
                      for k in seen.containers[:seen.count]]
        edges = (acp_ga(rank, 0, seen.first), acp_ga(rank, 0, seen.top))
        heap = (s.size, s.used, s.free, s.largest, s.blocks, s.fragments, s.committed, s.limit)
        return bool(seen.whole), heap, seen.others, edges, parts, containers
    finally:
        heap_walk_free(&seen)
