/* The functions behind the calls that point up (core/upcalls.h), the parts of a leader's round, and the methods of
 * the containers. */
#include "core/upcalls.h"
#include "containers/container.h"
#include "containers/container_head.h"
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
#include "channels/channel_attend.h"
#include "channels/channel_notes.h"
#include "channels/channel_queue.h"
#include "close.h"
#include "collectives/background.h"
#include "collectives/schedule.h"
#include "core/engine_state.h"
#include "core/method.h"
#include "device_copies/op_device.h"
#include "device_copies/op_relay.h"
#include "devices/device_import.h"
#include "inspect/query.h"
#include "membership/name_service.h"
#include "membership/team.h"
#include "memory/retire.h"
#include "messages/flow_recv.h"
#include "messages/flows.h"
#include "messages/mailbox_doubt.h"
#include "messages/message_send_queue.h"
#include "messages/pair_ring_deliver.h"
#include "messages/purge.h"
#include "messages/sender_heap.h"
#include "mpi_window/target_assist.h"
#include "mpi_window/window.h"
#include "mpi_window/window_rma.h"
#include "operations/ack.h"
#include "operations/any_source.h"
#include "operations/doubt.h"
#include "operations/notices.h"
#include "operations/op_background.h"
#include "operations/op_table.h"
#include "operations/pending.h"
#include "operations/protocol.h"
#include "operations/reserve.h"
#include "operations/target.h"
#include "operations/task.h"
#include "peers/attach.h"
#include "peers/peer_liveness.h"
#include "transport/accept.h"
#include "transport/connection_input.h"
#include "transport/keepalive.h"
#include "transport/link.h"
#include "transport/link_io.h"
#include "transport/shm_ring.h"

/* The methods of all containers, by number. */
static const acp_method methods[UINT8_MAX + 1] = {
    [METHOD_COUNTER_ADD] = counter_method_add,
    [METHOD_COUNTER_SET] = counter_method_set,
    [METHOD_CREATE] = container_head_method_create,
    [METHOD_DESCRIBE] = container_head_method_describe,
    [METHOD_DESTROY] = container_head_method_destroy,
    [METHOD_FREE] = heap_methods_run,
    [METHOD_FREE_HELD] = heap_methods_run,
    [METHOD_HEAP_LOOK] = heap_methods_run,
    [METHOD_HEAP_TIDY] = heap_methods_run,
    [METHOD_LIST_BURY] = list_bulk_method_bury,
    [METHOD_LIST_CHECK] = list_read_method_check,
    [METHOD_LIST_CLEAR] = list_bulk_method_clear,
    [METHOD_LIST_ERASE] = list_bulk_method_erase,
    [METHOD_LIST_ORDER] = list_sort_method_order,
    [METHOD_LIST_PUT] = list_insert_method_put,
    [METHOD_LIST_REVERSE] = list_sort_method_reverse,
    [METHOD_LIST_SPLICE] = list_splice_method_splice,
    [METHOD_LIST_STEP] = list_read_method_step,
    [METHOD_LIST_SWAP] = list_splice_method_swap,
    [METHOD_LIST_TAKE] = list_insert_method_take,
    [METHOD_LIST_WALK] = list_read_method_walk,
    [METHOD_MALLOC] = heap_methods_run,
    [METHOD_MAP_CLEAR] = map_method_clear,
    [METHOD_MAP_ERASE] = map_method_erase,
    [METHOD_MAP_ERASE_MANY] = map_bulk_method_erase_many,
    [METHOD_MAP_FIND] = map_method_find,
    [METHOD_MAP_FIND_MANY] = map_bulk_method_find_many,
    [METHOD_MAP_LOOK] = map_method_look,
    [METHOD_MAP_PIECE] = map_method_piece,
    [METHOD_MAP_PUT] = map_method_put,
    [METHOD_MAP_PUT_MANY] = map_bulk_method_put_many,
    [METHOD_MAP_RESERVE] = map_method_reserve,
    [METHOD_MAP_SCAN] = map_method_scan,
    [METHOD_SEQUENCE_LOOK] = sequence_method_look,
    [METHOD_SEQUENCE_READ] = sequence_method_read,
    [METHOD_SEQUENCE_RESERVE] = sequence_method_reserve,
    [METHOD_SEQUENCE_SPLICE] = sequence_method_splice,
    [METHOD_WORKSPACE_ADD] = workspace_method_add,
    [METHOD_WORKSPACE_LOOK] = workspace_method_look,
    [METHOD_WORKSPACE_READ] = workspace_method_read,
    [METHOD_WORKSPACE_WRITE] = workspace_method_write,
    [METHOD_WORKSPACE_ZERO] = workspace_method_zero,
};

