/* A kind of device memory: the functions by which the engine allocates, exports, imports and copies it. The engine
 * calls a driver through this table only; a table is constant, and its state belongs to one engine.
 *
 * Rules of all calls:
 *  - Any thread calls, several at once, with whatever context of the driver current: a call leaves the thread's current
 *    context as it was. The engine calls with no lock held.
 *  - A call returns an `enum kind_status`. With KIND_CANNOT, KIND_FULL and KIND_FAILED `fault` is filled; it is never NULL.
 *  - No call makes a context for a device that has none, but `allocate`, and `mark` and `copy` for memory of `allocate`.
 *  - Only `wait`, `close` and `release` may block for what the device still does; all others return at once, if with
 *    the work of a driver's call (milliseconds for `open`, `allocate` and `import`).
 *  - After fork no call is made in the child. */
#ifndef ACP_KIND_H
#define ACP_KIND_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

enum kind_status {
    KIND_OK = 0,
    KIND_BUSY,   /* still running */
    KIND_CANNOT, /* not by this process, or not in this way: the engine takes another road. words: why */
    KIND_FULL,   /* device memory is out. free: what is left; words: the driver's name of the error */
    KIND_FAILED, /* the driver's error: number and words (its name) */
};

struct kind_fault {
    int32_t number;  /* the driver's; 0: none */
    uint32_t spare;
    uint64_t free;   /* bytes */
    char words[112]; /* terminated by 0; begins in lower case, no stop at its end */
};

/* The place of memory: a device, or a context of one. */
struct kind_place {
    int32_t number; /* of the device in this process, as DLPack counts; -1: the one that is current, or the first */
    void *context;  /* NULL: the kind's usual one (CUDA: the primary context; OpenCL: cl_context) */
    uint64_t stream; /* of a block: behind which its copies start if no stream is named; 0: the kind's default */
};

/* A block: what the driver allocates, exports and frees as a whole. The kind fills it in `allocate`, `adopt` and
 * `import`; the engine copies it about and gives it back to `release` once. */
struct kind_block {
    uint64_t base;     /* the first byte's device address, or the driver's handle; the same for all calls that find this block */
    uint64_t size;     /* bytes of the whole block */
    uint64_t offset;   /* by `adopt`: of the memory asked for; else 0 */
    struct kind_place place;
    uint8_t device[16]; /* UUID: the device's identity in all processes; number and order differ between them */
    void *own;         /* the kind's */
};

/* How a block is exported, the bytes of `struct kind_ticket` that other processes read. They are not trusted: a wrong ticket
 * is KIND_CANNOT or KIND_FAILED. */
enum kind_how { KIND_BY_NOTHING = 0, KIND_BY_NAME, KIND_BY_DESCRIPTOR };

struct kind_ticket {
    uint8_t kind;       /* number of the kind */
    uint8_t how;        /* enum kind_how */
    uint8_t granule;    /* log2: an import maps multiples of it; 0: no such rule */
    uint8_t spare;
    int32_t descriptor; /* KIND_BY_DESCRIPTOR: in the exporting process; written by the engine */
    uint64_t size;      /* of the block */
    uint8_t device[16];
    uint8_t name[64];   /* KIND_BY_NAME, or what `import` needs beside the descriptor; KIND_BY_NOTHING: why, in words */
};

static_assert(sizeof(struct kind_ticket) == 96, "a ticket is 96 bytes in all processes");

/* One end of a copy: in a block, or host memory of this process, which stays until the copy has ended. */
struct kind_end {
    const struct kind_block *block; /* NULL: host memory */
    uint64_t offset;                /* in the block */
    void *host;
};

/* Something that a device will have done. It lives until `test` or `wait` returns anything but KIND_BUSY, or until it
 * is the `behind` of a copy. `copy` and `mark` give NULL for what has happened already; no call takes that but as
 * `behind`. */
struct kind_event;

struct kind_copy {
    struct kind_end to, from; /* one is in a block at least. The engine never lets them overlap */
    uint64_t size;            /* not 0 */
    struct kind_event *behind; /* starts after it; NULL: at once. `copy` ends it, unless it returns KIND_CANNOT */
};

