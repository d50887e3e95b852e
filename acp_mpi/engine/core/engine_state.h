/* The engine's own structures, shared by its sources; users see acp.h. */
#ifndef ACP_CORE_H
#define ACP_CORE_H

#include "messages/eager_slot.h"
#include "core/acp.h"
#include "core/layout.h"
#include "core/messages.h"
#include "core/mpi_window.h"
#include "transport/tcp_send_queue.h"
#include "peers/peer.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define BACKGROUND_BYTES ((uint64_t)1 << 20)   /* above: the progress thread's work */
#define SLICE_BYTES ((uint64_t)256 << 10)
#define HALVES_BYTES ((uint64_t)2 << 20)        /* from here on two owners share a copy */
#define CHUNK_BYTES ((uint64_t)64 << 10)       /* of a transfer over a ring or a link */
#define LISTENERS 6u /* loopback and the addresses that a row has room for */
#define BOUNCE_CHUNKS 4u
#define MAIL_KEPT 3u
#define GUARD_BYTES PAGE /* of offsets behind every region: past its end is nobody's */
#define VIEW_LIMIT 64u /* views of a peer before those without living regions go */
#define OPS 256u
#define LONG_WAIT_NS ((uint64_t)60000000000) /* then it is said who is missing */
#define SPIN_NS 40000u /* a waiting caller looks so long before it sleeps */
#define LOOK_ON_NS 20000u /* and who leads, after it has served somebody */
#define COMPANY_NS 40000u /* frames wait so long for company that more do not come with */

/* How this process reaches a place: itself, or which road leads to its owner. */
enum reach { REACH_LOAD = 0, REACH_VM, REACH_RING, REACH_LINK };

/* A region as one lane knows it; valid while *generation == live. */
struct translation {
    acp_ga_t low;
    uint64_t length;
    unsigned char *base; /* of `low`; NULL: not by load and store */
    const _Atomic uint32_t *generation;
    uint32_t live;
    uint32_t fence;
    _Atomic uint32_t *busy; /* this lane's two flags at the owner */
    struct peer *peer;
    uint64_t position; /* offset in the owner's memory file, or the owner's virtual address */
    uint32_t kind;
};

#define LANE_CACHE 64u
#define LANE_PEERS 16u
#define LANE_LETTERS 32u
/* How this lane has met others at the word that it was at last (backoff.c). */
struct meetings {
    const uint64_t *word;
    uint64_t since, far; /* what it takes to fetch the word from another; 0: not known */
    uint32_t visits;     /* since then */
    uint32_t grace;      /* so many are not looked at */
    uint32_t vain;
    bool stood_back;
};

struct acp_lane {
    acp_engine *engine;
    uint32_t index;
    _Atomic uint32_t taken;
    _Atomic bool stale; /* what it knows is of before a reset: whoever takes it next forgets that */
    bool hurries; /* its thread has the lock of the collectives: it waits for nothing else */
    acp_handle_t previous;
    int64_t patience_ns; /* of its methods, with those who hold a section */
    bool damaged; /* a change of this call did not happen, for what it met cannot be */
    acp_fault fault;
    struct translation recent[2]; /* by role: destination, source */
    struct translation passing[2]; /* instead of it, what is not to be kept */
    struct translation cache[LANE_CACHE];
    struct peer *peers[LANE_PEERS]; /* lately asked for, by slot */
    uint64_t letters[LANE_LETTERS]; /* of the own mailbox, in no list */
    struct meetings meetings;
    uint64_t counted;  /* what the last counter has from this lane */
    bool others_count; /* there, too */
    uint32_t letter_count, request_count;
    acp_request *requests; /* for the next ones */
    _Atomic uint32_t nowhere[2]; /* the flags for regions that never die */
};

struct range {
    uint64_t low, high;
};

