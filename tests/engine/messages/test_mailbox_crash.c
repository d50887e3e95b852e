/* After processes were killed at any store of a change the mailbox is as before, or as after, everything else gets
 * through, and no memory is lost.
 *
 * CRASHES=10000: so many processes; without it few enough for every day. */
#include "support/mail_stage.h"
#include "messages/mailbox.h"
#include "messages/match.h"
#include "messages/request.h"

/* What a sender that is killed leaves is a whole mailbox. The owner then receives whatever is there:
 * of a message that was under way it hears that it is lost. */
static uint64_t dies_at(int fd, uint64_t fault, uint64_t seed)
{
    pid_t child = child_start();
    if (child)
        return was_killed(child);
    struct stage s;
    uint64_t state = seed | 1;
    stage_start(&s, fd);
    fault_left = fault;
    for (uint64_t number = 1; number <= 12; number++)
        deliver(&s, any_envelope(&state, false), number);
    _exit(0);
}

static void receive_all(struct stage *s, uint32_t *lost)
{
    acp_request *r;
    acp_envelope got;
    for (uint64_t context = 0; context < CONTEXTS; context++) {
        acp_envelope want = {.context = context, .source = ACP_ANY, .tag = ACP_ANY,
                             .size = UINT64_MAX};
        while (acp_probe(s->actor.lane, &want, &got, NULL) == ACP_OK) {
            CHECK(acp_receive(s->actor.lane, &want, NULL, &r) == ACP_OK);
            if (mailbox_entry_state(r->entry) == ENTRY_FILLING) { /* nobody brings its bytes any more */
                ++*lost;
                match_done(s->actor.lane, &s->owner, r->entry, ENTRY_LOST);
                CHECK(acp_request_end(s->actor.lane, r, &got) == ACP_E_LOST);
                continue;
            }
            CHECK(got.size == message_size(got.note));
            finish(s, r, got.note);
        }
    }
}

static void senders_die(void)
{
    struct stage s;
    uint64_t deaths = 0, wanted = crashes_wanted(600), fault = 0;
    uint32_t lost = 0;
    int fd = mail_memory(CRASH_SPAN);
    stage_start(&s, fd);
    for (uint64_t i = 0; i < wanted; i++) {
        acp_request *r[6];
        uint64_t state = i * 2 + 1;
        for (uint32_t n = 0; n < 6; n++) {
            acp_envelope want = any_envelope(&state, true);
            want.size = UINT64_MAX;
            CHECK(acp_receive(s.actor.lane, &want, NULL, &r[n]) == ACP_OK);
        }
        bool died = dies_at(fd, ++fault, i * 77 + 5);
        deaths += died;
        if (!died)
            fault = 0;
        mend(&s.actor, &box_of(&s)->section);
        check_section(&box_of(&s)->section);
        check_lists_of(&s.actor.heap);
        deliver(&s, (acp_envelope){.tag = 1}, 5); /* others get through */
        for (uint32_t n = 0; n < 6; n++) {
            if (mailbox_entry_state(r[n]->entry) == ENTRY_FILLING) {
                lost++;
                match_done(s.actor.lane, &s.owner, r[n]->entry, ENTRY_LOST);
            }
            CHECK(mailbox_entry_state(r[n]->entry) != ENTRY_POSTED || !acp_request_done(r[n]));
            int rc = acp_request_end(s.actor.lane, r[n], NULL);
            CHECK(rc == ACP_OK || rc == ACP_E_LOST || rc == ACP_E_CANCELLED);
        }
        receive_all(&s, &lost);
        CHECK(check_lists_of(&s.actor.heap) == 0 && mailbox_posted(box_of(&s)) == 0);
        uint64_t left = check_heap(&s.actor);
        CHECK(left <= 4); /* slabs */
    }
    CHECK(deaths > wanted / 2 && lost > 0);
    printf("mailbox: %lu senders killed, %u messages lost with them\n", (unsigned long)deaths, lost);
    requests_close(s.actor.engine);
    actor_end(&s.actor);
    close(fd);
}

/* Its receiver hears of the death before anybody has entered the mailbox again, and ends the receive: whether
 * the message had met it is known only when what was left half-way is whole. */
static void a_receive_ends_before_the_mailbox_is_whole(void)
{
    struct stage s;
    uint64_t lost = 0, fault = 0;
    bool died = true;
    int fd = mail_memory(CRASH_SPAN);
    stage_start(&s, fd);
    while (died) {
        acp_request *r, *next;
        acp_envelope want = {.source = ACP_ANY, .tag = ACP_ANY, .size = UINT64_MAX};
        CHECK(acp_receive(s.actor.lane, &want, NULL, &r) == ACP_OK);
        pid_t child = child_start();
        if (!child) {
            struct stage there;
            stage_start(&there, fd);
            fault_left = fault + 1;
            deliver(&there, (acp_envelope){.source = 1}, 3);
            _exit(0);
        }
        died = was_killed(child);
        fault += died;
        s.sources[1].lost = 1;
        bool done = acp_request_done(r);
        int rc = acp_request_end(s.actor.lane, r, NULL);
        CHECK(done ? rc == ACP_OK || rc == ACP_E_LOST : rc == ACP_E_CANCELLED);
        lost += rc == ACP_E_LOST;
        s.sources[1].lost = 0;
        CHECK(acp_receive(s.actor.lane, &want, NULL, &next) == ACP_OK);
        check_section(&box_of(&s)->section);
        check_lists_of(&s.actor.heap);
        CHECK(mailbox_posted(box_of(&s)) == 1);
        deliver(&s, (acp_envelope){.source = 2}, 4);
        finish(&s, next, 4);
    }
    CHECK(fault > 8 && lost > 2);
    requests_close(s.actor.engine);
    actor_end(&s.actor);
    close(fd);
}

int main(void)
{
    a_receive_ends_before_the_mailbox_is_whole();
    senders_die();
    return 0;
}
