/* Messages over TCP as a single-threaded program sends and receives them: by select and read.
 *
 * Nothing happens but inside a call. A receive looks among the messages that have come unexpected
 * before it is posted; who waits selects on all sockets and reads those that are ready; who cannot
 * write on reads meanwhile, so that two ranks that send each other long messages both get on.
 * There is no rendezvous: a message that nobody waits for is read into memory of its own, and so is
 * one that is longer than its receive, which then fails. A rank that is gone fails what is sent to it
 * and what waits for it, nothing else. SIGPIPE must be ignored, as Python does. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/uio.h>
#include <unistd.h>

struct header {
    int64_t tag;
    uint64_t size;
};

struct message { /* a receive that is posted, or a message that nobody has asked for yet */
    struct message *next;
    char *data;
    int64_t tag;
    uint64_t room; /* of a receive; the size of a message */
    int source;
    bool whole;
    int error; /* of a receive that is whole */
    struct message *wanted_by; /* a receive that was posted while this message was half here */
};

struct peer {
    int fd;
    struct header header;
    size_t header_have;
    uint64_t have; /* of the message's bytes */
    struct message *into; /* once the header is complete */
    bool unexpected;
    int error; /* why nothing more comes from it */
};

struct sockets {
    int rank, size, highest;
    fd_set all;
    struct message *posted, *unexpected; /* in order */
    struct peer peers[];
};

static void append(struct message **list, struct message *m)
{
    m->next = NULL;
    while (*list)
        list = &(*list)->next;
    *list = m;
}

static void take_out(struct message **list, const struct message *m)
{
    while (*list && *list != m)
        list = &(*list)->next;
    if (*list)
        *list = m->next;
}

/* The first of a list with that source and tag that no receive has to itself. */
static struct message *find(struct message *list, int source, int64_t tag)
{
    while (list && (list->source != source || list->tag != tag || list->wanted_by))
        list = list->next;
    return list;
}

static struct message *unexpected_message(int source, int64_t tag, uint64_t size)
{
    struct message *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->data = malloc(size ? size : 1);
    if (!m->data) {
        free(m);
        return NULL;
    }
    m->source = source;
    m->tag = tag;
    m->room = size;
    return m;
}

static void hand_over(struct message *m, struct message *receive)
{
    if (m->room > receive->room)
        receive->error = EMSGSIZE;
    else if (m->room)
        memcpy(receive->data, m->data, m->room);
    receive->whole = true;
    free(m->data);
    free(m);
}

/* Nothing more comes from this rank. */
static void fail(struct sockets *s, int source, int error)
{
    s->peers[source].error = error;
    FD_CLR(s->peers[source].fd, &s->all);
}

/* The header is here: where do the bytes go? */
static void begin(struct sockets *s, int source)
{
    struct peer *p = &s->peers[source];
    struct message *receive = find(s->posted, source, p->header.tag);
    if (receive)
        take_out(&s->posted, receive);
    p->have = 0;
    p->into = receive;
    p->unexpected = !receive || receive->room < p->header.size;
    if (!p->unexpected)
        return;
    p->into = unexpected_message(source, p->header.tag, p->header.size);
    if (!p->into) {
        fail(s, source, ENOMEM);
        return;
    }
    p->into->wanted_by = receive;
    append(&s->unexpected, p->into);
}

static void end(struct sockets *s, struct peer *p)
{
    struct message *m = p->into;
    p->into = NULL;
    p->header_have = 0;
    if (p->unexpected && m->wanted_by) {
        take_out(&s->unexpected, m);
        hand_over(m, m->wanted_by);
    } else {
        m->whole = true;
    }
}

/* Reads what has come from a peer, until a read brings less than was asked for. */
static void drain(struct sockets *s, int source)
{
    struct peer *p = &s->peers[source];
    size_t want;
    ssize_t n;
    do {
        bool heading = p->header_have < sizeof p->header;
        char *to = heading ? (char *)&p->header + p->header_have : p->into->data + p->have;
        want = heading ? sizeof p->header - p->header_have : p->header.size - p->have;
        n = read(p->fd, to, want);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            fail(s, source, n ? errno : ECONNRESET);
            return;
        }
        if (heading) {
            p->header_have += (size_t)n;
            if (p->header_have == sizeof p->header)
                begin(s, source);
        } else {
            p->have += (uint64_t)n;
        }
        if (p->into && p->have == p->header.size)
            end(s, p);
    } while ((size_t)n == want && !p->error);
}

