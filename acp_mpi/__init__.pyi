from acp_mpi.comm import (
    testall as testall,
    waitall as waitall,
    waitany as waitany,
)
from acp_mpi.comm.channels import ChannelStatistics as ChannelStatistics
from acp_mpi.comm.collectives.calls import (
    allgather as allgather,
    allreduce as allreduce,
    alltoall as alltoall,
    bcast as bcast,
    exscan as exscan,
    gather as gather,
    reduce as reduce,
    reduce_scatter as reduce_scatter,
    scan as scan,
    scatter as scatter,
)
from acp_mpi.comm.collectives.started import (
    iallgather as iallgather,
    iallreduce as iallreduce,
    ialltoall as ialltoall,
    ibarrier as ibarrier,
    ibcast as ibcast,
    iexscan as iexscan,
    igather as igather,
    ireduce as ireduce,
    ireduce_scatter as ireduce_scatter,
    iscan as iscan,
    iscatter as iscatter,
)
from acp_mpi.comm.segmented_buffer import SegmentedBuffer as SegmentedBuffer
from acp_mpi.datastructs import (
    Counter as Counter,
    Cursor as Cursor,
    Deque as Deque,
    KeyCursor as KeyCursor,
    List as List,
    ListCursor as ListCursor,
    Map as Map,
    MultiSet as MultiSet,
    Set as Set,
    Vector as Vector,
    Workspace as Workspace,
)
from acp_mpi.delegates.client import (
    Delegate as Delegate,
    DelegateStatistics as DelegateStatistics,
    delegate as delegate,
)
from acp_mpi.delegates.requests import DelegateRequest as DelegateRequest
from acp_mpi.delegates.ring import DelegateRing as DelegateRing
from acp_mpi.engine import get_include as get_include
from acp_mpi.engine._engine import (
    ANY_SOURCE as ANY_SOURCE,
    ANY_TAG as ANY_TAG,
    Channel as Channel,
    GA_NULL as GA_NULL,
    HANDLE_ALL as HANDLE_ALL,
    HANDLE_CONT as HANDLE_CONT,
    HANDLE_NULL as HANDLE_NULL,
    Message as Message,
    Request as Request,
    Status as Status,
    add4 as add4,
    add8 as add8,
    after as after,
    and4 as and4,
    and8 as and8,
    barrier as barrier,
    cas4 as cas4,
    cas8 as cas8,
    colors as colors,
    complete as complete,
    copy as copy,
    copy_many as copy_many,
    fetch_add4 as fetch_add4,
    fetch_add8 as fetch_add8,
    fetch_and4 as fetch_and4,
    fetch_and8 as fetch_and8,
    fetch_cas4 as fetch_cas4,
    fetch_cas8 as fetch_cas8,
    fetch_or4 as fetch_or4,
    fetch_or8 as fetch_or8,
    fetch_swap4 as fetch_swap4,
    fetch_swap8 as fetch_swap8,
    fetch_xor4 as fetch_xor4,
    fetch_xor8 as fetch_xor8,
    free as free,
    get as get,
    iget as iget,
    improbe as improbe,
    inquire as inquire,
    iprobe as iprobe,
    iput as iput,
    irecv as irecv,
    is_alive as is_alive,
    isend as isend,
    losses as losses,
    malloc as malloc,
    mprobe as mprobe,
    or4 as or4,
    or8 as or8,
    probe as probe,
    procs as procs,
    put as put,
    query_address as query_address,
    query_color as query_color,
    query_rank as query_rank,
    query_starter_ga as query_starter_ga,
    rank as rank,
    recv as recv,
    select as select,
    send as send,
    sendrecv as sendrecv,
    size as size,
    swap4 as swap4,
    swap8 as swap8,
    sync as sync,
    test as test,
    wait as wait,
    wait_until as wait_until,
    xor4 as xor4,
    xor8 as xor8,
)
from acp_mpi.errors import (
    AddressError as AddressError,
    AlignmentError as AlignmentError,
    ClosedError as ClosedError,
    DeviceError as DeviceError,
    EndOfChannel as EndOfChannel,
    Error as Error,
    HeapFullError as HeapFullError,
    NotInitializedError as NotInitializedError,
    PeerLostError as PeerLostError,
    RankError as RankError,
    TruncationError as TruncationError,
)
from acp_mpi.job.join import Group as Group
from acp_mpi.job.membership import (
    group as group,
    groups as groups,
    ranks as ranks,
    refresh as refresh,
)
from acp_mpi.rma.arrays import (
    empty as empty,
    view as view,
    zeros as zeros,
)
from acp_mpi.rma.device_array import (
    Device as Device,
    DeviceArray as DeviceArray,
    device_pointer as device_pointer,
    devices as devices,
)
from acp_mpi.rma.exchange import (
    lookup as lookup,
    publish as publish,
    withdraw as withdraw,
)
from acp_mpi.rma.heap import (
    HeapStatistics as HeapStatistics,
    heap_statistics as heap_statistics,
)
from acp_mpi.rma.many import (
    fetch_add4_many as fetch_add4_many,
    fetch_add8_many as fetch_add8_many,
    fetch_and4_many as fetch_and4_many,
    fetch_and8_many as fetch_and8_many,
    fetch_cas4_many as fetch_cas4_many,
    fetch_cas8_many as fetch_cas8_many,
    fetch_or4_many as fetch_or4_many,
    fetch_or8_many as fetch_or8_many,
    fetch_swap4_many as fetch_swap4_many,
    fetch_swap8_many as fetch_swap8_many,
    fetch_xor4_many as fetch_xor4_many,
    fetch_xor8_many as fetch_xor8_many,
)
from acp_mpi.rma.progress import (
    Progress as Progress,
    ProgressStatistics as ProgressStatistics,
    progress as progress,
)
from acp_mpi.rma.registration import (
    AtKey as AtKey,
    query_ga as query_ga,
    register_memory as register_memory,
    unregister_memory as unregister_memory,
)
from acp_mpi.rma.remote import (
    RemoteArray as RemoteArray,
    remote as remote,
)
from acp_mpi.job.runtime import (
    Session as Session,
    abort as abort,
    finalize as finalize,
    init as init,
    is_initialized as is_initialized,
    leave as leave,
    reset as reset,
)
from acp_mpi.spawn.groups.groups import spawn_group as spawn_group, spawn_groups as spawn_groups

__version__: str
