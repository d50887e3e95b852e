/* `benchmarks/select_read.c`, which the engine's messages are compared with: it is held to the same
 * things. Ranks are in this process, a pair of sockets between any two. */
#include "../../../benchmarks/select_read.c"
#include "support/check.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#define MOST 3
#define LONG ((uint64_t)8 << 20)
#define RANDOM_MESSAGES 300

/* Memory that there is not is an errno here, too. */
const char *__asan_default_options(void);
const char *__tsan_default_options(void);

const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static void connect_all(int size, int fds[MOST][MOST])
{
    for (int i = 0; i < size; i++) {
        fds[i][i] = -1;
        for (int j = 0; j < i; j++) {
            int pair[2];
            CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
            fds[i][j] = pair[0];
            fds[j][i] = pair[1];
        }
    }
}

static void open_all(int size, struct sockets *ranks[MOST])
{
    int fds[MOST][MOST];
    connect_all(size, fds);
    for (int i = 0; i < size; i++)
        CHECK((ranks[i] = sockets_open(i, size, fds[i])));
}

static void close_all(int size, struct sockets *ranks[MOST])
{
    for (int i = 0; i < size; i++)
        sockets_close(ranks[i]);
}

/* Rank 0 of two, and the other end of its socket, for bytes that come in pieces. */
static struct sockets *open_one(int *other)
{
    int fds[MOST][MOST];
    connect_all(2, fds);
    *other = fds[1][0];
    struct sockets *s = sockets_open(0, 2, fds[0]);
    CHECK(s);
    return s;
}

static void say(int fd, const void *bytes, size_t size)
{
    CHECK(write(fd, bytes, size) == (ssize_t)size);
}

static void send_text(struct sockets *s, int dest, int64_t tag, const char *text)
{
    CHECK(sockets_send(s, dest, tag, text, strlen(text)) == 0);
}

static struct message *receive_into(struct sockets *s, int source, int64_t tag, char room[8])
{
    memset(room, '.', 8);
    struct message *receive = sockets_irecv(s, source, tag, room, 8);
    CHECK(receive);
    return receive;
}

/* Exactly this, and nothing behind it. */
static void expect(struct sockets *s, int source, int64_t tag, const char *text)
{
    char room[8], want[8];
    memset(want, '.', 8);
    memcpy(want, text, strlen(text));
    struct message *receive = receive_into(s, source, tag, room);
    CHECK(sockets_wait(s, receive) == 0);
    CHECK(memcmp(room, want, 8) == 0);
}

static void test_before_and_after_their_receive(void)
{
    struct sockets *r[MOST];
    char first[8], second[8];
    open_all(3, r);
    struct message *one = receive_into(r[0], 1, 5, first);
    struct message *two = receive_into(r[0], 1, 5, second);
    send_text(r[1], 0, 5, "a");
    send_text(r[1], 0, 7, "b");
    send_text(r[1], 0, 5, "c");
    send_text(r[1], 0, 5, "d");
    send_text(r[1], 0, 7, "");
    send_text(r[1], 0, -1, "last");
    send_text(r[2], 0, 7, "of two");
    CHECK(sockets_wait(r[0], two) == 0);
    CHECK(memcmp(second, "c.......", 8) == 0);
    CHECK(sockets_wait(r[0], one) == 0);
    CHECK(memcmp(first, "a.......", 8) == 0);
    expect(r[0], 1, -1, "last"); /* all others from there are unexpected now */
    expect(r[0], 1, 7, "b");
    expect(r[0], 2, 7, "of two");
    expect(r[0], 1, 7, "");
    expect(r[0], 1, 5, "d");
    CHECK(!r[0]->posted && !r[0]->unexpected);
    close_all(3, r);
}

static void test_in_pieces(void)
{
    int fd;
    struct sockets *s = open_one(&fd);
    struct header header = {.tag = 1, .size = 6}, end = {.tag = 2, .size = 0};
    const char *bytes = (const char *)&header;
    char first[8], second[8];

    say(fd, bytes, 5); /* no message yet */
    select_and_read(s, -1);
    CHECK(!s->unexpected);
    say(fd, bytes + 5, sizeof header - 5);
    say(fd, "abc", 3);
    select_and_read(s, -1);
    CHECK(s->unexpected && !s->unexpected->whole);
    struct message *one = receive_into(s, 1, 1, first); /* has that one */
    struct message *two = receive_into(s, 1, 1, second);
    say(fd, "def", 3);
    say(fd, bytes, sizeof header);
    say(fd, "ghi", 3);
    select_and_read(s, -1);
    CHECK(one->whole && !two->whole && !s->unexpected);
    say(fd, "jkl", 3);
    say(fd, &end, sizeof end);
    expect(s, 1, 2, "");
    CHECK(sockets_wait(s, one) == 0 && memcmp(first, "abcdef..", 8) == 0);
    CHECK(sockets_wait(s, two) == 0 && memcmp(second, "ghijkl..", 8) == 0);
    sockets_close(s);
    close(fd);
}

