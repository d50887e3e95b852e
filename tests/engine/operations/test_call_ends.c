/* Calls that nobody answers any more: an engine ends, or its process dies. */
#include "cluster/calls.h"
#include "cluster/half_of_two.h"

#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void *wait_for_call(void *engine)
{
    static struct acp_call call; /* stays: the engine is still closing when the wait ends */
    acp_lane *lane = acp_engine_lane(engine);
    call = (struct acp_call){.method = LOCKED, .object = acp_starter(engine, 0)};
    return (void *)(intptr_t)call_now(engine, lane, &call);
}

/* The end of an engine ends the waits there, and the calls by link of others that it owes. */
static void closed_meanwhile(void)
{
    static const acp_path paths[] = {ACP_PATH_ANY, ACP_PATH_OWNER, ACP_PATH_LINK, ACP_PATH_LINK};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct cluster c;
        pthread_t thread;
        void *result;
        uint32_t closes = i == 3 ? 0 : 1;
        start(&c, 2, 1, paths[i]);
        *word_of(c.engines[0], acp_starter(c.engines[0], 0)) = 1; /* locked, for ever */
        CHECK(pthread_create(&thread, NULL, wait_for_call, c.engines[1]) == 0);
        while (!(paths[i] == ACP_PATH_ANY ? c.engines[1] : c.engines[0])->ops.barred_count)
            sched_yield();
        acp_engine_hold(c.engines[closes]);
        acp_engine_close(c.engines[closes]);
        pthread_join(thread, &result);
        CHECK((intptr_t)result == (closes ? ACP_E_CLOSED : ACP_E_LOST));
        acp_engine_free(c.engines[closes]);
        acp_engine_close(c.engines[1 - closes]);
        for (uint32_t k = 0; k < 2; k++)
            acp_engine_free(c.engines[k]);
    }
}

/* The method kills its process: the call, and those behind it, fail as lost. */
static void owner_killed(void)
{
    static const acp_path paths[] = {ACP_PATH_OWNER, ACP_PATH_LINK};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        int fds[2], status;
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            char byte;
            close(fds[0]);
            half_of_two(fds[1], 1, paths[i], test_methods);
            CHECK(read(fds[1], &byte, 1) == 0); /* the parent has ended before its time */
            _exit(0);
        }
        close(fds[1]);
        acp_engine *e = half_of_two(fds[0], 0, paths[i], test_methods);
        acp_lane *lane = acp_engine_lane(e);
        unsigned char in[5000], out[5000];
        struct acp_call echo = {.method = ECHO, .object = acp_starter(e, 1), .in = in,
                                .in_size = sizeof in, .out = out, .out_room = sizeof out};
        struct acp_call last = {.method = KILL, .object = acp_starter(e, 1), .in = in,
                                .in_size = sizeof in};
        fill(in, sizeof in, i);
        CHECK(call_now(e, lane, &echo) == ACP_OK && reversed(in, out, sizeof in));
        struct acp_call behind[20];
        acp_failure failures[1 + 20];
        uint64_t more;
        uint32_t issued = 1;
        icall(e, lane, &last, ACP_HANDLE_NULL);
        for (int k = 0; k < 20; k++) {
            behind[k] = echo;
            if (acp_icall(lane, &behind[k], ACP_HANDLE_NULL))
                issued++;
            else
                CHECK(acp_lane_fault(lane)->status == ACP_E_LOST); /* it is known already */
        }
        CHECK(acp_complete(e, ACP_HANDLE_ALL, ACP_FOREVER) == ACP_OK);
        CHECK(acp_failures_take(e, ACP_HANDLE_ALL, false, failures, 21, &more) == issued);
        for (uint32_t k = 0; k < issued; k++)
            CHECK(failures[k].fault.status == ACP_E_LOST && failures[k].fault.rank == 1);
        CHECK(call_now(e, lane, &echo) == ACP_E_LOST);
        CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
        close(fds[0]);
        acp_engine_close(e);
        acp_engine_free(e);
    }
}

int main(void)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {{"owner killed", owner_killed}, /* first: it forks */
                 {"closed meanwhile", closed_meanwhile}};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        printf("%s\n", tests[i].name);
        fflush(stdout);
        tests[i].run();
    }
    return 0;
}
