#ifndef ACP_DEVICE_JOB_H
#define ACP_DEVICE_JOB_H

#include "devices/device_import.h"

struct op;
struct relay;

#define MARKS 4u /* devices of this process whose streams one operation may be behind */

/* Something that a device will have done. */
struct device_event {
    struct device_kind *kind;
    struct kind_event *event; /* NULL: none, or it has happened */
};

/* One end of a copy that a device runs. */
struct device_side {
    struct translation t;
    struct device_end device; /* no kind: host memory */
    void *host;
    uint32_t turn;
    bool marked;
};

/* What an operation has beside it if one of its ends is device memory. */
struct device_job {
    struct device_job *next; /* in one of two lists */
    struct op *op; /* NULL: it has ended, and its events have not */
    acp_device_block *local; /* the local side is at that place of the block, not in host memory */
    struct device_event marks[MARKS]; /* what the program had enqueued: it starts after them */
    struct kind_place marked[MARKS];  /* where */
    struct device_event copy;     /* under way */
    struct device_side sides[2];  /* destination, source */
    uint64_t since; /* when the copy began, ns; 0: the kind rings when it is done */
    bool runs;         /* the copy has begun: its event ends with `asking` held */
    bool mute;         /* its kind cannot ring */
    bool through_host; /* its device has refused the copy */
    bool overlaps;     /* through the host, part after part */
    bool backward;     /* the last part first */
    struct relay *relay;
};

#endif
