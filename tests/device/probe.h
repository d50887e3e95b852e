/* What the questions of the probe share. */
#ifndef ACP_PROBE_H
#define ACP_PROBE_H

#include "devices/cuda_driver.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

enum { SECONDS = 60, MIB = 1 << 20, WORDS = 16384 };

#define POINTER(name, arguments) cuda_status(*name) arguments;
struct probe_calls { CUDA_CALLS(POINTER) };
extern struct probe_calls call;
/* Calls that the library does not need; NULL: this driver has none. */
struct probe_more {
    cuda_status (*cuMemAllocAsync)(cuda_address *, size_t, cuda_stream);
    cuda_status (*cuMemAllocManaged)(cuda_address *, size_t, unsigned);
    cuda_status (*cuModuleLoadData)(void **, const void *);
    cuda_status (*cuModuleGetFunction)(void **, void *, const char *);
    cuda_status (*cuLaunchKernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                  cuda_stream, void **, void **);
    unsigned (*standin_tasks)(void); /* of the stand-in alone */
};
extern struct probe_more more;

static const struct cuda_memory_kind exportable = {
    .type = CUDA_PINNED, .handle_types = CUDA_DESCRIPTOR, .location = {CUDA_ON_DEVICE, 0}};
static const struct cuda_access everything = {{CUDA_ON_DEVICE, 0}, CUDA_READ_WRITE};

void row(const char *question, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *words(cuda_status status);
uint64_t now_ns(void);
/* A step without which the rest of a question makes no sense. */
void need(const char *step, cuda_status status);
#define NEED(name, ...) need(#name, call.name(__VA_ARGS__))

struct peer {
    pid_t process;
    int line;
};
struct peer peer_start(void (*play)(int line));
void peer_kill(struct peer peer);
void say(int line, const void *bytes, size_t size);
bool hear(int line, void *bytes, size_t size);
void hear_or_end(int line, void *bytes, size_t size); /* the other side has printed why */

cuda_context begin(void);
void finish(cuda_stream stream);
cuda_status copy(cuda_address to, cuda_address from, size_t size);
void fill(cuda_address to, uint32_t value); /* of WORDS */
const char *check(cuda_address from, uint32_t value); /* "right", "wrong bytes", or an error */
void speed(const char *what, cuda_address to, cuda_address from, size_t size);
cuda_address mapped(const struct cuda_memory_kind *kind, cuda_memory *memory, size_t *size); /* of one granule */

/* The questions, each for a process of its own. */
void without_context(void);
void exports(void);
void imports(void);
void freed_while_imported(void);
void blocking(void);
void times(void);
void visibility(void);

#endif
