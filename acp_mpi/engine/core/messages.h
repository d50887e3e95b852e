/* Messages: matched at the receiver, by context, source and tag, in the order in which they were sent. While another
 * process has the lock of the receiver's mailbox lane 0 gets ACP_E_BUSY, and nothing has happened: the caller tries
 * again, or uses a lane that may wait. */
#ifndef ACP_MESSAGES_H
#define ACP_MESSAGES_H

#include "core/engine.h"

#include <stdbool.h>
#include <stdint.h>

#define ACP_ANY ((int64_t)-1)
#define ACP_CONTEXT_COLLECTIVE ((uint64_t)1 << 62) /* contexts of collectives have this bit, and not the next one */
/* The ranks from which messages of a context come. Shared by reference count: each holder frees it once. */
acp_sources *acp_sources_new(const uint32_t *ranks, uint32_t count); /* NULL: no memory */
void acp_sources_free(acp_sources *sources);
/* A rank of `sources` that has died without that loss being accepted; -1: none. */
int64_t acp_sources_lost(acp_engine *engine, acp_sources *sources);

typedef struct acp_envelope {
    uint64_t context; /* messages of different contexts never match; 0: of users */
    int64_t source;   /* a rank; ACP_ANY in a receive; of a send: not read */
    int64_t tag;      /* 0 .. 2^62; ACP_ANY in a receive */
    uint64_t size;    /* of the message; in a receive of the room for it */
    uint64_t note;    /* a word of the sender for the layer above; of a receive: which ones fit, 0: all */
    acp_sources *among; /* of a receive from ACP_ANY: the only possible senders; NULL: all ranks */
} acp_envelope;
/* Notes by which typed receives match. Bits 0 to 3: kind; 4 to 11: type of the elements, a letter as NumPy has them,
 * 0: bytes, which go with any; 12: their bytes are swapped; of ACP_NOTE_RECORD 32 to 62: a digest of the record's
 * fields. A receive of another type than the first message of its source and tag ends with ACP_E_TYPE, and the message
 * stays for the next receive that fits. Receives of collectives have ACP_NOTE_LEFT and the note of their call: messages
 * fit that acp_notes_belong together with it, and those with ACP_NOTE_LEFT, which carry only a reason. */
enum { ACP_NOTE_BYTES = 0, ACP_NOTE_OBJECT, ACP_NOTE_ARRAY, ACP_NOTE_DESCRIBED, ACP_NOTE_BUFFER = 15 };
#define ACP_NOTE_RECORD 'V'
#define ACP_NOTE_LEFT ((uint64_t)1 << 63)
/* Notes of collectives, 61 bits: the call, and a digest of all that its members must give alike; ACP_NOTE_TYPE of a
 * note is 0 where the elements go with those of any type. */
#define ACP_NOTE_CALL_AT 40u /* 6 bits: the kind of call */
#define ACP_NOTE_TYPE ((uint64_t)0x7fff << 46)
static inline bool acp_notes_belong(uint64_t one, uint64_t other)
{
    bool any = !(one & ACP_NOTE_TYPE) || !(other & ACP_NOTE_TYPE);
    return !((one ^ other) & ~(ACP_NOTE_LEFT | (any ? ACP_NOTE_TYPE : 0)));
}
static inline uint64_t acp_note_letter(uint64_t note)
{
    uint64_t letter = (note >> 4) & 0xff;
    return letter == 'l' ? 'q' : letter == 'L' ? 'Q' : letter == 'B' ? 0 : letter;
}
static inline bool acp_note_fits(uint64_t wanted, uint64_t note)
{
    uint64_t want = acp_note_letter(wanted), is = acp_note_letter(note);
    if (!wanted)
        return true;
    if (wanted & ACP_NOTE_LEFT)
        return (note & ACP_NOTE_LEFT) || acp_notes_belong(wanted, note);
    if ((note & 15) == ACP_NOTE_OBJECT)
        return false;
    if (!want || !is)
        return true;
    return want == is && !((wanted ^ note) >> 12 & 1) &&
           (want != ACP_NOTE_RECORD || !((wanted ^ note) >> 32));
}
/* A short message that waits in the ring of its sender, and is not taken yet. */
#define ACP_SHORT_MOST 8192u /* bytes */
typedef struct acp_short {
    acp_envelope envelope;
    uint64_t at; /* position in the ring */
    struct pair_ring *ring;
    const struct ring_line *lines;
} acp_short;
typedef struct acp_request acp_request; /* a send or a receive of this process that is not over */

