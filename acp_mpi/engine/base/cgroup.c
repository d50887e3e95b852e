/* How much memory this process may use: the machine has, or its control groups allow. A batch system sets its
 * limit somewhere between the root and the group that the process is in, so all of them count, of version 2
 * (one tree) and of version 1 (a tree for memory). In a container the path that the kernel names may lead
 * nowhere: then the root that is mounted there is the container's. */
#include "base/cgroup.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_MOST 4096
#define SPARE_MOST ((uint64_t)512 << 20)

/* A tree of control groups, and the names of a group's files there. */
static const struct tree {
    const char *mount, *controller, *limit, *used, *idle;
} trees[] = {
    {"/sys/fs/cgroup", "", "memory.max", "memory.current", "inactive_file "},
    {"/sys/fs/cgroup/memory", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
     "total_inactive_file "},
};
#define TREES (sizeof trees / sizeof *trees)

/* Reads a file of a folder; "" if that is not possible. */
static char *text_of(const char *folder, const char *name, char *text, size_t size)
{
    char path[PATH_MOST + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    return text;
}

/* The number behind a word that begins a line; `otherwise` without that line. */
static uint64_t number_of(const char *text, const char *word, uint64_t otherwise)
{
    size_t length = strlen(word);
    for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line, word, length) == 0)
            return strtoull(line + length, NULL, 10);
    return otherwise;
}

/* Of `most` bytes some stay free, for memory that processes take elsewhere: the system kills a process otherwise. */
static uint64_t less_spare(uint64_t left, uint64_t most)
{
    uint64_t spare = most / 32 < SPARE_MOST ? most / 32 : SPARE_MOST;
    return left > spare ? left - spare : 0;
}

/* Of one group: the rest below its limit, or the limit itself. Files that have been read and lie in memory until
 * another use needs it count as used there, but go when a process wants more. */
static uint64_t group_leaves(const struct tree *tree, const char *folder, uint64_t machine, bool whole)
{
    char limit[64], used[64], shares[8192];
    text_of(folder, tree->limit, limit, sizeof limit);
    if (*limit < '0' || *limit > '9')
        return UINT64_MAX; /* "max", or no such group */
    uint64_t most = strtoull(limit, NULL, 10);
    if (most >= machine) /* version 1 writes "no limit" so */
        return UINT64_MAX;
    if (whole || !*text_of(folder, tree->used, used, sizeof used))
        return most;
    uint64_t now = strtoull(used, NULL, 10);
    uint64_t idle = number_of(text_of(folder, "memory.stat", shares, sizeof shares), tree->idle, 0);
    now -= idle < now ? idle : now;
    return less_spare(now < most ? most - now : 0, most);
}

/* The group of this process in a tree, "/" if the kernel names none. Lines are number:controllers:path. */
static void group_in(const struct tree *tree, const char *groups, char *path)
{
    size_t length = strlen(tree->controller);
    strcpy(path, "/");
    for (const char *line = groups; line && *line;) {
        const char *end = strchr(line, '\n'), *names = strchr(line, ':');
        const char *at = names ? strchr(names + 1, ':') : NULL;
        size_t size = end ? (size_t)(end - line) : strlen(line);
        if (!at || at >= line + size)
            return;
        for (const char *name = names + 1, *next; name <= at; name = next + 1) {
            next = name + strcspn(name, ",:");
            if ((size_t)(next - name) == length && strncmp(name, tree->controller, length) == 0 &&
                (length || line[0] == '0')) {
                snprintf(path, PATH_MOST, "%.*s", (int)(line + size - at - 1), at + 1);
                return;
            }
        }
        line = end ? end + 1 : NULL;
    }
}

uint64_t cgroup_left(const char *root, uint64_t machine, bool whole)
{
    char groups[8192], path[PATH_MOST], folder[PATH_MOST];
    uint64_t least = UINT64_MAX;
    text_of(root, "proc/self/cgroup", groups, sizeof groups);
    for (size_t i = 0; i < TREES; i++) {
        group_in(&trees[i], groups, path);
        for (char *end = path + strlen(path); end; end = strrchr(path, '/')) {
            *end = 0;
            int n = snprintf(folder, sizeof folder, "%s%s%s", root, trees[i].mount, path);
            uint64_t left = n < (int)sizeof folder ? group_leaves(&trees[i], folder, machine, whole)
                                                   : UINT64_MAX;
            least = left < least ? left : least;
        }
    }
    return least;
}

static uint64_t least_of(bool whole)
{
    char text[8192];
    text_of("/proc", "meminfo", text, sizeof text);
    uint64_t most = number_of(text, "MemTotal:", UINT64_MAX >> 10) << 10;
    uint64_t left = number_of(text, "MemAvailable:", UINT64_MAX >> 10) << 10;
    uint64_t machine = whole ? most : less_spare(left, most), groups = cgroup_left("", most, whole);
    return machine < groups ? machine : groups;
}

uint64_t cgroup_available(void)
{
    return least_of(false);
}

uint64_t acp_memory_total(void)
{
    return least_of(true);
}
