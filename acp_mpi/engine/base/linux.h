#ifndef ACP_LINUX_H
#define ACP_LINUX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct sockaddr_un;

uint64_t linux_now_ns(void);
uint64_t linux_start_time(uint32_t pid, bool *dead);
/* whether the process with this id is the one that began then, and lives */
bool linux_process_lives(uint32_t pid, uint64_t start_time);
bool linux_yields_to(uint32_t pid); /* does a yield of this process let that one run? */
int linux_pidfd_open(uint32_t pid);
void linux_shut(int *fd); /* if it is open; then it is -1 */
int linux_pidfd_getfd(int pidfd, int number);
int linux_file_resize(int fd, uint64_t size); /* -1: errno */
int linux_file_write(int fd, uint64_t at, const void *data, uint64_t size);
void *linux_map(int fd, uint64_t at, uint64_t size, int protection); /* MAP_FAILED: errno */
socklen_t linux_socket_name(struct sockaddr_un *name, const char *kind, uint64_t nonce);
long linux_futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t timeout_ns, bool shared);
void linux_futex_wake(_Atomic uint32_t *word, bool shared);

static inline void linux_cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
