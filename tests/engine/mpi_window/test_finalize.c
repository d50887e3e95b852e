/* A process ends without MPI_Finalize, with its own exit code; MPI_Finalize waits for threads inside MPI. */
#include "support/check.h"
#include "mpi_window/finalize.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Nobody defines it: its address is null, in a word that only the dynamic linker may write. */
int MPI_Finalize(void) __attribute__((weak));

/* The compiler takes an address for unchanging within a function. */
__attribute__((noipa)) static bool is_there(void)
{
    return MPI_Finalize != NULL;
}

__attribute__((noipa)) static int call(void)
{
    return MPI_Finalize();
}

static int status_of(void (*child)(void))
{
    int status;
    pid_t pid = fork();
    if (!pid) {
        child();
        _exit(99);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_calls_do_nothing(void)
{
    CHECK(!is_there());
    CHECK(finalize_skip(0));
    CHECK(is_there() && call() == 0);
    CHECK(finalize_skip(0) && call() == 0);
}

static _Atomic bool entered, inside;

static void *enter_and_leave(void *ignored)
{
    CHECK(finalize_enter());
    atomic_store(&inside, true);
    atomic_store(&entered, true);
    usleep(50000);
    atomic_store(&inside, false);
    finalize_leave();
    return ignored;
}

static int real(void)
{
    CHECK(!atomic_load(&inside));
    return 7;
}

static void finalize_beside_a_thread(void)
{
    pthread_t thread;
    CHECK(finalize_wait(real) && finalize_wait(real));
    CHECK(!pthread_create(&thread, NULL, enter_and_leave, NULL));
    while (!atomic_load(&entered))
        sched_yield();
    CHECK(call() == 7 && !finalize_enter());
    CHECK(!pthread_join(thread, NULL));
    _exit(0);
}

/* The thread that held the lock is not in the child. */
static void finalize_in_a_child(void)
{
    int status;
    CHECK(finalize_wait(real) && finalize_enter());
    pid_t pid = fork();
    if (!pid)
        _exit(call());
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    finalize_leave();
    _exit(0);
}

static void skip_after_waiting(void)
{
    CHECK(finalize_wait(real) && call() == 7 && finalize_skip(0) && call() == 0);
    _exit(0);
}

static void wait_after_skipping(void)
{
    CHECK(finalize_skip(0) && finalize_wait(real) && call() == 0);
    _exit(0);
}

static void test_finalize_waits_for_threads_inside_mpi(void)
{
    CHECK(status_of(finalize_beside_a_thread) == 0);
    CHECK(status_of(finalize_in_a_child) == 0);
    CHECK(status_of(skip_after_waiting) == 0);
    CHECK(status_of(wait_after_skipping) == 0);
}

static void exit_3(void)
{
    CHECK(finalize_skip(0));
    exit(3);
}

static void exit_1_instead_of_0(void)
{
    CHECK(finalize_skip(1));
    exit(0);
}

static void exit_minus_1(void)
{
    CHECK(finalize_skip(1));
    exit(-1);
}

static void test_the_exit_code_is_the_program_s(void)
{
    CHECK(status_of(exit_3) == 3);
    CHECK(status_of(exit_1_instead_of_0) == 1);
    CHECK(status_of(exit_minus_1) == 255);
}

static int pipe_ends[2];

static void say_mpi_s(void)
{
    CHECK(write(pipe_ends[1], "library ", 8) == 8);
}

static void say_program_s(void)
{
    CHECK(write(pipe_ends[1], "program ", 8) == 8);
}

static void write_and_end(void)
{
    CHECK(!atexit(say_mpi_s) && finalize_skip(0) && !atexit(say_program_s));
    FILE *file = fdopen(pipe_ends[1], "w");
    fputs("buffer", file);
    exit(0);
}

static void test_later_exit_handlers_run_and_files_are_written(void)
{
    char said[64] = "";
    CHECK(!pipe(pipe_ends) && status_of(write_and_end) == 0);
    CHECK(read(pipe_ends[0], said, sizeof said - 1) > 0 && !strcmp(said, "program buffer"));
}

int main(void)
{
    test_the_exit_code_is_the_program_s(); /* while nothing is replaced yet */
    test_later_exit_handlers_run_and_files_are_written();
    test_finalize_waits_for_threads_inside_mpi();
    test_calls_do_nothing();
    return 0;
}
