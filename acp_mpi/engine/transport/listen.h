/* The addresses of this process and of its peers, for links. */
#ifndef ACP_LISTEN_H
#define ACP_LISTEN_H

#include "core/engine.h"

#include <netinet/in.h>
#include <sys/socket.h>

struct peer;
struct sockaddr_storage;

int listen_open(acp_engine *e); /* listens; addresses and port go into the own row */
void listen_close(acp_engine *e);
void listen_watch(acp_engine *e, bool on); /* accept connections, or not now */

#define ENDPOINT_SOURCE sizeof(struct in6_addr)

/* Accepts a connection: its address, and whether that is of a host of the job. -1: errno, EAGAIN: none waits. */
int listen_accept(acp_engine *e, uint8_t source[ENDPOINT_SOURCE], bool *neighbour);

bool listen_is_loopback(const uint8_t source[ENDPOINT_SOURCE]);

/* The addresses of a peer in the order in which a link of this color tries them: color c
 * begins with the c-th (paper 003, 2.4). */
uint32_t listen_endpoint_count(const acp_engine *e, const struct peer *p);
socklen_t listen_endpoint(const acp_engine *e, const struct peer *p, uint32_t color, uint32_t attempt,
                          struct sockaddr_storage *s);

#endif