/* A device that the driver knows, for reports and for names as "cuda:1". */
struct kind_device {
    int32_t number;
    uint8_t device[16];
    bool active;         /* this process has a context there */
    uint64_t free, size; /* bytes; 0: not known without making a context */
    char name[64];
};

struct kind {
    const char *name; /* as in "cuda:1" */
    int32_t number;   /* DLPack's number of the device type */
    bool handles;     /* memory and streams are handles, and another number than such a handle may not be given to it */

    /* Loads the driver. KIND_CANNOT: it is not there ("libcuda.so.1: cannot open"), or not usable. Called until it is KIND_OK. */
    int (*open)(void **state, struct kind_fault *fault);
    /* Every block has been released and every event ended. Returns when no `ring` of `notify` runs or will run. */
    void (*close)(void *state);
    /* The device numbered `index`, from 0 on; KIND_CANNOT behind the last. */
    int (*list)(void *state, uint32_t index, struct kind_device *device, struct kind_fault *fault);
    /* Whether this process has a context on that device, so that an import costs no new one. Cheap: asked often. */
    bool (*active)(void *state, const uint8_t device[16]);
    /* The number of the device that a place is on. NULL: where the place has −1 it is the first. */
    int (*resolve)(void *state, struct kind_place place, int32_t *number, struct kind_fault *fault);

    /* New memory, exportable if the driver can; its size is rounded up. */
    int (*allocate)(void *state, struct kind_place place, uint64_t size, struct kind_block *block,
                    struct kind_fault *fault);
    /* The block of memory that the program has allocated: all its bytes [address, address + size) lie in it. It
     * stays the program's: `release` does not free it. KIND_CANNOT: the driver does not know such memory. */
    int (*adopt)(void *state, struct kind_place place, uint64_t address, uint64_t size,
                 struct kind_block *block, struct kind_fault *fault);
    /* Ends an allocation, an adoption, or an import. No copy is under way in it. */
    void (*release)(void *state, struct kind_block *block);

    /* Exports a block. With KIND_BY_DESCRIPTOR *descriptor is the engine's to close, when the block is released.
     * KIND_CANNOT: it cannot be exported (words say why); its owner copies then. Called once for each block. */
    int (*publish)(void *state, const struct kind_block *block, struct kind_ticket *ticket, int *descriptor,
                   struct kind_fault *fault);
    /* Maps a block of another process. `descriptor`, −1 if there is none, is closed by the engine afterwards. Only
     * called while `active`. KIND_CANNOT: its owner copies. */
    int (*import)(void *state, const struct kind_ticket *ticket, int descriptor, struct kind_block *block,
                  struct kind_fault *fault);

    /* Starts a copy. KIND_CANNOT: not between these two places (two contexts, no path between the devices): the
     * engine takes it through host memory. */
    int (*copy)(void *state, const struct kind_copy *copy, struct kind_event **event, struct kind_fault *fault);
    int (*test)(void *state, struct kind_event *event, struct kind_fault *fault);
    int (*wait)(void *state, struct kind_event *event, struct kind_fault *fault);

    /* The event of what the program has put into `stream` of that place so far. Numbers as in the array interface of
     * the kind; stream 0: that of the place, or the kind's default, behind which all that the program does without a
     * stream stands. */
    int (*mark)(void *state, struct kind_place place, uint64_t stream, struct kind_event **event,
                struct kind_fault *fault);
    /* What is put into `stream` from now on starts after the event, which lives on. */
    int (*follow)(void *state, struct kind_event *event, struct kind_place place, uint64_t stream,
                  struct kind_fault *fault);
    /* Calls ring(context) once when the event is done, from any thread, maybe before it returns, maybe after the
     * event has ended. `ring` calls nothing of the kind. */
    int (*notify)(void *state, struct kind_event *event, void (*ring)(void *context), void *context,
                  struct kind_fault *fault);

    /* Host memory of this process, whole pages, that copies reach faster, and kernels at *address. May be NULL. */
    int (*pin)(void *state, struct kind_place place, void *host, uint64_t size, uint64_t *address,
               struct kind_fault *fault);
    void (*unpin)(void *state, void *host);
};

#endif
