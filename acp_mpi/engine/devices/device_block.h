#ifndef ACP_DEVICE_BLOCK_H
#define ACP_DEVICE_BLOCK_H

#include "core/devices.h"
#include "devices/device_kinds.h"

/* What the memory file of its owner says of an exported block. The ticket stays as it is for life. */
struct device_pass {
    struct kind_ticket ticket;
    _Atomic uint64_t serial; /* 0: unused */
    _Atomic uint32_t ends;   /* importers let go of it */
    _Atomic uint32_t views;  /* of other processes in it; of one that was killed they stay */
    uint32_t spare[4];
    _Atomic uint64_t importers[ATTACH_LINES / 64]; /* bits, by attach line */
};

static_assert(sizeof(struct device_pass) == 192, "a pass is three cache lines");

/* An export: a pass, and the regions that name it. */
struct device_export {
    struct device_export *next;
    struct device_pass *pass;
    uint64_t offset; /* of the pass, in the memory file */
    uint64_t serial;
    uint32_t regions;
    bool ends; /* takes in no more regions */
};

struct acp_device_block {
    struct acp_device_block *next;
    struct device_kind *kind;
    struct kind_block block;
    uint32_t uses;
    bool ticketed;
    struct kind_ticket ticket;
    int descriptor;
    struct device_export *exports;
    struct device_import *import; /* it is a peer's, and in no list; NULL: this process's own */
};

struct device_end;

/* The block of an export of this process, held; NULL: there is none. */
acp_device_block *device_block_find(acp_engine *e, uint64_t serial);
acp_device_block *device_block_imported(const struct device_end *end); /* takes the import over; NULL: no memory */
void device_block_count(acp_engine *e, const struct device_kind *k, uint32_t *blocks, uint32_t *imports);
void device_block_reset(acp_engine *e); /* addresses have died; nothing has a block imported */
void device_block_close(acp_engine *e);

#endif
