#ifndef ACP_FLOW_SEND_H
#define ACP_FLOW_SEND_H

#include "core/messages.h"

struct courier;
struct parcel;
struct peer;

/* Output, beside mail_send_far */
struct parcel *parcel_new(acp_engine *e, struct courier *c, uint64_t id); /* 0: of its own */
/* With that it has ended, and its request, if there is one. */
void parcel_taken_back(struct courier *c, struct parcel *p);
int parcel_try(acp_lane *lane, struct courier *c, struct parcel *p, uint8_t asked, uint64_t before);
bool courier_push(acp_lane *lane, struct courier *c); /* as far as it goes; true if any message went on */
void parcels_end(acp_lane *lane, struct courier *c, int status); /* nothing goes there any more */
void parcels_drop(struct courier *c, int status); /* like parcels_end, after the heap has gone */

/* A message to a rank with a mailbox out of reach of load and store. */
int mail_send_far(acp_lane *lane, struct peer *to, const acp_envelope *envelope, const void *data,
                  acp_request **request);
int parcel_withdraw(acp_request *request, const uint64_t *note); /* send_withdraw of such a message */

#endif