/* The memory of this rank. */
struct memory {
    int fd;
    unsigned char *base; /* whole offset space, mapped once */
    uint64_t span;
    uint64_t limit;
    uint64_t committed; /* as in the control page */
    uint64_t used;
    uint64_t bump; /* next offset never given out */
    uint64_t starter_size;
    struct range *registered; /* by slot: memory of this process that exists elsewhere */
    uint32_t slots_touched;
    uint32_t *free_slots;
    uint32_t free_slot_count, free_slot_room;
    struct range *free; /* without memory behind them, oldest first */
    uint32_t free_count, free_room;
    struct range *unpunched; /* with memory behind them */
    uint32_t unpunched_count, unpunched_room;
    uint64_t unpunched_bytes;
    _Atomic uint32_t users; /* threads that have the system change a memory file just now */
    struct retiree *retirees;
    uint64_t tickets;
    _Atomic uint32_t retiring;
    uint64_t next_check; /* committed bytes at which the machine is asked again */
    _Atomic uint32_t references;
    uint64_t live_private, live_segments;
    uint64_t window_size; /* of the window part, from starter memory on */
    uint64_t heap_position, heap_span; /* as in the control page; 0: none */
    acp_fault window_fault; /* why there is none */
    uint64_t probe; /* place in it of a word for its test; 0: none */
};

/* Who belongs to the job, as the node has it (rank_table.c). */
struct table {
    int fd;
    const unsigned char *base; /* mapped whole */
    const struct table_head *head;
};

struct waiter {
    _Atomic uint32_t *word; /* the futex in another's memory that a thread here sleeps on */
    struct waiter *next;
};

struct span {
    uint32_t low, high;
};
static inline bool span_has(struct span s, uint32_t slot)
{
    return slot >= s.low && slot < s.high;
}

struct acp_engine {
    acp_config config;
    struct row row;
    uint32_t self; /* slot */
    _Atomic uint32_t procs;
    struct span joined_with; /* slots of those who joined together: they end together */
    struct span everybody;   /* the same, or all known */
    uint32_t founders;       /* how many the job began with */
    uint32_t rank;
    const uint32_t *slot_of_rank; /* in the table; NULL: the identity */
    struct memory memory;
    struct control *control;
    struct doors *doors;
    struct entry *entries;
    _Atomic uint32_t *order;
    bool can_fence; /* it may have all others run a fence */
    _Atomic bool fenced, fences_late; /* it runs those that others ask for; it may do so soon */
    pthread_t fencer;
    bool fencer_runs;

    struct table table;
    struct peer ***peers; /* pages of PEER_PAGE */
    struct peer *own;
    pthread_mutex_t space; /* peers, views, own directory; descriptors of all of them */
    _Atomic uint32_t loss_news; /* losses that the leader has not dealt with yet */
    _Atomic uint32_t losses, losses_accepted; /* of those who are missed */
    _Atomic uint32_t departed, departed_accepted; /* they and the others that are gone */
    uint32_t absent; /* these and who has left, accepted */
    _Atomic bool outcast; /* the others hold this process for dead */
    _Atomic uint32_t leavers;
    bool guards; /* somebody relies on this process to hear of losses elsewhere (any_source.c) */
    _Atomic int64_t trouble_rank; /* who made the last barrier fail */

    pthread_mutex_t bell;  /* the descriptors of doors: nobody rings one that is closed */
    pthread_mutex_t lock; /* operations, messages, links */
    struct op *ops; /* OPS of them, by handle */
    _Atomic acp_handle_t last, watermark;
    _Atomic uint32_t outstanding;
    _Atomic uint64_t serials; /* of containers */
    _Atomic uint64_t bytes_away; /* that owners move for this process */
    _Atomic uint32_t failure_count;
    struct acp_failure *failures;
    uint32_t failure_room;
    uint64_t failures_dropped;
    struct op *waiting; /* for their order */
    struct op *stalled, **stalled_end; /* for room on their road, the longest waiting first */
    _Atomic uint32_t stalled_count;
    _Atomic uint32_t barred_count; /* of them */
    struct op *work, **work_tail; /* for the leader to run in slices */
    bool work_kicked; /* a leader has been called for it */
    struct op *tasks; /* of other processes, under way here */
    struct op *task_pool;
    uint64_t task_serial;
    struct bounce *bounce_pool;
    uint32_t bounce_count;
    unsigned char *call_space; /* what calls of peers bring, and take back */

