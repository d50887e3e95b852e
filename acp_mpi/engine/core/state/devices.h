/* Device memory of this process, and what it has imported. */
#ifndef ACP_STATE_DEVICES_H
#define ACP_STATE_DEVICES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct acp_device_block;
struct device_import;
struct device_passes;
struct kind;

#define DEVICE_KINDS 4u

enum { KIND_UNOPENED = 0, KIND_OPEN, KIND_CLOSED };

/* A kind as this engine uses it. */
struct device_kind {
    const struct kind *table; /* NULL: none */
    void *state;              /* the kind's */
    _Atomic uint32_t opened;
};

struct devices_state {
    pthread_mutex_t lock;    /* of all below; a kind is never called with it held */
    pthread_mutex_t opening; /* one thread opens a kind, or exports a block; before `lock` */
    struct device_kind kinds[DEVICE_KINDS];
    _Atomic bool used; /* a kind is open */
    struct acp_device_block *blocks;
    struct device_import *imports;
    _Atomic uint32_t import_count;
    struct device_passes *passes;
    uint64_t serial; /* of the last export */
    uint64_t clock;  /* counts uses of imports */
    uint64_t free;   /* of the last failure of a kind, bytes */
    char words[112];
};

/* Of a peer, with the lock: copies that run in its memory, in two turns (device_mark.c). */
struct peer_devices {
    uint32_t running[2];
    uint32_t turn;
};

#endif