/* It fails its receive, whenever that was posted, writes nothing there and disturbs no other. */
static void test_longer_than_the_receive(void)
{
    int fd;
    struct sockets *s = open_one(&fd);
    struct header header = {.tag = 1, .size = 9}, other = {.tag = 2, .size = 1};
    char before[8], half[8], after[8];

    struct message *one = receive_into(s, 1, 1, before);
    say(fd, &header, sizeof header);
    say(fd, "123456789", 9);
    say(fd, &header, sizeof header);
    say(fd, "1234", 4);
    select_and_read(s, -1);
    struct message *two = receive_into(s, 1, 1, half);
    say(fd, "56789", 5);
    say(fd, &header, sizeof header);
    say(fd, "123456789", 9);
    say(fd, &other, sizeof other);
    say(fd, "x", 1);
    expect(s, 1, 2, "x");
    struct message *three = receive_into(s, 1, 1, after);
    CHECK(sockets_wait(s, three) == EMSGSIZE && memcmp(after, "........", 8) == 0);
    CHECK(sockets_wait(s, two) == EMSGSIZE && memcmp(half, "........", 8) == 0);
    CHECK(sockets_wait(s, one) == EMSGSIZE && memcmp(before, "........", 8) == 0);
    CHECK(!s->posted && !s->unexpected);
    sockets_close(s);
    close(fd);
}

static void test_wrong_use(void)
{
    struct sockets *r[MOST];
    char room[8];
    open_all(2, r);
    static const int nobody[] = {0, -1, 2};
    for (int i = 0; i < 3; i++) {
        CHECK(sockets_send(r[0], nobody[i], 1, "x", 1) == EINVAL);
        CHECK(!sockets_irecv(r[0], nobody[i], 1, room, 8) && errno == EINVAL);
    }
    close_all(2, r);
    static const int beyond[] = {-1, FD_SETSIZE}, below[] = {-1, -1};
    CHECK(!sockets_open(0, 2, beyond));
    CHECK(!sockets_open(0, 2, below));
}

/* What it has sent is received; what waits for more of it fails, and what is sent to it; no other. */
static void test_a_rank_that_is_gone(void)
{
    struct sockets *r[MOST];
    char room[8];
    open_all(3, r);
    send_text(r[1], 0, 1, "early");
    struct message *never = receive_into(r[0], 1, 2, room);
    sockets_close(r[1]);
    send_text(r[2], 0, 1, "alive");
    expect(r[0], 2, 1, "alive");
    CHECK(sockets_wait(r[0], never) == ECONNRESET);
    expect(r[0], 1, 1, "early");
    CHECK(sockets_wait(r[0], receive_into(r[0], 1, 1, room)) == ECONNRESET);
    CHECK(sockets_send(r[0], 1, 1, "x", 1) == ECONNRESET);
    CHECK(sockets_send(r[2], 1, 1, "x", 1) == EPIPE); /* which has not looked */
    send_text(r[0], 2, 1, "on");
    expect(r[2], 0, 1, "on");
    CHECK(!r[0]->posted && !r[0]->unexpected);
    sockets_close(r[0]);
    sockets_close(r[2]);
}

/* Half of it is here: `way` 0 in memory of its own, 1 and a receive has it, 2 in the receive's. */
static void test_gone_amid_a_message(int way)
{
    int fd;
    struct sockets *s = open_one(&fd);
    struct header header = {.tag = 1, .size = 6};
    char room[8];
    struct message *receive = way == 2 ? receive_into(s, 1, 1, room) : NULL;
    say(fd, &header, sizeof header);
    say(fd, "abc", 3);
    select_and_read(s, -1);
    if (way == 1)
        receive = receive_into(s, 1, 1, room);
    close(fd);
    if (receive)
        CHECK(sockets_wait(s, receive) == ECONNRESET);
    CHECK(sockets_wait(s, receive_into(s, 1, 1, room)) == ECONNRESET);
    CHECK(sockets_send(s, 1, 1, "x", 1) == ECONNRESET);
    sockets_close(s);
}

static void test_a_size_that_no_memory_has(void)
{
    int fd;
    struct sockets *s = open_one(&fd);
    struct header header = {.tag = 1, .size = UINT64_MAX / 2};
    char room[8];
    struct message *receive = receive_into(s, 1, 1, room);
    say(fd, &header, sizeof header);
    say(fd, "abc", 3);
    CHECK(sockets_wait(s, receive) == ENOMEM);
    CHECK(sockets_wait(s, receive_into(s, 1, 2, room)) == ENOMEM);
    sockets_close(s);
    close(fd);
}