static bool look_poll(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    shm_ring_mend(lane);
    if (!schedule_try_lock(e)) { /* a reset may be under way */
        e->mail.losses = 1;
        return false;
    }
    purge_step(lane);
    schedule_unlock(e);
    return false;
}

static enum due names_due(const acp_engine *e)
{
    return e->sync.ended ? DUE_SOON : DUE_NOT;
}

static bool names_poll(acp_lane *lane)
{
    acp_names_bury(lane);
    return false;
}

static bool retirees_poll(acp_lane *lane)
{
    retire_step(lane->engine);
    return false;
}

static const struct poller locked[] = {
    {connection_input_due, connection_input_resume},
    {shm_ring_due, shm_ring_poll},
    {peer_liveness_due, peer_liveness_losses},
    {pending_due, protocol_retry},
    {flows_due, flows_push},
    {channel_notes_due, channel_notes_poll},
    {NULL, NULL},
};

static const struct poller unlocked[] = {
    {op_background_due, protocol_slice},
    {op_device_due, op_device_poll},
    {device_import_due, device_import_poll},
    {message_send_queue_due, message_send_queue_step},
    {purge_due, look_poll},
    {background_due, background_step},
    {channel_queue_due, channel_queue_poll},
    {window_due, window_drive},
    {names_due, names_poll},
    {retire_due, retirees_poll},
    {NULL, NULL},
};

/* What has been sent may have been lost. No reset is near meanwhile; another thread may have what is needed: then later. */
static void doubt(acp_engine *e)
{
    doubt_commands(e);
    acp_lane *lane = acp_lane_take(e);
    if (lane && schedule_try_lock(e)) {
        lane->hurries = true;
        pair_ring_deliver_ask(e);
        mailbox_doubt(lane);
        lane->hurries = false;
        schedule_unlock(e);
    }
    if (lane)
        acp_lane_give(lane);
}

static void watch(acp_engine *e)
{
    peer_liveness_watch(e);
    keepalive_watch(e);
}

static void timer_tick(acp_lane *lane, uint64_t late)
{
    keepalive_tick(lane, late);
    target_assist_tick(lane);
    channel_attend_tick(lane->engine);
    peer_liveness_look(lane->engine);
}

static void settle(acp_lane *lane)
{
    links_bury(lane->engine);
    protocol_retry(lane);
    if (lane->engine->mail.flows)
        flows_push(lane);
    peer_liveness_look_later(lane->engine);
}

static void lost(acp_lane *lane, struct peer *p)
{
    op_table_fail_peer(lane, p);
    links_lost(lane, p);
    flows_lost(lane, p);
    channel_notes_lost(lane->engine, p);
    target_assist_forget(lane->engine, p);
    device_import_lost(lane->engine);
    notices_tell(lane, p);
}

const struct upcalls acp_upcalls = {
    .destroy = close_destroy,
    .join = acp_engine_join,
    .locked = locked,
    .unlocked = unlocked,
    .release = link_io_release,
    .ask = link_io_ask,
    .ask_more = link_io_ask_more,
    .watch = watch,
    .doubt = doubt,
    .short_lasts = link_short_lasts,
    .pause = window_pause,
    .giver_ready = attach_giver_serve,
    .listener_ready = accept_ready,
    .wire_ready = connection_input_ready,
    .talker_ask = connection_input_ask,
    .peer_ended = peer_liveness_end,
    .tick = timer_tick,
    .flush = link_io_flush,
    .settle = settle,
    .lost = lost,
    .guard = any_source_guard,
    .memory_ends = link_io_take_in_all,
    .arrived = target_arrived,
    .land = target_land,
    .landed = target_landed,
    .answer = ack_send,
    .admitted = notices_catch_up,
    .unlinked = task_unlink,
    .questioned = query_answer,
    .provided = reserve_ready,
    .window_reaches = window_reaches,
    .window_start = window_rma_start,
    .window_step = window_rma_step,
    .window_learn = window_learn,
    .window_welcome = window_rma_welcome,
    .window_help = window_rma_help,
    .device_mark = op_device_mark,
    .device_run = op_device_run,
    .device_add = op_device_add,
    .device_gate = op_device_gate,
    .device_relay = op_relay_push,
    .device_part_done = op_relay_child_done,
    .device_forsake = op_device_forsake,
    .device_forget = op_relay_forget,
    .guest = target_assist_heard,
    .mail = flow_recv_frame,
    .name = name_service_serve,
    .signal = team_signal_arrived,
    .channel = channel_notes_arrived,
    .doubted = doubt_heard,
    .signals_provide = team_signals_provide,
    .held_give = sender_heap_give,
    .methods = methods,
};
