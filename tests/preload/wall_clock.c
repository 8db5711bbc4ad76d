/* A wall clock that is wrong, for tests: LD_PRELOAD it. The file that WALL_CLOCK names holds how far it is ahead, in
 * microseconds, as a native int64_t: who writes there sets the clock of all programs that have it, at once. The other clocks
 * are the machine's. No call here allocates memory: an allocator may ask for the time before it works.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000

static int64_t ahead(void)
{
    static const volatile int64_t *told;
    const char *file;
    void *at;
    int fd;

    if (!told) {
        if (!(file = getenv("WALL_CLOCK")) || (fd = open(file, O_RDONLY | O_CLOEXEC)) < 0)
            abort();
        at = mmap(NULL, sizeof *told, PROT_READ, MAP_SHARED, fd, 0);
        if (at == MAP_FAILED)
            abort();
        close(fd);
        told = at;
    }
    return *told;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int code = (int)syscall(SYS_clock_gettime, clock, now);
    int64_t us;

    if (code || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
        return code;
    us = now->tv_sec * (int64_t)SECOND + now->tv_nsec / 1000 + ahead();
    now->tv_sec = us / SECOND;
    now->tv_nsec = us % SECOND * 1000 + now->tv_nsec % 1000;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec exact;

    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact))
        return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now)
{
    struct timespec exact;

    if (clock_gettime(CLOCK_REALTIME, &exact))
        return -1;
    if (now)
        *now = exact.tv_sec;
    return exact.tv_sec;
}
