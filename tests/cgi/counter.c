/* Counts how many of these CGI programs run at once, independently of the module under test.
 *
 * Each run holds a lock on a slot (one byte) of a shared file while it runs. The kernel releases
 * the lock at death, so a killed run is no longer counted: the next one that looks finds its slot
 * unlocked. The number of runs is the number of slots, so a run that is killed midway does not
 * leave it wrong. Slots, maximum and the integral over time are updated under a lock of the file.
 *
 *   COUNTER_FILE   the shared file, made on first use
 *   query          ms=N sleeps, cpu=N burns N ms of processor time, bytes=N sends N bytes
 *   counter report (on the command line) prints the state as JSON and counts nothing
 *   counter forget does so too and resets the maximum to the number of present runs
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define SLOTS 4096
#define SLOT_LOCKS (1 << 20) /* offset of the first slot's byte, far behind the data */

struct count {
    uint64_t running;   /* slots in use */
    uint64_t max;       /* the greatest number at once */
    uint64_t started;   /* runs ever */
    uint64_t ended;     /* of these, ended properly */
    uint64_t died;      /* of these, found dead */
    uint64_t busy_ns;   /* integral of running over time */
    uint64_t since_ns;  /* CLOCK_MONOTONIC of the last change of busy_ns */
    uint8_t used[SLOTS];
};

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void fail(const char *what)
{
    printf("Status: 500\r\nContent-Type: text/plain\r\n\r\ncounter: %s: %s\n", what,
           strerror(errno));
    exit(1);
}

static struct count *map(int *fd)
{
    const char *path = getenv("COUNTER_FILE");
    if (!path)
        fail("COUNTER_FILE is not set");
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*fd < 0 || ftruncate(*fd, sizeof(struct count)))
        fail(path);
    void *at = mmap(NULL, sizeof(struct count), PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (at == MAP_FAILED)
        fail("mmap");
    return at;
}

static int slot_lock(int fd, int command, int slot, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = SLOT_LOCKS + slot, .l_len = 1};
    if (fcntl(fd, command, &lock))
        return -1;
    return command == F_OFD_GETLK ? lock.l_type : 0;
}

/* Takes the file's lock, brings the integral up to now and removes the dead. `mine` is skipped:
 * one's own lock never shows as a conflict. */
static void enter(struct count *count, int fd, int mine)
{
    while (flock(fd, LOCK_EX))
        if (errno != EINTR)
            fail("flock");
    uint64_t now = clock_ns(CLOCK_MONOTONIC);
    if (count->since_ns)
        count->busy_ns += count->running * (now - count->since_ns);
    count->since_ns = now;
    uint64_t running = 0;
    for (int slot = 0; slot < SLOTS; slot++) {
        if (!count->used[slot])
            continue;
        if (slot != mine && slot_lock(fd, F_OFD_GETLK, slot, F_WRLCK) == F_UNLCK) {
            count->used[slot] = 0;
            count->died++;
        } else {
            running++;
        }
    }
    /* Not as written: the last writer may have been killed midway, as it came or went. */
    count->running = running;
}

static int start(struct count *count, int fd)
{
    enter(count, fd, -1);
    int slot = 0;
    while (slot < SLOTS && (count->used[slot] || slot_lock(fd, F_OFD_SETLK, slot, F_WRLCK)))
        slot++;
    if (slot == SLOTS)
        fail("no slot");
    count->used[slot] = 1;
    count->started++;
    if (++count->running > count->max)
        count->max = count->running;
    flock(fd, LOCK_UN);
    return slot;
}

static void end(struct count *count, int fd, int slot)
{
    enter(count, fd, slot);
    count->used[slot] = 0;
    slot_lock(fd, F_OFD_SETLK, slot, F_UNLCK);
    count->running--;
    count->ended++;
    flock(fd, LOCK_UN);
}

static void report(struct count *count, int fd, int forget)
{
    enter(count, fd, -1);
    if (forget)
        count->max = count->running;
    struct count seen = *count;
    flock(fd, LOCK_UN);
    printf("{\"running\":%llu,\"max\":%llu,\"started\":%llu,\"ended\":%llu,\"died\":%llu,"
           "\"busy_ns\":%llu,\"now_ns\":%llu}\n",
           (unsigned long long)seen.running, (unsigned long long)seen.max,
           (unsigned long long)seen.started, (unsigned long long)seen.ended,
           (unsigned long long)seen.died, (unsigned long long)seen.busy_ns,
           (unsigned long long)seen.since_ns);
}

static long query(const char *name)
{
    const char *text = getenv("QUERY_STRING");
    size_t length = strlen(name);
    while (text && *text) {
        if (!strncmp(text, name, length) && text[length] == '=')
            return strtol(text + length + 1, NULL, 10);
        text = strchr(text, '&');
        text = text ? text + 1 : NULL;
    }
    return 0;
}

static void work(void)
{
    long ms = query("ms");
    uint64_t cpu = (uint64_t)query("cpu") * 1000000u;
    struct timespec left = {ms / 1000, (ms % 1000) * 1000000};
    while (nanosleep(&left, &left) == -1 && errno == EINTR)
        ;
    while (clock_ns(CLOCK_PROCESS_CPUTIME_ID) < cpu)
        ;
}

static void answer(long bytes)
{
    static char block[64 * 1024];
    printf("Content-Type: text/plain\r\n");
    if (bytes <= 0) {
        printf("\r\ncounted\n");
    } else {
        printf("Content-Length: %ld\r\n\r\n", bytes);
        memset(block, 'x', sizeof block);
        for (; bytes > 0; bytes -= (long)sizeof block)
            fwrite(block, 1, bytes < (long)sizeof block ? (size_t)bytes : sizeof block, stdout);
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int fd;
    struct count *count = map(&fd);
    if (argc > 1) {
        report(count, fd, !strcmp(argv[1], "forget"));
        return 0;
    }
    int slot = start(count, fd);
    work();
    answer(query("bytes"));
    end(count, fd, slot);
    return 0;
}
