/* Device memory: blocks that a driver allocates, and their registration, as the extension sees them. */
#ifndef ACP_DEVICES_H
#define ACP_DEVICES_H

#include "core/engine.h"

struct kind; /* devices/kind.h */

/* A block of device memory that this process has, counted: each adoption and each region holds it. */
typedef struct acp_device_block acp_device_block;

typedef struct acp_device_place {
    int32_t kind;   /* as DLPack numbers it */
    int32_t number; /* of the device in this process; -1: the current one */
    void *context;  /* NULL: the kind's usual one */
    uint64_t stream; /* behind which its copies start if no stream is named; 0: the kind's default */
} acp_device_place;

typedef struct acp_device_info {
    char kind[16];
    char name[64];      /* of the device; empty: the kind is not usable, and `words` say why */
    char words[112];
    int32_t number;
    uint8_t device[16]; /* UUID */
    bool active;        /* this process has a context there */
    uint64_t free, size; /* bytes; 0: not known */
    uint32_t blocks, imports; /* of the kind, of this process */
} acp_device_info;

/* One more kind of memory, whose functions stay for the life of the process. Nothing of it is called before its first
 * use. ACP_E_FULL: there is no place for it. */
int acp_device_kind(acp_engine *engine, const struct kind *kind);
/* The device numbered `index` over all kinds, of which this loads the drivers; false behind the last. */
bool acp_device_list(acp_engine *engine, uint32_t index, acp_device_info *out);
/* The reason of the last ACP_E_DRIVER or ACP_E_FULL of a device here, in words, and the bytes that are free there. */
void acp_device_words(acp_engine *engine, char words[112], uint64_t *free);

/* Which device a place is on, if it names none. ACP_E_DRIVER: there is no such one. */
int acp_device_resolve(acp_lane *lane, acp_device_place place, int32_t *number);
/* New memory, or a block of memory of the program, which stays the program's; *offset: where `address` is in it.
 * ACP_E_DRIVER: not to be had, or not memory of that kind; ACP_E_FULL: no memory of the device is left. */
int acp_device_allocate(acp_lane *lane, acp_device_place place, uint64_t size, acp_device_block **block);
int acp_device_adopt(acp_lane *lane, acp_device_place place, uint64_t address, uint64_t size,
                     acp_device_block **block, uint64_t *offset);
uint64_t acp_device_address(const acp_device_block *block); /* of its first byte, as the kind counts */
int32_t acp_device_number(const acp_device_block *block);
int32_t acp_device_type(const acp_device_block *block); /* as DLPack numbers it */
void acp_device_give(acp_engine *engine, acp_device_block *block);
/* Makes bytes of it global. The number is for acp_device_drop. */
int acp_device_register(acp_lane *lane, acp_device_block *block, uint64_t offset, uint64_t size, uint32_t color,
                        acp_ga_t *ga, uint64_t *number);
/* After acp_segment_quiet: waits until no living process has the block imported, if no other region of it is
 * global, and lets go of the registration's hold of the block. After anything but ACP_OK it is to be called again. */
int acp_device_drop(acp_engine *engine, acp_device_block *block, uint64_t number, int64_t timeout_ns);

/* The block of device memory of any rank, as this process has it mapped; *offset: where `ga` is in it. It is held, and
 * its owner waits for acp_device_give before it gives the memory back. ACP_E_DRIVER: this process cannot map it, and the
 * words say why; another status: it is not device memory of this node. */
int acp_device_view(acp_lane *lane, acp_ga_t ga, uint64_t size, acp_device_block **block, uint64_t *offset);
/* Has another process a view in that block of this process? Of a region that has ended none begins any more. */
bool acp_device_viewed(acp_engine *engine, acp_device_block *block);
/* As acp_iput and acp_iget, with device memory of this process that need not be global as the local side. `awaited`: the
 * caller waits for it at once, and takes its failure. */
acp_handle_t acp_device_iput(acp_lane *lane, acp_ga_t dst, acp_device_block *block, uint64_t offset, uint64_t size,
                             acp_handle_t order, bool awaited);
acp_handle_t acp_device_iget(acp_lane *lane, acp_device_block *block, uint64_t offset, acp_ga_t src, uint64_t size,
                             acp_handle_t order, bool awaited);
/* Has what is put into a stream from now on start after the operation. ACP_E_BUSY: no device runs it for this process as
 * one copy now, or the stream is of another kind: the caller waits for it. */
int acp_device_after(acp_lane *lane, acp_handle_t handle, uint64_t stream, bool is_handle);
/* Has devices of that kind reach host memory, of whole pages, until acp_device_unpin; *address: where it is for kernels.
 * ACP_E_DRIVER: they cannot. */
int acp_device_pin(acp_lane *lane, acp_device_place place, void *host, uint64_t size, uint64_t *address);
void acp_device_unpin(acp_engine *engine, int32_t kind, void *host);
/* What the lane's operations with device memory of this process start after: all that the program has put into that
 * stream before the call (0, the default, stands behind all that has none), or nothing of it. */
void acp_device_stream(acp_lane *lane, uint64_t stream, bool handle, bool unordered);

#endif