static void on_all(void *(*body)(void *), int size)
{
    struct sockets *r[MOST];
    pthread_t threads[MOST];
    open_all(size, r);
    for (int i = 0; i < size; i++)
        CHECK(pthread_create(&threads[i], NULL, body, r[i]) == 0);
    for (int i = 0; i < size; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    close_all(size, r);
}

static char byte_of(int from, int to, uint64_t at)
{
    return (char)(from * 57 + to * 31 + at % 251);
}

/* Sends to everybody before it receives from anybody. */
static void *send_long_ones(void *place)
{
    struct sockets *s = place;
    char *out = malloc(LONG), *back = malloc(LONG);
    CHECK(out && back);
    for (int dest = 0; dest < s->size; dest++) {
        for (uint64_t i = 0; i < LONG; i++)
            out[i] = byte_of(s->rank, dest, i);
        if (dest != s->rank)
            CHECK(sockets_send(s, dest, 1, out, LONG) == 0);
    }
    for (int source = 0; source < s->size; source++) {
        if (source == s->rank)
            continue;
        struct message *receive = sockets_irecv(s, source, 1, back, LONG);
        CHECK(receive && sockets_wait(s, receive) == 0);
        for (uint64_t i = 0; i < LONG; i++)
            CHECK(back[i] == byte_of(source, s->rank, i));
    }
    free(out);
    free(back);
    return NULL;
}

static uint32_t random_from(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

struct expected {
    uint64_t size;
    int64_t tag;
    char *data;
    struct message *receive;
};

static void post(struct sockets *s, struct expected row[MOST])
{
    for (int source = 0; source < s->size; source++) {
        struct expected *m = &row[source];
        if (source == s->rank)
            continue;
        CHECK((m->data = malloc(m->size + 1)));
        CHECK((m->receive = sockets_irecv(s, source, m->tag, m->data, m->size)));
    }
}

static void receive_all(struct sockets *s, struct expected row[MOST], int i)
{
    for (int source = 0; source < s->size; source++) {
        struct expected *m = &row[source];
        if (source == s->rank)
            continue;
        CHECK(sockets_wait(s, m->receive) == 0);
        for (uint64_t k = 0; k < m->size; k++)
            CHECK(m->data[k] == byte_of(source, i, k));
        free(m->data);
    }
}

/* Messages of any length under two tags to everybody, their receives before or after that of one's
 * own, waited for at once or when all is sent. */
static void *send_many(void *place)
{
    struct sockets *s = place;
    struct expected(*rows)[MOST] = calloc(RANDOM_MESSAGES, sizeof *rows);
    bool waited[RANDOM_MESSAGES] = {false};
    char *out = malloc(1 << 17);
    CHECK(rows && out);
    uint32_t shared = 1, own = 17 + (uint32_t)s->rank; /* what is sent is known to all */
    for (int i = 0; i < RANDOM_MESSAGES; i++) {
        for (int source = 0; source < MOST; source++) {
            uint32_t kind = random_from(&shared);
            rows[i][source].tag = kind & 1;
            rows[i][source].size = random_from(&shared) % (kind & 14 ? 300 : 1 << 17);
        }
    }
    for (int i = 0; i < RANDOM_MESSAGES; i++) {
        const struct expected *mine = &rows[i][s->rank];
        bool early = random_from(&own) & 1;
        if (early)
            post(s, rows[i]);
        for (uint64_t k = 0; k < mine->size; k++)
            out[k] = byte_of(s->rank, i, k);
        for (int dest = 0; dest < s->size; dest++)
            if (dest != s->rank)
                CHECK(sockets_send(s, dest, mine->tag, out, mine->size) == 0);
        if (!early)
            post(s, rows[i]);
        if ((waited[i] = random_from(&own) % 8 == 0))
            receive_all(s, rows[i], i);
    }
    for (int i = 0; i < RANDOM_MESSAGES; i++)
        if (!waited[i])
            receive_all(s, rows[i], i);
    CHECK(!s->posted && !s->unexpected);
    free(rows);
    free(out);
    return NULL;
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN); /* as in Python */
    test_before_and_after_their_receive();
    test_in_pieces();
    test_longer_than_the_receive();
    test_wrong_use();
    test_a_rank_that_is_gone();
    for (int way = 0; way < 3; way++)
        test_gone_amid_a_message(way);
    test_a_size_that_no_memory_has();
    on_all(send_long_ones, 2);
    on_all(send_long_ones, 3);
    on_all(send_many, 3);
    return 0;
}
