/* The functions behind the calls that point up (core/upcalls.h), and the methods of the containers. */
#include "core/upcalls.h"
#include "containers/container.h"
#include "containers/counter.h"
#include "containers/heap_methods.h"
#include "containers/list_bulk.h"
#include "containers/list_insert.h"
#include "containers/list_read.h"
#include "containers/list_sort.h"
#include "containers/list_splice.h"
#include "containers/map.h"
#include "containers/map_bulk.h"
#include "containers/sequence.h"
#include "containers/workspace.h"
#include "close.h"
#include "core/method.h"
#include "inspect/query.h"
#include "membership/name_service.h"
#include "membership/team.h"
#include "messages/flow_recv.h"
#include "messages/sender_heap.h"
#include "mpi_window/target_assist.h"
#include "mpi_window/window.h"
#include "mpi_window/window_rma.h"
#include "operations/ack.h"
#include "operations/notices.h"
#include "operations/op_table.h"
#include "operations/reserve.h"
#include "operations/target.h"
#include "transport/link_io.h"

/* The methods of all containers, by number. */
static const acp_method methods[UINT8_MAX + 1] = {
    [METHOD_COUNTER_ADD] = method_counter_add,
    [METHOD_COUNTER_SET] = method_counter_set,
    [METHOD_CREATE] = method_create,
    [METHOD_DESCRIBE] = method_describe,
    [METHOD_DESTROY] = method_destroy,
    [METHOD_FREE] = method_heap,
    [METHOD_FREE_HELD] = method_heap,
    [METHOD_HEAP_LOOK] = method_heap,
    [METHOD_HEAP_TIDY] = method_heap,
    [METHOD_LIST_BURY] = method_list_bury,
    [METHOD_LIST_CHECK] = method_list_check,
    [METHOD_LIST_CLEAR] = method_list_clear,
    [METHOD_LIST_ERASE] = method_list_erase,
    [METHOD_LIST_ORDER] = method_list_order,
    [METHOD_LIST_PUT] = method_list_put,
    [METHOD_LIST_REVERSE] = method_list_reverse,
    [METHOD_LIST_SPLICE] = method_list_splice,
    [METHOD_LIST_STEP] = method_list_step,
    [METHOD_LIST_SWAP] = method_list_swap,
    [METHOD_LIST_TAKE] = method_list_take,
    [METHOD_LIST_WALK] = method_list_walk,
    [METHOD_MALLOC] = method_heap,
    [METHOD_MAP_CLEAR] = method_map_clear,
    [METHOD_MAP_ERASE] = method_map_erase,
    [METHOD_MAP_ERASE_MANY] = method_map_erase_many,
    [METHOD_MAP_FIND] = method_map_find,
    [METHOD_MAP_FIND_MANY] = method_map_find_many,
    [METHOD_MAP_LOOK] = method_map_look,
    [METHOD_MAP_PIECE] = method_map_piece,
    [METHOD_MAP_PUT] = method_map_put,
    [METHOD_MAP_PUT_MANY] = method_map_put_many,
    [METHOD_MAP_RESERVE] = method_map_reserve,
    [METHOD_MAP_SCAN] = method_map_scan,
    [METHOD_SEQUENCE_LOOK] = method_sequence_look,
    [METHOD_SEQUENCE_READ] = method_sequence_read,
    [METHOD_SEQUENCE_RESERVE] = method_sequence_reserve,
    [METHOD_SEQUENCE_SPLICE] = method_sequence_splice,
    [METHOD_WORKSPACE_ADD] = method_workspace_add,
    [METHOD_WORKSPACE_LOOK] = method_workspace_look,
    [METHOD_WORKSPACE_READ] = method_workspace_read,
    [METHOD_WORKSPACE_WRITE] = method_workspace_write,
    [METHOD_WORKSPACE_ZERO] = method_workspace_zero,
};

const struct upcalls acp_upcalls = {
    .destroy = engine_destroy,
    .join = acp_engine_join,
    .memory_ends = links_take_in,
    .arrived = message_arrived,
    .land = put_land,
    .landed = put_served,
    .answer = answers_send,
    .admitted = say_news,
    .unlinked = tasks_unlink,
    .questioned = survey_answer,
    .provided = provided,
    .window_reaches = window_reaches,
    .window_start = window_start,
    .window_step = window_step,
    .window_learn = window_learn,
    .window_welcome = window_welcome,
    .window_help = window_help,
    .guest = guest_said,
    .mail = courier_frame,
    .name = board_serve,
    .signal = signal_arrived,
    .signals_provide = signals_provide,
    .held_give = held_give,
    .methods = methods,
};
