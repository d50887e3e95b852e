/* A process ends without MPI_Finalize, with its own exit code. */
#include "support/check.h"
#include "mpi_window/skip_finalize.h"

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
    CHECK(skip_finalize_install(0));
    CHECK(is_there() && call() == 0);
    CHECK(skip_finalize_install(0) && call() == 0);
}

static void exit_3(void)
{
    CHECK(skip_finalize_install(0));
    exit(3);
}

static void exit_1_instead_of_0(void)
{
    CHECK(skip_finalize_install(1));
    exit(0);
}

static void exit_minus_1(void)
{
    CHECK(skip_finalize_install(1));
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
    CHECK(!atexit(say_mpi_s) && skip_finalize_install(0) && !atexit(say_program_s));
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
    test_calls_do_nothing();
    return 0;
}
