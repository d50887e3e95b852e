/* Methods for tests of calls, in place of those of the containers. */
#ifndef ACP_TESTS_METHODS_H
#define ACP_TESTS_METHODS_H

#include "support/check.h"
#include "memory/translate.h"

#include <signal.h>
#include <string.h>

enum { ECHO = 1, ADD, APPEND, LOCKED, RELUCTANT, REFUSE, KILL };

/* The words of the object, or NULL with the reason in the lane's fault. */
static inline uint64_t *method_words(acp_lane *lane, const struct acp_call *c, uint64_t count)
{
    const struct translation *t = translate_find(lane, ROLE_SRC, c->object, 8 * count);
    if (t && c->object % 8 == 0)
        return (uint64_t *)(void *)(t->base + (c->object - t->low));
    if (t)
        lane_fail(lane, ACP_E_ALIGN, c->object, 8);
    return NULL;
}

/* Brings the bytes back in reverse. */
static int method_echo(acp_lane *lane, struct acp_call *c)
{
    const unsigned char *in = c->in;
    unsigned char *out = c->out;
    if (c->out_room < c->in_size)
        return lane_fail(lane, ACP_E_ARGUMENT, c->object, c->in_size);
    for (uint64_t i = 0; i < c->in_size; i++)
        out[i] = in[c->in_size - 1 - i];
    c->out_size = c->in_size;
    c->result[0] = c->a + c->b;
    c->result[1] = c->a - c->b;
    return ACP_OK;
}

static int method_add(acp_lane *lane, struct acp_call *c)
{
    uint64_t *words = method_words(lane, c, 1);
    if (!words)
        return lane->fault.status;
    c->result[0] = __atomic_fetch_add(words, c->a, __ATOMIC_SEQ_CST);
    return ACP_OK;
}

/* The object: a word with the number of bytes, then these. */
static int method_append(acp_lane *lane, struct acp_call *c)
{
    uint64_t *words = method_words(lane, c, 1);
    if (!words)
        return lane->fault.status;
    c->result[0] = __atomic_fetch_add(words, c->in_size, __ATOMIC_SEQ_CST);
    if (c->in_size)
        memcpy((unsigned char *)(words + 1) + c->result[0], c->in, c->in_size);
    return ACP_OK;
}

/* The object: a lock, and the number of calls that have taken it. */
static int method_locked(acp_lane *lane, struct acp_call *c)
{
    uint64_t *words = method_words(lane, c, 2), unlocked = 0;
    if (!words)
        return lane->fault.status;
    if (!__atomic_compare_exchange_n(words, &unlocked, 1, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST))
        return ACP_E_BUSY;
    c->result[0] = words[1]++;
    __atomic_store_n(words, 0, __ATOMIC_SEQ_CST);
    return ACP_OK;
}

/* The object: how often it is busy before it counts. */
static int method_reluctant(acp_lane *lane, struct acp_call *c)
{
    uint64_t *words = method_words(lane, c, 2);
    if (!words)
        return lane->fault.status;
    if (words[0]) {
        words[0]--;
        return ACP_E_BUSY;
    }
    c->result[0] = ++words[1];
    return ACP_OK;
}

static int method_refuse(acp_lane *lane, struct acp_call *c)
{
    c->out_size = c->out_room;
    return lane_fail(lane, ACP_E_FULL, c->object, 7);
}

/* Ends the process that runs it. */
static int method_kill(acp_lane *lane, struct acp_call *c)
{
    (void)lane;
    (void)c;
    raise(SIGKILL);
    return ACP_OK;
}

static const acp_method test_methods[UINT8_MAX + 1] = {
    [ECHO] = method_echo, [ADD] = method_add, [APPEND] = method_append,
    [LOCKED] = method_locked, [RELUCTANT] = method_reluctant, [REFUSE] = method_refuse,
    [KILL] = method_kill,
};

/* Calls and waits until it is done: its status. */
static inline int call_now(acp_engine *e, acp_lane *lane, struct acp_call *c)
{
    acp_handle_t pending;
    acp_failure failure;
    uint64_t more;
    int rc;
    while ((rc = acp_call(lane, c, &pending)) == ACP_E_BUSY)
        CHECK(acp_wait_room(e, ACP_FOREVER) == ACP_OK);
    if (rc != ACP_OK || !pending)
        return rc;
    if ((rc = acp_wait(e, pending, ACP_FOREVER)) != ACP_OK)
        return rc;
    return acp_failures_take(e, pending, true, &failure, 1, &more) ? failure.fault.status
                                                                   : ACP_OK;
}

#endif