/* Waits until something can be read, or written to `dest` if that is a rank; reads it. */
static void select_and_read(struct sockets *s, int dest)
{
    fd_set readable = s->all, writable;
    FD_ZERO(&writable);
    if (dest >= 0)
        FD_SET(s->peers[dest].fd, &writable);
    int ready = select(s->highest + 1, &readable, dest >= 0 ? &writable : NULL, NULL, NULL);
    int error = ready < 0 ? errno : 0;
    for (int source = 0; error != EINTR && source < s->size; source++) {
        if (source == s->rank)
            continue;
        if (error)
            fail(s, source, error);
        else if (FD_ISSET(s->peers[source].fd, &readable))
            drain(s, source);
    }
}

static bool is_peer(const struct sockets *s, int rank)
{
    return rank >= 0 && rank < s->size && rank != s->rank;
}

/* `fds`: connected sockets that do not block, one for each rank but this one. */
struct sockets *sockets_open(int rank, int size, const int *fds)
{
    struct sockets *s = calloc(1, sizeof *s + (size_t)size * sizeof *s->peers);
    if (!s)
        return NULL;
    s->rank = rank;
    s->size = size;
    for (int i = 0; i < size; i++) {
        if (i == rank)
            continue;
        if (fds[i] < 0 || fds[i] >= FD_SETSIZE) {
            free(s);
            return NULL;
        }
        s->peers[i].fd = fds[i];
        FD_SET(fds[i], &s->all);
        if (fds[i] > s->highest)
            s->highest = fds[i];
    }
    return s;
}

/* Returns when all is written; 0 or an errno: EINVAL for what is no other rank. */
int sockets_send(struct sockets *s, int dest, int64_t tag, const void *data, uint64_t size)
{
    if (!is_peer(s, dest))
        return EINVAL;
    struct header header = {.tag = tag, .size = size};
    struct iovec parts[2] = {{&header, sizeof header}, {(void *)(uintptr_t)data, size}};
    for (int first = 0; first < 2;) {
        if (s->peers[dest].error)
            return s->peers[dest].error;
        ssize_t n = writev(s->peers[dest].fd, parts + first, 2 - first);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return errno;
        size_t left = n > 0 ? (size_t)n : 0;
        while (first < 2 && left >= parts[first].iov_len)
            left -= parts[first++].iov_len;
        if (first == 2)
            break;
        parts[first].iov_base = (char *)parts[first].iov_base + left;
        parts[first].iov_len -= left;
        select_and_read(s, dest);
    }
    return 0;
}

/* A receive, to be waited for; NULL with errno. */
struct message *sockets_irecv(struct sockets *s, int source, int64_t tag, void *data,
                              uint64_t room)
{
    if (!is_peer(s, source)) {
        errno = EINVAL;
        return NULL;
    }
    struct message *receive = calloc(1, sizeof *receive);
    if (!receive)
        return NULL;
    receive->source = source;
    receive->tag = tag;
    receive->data = data;
    receive->room = room;
    struct message *m = find(s->unexpected, source, tag);
    if (!m) {
        append(&s->posted, receive);
    } else if (!m->whole) {
        m->wanted_by = receive;
    } else {
        take_out(&s->unexpected, m);
        hand_over(m, receive);
    }
    return receive;
}

/* Ends the receive; 0 or an errno: EMSGSIZE for a message that was longer. */
int sockets_wait(struct sockets *s, struct message *receive)
{
    struct peer *p = &s->peers[receive->source];
    while (!receive->whole && !p->error)
        select_and_read(s, -1);
    int rc = receive->whole ? receive->error : p->error;
    if (!receive->whole) {
        take_out(&s->posted, receive);
        if (p->into == receive)
            p->into = NULL;
        else if (p->into && p->into->wanted_by == receive)
            p->into->wanted_by = NULL;
    }
    free(receive);
    return rc;
}

/* Every receive must have been waited for. Messages that nobody has received are dropped. */
void sockets_close(struct sockets *s)
{
    for (int i = 0; i < s->size; i++)
        if (i != s->rank)
            close(s->peers[i].fd);
    for (struct message *m = s->unexpected, *next; m; m = next) {
        next = m->next;
        free(m->data);
        free(m);
    }
    free(s);
}