    /* progress */
    pthread_mutex_t leader;
    pthread_t thread;
    bool thread_runs;
    _Atomic bool stopping;
    _Atomic bool work_pending;
    _Atomic bool armed; /* events wake the progress thread */
    _Atomic bool rung;  /* and that has left a ring to whoever leads */
    uint32_t polls; /* by leaders */
    int epoll_fd, outer_fd, door_fd, giver_fd, timer_fd, spare_fd, lifeline_fd;
    int listeners[LISTENERS];
    _Atomic uint32_t callers; /* threads inside progress_wait */
    _Atomic uint32_t suitors; /* waiting threads that would lead */
    _Atomic uint64_t polled_at; /* when a poll in vain last made sure that it hears of losses */
    _Atomic uint32_t vain; /* waits for messages in a row that no short look would have met */
    struct experience {
        _Atomic uint32_t count, cost[2]; /* after a look; after a glance */
    } answers[2]; /* how long they take lately; those for which bytes move */
    _Atomic uint32_t rings; /* of the doors of others */
    _Atomic uint16_t eager_seen[EAGER_SLOTS]; /* messages turned away there that this process has found */
    _Atomic uint32_t fast_turn; /* the box at which a receive from whomever begins to look */
    struct backlog *backlog_spares; /* for answers that find a ring full, and no memory */
    uint32_t backlog_spare_count, task_count;
    void *mail_kept[MAIL_KEPT];     /* for what a message by link needs */
    _Atomic bool starved; /* what has come waits for memory */
    bool submits;               /* whoever has the lock: it rings when it has given that back, */
    const struct peer *to_ring; /* this one's */
    struct waiter *waiters;
    pthread_mutex_t waiters_lock;
    _Atomic bool joined;
    uint64_t inbox_head;
    _Atomic uint32_t backlogged;

    struct link *links, *dead_links;
    struct outbox_spares outbox_spares;
    uint64_t sessions; /* links that this process has opened */
    struct courier *couriers;
    uint64_t parcel_serial;
    _Atomic uint32_t mail_stopped; /* peers that are to send nothing but what is asked for */
    _Atomic bool mail_due; /* couriers would go on, and nobody rings for them */
    _Atomic uint32_t held_links; /* with frames that wait for company */
    _Atomic uint64_t held_at;    /* when the first of them began to */
    _Atomic bool asked_later;    /* answers may come later than their caller, if it waits, can do with */
    struct wire **wires; /* by number */
    uint32_t wire_room;
    _Atomic uint32_t wire_count;
    struct wire *dead_wires;
    uint64_t listen_again; /* when descriptors had run out */
    uint64_t put_off_at; /* when a peer was last told that there is none */
    bool spare_used;       /* the last one is: a peer that calls is told that there is no other */
    _Atomic uint64_t short_since; /* since then links wait for want of a descriptor or of memory; 0: none does */
    _Atomic int short_error;
    uint32_t pending_handshakes; /* of wires that others open */
    unsigned char *receive_buffer;
    struct wire *last_input;     /* from there */
    struct wire *_Atomic talker; /* it has brought the last two */
    uint32_t looks;
    _Atomic bool looking; /* now and then, at peers whose end wakes nobody */
    uint64_t timer_at; /* for which the timer is set; 0: it is not */

    pthread_mutex_t mail_lock; /* the sends that wait */
    acp_request *mail_waiting, **mail_tail; /* for room, or for memory: the longest first */
    _Atomic uint32_t mail_sends; /* of them */
    _Atomic uint32_t mail_stuck; /* of them, those that nobody will ring for */
    _Atomic uint32_t mail_losses; /* there may be letters of the dead, or of contexts that have ended */
    _Atomic uint32_t contexts_ended; /* since somebody has looked for such letters */
    acp_request *mail_unwanted; /* receives of the latter whose bytes are under way: leader only */
    _Atomic uint32_t mail_era; /* one more with each reset */
    _Atomic uint32_t send_looks; /* so many are worth while before a long message is kept */
    _Atomic uint32_t sends_kept; /* how often that was asked */
    bool crowded; /* more ranks here than processors for them */
    _Atomic uint32_t yields; /* then so many are worth while before a sleep; 0: none has been tried */

