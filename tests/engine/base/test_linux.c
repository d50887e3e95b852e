/* Calls of the system, where a program has closed its standard input: the next descriptor is 0. */
#include "base/linux.h"
#include "support/check.h"

#include <fcntl.h>
#include <unistd.h>

int main(void)
{
    bool dead = true;
    uint64_t began = linux_start_time((uint32_t)getpid(), &dead);
    CHECK(began && !dead && !close(0));
    CHECK(linux_start_time((uint32_t)getpid(), &dead) == began && !dead);
    CHECK(linux_process_lives((uint32_t)getpid(), began) && !linux_process_lives((uint32_t)getpid(), began + 1));
    int fd = linux_pidfd_open((uint32_t)getpid());
    CHECK(fd <= 0);
    linux_shut(&fd);
    CHECK(linux_yields_to((uint32_t)getpid()));
    CHECK(fd == -1 && fcntl(0, F_GETFD) == -1);
    return 0;
}
