/* Scenes of tests with the stand-in: each is played in a process of its own, with an environment of its own, and may
 * start other processes. The driver is first called in the scene, since a fork takes none along. */
#ifndef ACP_SCENE_H
#define ACP_SCENE_H

#include "standin.h"
#include "support/check.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define OK(call) CHECK((call) == CUDA_OK)

struct scene_peer { /* another process, and how to talk to it */
    pid_t process;
    int line;
};

static inline void scene_say(int line, const void *words, size_t size)
{
    CHECK(write(line, words, size) == (ssize_t)size);
}

static inline void scene_hear(int line, void *words, size_t size)
{
    CHECK(recv(line, words, size, MSG_WAITALL) == (ssize_t)size);
}

/* One says that it is so far, and the other hears it. */
static inline void scene_sign(int line)
{
    scene_say(line, "", 1);
}

static inline void scene_await(int line)
{
    scene_hear(line, &(char){0}, 1);
}

static inline struct scene_peer scene_start(void (*play)(int line))
{
    int lines[2];
    struct scene_peer peer;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, lines) == 0);
    CHECK((peer.process = fork()) >= 0);
    if (!peer.process) {
        close(lines[0]);
        play(lines[1]);
        exit(0);
    }
    close(lines[1]);
    peer.line = lines[0];
    return peer;
}

static inline int scene_end(struct scene_peer peer)
{
    int status;
    CHECK(waitpid(peer.process, &status, 0) == peer.process);
    close(peer.line);
    return status;
}

/* Ends a process that a test has no more use for, without its leave. */
static inline void scene_kill(struct scene_peer peer)
{
    CHECK(kill(peer.process, SIGKILL) == 0);
    CHECK(WIFSIGNALED(scene_end(peer)));
}

/* Plays a scene with settings such as "FAKE_DEVICES=2 FAKE_DELAY=0". With `complaint` it must end with that line. */
#define scene_play(play, settings, complaint) scene_play_named(#play, play, settings, complaint)
static inline void scene_play_named(const char *name, void (*play)(void), const char *settings, const char *complaint)
{
    int words = memfd_create("words", MFD_CLOEXEC), status;
    pid_t process = fork();
    CHECK(process >= 0 && words >= 0);
    if (!process) {
        char *list = strdup(settings), *rest = list;
        for (char *each; (each = strsep(&rest, " "));)
            if (*each)
                putenv(strdup(each));
        free(list);
        if (complaint)
            dup2(words, 2);
        play();
        exit(0);
    }
    CHECK(waitpid(process, &status, 0) == process);
    char said[4096] = "";
    CHECK(pread(words, said, sizeof said - 1, 0) >= 0);
    close(words);
    bool right = complaint ? strstr(said, complaint) != NULL : status == 0;
    if (!right)
        fprintf(stderr, "%s, %s: status %#x, expected: %s; said:\n%s\n", name, settings, (unsigned)status,
                complaint ? complaint : "0", said);
    CHECK(right);
}

#endif
