/* Arrays in the window parts of peers: the first put or get goes by link, and behind it a request for the bounds of
 * the array; all later ones inside these bounds take the window. */
#ifndef ACP_WINDOW_ARRAYS_H
#define ACP_WINDOW_ARRAYS_H

#include "core/engine.h"

struct message;
struct peer;
struct window;

/* `a` of ACP_GUEST beside those of target assistance (0 and 1); `dst` is the address, and then its array with `b`
 * bytes. */
#define ARRAY_REQUEST 2u
#define ARRAY_ANSWER 3u

bool window_arrays_reach(const struct peer *p, uint64_t at, uint64_t size);
void window_arrays_request(acp_lane *lane, const struct window *w, struct peer *p, acp_ga_t ga);
void window_arrays_heard(acp_lane *lane, struct peer *from, const struct message *m);
void window_arrays_forget(struct peer *p);

#endif
