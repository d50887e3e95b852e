/* Trees of control groups as batch systems and containers leave them. */
#include "support/check.h"
#include "base/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)
#define MACHINE (4096 * MIB)

static char root[64];

/* Writes a file below the root, and the folders above it. */
static void write_file(const char *path, const char *text)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *slash = strchr(whole + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(whole, 0755);
        *slash = '/';
    }
    FILE *file = fopen(whole, "w");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void group(const char *folder, bool two, const char *limit, uint64_t used, uint64_t idle)
{
    char path[256], text[256];
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/%s", folder,
             two ? "memory.max" : "memory.limit_in_bytes");
    write_file(path, limit);
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/%s", folder,
             two ? "memory.current" : "memory.usage_in_bytes");
    snprintf(text, sizeof text, "%llu\n", (unsigned long long)used);
    write_file(path, text);
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.stat", folder);
    snprintf(text, sizeof text, "cache 5\n%sinactive_file %llu\n%sactive_file 7\n", two ? "" : "total_",
             (unsigned long long)idle, two ? "" : "total_");
    write_file(path, text);
}

static void begin(const char *groups)
{
    strcpy(root, "/tmp/acp_limits.XXXXXX");
    CHECK(mkdtemp(root));
    write_file("/proc/self/cgroup", groups);
}

static void end(uint64_t left, uint64_t whole)
{
    char command[128];
    uint64_t found = cgroup_left(root, MACHINE, false), most = cgroup_left(root, MACHINE, true);
    if (found != left || most != whole)
        fprintf(stderr, "%llu and %llu\n", (unsigned long long)found, (unsigned long long)most);
    CHECK(found == left && most == whole);
    snprintf(command, sizeof command, "rm -r %s", root);
    CHECK(system(command) == 0);
}

/* Programs may run without a standard input: the next file that is opened takes its number. */
static void without_standard_input(void)
{
    int input = fcntl(0, F_DUPFD_CLOEXEC, 100);
    CHECK(input >= 0 && close(0) == 0);
    uint64_t left = cgroup_left(root, MACHINE, false);
    CHECK(fcntl(0, F_GETFD) == -1 && errno == EBADF);
    CHECK(dup2(input, 0) == 0 && close(input) == 0);
    CHECK(left == 248 * MIB);
}

/* Of a file as much is read as there is room for, and no byte more: the number there loses its last digits. */
static void a_long_file(void)
{
    char text[9000];
    memset(text, ' ', sizeof text);
    text[8191 - strlen("inactive_file 8388608")] = '\n';
    strcpy(text + 8192 - strlen("inactive_file 8388608"), "inactive_file 83886080\n");
    group("", true, "268435456", 40 * MIB, 0);
    write_file("/sys/fs/cgroup/memory.stat", text);
}

int main(void)
{
    begin("0::/system.slice/slurmstepd.scope/job_7/step_0/task_0\n"); /* the job has the limit */
    group("/system.slice/slurmstepd.scope/job_7", true, "1073741824\n", 700 * MIB, 100 * MIB);
    group("/system.slice/slurmstepd.scope/job_7/step_0", true, "max\n", 600 * MIB, 0);
    group("/system.slice", true, "8589934592\n", 900 * MIB, 0);
    end(392 * MIB, 1024 * MIB); /* less a 32nd */

    begin("12:cpuset:/a\n4:cpu,memory,pids:/slurm/uid_1/job_7/step_0\n0::/other\n"); /* version 1 */
    group("/memory/slurm/uid_1/job_7/step_0", false, "9223372036854771712\n", 5 * MIB, 0);
    group("/memory/slurm/uid_1/job_7", false, "1073741824\n", 1000 * MIB, 24 * MIB);
    group("/memory", false, "9223372036854771712\n", 2000 * MIB, 0);
    group("/other", true, "536870912\n", 512 * MIB, 500 * MIB); /* of both kinds the least counts */
    end(16 * MIB, 512 * MIB);

    begin("4:memory:/docker/5f0a\n"); /* a container: its own root is mounted, under no such path */
    group("/memory", false, "268435456\n", 300 * MIB, 10 * MIB);
    end(0, 256 * MIB);

    begin("0::/\n"); /* the root of all has no limit */
    end(UINT64_MAX, UINT64_MAX);

    begin("0::/../../elsewhere\nno line of this kind"); /* out of the own name space */
    group("", true, "268435456", 6 * MIB, 8 * MIB);
    without_standard_input();
    end(248 * MIB, 256 * MIB);

    begin("0::/\n");
    a_long_file();
    end(208 * MIB + 838860, 256 * MIB);

    begin("");
    end(UINT64_MAX, UINT64_MAX);
    printf("test_memory_limits: passed\n");
    return 0;
}
