/* Pages that need different things: a CGI program to measure a limit that finds itself.
 *
 *   /work?cpu=30          needs a processor for 30 ms
 *   /work?sleep=160       waits for a slow backend for 160 ms, and needs a processor for one
 *   /work?memory=8        goes over 8 MB of its own memory ten times
 *
 * or several of them together (cpu=5&sleep=100; a program that sleeps keeps its memory). WORK_DIR,
 * or BOARD_DIR, is the directory of a file `slower`. The number in it multiplies every time and the
 * passes over memory: `echo 2 >slower` makes all pages twice as slow from now on, except those
 * requested with `steady`.
 *
 * The memory is a part of the file that WORK_MEMORY names, the first part that nobody else has. In
 * a control group that cannot hold all parts in use at once (bench/curves.rs), each program evicts
 * what the others come back for: the machine thrashes. Memory without a file behind it would not
 * do: without swap the kernel kills a program that exceeds its limit.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PASSES 10               /* over its own memory */
#define PATH_SIZE 512

static void fail(const char *what)
{
    printf("Status: 500\r\nContent-Type: text/plain\r\n\r\nwork: %s: %s\n", what, strerror(errno));
    exit(0);
}

/* What follows a name in the query, or NULL. */
static const char *field(const char *name)
{
    const char *at = getenv("QUERY_STRING");
    size_t length = strlen(name);
    for (; at && *at; at = strchr(at, '&'), at = at ? at + 1 : NULL)
        if (!strncmp(at, name, length) && (!at[length] || strchr("=&", at[length])))
            return at + length;
    return NULL;
}

static double number(const char *name)
{
    const char *text = field(name);
    double value = text && *text == '=' ? strtod(text + 1, NULL) : 0;
    return value > 0 && value < 1e6 ? value : 0;
}

static void path_of(const char *name, char path[PATH_SIZE])
{
    const char *dir = getenv("WORK_DIR");
    if (!dir)
        dir = getenv("BOARD_DIR");
    if (snprintf(path, PATH_SIZE, "%s/%s", dir ? dir : "/tmp", name) >= PATH_SIZE) {
        errno = ENAMETOOLONG;
        fail(name);
    }
}

/* The factor that multiplies everything. */
static double slower(void)
{
    char path[PATH_SIZE];
    double factor = 1;
    path_of("slower", path);
    FILE *file = field("steady") ? NULL : fopen(path, "re");
    if (file) {
        if (fscanf(file, "%lf", &factor) != 1 || !(factor > 0 && factor <= 100))
            factor = 1;
        fclose(file);
    }
    return factor;
}

/* Burns this much processor time, in addition to what has been used. */
static void burn(double ms)
{
    struct timespec begin, now;
    volatile uint64_t hash = 5381;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    do {
        for (int i = 0; i < 20000; i++)
            hash = hash * 33 + (uint64_t)i;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    } while ((double)(now.tv_sec - begin.tv_sec) * 1e3 +
                 (double)(now.tv_nsec - begin.tv_nsec) / 1e6 < ms);
}

static void wait_for(double ms)
{
    struct timespec left = {(time_t)(ms / 1000), 0};
    left.tv_nsec = (long)((ms - (double)left.tv_sec * 1000) * 1e6);
    while (nanosleep(&left, &left) == -1 && errno == EINTR)
        ;
}

/* The first part of a file that nobody else has, until this process ends. With more processes than
 * parts some share one. */
static long take_part(const char *path, long parts)
{
    char lock_path[PATH_SIZE];
    path_of("parts", lock_path);
    int fd = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        fail(lock_path);
    for (long part = 0; part < parts; part++) {
        struct flock byte = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = part, .l_len = 1};
        if (fcntl(fd, F_SETLK, &byte) == 0)
            return part;
    }
    if (!parts) {
        errno = EINVAL;
        fail(path);
    }
    return getpid() % parts;
}

/* Goes over this much memory this many times. */
static uint64_t go_over(size_t size, long passes)
{
    const char *path = getenv("WORK_MEMORY");
    struct stat file;
    uint64_t sum = 0;
    int fd = open(path ? path : "", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &file) != 0)
        fail("WORK_MEMORY");
    off_t begin = take_part(path, (long)((size_t)file.st_size / size)) * (off_t)size;
    const volatile uint64_t *at = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, begin);
    if (at == MAP_FAILED)
        fail(path);
    for (long pass = 0; pass < passes; pass++)
        for (size_t i = 0; i < size / sizeof *at; i++)
            sum += at[i];
    return sum;
}

int main(void)
{
    double factor = slower(), cpu = number("cpu");
    size_t megabytes = (size_t)number("memory");
    uint64_t sum = 0;
    if (megabytes > 0)
        sum = go_over(megabytes << 20, (long)(PASSES * factor));
    if (number("sleep") > 0)
        wait_for(number("sleep") * factor);
    burn(cpu > 0 ? cpu * factor : 1);
    printf("Content-Type: text/plain\r\n\r\n%016llx\n", (unsigned long long)sum);
    return 0;
}
