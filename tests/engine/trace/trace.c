/* Which functions run for an operation: the engine is built with -finstrument-functions, without inlining. Prints how
 * many calls it takes, in the calling thread and wherever frames come in for it; waits and looks in vain are left out.
 * With the name of an operation, these calls. Ends with 1 if an operation takes more than it may.
 *
 *     make -s -C tests/engine trace [OPERATION=put_by_link] */
#include "cluster/mailing.h"
#include "core/engine.h"
#include "core/messages.h"
#include "transport/connection_input.h"

#include <stdatomic.h>
#include <unistd.h>

#define OUTSIDE __attribute__((no_instrument_function))
#define MOST 4096u
#define TIMES 400u /* the shortest counts: what a timer or a retry adds is no part of the way */

struct event {
    void *function;
    uint32_t depth, thread;
};

static struct event events[MOST], shortest[MOST];
static _Atomic uint32_t event_count, thread_count;
static _Atomic bool recording;
static _Thread_local uint32_t depth, thread, inside;

OUTSIDE void __cyg_profile_func_enter(void *function, void *site);
OUTSIDE void __cyg_profile_func_exit(void *function, void *site);

static OUTSIDE bool takes_frames(const void *function)
{
    return function == (void *)(uintptr_t)connection_input_ready;
}

void __cyg_profile_func_enter(void *function, void *site)
{
    (void)site;
    depth++;
    inside += takes_frames(function);
    if (!inside || !atomic_load(&recording))
        return;
    uint32_t at = atomic_fetch_add(&event_count, 1);
    if (!thread)
        thread = atomic_fetch_add(&thread_count, 1) + 1;
    if (at < MOST)
        events[at] = (struct event){function, depth, thread};
}

void __cyg_profile_func_exit(void *function, void *site)
{
    (void)site;
    inside -= takes_frames(function);
    depth--;
}

/* The calls of an operation's begin. */
#define COUNTED(call)                                                                              \
    ({                                                                                             \
        inside++;                                                                                  \
        __typeof__(call) result_ = (call);                                                         \
        inside--;                                                                                  \
        result_;                                                                                   \
    })

struct pair {
    acp_engine *engines[2];
    acp_lane *lanes[2];
    acp_ga_t there;
    uint64_t value;
};

static void await(struct pair *p, acp_handle_t pending)
{
    if (pending)
        CHECK(acp_wait(p->engines[0], pending, ACP_FOREVER) == ACP_OK);
}

static void put(struct pair *p)
{
    acp_handle_t pending;
    CHECK(COUNTED(acp_put(p->lanes[0], p->there, &p->value, 8, &pending)) == ACP_OK);
    await(p, pending);
}

static void get(struct pair *p)
{
    acp_handle_t pending;
    CHECK(COUNTED(acp_get(p->lanes[0], &p->value, p->there, 8, &pending)) == ACP_OK);
    await(p, pending);
}

static const acp_envelope eight = {.tag = 1, .size = sizeof(uint64_t)};

static void send_awake(struct pair *p)
{
    acp_short here;
    CHECK(COUNTED(acp_send_short(p->lanes[0], 1, &eight, &p->value)));
    CHECK(COUNTED(acp_short_look(p->engines[1], &eight, &here) && acp_short_take(&here, &p->value)));
}

static void send_posted(struct pair *p)
{
    acp_request *receive, *send;
    CHECK(COUNTED(acp_receive(p->lanes[1], &eight, &p->value, &receive)) == ACP_OK);
    CHECK(COUNTED(acp_send(p->lanes[0], 1, &eight, &p->value, &send)) == ACP_OK);
    send_end_of(p->lanes[0], send);
    CHECK(acp_request_wait(p->engines[1], receive, ACP_FOREVER) == ACP_OK);
    CHECK(COUNTED(acp_request_end(p->lanes[1], receive, NULL)) == ACP_OK);
}

static const struct operation {
    const char *name, *what;
    uint32_t nodes, at_most;
    void (*run)(struct pair *p);
} operations[] = {
    {"put", "put of 8 B by load and store", 1, 10, put},
    {"get", "get of 8 B by load and store", 1, 10, get},
    {"send", "message of 8 B on one node, receiver awake", 1, 45, send_awake},
    {"send_posted", "message of 8 B on one node, receive posted", 1, 230, send_posted},
    {"put_by_link", "put of 8 B by link", 2, 90, put},
    {"get_by_link", "get of 8 B by link", 2, 90, get},
    {"send_by_link", "message of 8 B by link, receive posted", 2, 200, send_posted},
};

static uint32_t measure(struct pair *p, const struct operation *operation)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < TIMES; i++) {
        usleep(1000); /* the leaders have gone to sleep again */
        event_count = 0;
        recording = true;
        operation->run(p);
        recording = false;
        uint32_t count = event_count;
        if (count < least && count <= MOST) {
            least = count;
            memcpy(shortest, events, count * sizeof *events);
        }
    }
    return least;
}

/* Their names by addr2line, as most functions are static; the program is linked to fixed addresses. */
static void print_calls(const char *program, uint32_t count)
{
    char command[512];
    for (uint32_t i = 0; i < count; i++) {
        char line[256] = "?";
        snprintf(command, sizeof command, "addr2line -f -s -e '%s' %p", program, shortest[i].function);
        FILE *names = popen(command, "r");
        CHECK(names);
        CHECK(fgets(line, sizeof line, names));
        line[strcspn(line, "\n")] = 0;
        printf("thread %u %*s%s", shortest[i].thread, (int)(2 * shortest[i].depth), "", line);
        printf("  %s", fgets(line, sizeof line, names) ? line : "\n");
        pclose(names);
    }
}

int main(int argc, char **argv)
{
    const char *wanted = argc > 1 && *argv[1] ? argv[1] : NULL;
    bool too_many = false;
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        const struct operation *operation = &operations[i];
        if (wanted && strcmp(wanted, operation->name))
            continue;
        struct cluster c;
        cluster_start(&c, 2, operation->nodes, ACP_PATH_ANY, false);
        struct pair p = {{c.engines[0], c.engines[1]}, {acp_engine_lane(c.engines[0]), acp_engine_lane(c.engines[1])},
                         acp_starter(c.engines[0], 1), 0};
        send_posted(&p); /* each has opened the memory of the other */
        uint32_t count = measure(&p, operation);
        printf("%-14s %4u calls, at most %3u  %s\n", operation->name, count, operation->at_most, operation->what);
        too_many |= count > operation->at_most;
        if (wanted)
            print_calls(argv[0], count);
        cluster_stop(&c);
    }
    return too_many;
}