/* No request: `data` is free again. Else it must stay until the request is done. */
int acp_send(acp_lane *lane, uint32_t dest, const acp_envelope *envelope, const void *data,
             acp_request **request);
/* acp_send of a short message, by lane 0, into the ring that an awake receiver polls first; false: nothing has
 * happened. The message is received as all others are, or at once by the holder of the interpreter lock:
 * acp_short_look finds the first that fits, if nothing else comes before it; acp_short_take copies all its bytes to
 * `data` and removes it; false: the message was not there any more. */
bool acp_send_short(acp_lane *lane, uint32_t dest, const acp_envelope *envelope, const void *data);
bool acp_short_look(acp_engine *engine, const acp_envelope *want, acp_short *message);
bool acp_short_take(const acp_short *message, void *data);
/* As acp_request_soon. ACP_OK: a message that may match has come; ACP_E_BUSY: not yet; ACP_E_HANDLE: it will not come
 * through a ring. Briefly: without giving up the processor, by the holder of the interpreter lock. */
int acp_short_soon(acp_engine *engine, const acp_envelope *want, bool briefly);
/* Without a buffer, and room for UINT64_MAX bytes, whatever comes is kept in the own heap:
 * acp_request_data. The request may be done already. */
int acp_receive(acp_lane *lane, const acp_envelope *want, void *buffer, acp_request **request);
bool acp_request_done(const acp_request *request);
/* For as long as a wait costs little: some looks; where there are more ranks than processors, up to
 * 20 ms asleep. A signal ends it. */
bool acp_request_soon(acp_engine *engine, acp_request *request);
/* ACP_OK: the request is done, and acp_request_end returns its result. */
int acp_request_wait(acp_engine *engine, acp_request *request, int64_t timeout_ns);
/* Until one of the requests or collectives is done, or has work for its caller, or one of the others is done. */
typedef struct acp_collective acp_collective;
int acp_wait_any(acp_engine *engine, acp_request *const *requests, uint32_t count,
                 acp_collective *const *collectives, uint32_t collective_count, const acp_flag *const *others,
                 uint32_t other_count, int64_t timeout_ns);
int acp_request_cancel(acp_lane *lane, acp_request *request); /* ACP_E_HANDLE: too late */
/* Of a receive that is done. ACP_E_HANDLE: no message has come; acp_request_end returns the reason. */
int acp_request_look(const acp_request *request, acp_envelope *got);
/* Of a receive that is done, without a buffer: its bytes, until its end. NULL: none, with the reason in the lane's
 * fault. */
const void *acp_request_data(acp_lane *lane, acp_request *request);
/* Gets the bytes of a message that is here while they are still in their sender's memory. Other calls get them, too,
 * but this one ends with ACP_E_INTERRUPTED when a signal comes, and goes on when it is called again. The leader never
 * waits here: it gets ACP_E_HANDLE if they are under way, or ACP_E_BUSY, and calls again soon. */
int acp_request_pull(acp_lane *lane, acp_request *request);
bool acp_request_pulls(const acp_request *request); /* bytes are still missing */
bool acp_request_brought(const acp_request *request); /* all bytes are here, and the sender is being notified */
/* Bytes still to come go to `buffer`, with `room` and NULL as in acp_receive; the former buffer is not written any
 * more. */
void acp_request_into(acp_request *request, void *buffer, uint64_t room);
/* Its status; it is freed, a receive's bytes are in their buffer. One that is not done is waited
 * for, or cancelled if it can be: ACP_E_CANCELLED. */
int acp_request_end(acp_lane *lane, acp_request *request, acp_envelope *got);
/* ACP_E_HANDLE: such a message has not come. `taken`, unless NULL: the message is the caller's then, which must
 * receive it. */
int acp_probe(acp_lane *lane, const acp_envelope *want, acp_envelope *found, uint64_t *taken);
int acp_probe_wait(acp_engine *engine, const acp_envelope *want, acp_envelope *found,
                   uint64_t *taken, int64_t timeout_ns);
/* A message that a probe has removed from the queue, whatever its source, goes to a posted receive; ACP_E_HANDLE: none
 * is posted. `data` as in acp_send. */
int acp_hand_on(acp_lane *lane, const acp_envelope *envelope, const void *data, acp_request **request);
int acp_receive_taken(acp_lane *lane, uint64_t taken, void *buffer, uint64_t room,
                      acp_request **request);

/* The context ends here: its messages, those here and those still to come, are dropped. A receive that is posted
 * already still gets its message. */
