/* The leader, the progress thread and the threads that wait. */
#ifndef ACP_STATE_PROGRESS_H
#define ACP_STATE_PROGRESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LONG_WAIT_NS ((uint64_t)60000000000) /* after it a wait names the missing ranks */
#define SPIN_NS 40000u /* longest poll of a waiting caller before it sleeps */
#define LOOK_ON_NS 20000u /* longest poll of a leader after it has served a peer */

struct waiter {
    _Atomic uint32_t *word; /* futex in a peer's memory that a thread here sleeps on */
    struct waiter *next;
};

struct progress_state {
    pthread_mutex_t bell;  /* guards the descriptors of doors: a closed one is never rung */
    /* progress */
    pthread_mutex_t leader;
    pthread_t thread;
    bool thread_runs;
    _Atomic bool armed; /* events wake the progress thread */
    _Atomic bool rung;  /* the progress thread has left a ring to the leader */
    uint32_t polls; /* polls by leaders */
    int epoll_fd, outer_fd, door_fd, timer_fd, lifeline_fd;
    _Atomic uint32_t callers; /* threads inside wait_ready */
    _Atomic uint32_t suitors; /* waiting threads that would lead */
    _Atomic uint32_t vain; /* waits for messages in a row that a longer poll would not have ended */
    struct experience {
        _Atomic uint32_t count, cost[2]; /* number; mean ns after a look, and after a glance */
    } answers[2]; /* lately; [1]: while bytes move */
    _Atomic uint32_t rings; /* rings of the doors of peers */
    struct waiter *waiters;
    pthread_mutex_t waiters_lock;
    uint32_t looks;
    uint64_t timer_at; /* time of the next tick; 0: none */
    _Atomic uint64_t flush_at; /* time at which frames that are held back go out; 0: no time says that */
    _Atomic uint32_t unrung_words; /* words that threads wait for and some writers change without a ring */
    _Atomic bool crowded; /* more ranks here than processors for them */
    _Atomic bool packed;  /* the same, with services, which mostly sleep */
};

#endif
