/* Where a process can be reached: the addresses of its host that its links listen on, and
 * which address of a peer to try. On one host links use the loopback interface, which is all
 * that is open unless the job spans hosts. */
#include "transport/listen.h"
#include "base/linux.h"
#include "core/state/peer.h"
#include "peers/rank_table.h"
#include "progress/reactor.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 1024
#define PORTS_TRIED 64
#define SIX_OFFSET (sizeof((struct row *)0)->addresses - sizeof(struct in6_addr))

/* Is `name` in a list like "eth0,ib0"? An empty list names all. */
static bool listed(const char *list, const char *name)
{
    size_t size = strlen(name);
    if (!list[0])
        return true;
    for (const char *at = list; at; at = strchr(at, ','), at = at ? at + 1 : NULL)
        if (strncmp(at, name, size) == 0 && (at[size] == ',' || at[size] == 0))
            return true;
    return false;
}

static bool usable4(struct in_addr a)
{
    uint32_t host = ntohl(a.s_addr);
    return host >> 24 != 127 && host >> 16 != 0xa9fe /* link-local */;
}

static bool usable6(const struct in6_addr *a)
{
    return !IN6_IS_ADDR_LOOPBACK(a) && !IN6_IS_ADDR_LINKLOCAL(a);
}

/* Puts the addresses of this host into the own row: IPv4 ones, as many as there is room for,
 * and an IPv6 one if that leaves room. */
static void gather(acp_engine *e)
{
    struct ifaddrs *all, *i;
    struct row *row = &e->row;
    unsigned char *at = row->addresses;
    if (getifaddrs(&all))
        return;
    for (i = all; i && at + 4 <= row->addresses + sizeof row->addresses; i = i->ifa_next) {
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !(i->ifa_flags & IFF_UP) ||
            !listed(e->config.interfaces, i->ifa_name))
            continue;
        struct in_addr a = ((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr;
        if (usable4(a)) {
            memcpy(at, &a, sizeof a);
            at += sizeof a;
        }
    }
    for (i = all; i && at <= row->addresses + SIX_OFFSET && !(row->flags & ROW_SIX); i = i->ifa_next) {
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET6 || !(i->ifa_flags & IFF_UP) ||
            !listed(e->config.interfaces, i->ifa_name))
            continue;
        struct in6_addr a = ((struct sockaddr_in6 *)(void *)i->ifa_addr)->sin6_addr;
        if (usable6(&a)) {
            memcpy(row->addresses + SIX_OFFSET, &a, sizeof a);
            row->flags |= ROW_SIX;
        }
    }
    freeifaddrs(all);
}

static uint32_t count_of(const struct row *row)
{
    uint32_t fours = 0, most = row->flags & ROW_SIX ? SIX_OFFSET / 4 : sizeof row->addresses / 4;
    static const unsigned char none[4];
    while (fours < most && memcmp(row->addresses + 4 * fours, none, 4))
        fours++;
    return fours + ((row->flags & ROW_SIX) != 0);
}

static socklen_t address_of(const struct row *row, uint32_t index, struct sockaddr_storage *s)
{
    memset(s, 0, sizeof *s);
    if (row->flags & ROW_SIX && index + 1 == count_of(row)) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)s;
        in6->sin6_family = AF_INET6;
        in6->sin6_port = row->port;
        memcpy(&in6->sin6_addr, row->addresses + SIX_OFFSET, sizeof in6->sin6_addr);
        return sizeof *in6;
    }
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)s;
    in->sin_family = AF_INET;
    in->sin_port = row->port;
    memcpy(&in->sin_addr, row->addresses + 4 * index, sizeof in->sin_addr);
    return sizeof *in;
}

static socklen_t loopback(const struct row *row, struct sockaddr_storage *s)
{
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)s;
    memset(s, 0, sizeof *s);
    in->sin_family = AF_INET;
    in->sin_port = row->port;
    in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return sizeof *in;
}