void acp_context_ends(acp_engine *engine, uint64_t context);

/* Collectives: steps over a few buffers, planned by the caller (docs/collectives.md). Messages up to an ACP_STEP_AWAIT
 * are under way together. */
typedef enum acp_fold {
    ACP_SUM = 0, ACP_PROD, ACP_MIN, ACP_MAX, ACP_AND, ACP_OR, ACP_XOR, ACP_LAND, ACP_LOR, ACP_LXOR
} acp_fold;
typedef enum acp_type {
    ACP_BOOL = 0, ACP_INT8, ACP_INT16, ACP_INT32, ACP_INT64, ACP_UINT8, ACP_UINT16, ACP_UINT32,
    ACP_UINT64, ACP_FLOAT32, ACP_FLOAT64, ACP_LONGDOUBLE, ACP_COMPLEX64, ACP_COMPLEX128
} acp_type;
typedef enum acp_step_kind {
    ACP_STEP_SEND = 0, ACP_STEP_RECEIVE, ACP_STEP_COPY, ACP_STEP_FOLD, ACP_STEP_AWAIT,
    ACP_STEP_CALL /* the caller does what it knows by `rank` */
} acp_step_kind;
#define ACP_BUFFERS 5u /* given, wanted, and three more */
typedef struct acp_step {
    uint8_t kind, where, left, right; /* buffers; `left` is sent or copied */
    uint32_t rank;
    uint64_t where_at, left_at, right_at, size; /* bytes */
} acp_step;
typedef struct acp_plan {
    const acp_step *steps; /* valid until the last collective with them has ended */
    uint32_t count, messages; /* between two ACP_STEP_AWAIT, at most */
    int32_t fold, type; /* fold -1: the caller folds */
    const uint32_t *ranks; /* of all members: the death of any of them ends it */
    uint32_t members;
    const uint8_t *eager; /* for each step, by acp_plan_mark; or NULL */
} acp_plan;
/* Which messages are short, and the only one of their plan from, or to, that rank. False: no memory. */
bool acp_plan_mark(const acp_plan *plan, uint8_t *eager);
#define ACP_COLLECTIVE_FOLD 1 /* or does what ACP_STEP_CALL names */

/* A context belongs to this collective alone between each pair of members. All members have notes that
 * acp_notes_belong together, else ACP_E_MISMATCH. */
int acp_collective_begin(acp_engine *engine, const acp_plan *plan, void *const buffers[ACP_BUFFERS],
                         uint64_t context, uint64_t note, acp_collective **collective);
/* By the calling thread alone. Any error, a timeout too, ends the collective: members that wait for this rank are
 * told. ACP_COLLECTIVE_FOLD: the caller folds, calls acp_collective_folded, and this again. */
int acp_collective_run(acp_collective *collective, int64_t timeout_ns);
/* The same, but after ACP_E_TIMEOUT it is where it was: run it again, or release it. */
int acp_collective_run_for(acp_collective *collective, int64_t timeout_ns);
/* From now on the progress engine drives it; instead of acp_collective_run. */
void acp_collective_release(acp_collective *collective);
bool acp_collective_done(acp_collective *collective); /* it has ended, or a fold is due */
int acp_collective_wait(acp_collective *collective, int64_t timeout_ns); /* as run; a timeout ends nothing */
void acp_collective_due(const acp_collective *collective, void **where, const void **left,
                        const void **right, uint64_t *size);
int64_t acp_collective_called(const acp_collective *collective); /* what ACP_STEP_CALL names; -1: a fold is due */
void acp_collective_folded(acp_collective *collective);
/* Why it failed: a rank, or -1. ACP_E_MISMATCH: `theirs`: the call of that rank; `why`: the two ranks with calls that
 * do not belong together, as all others are told, which get `theirs` 0: from the lowest bit on rank and rank, 22 bits
 * each, call and call, 6 each, and whether their types differ. */
int64_t acp_collective_trouble(const acp_collective *collective, uint64_t *theirs, uint64_t *why);
/* Before acp_collective_end, of a collective that has not begun: the waiting members are told that this rank has
 * died. */
void acp_collective_lost(acp_collective *collective, uint32_t rank);
void acp_collective_astray(acp_collective *collective, uint64_t why); /* likewise */
void acp_collective_end(acp_collective *collective); /* one that still runs is left, as after an error */
bool acp_collective_settled(const acp_collective *collective); /* its end needs no lane, and no lock */

#endif