    pthread_mutex_t collectives_lock; /* those that go on by themselves: who drives them */
    struct acp_collective *collectives;
    _Atomic uint32_t collective_count;
    _Atomic uint32_t drivers; /* threads that take one further which is theirs alone */
    _Atomic bool resets;      /* they come back when that is over */
    _Atomic uint32_t inside;     /* threads without the interpreter, collectives under way */
    _Atomic uint32_t sends_open; /* requests of sends, which may know the memory of another */
    _Atomic bool collective_news;   /* one of them may go on: asked of whoever has the lock */
    _Atomic bool collectives_again; /* nobody will ring for it */

    struct window *_Atomic window; /* NULL: none */
    _Atomic uint32_t guests; /* peers that need MPI driven here */
    _Atomic uint32_t stays;  /* peers that drive MPI for this process, maybe for nothing */
    uint64_t lively; /* until then guests are busy */
    _Atomic uint32_t window_words; /* words that threads wait for and a window may write */

    struct party *everyone;   /* the set of all living, for sync */
    struct party *last_party; /* of the last barrier over a list */
    struct unfinished *unfinished; /* barriers that were left half-way; who has not `space` looks whether any are */
    struct signal_count *signals;
    uint32_t signal_used, signal_room;
    struct name *names;  /* kept here, for all */
    struct name *offers; /* that this process has published, with memory of its own */
    struct name *_Atomic ended; /* of these: their memory is to be given back */

    acp_lane lanes[ATTACH_LANES];
};

#define PEER_PAGE 1024u
#define LANE_CALLER 0u
#define LANE_LEADER 1u
#define LANE_LOCKED 2u /* of who holds the lock and has no lane of its own */
#define LANE_KEPT (ATTACH_LANES - 1) /* for those who cannot do without; the others come again and again */

/* Who leads, or holds a lock, must not: others wait for it, and signal handlers may want the lock. */
static inline bool lane_may_wait(const acp_lane *lane)
{
    return lane->index != LANE_LEADER && lane->index != LANE_LOCKED && !lane->hurries;
}

uint64_t now_ns(void); /* linux.c */
int fail(acp_lane *lane, int status, acp_ga_t ga, uint64_t size); /* lane.c */
acp_lane *lane_await(acp_engine *e); /* for a short while, and not as the leader; never NULL */
/* Nothing goes to `p` any more, whose address `ga` need not be; or, if it lives, there is no memory. */
int fail_lost(acp_lane *lane, const struct peer *p, acp_ga_t ga, uint64_t size);
static inline uint32_t slot_of_rank(const acp_engine *e, uint32_t rank)
{
    return e->slot_of_rank ? e->slot_of_rank[rank] : rank;
}
uint32_t rank_of_slot(const acp_engine *e, uint32_t slot); /* after a reset it searches */
/* Treats this path the ranks of the own node as if they were on others? */
static inline bool apart(const acp_engine *e)
{
    return e->config.path == ACP_PATH_LINK || e->config.path == ACP_PATH_WINDOW;
}

/* membarrier.c */
void fences_start(acp_engine *e);
void fences_join(acp_engine *e);
int membarrier_all(void);
/* linux.c */
uint64_t process_start_time(uint32_t pid, bool *dead);
bool process_lives(uint32_t pid, uint64_t start_time); /* and is the one that began then */
int open_pidfd(uint32_t pid);
int descriptor_of(int pidfd, int number);
int memory_file_resize(int fd, uint64_t size); /* -1: errno */
int memory_file_write(int fd, uint64_t at, const void *data, uint64_t size);
void *map_undumped(int fd, uint64_t at, uint64_t size, int protection); /* MAP_FAILED: errno */
struct sockaddr_un;
socklen_t socket_name(struct sockaddr_un *name, const char *kind, uint64_t nonce);
long futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t timeout_ns, bool shared);
void futex_wake(_Atomic uint32_t *word, bool shared);
static inline void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* barrier.c */
void signal_arrived(acp_engine *e, const struct message *m);
bool signals_provide(acp_engine *e); /* there is room for one more; false: no memory */
void barrier_forget(acp_engine *e);
void barriers_drop_unfinished(acp_engine *e);
void barrier_close(acp_engine *e);

/* name_service.c */
void board_serve(acp_lane *lane, struct peer *from, struct link *link, const struct message *m);
void board_reset(acp_engine *e);
void board_close(acp_engine *e);

#endif
