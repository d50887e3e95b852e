/* The mailbox against a plain model: two lists, looked through from their beginning. */
#include "support/mail_stage.h"
#include "messages/mailbox.h"
#include "messages/match.h"
#include "messages/request.h"

struct entry_of {
    acp_envelope envelope;
    uint64_t number;
};

/* In the order of posting, and of arrival. */
struct model {
    struct entry_of receives[MOST], messages[MOST];
    uint32_t receive_count, message_count;
};

static bool fits(const acp_envelope *want, const acp_envelope *is)
{
    return want->context == is->context &&
           (want->source == ACP_ANY || want->source == is->source) &&
           (want->tag == ACP_ANY || want->tag == is->tag);
}

static void drop(struct entry_of *list, uint32_t *count, uint32_t i)
{
    memmove(&list[i], &list[i + 1], (--*count - i) * sizeof *list);
}

static void send_one(struct stage *s, struct model *m, uint64_t *state, uint64_t number)
{
    acp_envelope e = any_envelope(state, false);
    uint32_t i = 0;
    deliver(s, e, number);
    while (i < m->receive_count && !fits(&m->receives[i].envelope, &e))
        i++;
    if (i == m->receive_count) {
        m->messages[m->message_count++] = (struct entry_of){e, number};
        return;
    }
    uint64_t receive = m->receives[i].number;
    finish(s, s->posted[receive], number);
    s->posted[receive] = NULL;
    drop(m->receives, &m->receive_count, i);
}

static uint32_t find(const struct model *m, const acp_envelope *want)
{
    uint32_t i = 0;
    while (i < m->message_count && !fits(want, &m->messages[i].envelope))
        i++;
    return i;
}

static void receive_one(struct stage *s, struct model *m, uint64_t *state)
{
    acp_envelope want = any_envelope(state, true);
    acp_request *r;
    uint32_t i = find(m, &want), number = 0;
    want.size = UINT64_MAX;
    CHECK(acp_receive(s->actor.lane, &want, NULL, &r) == ACP_OK);
    CHECK(acp_request_done(r) == (i < m->message_count));
    if (i < m->message_count) {
        finish(s, r, m->messages[i].number);
        drop(m->messages, &m->message_count, i);
        return;
    }
    while (s->posted[number])
        number++;
    s->posted[number] = r;
    m->receives[m->receive_count++] = (struct entry_of){want, number};
}

static void cancel_one(struct stage *s, struct model *m, uint64_t *state)
{
    if (!m->receive_count)
        return;
    uint32_t i = (uint32_t)(crash_random(state) % m->receive_count);
    uint64_t number = m->receives[i].number;
    CHECK(acp_request_cancel(s->actor.lane, s->posted[number]) == ACP_OK);
    CHECK(acp_request_end(s->actor.lane, s->posted[number], NULL) == ACP_E_CANCELLED);
    s->posted[number] = NULL;
    drop(m->receives, &m->receive_count, i);
}

static void probe_one(struct stage *s, struct model *m, uint64_t *state)
{
    acp_envelope want = any_envelope(state, true), found;
    bool takes = crash_random(state) % 2;
    uint32_t i = find(m, &want);
    uint64_t taken;
    acp_request *r;
    int rc = acp_probe(s->actor.lane, &want, &found, takes ? &taken : NULL);
    CHECK(rc == (i < m->message_count ? ACP_OK : ACP_E_HANDLE));
    if (rc != ACP_OK)
        return;
    CHECK(found.note == m->messages[i].number && found.source == m->messages[i].envelope.source);
    if (!takes)
        return;
    CHECK(acp_receive_taken(s->actor.lane, taken, NULL, UINT64_MAX, &r) == ACP_OK);
    finish(s, r, m->messages[i].number);
    drop(m->messages, &m->message_count, i);
}

static void against_the_model(void)
{
    struct stage s;
    struct model m = {0};
    uint64_t state = 88172645463325252ull;
    int fd = mail_memory(CRASH_SPAN);
    stage_start(&s, fd);
    for (uint64_t number = 1; number < 60000; number++) {
        uint64_t what = crash_random(&state) % 10;
        if (what < 4 && m.message_count < MOST - 1)
            send_one(&s, &m, &state, number);
        else if (what < 7 && m.receive_count < MOST - 1)
            receive_one(&s, &m, &state);
        else if (what < 8)
            cancel_one(&s, &m, &state);
        else
            probe_one(&s, &m, &state);
        if (number % 64 == 0) {
            CHECK(check_lists_of(&s.actor.heap) == m.message_count);
            CHECK(mailbox_posted(box_of(&s)) == m.receive_count);
        }
    }
    while (m.receive_count)
        cancel_one(&s, &m, &state);
    requests_close(s.actor.engine);
    actor_end(&s.actor);
    close(fd);
}

/* A heap without room: nothing has happened then. */
static void a_full_heap(void)
{
    struct stage s;
    struct landing l;
    acp_envelope e = {.size = 8}, want = {.source = ACP_ANY, .tag = ACP_ANY, .size = 8};
    acp_request *r;
    uint64_t word = 0, got, count = 0;
    int rc, fd = mail_memory(600 << 10);
    stage_start(&s, fd);
    box_of(&s)->bound = UINT64_MAX / 4;
    while ((rc = match_arrive(s.actor.lane, &s.owner, &e, &word, false, 1, &l)) == ACP_OK)
        word = ++count;
    CHECK(rc == ACP_E_FULL && count > 100 && check_lists_of(&s.actor.heap) == count);
    for (uint64_t i = 0; i < count; i++) {
        CHECK(acp_receive(s.actor.lane, &want, &got, &r) == ACP_OK);
        CHECK(acp_request_end(s.actor.lane, r, NULL) == ACP_OK && got == i);
    }
    CHECK(check_lists_of(&s.actor.heap) == 0);
    requests_close(s.actor.engine);
    actor_end(&s.actor);
    close(fd);
}

int main(void)
{
    against_the_model();
    a_full_heap();
    return 0;
}