static int listen_on(const struct sockaddr_storage *s, socklen_t size)
{
    int on = 1, fd = socket(s->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && s->ss_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (fd >= 0 && (bind(fd, (const struct sockaddr *)s, size) || listen(fd, BACKLOG))) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static void leave_out(struct row *row, uint32_t index)
{
    if (row->flags & ROW_SIX && index + 1 == count_of(row)) {
        memset(row->addresses + SIX_OFFSET, 0, sizeof(struct in6_addr));
        row->flags &= (uint8_t)~ROW_SIX;
        return;
    }
    size_t fours = row->flags & ROW_SIX ? SIX_OFFSET : sizeof row->addresses, at = (index + 1) * sizeof(struct in_addr);
    memmove(row->addresses + at - sizeof(struct in_addr), row->addresses + at, fours - at);
    memset(row->addresses + fours - sizeof(struct in_addr), 0, sizeof(struct in_addr));
}

/* One port on all addresses: chosen by the system on the first of them, free on the others. An address is left out, if
 * there is one beside it, when it cannot be used yet, as a new IPv6 address until duplicate detection is done, or
 * never, as one that turned out to be another host's. */
static int open_all(acp_engine *e)
{
    struct sockaddr_storage s;
    struct row *row = &e->row;
    row->port = 0;
    socklen_t size = loopback(row, &s);
    e->tcp.listeners[0] = listen_on(&s, size);
    if (e->tcp.listeners[0] < 0 || getsockname(e->tcp.listeners[0], (struct sockaddr *)&s, &size))
        return -1;
    row->port = ((struct sockaddr_in *)(void *)&s)->sin_port;
    for (uint32_t i = 0; i < count_of(row);) {
        size = address_of(row, i, &s);
        e->tcp.listeners[i + 1] = listen_on(&s, size);
        if (e->tcp.listeners[i + 1] >= 0)
            i++;
        else if (errno == EADDRNOTAVAIL && count_of(row) > 1)
            leave_out(row, i);
        else
            return -1;
    }
    return 0;
}

int listen_open(acp_engine *e)
{
    e->row.host = e->config.host;
    if (e->config.links == ACP_LINKS_ENCRYPT && !libcrypto_open(&e->tcp.crypto)) {
        errno = ELIBACC;
        return ACP_E_SYSTEM;
    }
    if (e->config.wide)
        gather(e);
    for (int i = 0; i < PORTS_TRIED; i++) {
        if (open_all(e) == 0)
            return ACP_OK;
        int error = errno;
        listen_close(e);
        errno = error;
        if (errno != EADDRINUSE)
            break;
    }
    return ACP_E_SYSTEM;
}

void listen_close(acp_engine *e)
{
    for (uint32_t i = 0; i < LISTENERS; i++)
        linux_shut(&e->tcp.listeners[i]);
}

void listen_watch(acp_engine *e, bool on)
{
    struct epoll_event event = {.events = on ? EPOLLIN : 0, .data.u64 = TAG_LISTEN};
    for (uint32_t i = 0; i < LISTENERS && e->tcp.listeners[i] >= 0; i++)
        if (epoll_ctl(e->progress.epoll_fd, EPOLL_CTL_MOD, e->tcp.listeners[i], &event) && errno == ENOENT)
            epoll_ctl(e->progress.epoll_fd, EPOLL_CTL_ADD, e->tcp.listeners[i], &event);
}

/* Is it an address of this host or of another one of the job? */
static bool is_neighbour(const acp_engine *e, const struct sockaddr_storage *s, const uint8_t *source)
{
    uint32_t count = 0;
    struct in_addr here = {htonl(INADDR_LOOPBACK)};
    if (s->ss_family == AF_INET && !memcmp(source, &here, sizeof here))
        return true;
    const uint32_t *firsts = e->job.table.base ? rank_table_firsts(e, &count) : NULL;
    for (uint32_t i = 0; i < count; i++) {
        struct row row = rank_table_row(e, firsts[i]);
        bool six = row.flags & ROW_SIX;
        uint32_t fours = count_of(&row) - six;
        bool found = s->ss_family == AF_INET6 && six &&
                     !memcmp(row.addresses + SIX_OFFSET, source, sizeof(struct in6_addr));
        for (uint32_t k = 0; k < fours && !found && s->ss_family == AF_INET; k++)
            found = !memcmp(row.addresses + 4 * k, source, sizeof(struct in_addr));
        if (found)
            return true;
    }
    return false;
}

int listen_accept(acp_engine *e, uint8_t source[ENDPOINT_SOURCE], bool *neighbour)
{
    struct sockaddr_storage s;
    int fd = -1;
    for (uint32_t i = 0; i < LISTENERS && e->tcp.listeners[i] >= 0; i++) {
        socklen_t size = sizeof s;
        do
            fd = accept4(e->tcp.listeners[i], (struct sockaddr *)&s, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
        while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
        if (fd >= 0 || errno != EAGAIN)
            break;
    }
    memset(source, 0, ENDPOINT_SOURCE);
    if (fd >= 0 && s.ss_family == AF_INET6)
        memcpy(source, &((struct sockaddr_in6 *)(void *)&s)->sin6_addr, sizeof(struct in6_addr));
    else if (fd >= 0)
        memcpy(source, &((struct sockaddr_in *)(void *)&s)->sin_addr, sizeof(struct in_addr));
    *neighbour = fd >= 0 && is_neighbour(e, &s, source);
    return fd;
}

bool listen_is_loopback(const uint8_t source[ENDPOINT_SOURCE])
{
    static const uint8_t none[ENDPOINT_SOURCE];
    return source[0] == IN_LOOPBACKNET && !memcmp(source + 4, none, ENDPOINT_SOURCE - 4);
}

uint32_t listen_endpoint_count(const acp_engine *e, const struct peer *p)
{
    return p->row.host == e->config.host ? 1 : count_of(&p->row);
}

socklen_t listen_endpoint(const acp_engine *e, const struct peer *p, uint32_t color, uint32_t attempt,
                          struct sockaddr_storage *s)
{
    if (p->row.host == e->config.host)
        return loopback(&p->row, s);
    return address_of(&p->row, (color + attempt) % count_of(&p->row), s);
}
