/* Options of the sockets of links. */
#include "transport/socket_options.h"
#include "core/engine_state.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#define UNSENT_IN_KERNEL (512 << 10) /* less: a long transfer is woken more often to add some */
#define KEEPALIVE_S 5
#define NEAR_US 1000u /* a round trip within one machine room */

/* No delay for coalescing (links do that themselves), a short queue in the kernel, and silence is noticed: the system
 * ends a stream that is not acknowledged in half the time after which the peer counts as dead, so that a new one can
 * be tried in the other half. */
void socket_options_set(const acp_engine *e, int fd)
{
    int on = 1, lowat = UNSENT_IN_KERNEL, idle = KEEPALIVE_S;
    int patience = (int)(e->config.peer_timeout_ns / 2000000);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &lowat, sizeof lowat);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle, sizeof idle);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

/* Replaces BBR, the default of some systems, on short paths. BBR is made for long paths that lose: it paces bursts by
 * timers and takes the pauses of a sender that waits for answers for the width of the path, which leaves a third of
 * the rate where a round trip takes microseconds. Links over long paths keep it. */
void socket_options_pace(int fd)
{
    static const char wanted[] = "cubic"; /* Linux's own default; if the user may not have it nothing changes */
    char name[16] = "";
    struct tcp_info path;
    socklen_t length = sizeof name - 1, size = sizeof path;
    if (!getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length) &&
        !strncmp(name, "bbr", 3) && !getsockopt(fd, IPPROTO_TCP, TCP_INFO, &path, &size) &&
        path.tcpi_rtt < NEAR_US)
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, wanted, sizeof wanted - 1);
}
