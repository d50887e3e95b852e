/* Processes are killed while they destroy a container. Nobody sees it emptied before it has gone; whoever
 * destroys it again goes on, until nothing is left but the head, for the next one. */
#include "support/stage.h"
#include "containers/container.h"
#include "containers/container_head.h"
#include "containers/list_call.h"
#include "containers/list_insert.h"
#include "containers/list_read.h"
#include "containers/map.h"
#include "containers/map_bucket.h"
#include "containers/sequence.h"
#include "containers/workspace.h"
#include "core/method.h"
#include "memory/transaction.h"

#define BYTES 24u
static const unsigned char note[40];

struct subject {
    uint64_t kind;
    uint64_t words[4];
    void (*fill)(struct stage *, const struct acp_call *);
    int (*look)(acp_lane *, struct acp_call *); /* result[0]: how much is in it */
};

static void fill_row(struct stage *s, const struct acp_call *named)
{
    struct {
        struct splice splice;
        unsigned char elements[BYTES];
    } in = {.splice = {.insert = BYTES}};
    struct acp_call c = *named;
    c.in = &in;
    c.in_size = sizeof in;
    call(s, &c, sequence_method_splice);
}

static void fill_list(struct stage *s, const struct acp_call *named)
{
    struct {
        struct list_put put;
        unsigned char elements[BYTES];
    } in = {.put.width = BYTES};
    for (uint32_t i = 0; i < BYTES; i++) {
        struct acp_call c = *named;
        c.b = LIST_BACK;
        c.in = &in;
        c.in_size = sizeof in;
        call(s, &c, list_insert_method_put);
    }
}

static int look_at_list(acp_lane *lane, struct acp_call *c)
{
    struct list_answer answer = {.size = 0};
    c->out = &answer;
    c->out_room = sizeof answer;
    int rc = list_read_method_walk(lane, c);
    c->result[0] = answer.size;
    return rc;
}

static void fill_one_map(struct stage *s, const struct acp_call *named)
{
    fill_map(s, named, BYTES);
}

static int look_at_map(acp_lane *lane, struct acp_call *c)
{
    c->b = KIND_MAP;
    return map_method_look(lane, c);
}

static void fill_nothing(struct stage *s, const struct acp_call *named)
{
    (void)s;
    (void)named;
}

static const struct subject subjects[] = {
    {KIND_VECTOR, {1}, fill_row, sequence_method_look},
    {KIND_LIST, {0}, fill_list, look_at_list},
    {KIND_MAP, {SIZE_ANY, 8}, fill_one_map, look_at_map},
    {KIND_WORKSPACE, {BYTES}, fill_nothing, workspace_method_look},
};

static struct acp_call create(struct stage *s, const struct subject *subject)
{
    struct {
        struct container_plan plan;
        unsigned char note[sizeof note];
    } in = {.plan.words = {0}};
    struct acp_call c = {.object = acp_ga(0, 0, 64), .a = subject->kind, .in = &in, .in_size = sizeof in};
    memcpy(in.plan.words, subject->words, sizeof in.plan.words);
    call(s, &c, container_head_method_create);
    struct acp_call named = {.object = c.result[0], .a = c.result[1]};
    subject->fill(s, &named);
    return named;
}

static int look(struct stage *s, const struct subject *subject, const struct acp_call *named)
{
    struct acp_call c = *named;
    int rc = subject->look(s->actor.lane, &c);
    CHECK(rc == ACP_E_DESTROYED || (rc == ACP_OK && c.result[0] == BYTES));
    return rc;
}

static void deaths(const struct subject *subject)
{
    bool died = true;
    for (uint64_t fault = 1, gone = 0; died; fault++) {
        struct stage s = {0};
        struct hold hold;
        struct container *k;
        int fd = crash_memory(48 << 20);
        stage_start(&s, fd);
        struct acp_call named = create(&s, subject), again = named;
        pid_t child = child_start();
        if (!child) {
            struct stage there = {0};
            stage_start(&there, fd);
            fault_left = fault;
            call(&there, &again, container_head_method_destroy);
            _exit(0);
        }
        died = was_killed(child);
        int rc = look(&s, subject, &named);
        CHECK(rc == (gone ? ACP_E_DESTROYED : rc)); /* from some store on */
        gone |= rc == ACP_E_DESTROYED;
        CHECK(container_enter(&hold, s.actor.lane, &named, subject->kind, &k) == rc);
        if (rc == ACP_OK)
            transaction_leave(&hold);
        mend(&s.actor, &s.actor.heap.head->section);
        rc = container_head_method_destroy(s.actor.lane, &again);
        CHECK(rc == ACP_OK || (gone && rc == ACP_E_DESTROYED));
        CHECK(look(&s, subject, &named) == ACP_E_DESTROYED);
        CHECK(check_heap(&s.actor) == 1);
        CHECK(create(&s, subject).object == named.object);
        actor_end(&s.actor);
        close(fd);
        CHECK(died || gone);
    }
}

int main(void)
{
#if defined(__SANITIZE_THREAD__) /* it sees one process, and no lock whose holder has died */
    return 0;
#endif
    for (uint32_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
        deaths(&subjects[i]);
    return 0;
}
