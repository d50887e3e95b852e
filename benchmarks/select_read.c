/* Messages over TCP as a single-threaded program sends and receives them: by select and read.
 *
 * Nothing happens but inside a call. A receive looks among the messages that have come unexpected
 * before it is posted; who waits selects on all sockets and reads those that are ready; who cannot
 * write on reads meanwhile, so that two ranks that send each other long messages both get on.
 * There is no rendezvous: a message that nobody waits for is read into memory of its own. */
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
    struct message *wanted_by; /* a receive that was posted while this message was half here */
};

struct peer {
    int fd;
    struct header header;
    size_t header_have;
    uint64_t have; /* of the message's bytes */
    struct message *into; /* once the header is complete */
    bool unexpected;
    bool closed; /* by the other side, between two messages */
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

/* The first of a list with that source and tag; taken out of it. */
static struct message *take(struct message **list, int source, int64_t tag)
{
    for (; *list; list = &(*list)->next) {
        struct message *m = *list;
        if (m->source == source && m->tag == tag) {
            *list = m->next;
            return m;
        }
    }
    return NULL;
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

static int hand_over(struct message *m, struct message *receive)
{
    int rc = m->room > receive->room ? EMSGSIZE : 0;
    if (!rc)
        memcpy(receive->data, m->data, m->room);
    receive->whole = true;
    free(m->data);
    free(m);
    return rc;
}

/* The header is here: where do the bytes go? */
static int begin(struct sockets *s, int source)
{
    struct peer *p = &s->peers[source];
    p->have = 0;
    p->into = take(&s->posted, source, p->header.tag);
    p->unexpected = !p->into;
    if (p->into)
        return p->into->room < p->header.size ? EMSGSIZE : 0;
    p->into = unexpected_message(source, p->header.tag, p->header.size);
    if (!p->into)
        return ENOMEM;
    append(&s->unexpected, p->into);
    return 0;
}

static int end(struct sockets *s, struct peer *p)
{
    struct message *m = p->into;
    p->into = NULL;
    p->header_have = 0;
    if (p->unexpected && m->wanted_by) {
        for (struct message **at = &s->unexpected; *at; at = &(*at)->next) {
            if (*at == m) {
                *at = m->next;
                break;
            }
        }
        return hand_over(m, m->wanted_by);
    }
    m->whole = true;
    return 0;
}

/* Reads what has come from a peer, until a read brings less than was asked for. */
static int drain(struct sockets *s, int source)
{
    struct peer *p = &s->peers[source];
    for (;;) {
        bool heading = p->header_have < sizeof p->header;
        char *to = heading ? (char *)&p->header + p->header_have : p->into->data + p->have;
        size_t want = heading ? sizeof p->header - p->header_have : p->header.size - p->have;
        ssize_t n = want ? read(p->fd, to, want) : 0;
        if (n < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : errno;
        if (n == 0 && want) {
            p->closed = true;
            FD_CLR(p->fd, &s->all);
            return heading && !p->header_have ? 0 : ECONNRESET;
        }
        int rc = 0;
        if (heading) {
            p->header_have += (size_t)n;
            if (p->header_have == sizeof p->header)
                rc = begin(s, source);
        } else {
            p->have += (uint64_t)n;
        }
        if (!rc && p->into && p->have == p->header.size)
            rc = end(s, p);
        if (rc || (size_t)n < want)
            return rc;
    }
}

/* Waits until something can be read, or written to `dest` if that is a rank; reads it. */
static int select_and_read(struct sockets *s, int dest)
{
    fd_set readable = s->all, writable;
    FD_ZERO(&writable);
    if (dest >= 0)
        FD_SET(s->peers[dest].fd, &writable);
    if (select(s->highest + 1, &readable, dest >= 0 ? &writable : NULL, NULL, NULL) < 0)
        return errno == EINTR ? 0 : errno;
    for (int source = 0; source < s->size; source++) {
        if (source == s->rank || !FD_ISSET(s->peers[source].fd, &readable))
            continue;
        int rc = drain(s, source);
        if (rc)
            return rc;
    }
    return 0;
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
        if (fds[i] >= FD_SETSIZE) {
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

/* Returns when all is written; 0 or an errno. */
int sockets_send(struct sockets *s, int dest, int64_t tag, const void *data, uint64_t size)
{
    struct header header = {.tag = tag, .size = size};
    struct iovec parts[2] = {{&header, sizeof header}, {(void *)(uintptr_t)data, size}};
    for (int first = 0; first < 2;) {
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
        int rc = select_and_read(s, dest);
        if (rc)
            return rc;
    }
    return 0;
}

/* A receive; NULL with errno. */
struct message *sockets_irecv(struct sockets *s, int source, int64_t tag, void *data,
                              uint64_t room)
{
    struct message *receive = calloc(1, sizeof *receive);
    if (!receive)
        return NULL;
    receive->source = source;
    receive->tag = tag;
    receive->data = data;
    receive->room = room;
    struct message *m = s->unexpected;
    while (m && (m->source != source || m->tag != tag || m->wanted_by))
        m = m->next;
    if (!m) {
        append(&s->posted, receive);
    } else if (!m->whole) {
        m->wanted_by = receive;
    } else {
        errno = hand_over(take(&s->unexpected, source, tag), receive);
        if (errno) {
            free(receive);
            return NULL;
        }
    }
    return receive;
}

/* Ends the receive; 0 or an errno. */
int sockets_wait(struct sockets *s, struct message *receive)
{
    int rc = 0;
    while (!receive->whole && !rc)
        rc = s->peers[receive->source].closed ? ECONNRESET : select_and_read(s, -1);
    free(receive);
    return rc;
}

void sockets_close(struct sockets *s)
{
    for (int i = 0; i < s->size; i++)
        if (i != s->rank)
            close(s->peers[i].fd);
    free(s);
}
