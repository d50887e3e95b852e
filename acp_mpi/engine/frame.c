/* Frames on links: a head of 64 bytes with the message in it, then the payload. Bytes are
 * copied before they are summed and sent: their owner may change them in between. */
#include "crc32c.h"
#include "link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

void frames_send(acp_lane *lane, struct link *link)
{
    if (link->held)
        atomic_fetch_sub(&lane->engine->held_links, 1);
    link->held = false;
    while (link->out_sent < link->out_size) {
        ssize_t n = send(link->fd, link->out + link->out_sent, link->out_size - link->out_sent,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            link_want(lane->engine, link, true);
            return;
        }
        if (n < 0) {
            link_broken(lane, link);
            return;
        }
        link->out_sent += (size_t)n;
    }
    link->out_sent = link->out_size = 0;
    if (link->out_room > KEEP_BYTES) {
        free(link->out);
        link->out = NULL;
        link->out_room = 0;
    }
    link_want(lane->engine, link, false);
}

static unsigned char *make_room(struct link *link, size_t size)
{
    if (link->out_room - link->out_size < size && link->out_sent) {
        memmove(link->out, link->out + link->out_sent, link->out_size - link->out_sent);
        link->out_size -= link->out_sent;
        link->out_sent = 0;
    }
    if (link->out_room - link->out_size < size) {
        size_t room = link->out_room ? link->out_room : 1024;
        while (room - link->out_size < size)
            room *= 2;
        unsigned char *grown = realloc(link->out, room);
        if (!grown)
            return NULL;
        link->out = grown;
        link->out_room = room;
    }
    return link->out + link->out_size;
}

int link_send(acp_lane *lane, struct link *link, const struct message *m, const void *payload,
              uint64_t size)
{
    if (link->state == LINK_CLOSED || size > CHUNK_BYTES)
        return fail(lane, ACP_E_LOST, m->dst, size);
    unsigned char *at = make_room(link, sizeof(struct frame_head) + size);
    if (!at)
        return fail(lane, ACP_E_SYSTEM, m->dst, size);
    struct frame_head head = {.length = (uint32_t)size, .message = *m};
    unsigned char *body = at + sizeof head;
    if (size)
        memcpy(body, payload, size);
    head.crc = acp_crc32c(0, &head.message, sizeof head.message);
    head.crc = acp_crc32c(head.crc, body, size);
    memcpy(at, &head, sizeof head);
    bool idle = link->out_sent == link->out_size || link->held;
    bool command = m->kind < ACP_REPLY;
    link->out_size += sizeof head + size;
    link->unanswered += command;
    if (link->state != LINK_OPEN || link->corked || !idle)
        return ACP_OK;
    if (command && link->unanswered > 1 && link->out_size - link->out_sent < COMPANY_BYTES) {
        if (!link->held)
            atomic_fetch_add(&lane->engine->held_links, 1);
        link->held = true;
    } else {
        frames_send(lane, link);
    }
    return ACP_OK;
}

void links_release(acp_engine *e)
{
    pthread_mutex_lock(&e->lock);
    for (uint32_t i = 0; e->held_links && i < e->link_room; i++)
        if (e->links[i] && e->links[i]->held)
            frames_send(&e->lanes[LANE_LOCKED], e->links[i]);
    pthread_mutex_unlock(&e->lock);
}

/* Takes whole frames from the receive buffer; a begun one is kept with the link. */
void frames_parse(acp_lane *lane, struct link *link, size_t size)
{
    acp_engine *e = lane->engine;
    unsigned char *at = e->receive_buffer, *end = at + size;
    while (link->state == LINK_OPEN && (size_t)(end - at) >= sizeof(struct frame_head)) {
        struct frame_head head;
        memcpy(&head, at, sizeof head);
        if (head.length > CHUNK_BYTES) {
            link_broken(lane, link);
            return;
        }
        if ((size_t)(end - at) < sizeof head + head.length)
            break;
        const unsigned char *body = at + sizeof head;
        uint32_t crc = acp_crc32c(0, &head.message, sizeof head.message);
        if (acp_crc32c(crc, body, head.length) != head.crc ||
            head.message.from != link->peer->slot) {
            link_broken(lane, link);
            return;
        }
        if (head.message.kind == ACP_REPLY && link->unanswered)
            link->unanswered--;
        message_arrived(lane, link->peer, link, &head.message, head.length ? body : NULL,
                        head.length);
        at += sizeof head + head.length;
    }
    if (link->state != LINK_OPEN || at == end)
        return;
    link->in = malloc((size_t)(end - at));
    if (!link->in) {
        link_broken(lane, link);
        return;
    }
    link->in_size = (size_t)(end - at);
    memcpy(link->in, at, link->in_size);
}

void frames_receive(acp_lane *lane, struct link *link)
{
    acp_engine *e = lane->engine;
    size_t have = link->in_size;
    if (have) {
        memcpy(e->receive_buffer, link->in, have);
        free(link->in);
        link->in = NULL;
        link->in_size = 0;
    }
    ssize_t n = recv(link->fd, e->receive_buffer + have, IN_BUFFER - have, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        link_broken(lane, link);
        return;
    }
    link->corked = true;
    frames_parse(lane, link, have + (n > 0 ? (size_t)n : 0));
    link->corked = false;
    if (link->state == LINK_OPEN && link->out_sent < link->out_size)
        frames_send(lane, link);
}

static int road_send(acp_lane *lane, struct peer *to, uint32_t color, const struct message *m)
{
    struct link *link = link_to(lane, to, color);
    if (!link)
        return fail(lane, to->lost ? ACP_E_LOST : ACP_E_SYSTEM, m->src ? m->src : m->dst, m->a);
    return link_send(lane, link, m, NULL, 0);
}

static bool road_room(acp_lane *lane, struct peer *to, uint32_t color)
{
    const struct link *link = to->links[color];
    (void)lane;
    return !link || link->out_size - link->out_sent < OUT_MOST;
}

static int road_put(acp_lane *lane, struct op *op, uint64_t at, uint64_t size)
{
    struct message m = {.kind = ACP_PUT, .id = op_id(op), .from = lane->engine->self,
                        .dst = op->command.dst + at, .a = size,
                        .after = op->sent_after ? op->order : 0};
    struct link *link = link_to(lane, op->target, op->color);
    if (!link)
        return fail(lane, ACP_E_LOST, m.dst, size);
    if (op->local.local)
        return link_send(lane, link, &m, op->local.local + at, size);
    unsigned char *buffer = malloc(size);
    int rc = buffer ? part_read(lane, op, at, size, buffer)
                    : fail(lane, ACP_E_SYSTEM, m.dst, size);
    if (rc == ACP_OK)
        rc = link_send(lane, link, &m, buffer, size);
    free(buffer);
    return rc;
}

static int road_get(acp_lane *lane, struct op *op, uint64_t at, uint64_t size)
{
    struct message m = {.kind = ACP_GET, .id = op_id(op), .from = lane->engine->self, .dst = at,
                        .src = op->command.src + at, .a = size,
                        .after = op->sent_after ? op->order : 0};
    struct link *link = link_to(lane, op->target, op->color);
    return link ? link_send(lane, link, &m, NULL, 0) : fail(lane, ACP_E_LOST, m.src, size);
}

const struct road road_link = {
    .send = road_send, .put = road_put, .get = road_get, .room = road_room,
};
