#ifndef ACP_DEVICE_IMPORT_H
#define ACP_DEVICE_IMPORT_H

#include "core/poller.h"
#include "devices/device_block.h"
#include "memory/translate.h"

/* The block behind a byte of a region of device memory, as this process reaches it; held until device_import_done. */
struct device_end {
    struct device_kind *kind;
    const struct kind_block *block;
    uint64_t offset; /* of that byte */
    acp_device_block *own;
    struct device_import *import;
};

/* May a copy here reach the region? False: its owner has to. Of a block that is not imported so far only a try tells. */
bool device_import_likely(acp_engine *e, const struct translation *t, acp_ga_t ga);
/* The block of a region that the caller has marked (device_mark.h); imports it at its first use. ACP_E_BUSY: its owner
 * has to copy. */
int device_import_find(acp_lane *lane, const struct translation *t, acp_ga_t ga, uint64_t size, struct device_end *end);
void device_import_done(acp_engine *e, struct device_end *end);
void device_import_view(struct device_import *import, bool begins); /* which its owner sees */
enum due device_import_due(const acp_engine *e);
bool device_import_poll(acp_lane *lane); /* lets go of blocks that end, or whose owner is lost */
void device_import_lost(acp_engine *e);
void device_import_close(acp_engine *e); /* of all that no copy uses */
uint32_t device_import_count(const acp_engine *e, const struct device_kind *k); /* with the lock */

#endif
