/* What is said by link while the receiver has no room, word for word: a stranger is the other side. */
#include "cluster/mailing.h"
#include "cluster/stranger.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "messages/flow.h"
#include "messages/request.h"
#include "peers/peer.h"
#include "transport/frame.h"

static struct stranger come_in(struct town *t, uint32_t slot)
{
    struct stranger s;
    struct message answer;
    stranger_enter(t, &s, slot);
    CHECK(stranger_session(&s, 1, true, 0, &answer) && answer.status == ACP_OK);
    return s;
}

static void say_word(struct stranger *s, struct message m)
{
    m.kind = ACP_MAIL_SAID;
    CHECK(stranger_say(s, &m, s->heard, NULL, 0));
}

/* The next one of a kind. */
static struct message hear(struct stranger *s, uint8_t kind)
{
    struct frame f;
    do
        CHECK(stranger_hear(s, &f));
    while (f.message.kind != kind);
    return f.message;
}

static uint8_t heard_by(acp_engine *e, uint32_t slot)
{
    pthread_mutex_lock(&e->lock);
    const struct flow *c = peer_of_slot(e, slot)->mail.flow;
    uint8_t word = c ? c->heard : 0;
    pthread_mutex_unlock(&e->lock);
    return word;
}

static void stop(acp_engine *e, struct stranger *s, uint64_t before)
{
    say_word(s, (struct message){.flags = WORD_FULL, .after = before});
    UNTIL(heard_by(e, s->slot) == WORD_FULL);
}

static void check_tried(struct stranger *s, int64_t tag, uint8_t flags, uint64_t before,
                        uint64_t *id)
{
    struct message m = hear(s, ACP_MAIL);
    CHECK(m.flags == flags && m.src == (uint64_t)tag && m.after == before);
    *id = m.id;
}

static void end_all(acp_lane *lane, acp_request **sends, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        send_end_of(lane, sends[i]);
}

/* A receiver that has room for a moment, and then none again: what was tried before that may still miss what
 * the next one would meet, so that one waits for the word about it. */
static void none_passes_what_was_tried(struct town *t)
{
    acp_engine *e = t->engines[0];
    acp_lane *lane = acp_engine_lane(e);
    struct stranger s = come_in(t, RESIDENTS);
    uint64_t word = 3, first, second;
    acp_request *sends[2];
    stop(e, &s, 2);
    sends[0] = isend(lane, s.slot, 1, &word, 8);
    check_tried(&s, 1, FLOW_MEET, 2, &first);
    say_word(&s, (struct message){.flags = WORD_ROOM});
    UNTIL(!heard_by(e, s.slot));
    sends[1] = isend(lane, s.slot, 2, &word, 8);
    stop(e, &s, 5);
    say_word(&s, (struct message){.flags = WORD_MISSED, .id = first});
    check_tried(&s, 1, FLOW_MEET, 5, &first);
    check_tried(&s, 2, FLOW_MEET, 5, &second);
    say_word(&s, (struct message){.flags = WORD_MET, .id = first});
    say_word(&s, (struct message){.flags = WORD_MET, .id = second});
    end_all(lane, sends, 2);
    stranger_leave(&s);
}

/* What is asked for is tried for that receive alone. */
static void what_is_asked_for_is_tried(struct town *t)
{
    acp_engine *e = t->engines[0];
    acp_lane *lane = acp_engine_lane(e);
    struct stranger s = come_in(t, RESIDENTS + 1);
    uint64_t word = 3, id[2];
    acp_request *sends[2];
    stop(e, &s, 2);
    for (int64_t i = 0; i < 2; i++) {
        sends[i] = isend(lane, s.slot, i + 1, &word, 8);
        check_tried(&s, i + 1, FLOW_MEET, 2, &id[i]);
        say_word(&s, (struct message){.flags = WORD_MISSED, .id = id[i]});
    }
    say_word(&s, (struct message){.flags = WORD_ASK, .src = 2, .after = 4});
    check_tried(&s, 2, FLOW_MEET | FLOW_ASKED, 4, &id[1]);
    say_word(&s, (struct message){.flags = WORD_MET, .id = id[1]});
    say_word(&s, (struct message){.flags = WORD_ASK, .src = (uint64_t)ACP_ANY, .after = 3});
    check_tried(&s, 1, FLOW_MEET | FLOW_ASKED, 3, &id[0]);
    say_word(&s, (struct message){.flags = WORD_MET, .id = id[0]});
    end_all(lane, sends, 2);
    stranger_leave(&s);
}

/* It goes when its receiver has said that it met nothing, and is not heard of any more. */
static void what_was_tried_is_taken_back(struct town *t)
{
    acp_engine *e = t->engines[0];
    acp_lane *lane = acp_engine_lane(e);
    struct stranger s = come_in(t, RESIDENTS + 3);
    uint64_t word = 3, first, second;
    acp_request *sends[2];
    stop(e, &s, 2);
    sends[0] = isend(lane, s.slot, 1, &word, 8);
    check_tried(&s, 1, FLOW_MEET, 2, &first);
    sends[1] = isend(lane, s.slot, 2, &word, 8);
    check_tried(&s, 2, FLOW_MEET, 2, &second);
    CHECK(acp_request_cancel(lane, sends[0]) == ACP_E_BUSY);
    say_word(&s, (struct message){.flags = WORD_MISSED, .id = first});
    say_word(&s, (struct message){.flags = WORD_MISSED, .id = second});
    CHECK(AGAIN(acp_request_cancel(lane, sends[0])) == ACP_OK && acp_request_done(sends[0]));
    CHECK(acp_request_end(lane, sends[0], NULL) == ACP_E_CANCELLED);
    say_word(&s, (struct message){.flags = WORD_ROOM});
    CHECK(hear(&s, ACP_MAIL).src == 2);
    end_all(lane, &sends[1], 1);
    stranger_leave(&s);
}

static uint64_t place_of(const acp_request *r)
{
    return r->entry->sequence;
}

/* Two threads have posted one after the other, and the second was the first to ask. */
static void it_meets_what_it_was_asked_for(struct town *t)
{
    acp_lane *lane = acp_engine_lane(t->engines[0]);
    struct stranger s = come_in(t, RESIDENTS + 2);
    uint64_t words[2] = {0}, word = 7;
    acp_request *any = ireceive(lane, s.slot, ACP_ANY, &words[0], 8);
    acp_request *named = ireceive(lane, s.slot, 2, &words[1], 8);
    const acp_request *asked[] = {named, any};
    for (uint64_t i = 0; i < 2; i++) {
        uint64_t tag = 2 - i;
        struct message m = {.kind = ACP_MAIL, .flags = FLOW_MEET | FLOW_ASKED, .id = i + 1,
                            .src = tag, .a = 8, .b = tag * 7 + 8, .after = place_of(asked[i]) + 1};
        CHECK(stranger_say(&s, &m, s.heard, &word, 8));
        CHECK(hear(&s, ACP_MAIL_SAID).flags == WORD_MET);
    }
    CHECK(receive_end_of(lane, any).tag == 1 && receive_end_of(lane, named).tag == 2);
    stranger_leave(&s);
}

int main(void)
{
    struct town t;
    town_start(&t, (uint64_t)PATIENCE_S * 1000000000);
    none_passes_what_was_tried(&t);
    what_is_asked_for_is_tried(&t);
    what_was_tried_is_taken_back(&t);
    it_meets_what_it_was_asked_for(&t);
    town_stop(&t);
    return 0;
}
