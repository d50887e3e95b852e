/* Rings of users' messages, and of those of collectives. */
#include "support/ringing.h"

enum { TAG = 5, FROM = 2 };

/* A receive that waits, and a message that is kept, of users keep nothing of a collective out of its ring, nor the
 * reverse; each class is taken by itself, also where both are there. */
static void neither_class_waits_for_the_other(void)
{
    const acp_envelope of[] = {{.source = FROM, .tag = TAG}, {.source = FROM, .context = ACP_CONTEXT_COLLECTIVE | 7}};
    struct stage s;
    struct sender from;
    acp_request *r;
    int fd = open_mailbox(&s);
    sender_start(&from, fd, FROM);
    for (uint64_t n = 0; n < 64; n++) {
        const acp_envelope mine = of[n % 2], other = of[1 - n % 2];
        unsigned char data[LONGEST];
        acp_short m;
        uint64_t number = nth_of_ring(n + 1);
        if (n / 2 % 2) {
            CHECK(acp_receive(s.actor.lane, &other, NULL, &r) == ACP_OK && !acp_request_done(r));
            CHECK(!by_ring(&from, other, 1) && !acp_short_look(s.actor.engine, &other, &m));
        } else {
            CHECK(by_ring(&from, other, 1) && by_ring(&from, mine, number));
        }
        CHECK(n / 2 % 2 == 0 || by_ring(&from, mine, number));
        CHECK(pair_ring_any(&s.actor.heap, mailbox_class(mine.context)));
        CHECK(acp_short_look(s.actor.engine, &mine, &m) && acp_short_take(&m, data) && is_it(data, number));
        CHECK(!pair_ring_any(&s.actor.heap, mailbox_class(mine.context)));
        if (n / 2 % 2)
            CHECK(acp_request_cancel(s.actor.lane, r) == ACP_OK && acp_request_end(s.actor.lane, r, NULL) != ACP_OK);
        else
            CHECK(acp_short_look(s.actor.engine, &other, &m) && acp_short_take(&m, data) && is_it(data, 1));
    }
    sender_end(&from);
    close_mailbox(&s, fd);
}

/* A second thread, and who leads, take the mailbox. */
static void a_ring_of_collectives_has_one_sender(void)
{
    const acp_envelope m = {.source = FROM, .context = ACP_CONTEXT_COLLECTIVE | 7};
    struct stage s;
    struct sender from;
    int fd = open_mailbox(&s);
    sender_start(&from, fd, FROM);
    _Atomic bool *busy = &from.to.mail.rings[MAIL_COLLECTIVES].busy;
    *busy = true;
    CHECK(!by_ring(&from, m, 1) && *busy);
    *busy = false;
    CHECK(by_ring(&from, m, 1) && !*busy);
    from.actor.lane->index = LANE_LEADER;
    CHECK(!by_ring(&from, m, 1));
    sender_end(&from);
    close_mailbox(&s, fd);
}

int main(void)
{
    neither_class_waits_for_the_other();
    a_ring_of_collectives_has_one_sender();
    return 0;
}
