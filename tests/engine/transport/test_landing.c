/* Parts of long transfers go to their place while they are summed: one that arrives wrong has not
 * arrived, whatever it left there, and is sent again. */
#include "cluster/stranger.h"
#include "core/engine.h"
#include "transport/frame.h"
#include "transport/handshake.h"

#define PART FRAME_PAYLOAD_MOST

static unsigned char part[PART];

static void draw(uint8_t seed)
{
    for (uint32_t i = 0; i < PART; i++)
        part[i] = (unsigned char)(i * 31 + (i >> 8) + seed);
}

static struct message put_to(acp_ga_t dst, bool silent)
{
    return (struct message){.kind = ACP_PUT, .flags = silent ? PART_SILENT : 0, .id = 2,
                            .dst = dst, .a = PART};
}

/* Calls rank 0 for link 1; how many frames it has of it. */
static uint64_t come_in(struct town *t, struct stranger *s, bool fresh, uint64_t heard)
{
    struct message answer;
    stranger_call(t, s, 2, 0);
    CHECK(stranger_prove(t, s, 0, stranger_secret) == ACP_HANDSHAKE_DONE);
    CHECK(stranger_session(s, 1, fresh, heard, &answer) && answer.status == ACP_OK);
    s->said = answer.a;
    s->heard = heard;
    return answer.a;
}

static struct message reply_to(struct stranger *s)
{
    struct frame f;
    do
        CHECK(stranger_hear(s, &f));
    while (f.message.kind != ACP_REPLY);
    return f.message;
}

/* Says the part with one bit flipped at `where` of its frame, and is left. */
static void say_flipped(struct stranger *s, const struct message *m, size_t where)
{
    static unsigned char frame[FRAME_HEAD + PART + FRAME_SUM];
    frame_write(frame, m, s->said, s->heard, part, PART);
    frame[where] ^= 1;
    stranger_send(s, frame, sizeof frame);
    stranger_sees_the_end(s);
}

static void what_arrives_wrong_is_sent_again(struct town *t, acp_ga_t ga,
                                             const unsigned char *there)
{
    static const size_t places[] = {5, 20, FRAME_HEAD, FRAME_HEAD + PART / 2,
                                    FRAME_HEAD + PART - 1, FRAME_HEAD + PART + FRAME_SUM - 1};
    struct stranger s;
    struct message m = put_to(ga + 8, false);
    CHECK(come_in(t, &s, true, 0) == 0);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        uint64_t said = s.said, heard = s.heard;
        draw((uint8_t)i);
        say_flipped(&s, &m, places[i]);
        CHECK(come_in(t, &s, false, heard) == said); /* it does not count */
        if (places[i] > FRAME_HEAD) /* and has gone to its place, with the wrong bit */
            CHECK(there[8] == part[0]);
        CHECK(stranger_say(&s, &m, s.heard, part, PART));
        CHECK(reply_to(&s).status == ACP_OK);
        CHECK(memcmp(there + 8, part, PART) == 0);
    }
    stranger_leave(&s);
}

static void silent_parts_have_one_answer(struct town *t, acp_ga_t ga, const unsigned char *there)
{
    struct stranger s;
    struct message m = put_to(ga, true), last = put_to(ga + PART, false);
    uint64_t said = come_in(t, &s, false, 6);
    draw(77);
    CHECK(stranger_say(&s, &m, s.heard, part, PART));
    CHECK(stranger_say(&s, &last, s.heard, part, PART));
    struct message reply = reply_to(&s);
    CHECK(reply.status == ACP_OK && reply.dst == last.dst && s.said == said + 2);
    CHECK(memcmp(there, part, PART) == 0 && memcmp(there + PART, part, PART) == 0);
    stranger_leave(&s);
}

static void what_has_no_place_fails(struct town *t, acp_ga_t ga, const unsigned char *there)
{
    struct stranger s;
    struct message nowhere = put_to(ga + 3 * PART, true), longer = put_to(ga, false);
    longer.a = 2 * PART;
    come_in(t, &s, false, 7);
    CHECK(stranger_say(&s, &nowhere, s.heard, part, PART));
    struct message reply = reply_to(&s);
    CHECK(reply.status == ACP_E_BOUNDS || reply.status == ACP_E_UNREGISTERED);
    say_flipped(&s, &nowhere, FRAME_HEAD + 100); /* no answer: it may have been another */
    come_in(t, &s, false, 8);
    draw(99);
    CHECK(stranger_say(&s, &longer, s.heard, part, PART));
    CHECK(reply_to(&s).status == ACP_E_ARGUMENT);
    CHECK(memcmp(there, part, PART) != 0);
    stranger_leave(&s);
}

/* A stranger is called again, and says a part before the link is named: nothing of it lands. */
static void what_comes_too_early_is_refused(struct town *t, acp_ga_t ga, const unsigned char *there)
{
    static unsigned char word[8];
    struct stranger s;
    struct frame f;
    struct message m = put_to(ga, false), session = {.kind = ACP_SESSION};
    CHECK(acp_iget(acp_engine_lane(t->engines[0]), word, stranger_word(3), sizeof word, 0));
    for (uint32_t i = 0; i < 2; i++) {
        stranger_accept(t, &s, 3);
        CHECK(stranger_let_prove(&s) && stranger_hear(&s, &f) && f.message.kind == ACP_SESSION);
        session.id = f.message.id;
        if (i == 0) {
            CHECK(stranger_say(&s, &session, 0, NULL, 0) && stranger_hear(&s, &f));
            stranger_leave(&s);
        }
    }
    draw(55);
    stranger_say(&s, &m, 0, part, PART);
    stranger_sees_the_end(&s);
    CHECK(memcmp(there, part, PART) != 0);
}

int main(void)
{
    struct town t;
    acp_ga_t ga;
    void *there;
    town_start(&t, 30000000000u);
    CHECK(acp_memory_alloc(acp_engine_lane(t.engines[0]), 3 * PART, 0, &ga, &there) == ACP_OK);
    what_arrives_wrong_is_sent_again(&t, ga, there);
    silent_parts_have_one_answer(&t, ga, there);
    what_has_no_place_fails(&t, ga, there);
    what_comes_too_early_is_refused(&t, ga, there);
    town_check_served(&t, 0);
    town_stop(&t);
    return 0;
}
