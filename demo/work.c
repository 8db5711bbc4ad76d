/* Pages that want something else each: a CGI program for measurements of a limit that finds itself.
 *
 *   /work?cpu=30          wants a processor for 30 ms
 *   /work?sleep=160       waits for a slow backend for 160 ms, and wants a processor for one
 *   /work?thrash=6        goes over 6 MB ten times in a cache of 48 MB that all accesses share:
 *                         8 at once fit; beyond that each throws out what the others come back for
 *   /work?mix=15:816:30   816 ms of processor time for 15 % of the accesses, 30 ms for the others
 *
 * and several of them together (cpu=5&sleep=100). WORK_DIR, or BOARD_DIR, is the directory of the
 * cache and of a file `slower`: the number in it multiplies every time and the passes over memory, so
 * `echo 2 >slower` makes all pages twice as slow from now on.
 *
 * The cache stands for memory that is not enough. What is not in it is made again from a seed, as a
 * page is that comes back from compressed memory: processor time, some twenty times that of reading
 * it. Memory itself is no use here: where there is no swap the kernel kills what wants more than it
 * may have, which is no thrashing; and a disk makes the measurement the disk's own.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define FRAMES 192              /* of the cache */
#define FRAME_WORDS (32 * 1024) /* of 8 bytes: 256 kB a frame */
#define FRAMES_A_MB 4
#define PASSES 10               /* over its own memory, of an access that thrashes */
#define ROUNDS 15               /* making a frame costs as much as so many readings of it */
#define PATH_SIZE 512

/* The cache: a file, mapped by all. Zero is empty. Nobody locks anything: who finds half of another's
 * frame has read rubbish, and there was nothing to read it for. */
struct cache {
    uint64_t hand;              /* the frame to go next, times FRAMES */
    uint64_t owner[FRAMES];     /* which part of whose memory is there; 0: none */
    uint64_t frame[FRAMES][FRAME_WORDS];
};

static void fail(const char *what)
{
    printf("Status: 500\r\nContent-Type: text/plain\r\n\r\nwork: %s: %s\n", what, strerror(errno));
    exit(0);
}

/* The value of name= in the query, or NULL. */
static const char *field(const char *name)
{
    const char *at = getenv("QUERY_STRING");
    size_t length = strlen(name);
    for (; at && *at; at = strchr(at, '&'), at = at ? at + 1 : NULL)
        if (!strncmp(at, name, length) && at[length] == '=')
            return at + length + 1;
    return NULL;
}

static double number(const char *name)
{
    const char *text = field(name);
    double value = text ? strtod(text, NULL) : 0;
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

/* What multiplies everything. */
static double slower(void)
{
    char path[PATH_SIZE];
    double factor = 1;
    path_of("slower", path);
    FILE *file = fopen(path, "re");
    if (file) {
        if (fscanf(file, "%lf", &factor) != 1 || !(factor > 0 && factor <= 100))
            factor = 1;
        fclose(file);
    }
    return factor;
}

/* Burns so much processor time, besides what has been used. */
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

static struct cache *map_cache(void)
{
    char path[PATH_SIZE];
    path_of("cache", path);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(struct cache)) != 0)
        fail(path);
    void *at = mmap(NULL, sizeof(struct cache), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        fail(path);
    close(fd);
    return at;
}

static void make_frame(uint64_t *frame, uint64_t seed)
{
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < FRAME_WORDS; i++) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            frame[i] ^= seed;
        }
}

/* Goes over `wanted` frames' worth of memory so often; how many frames had to be made. */
static long thrash(long wanted, long passes)
{
    struct cache *cache = map_cache();
    /* Where each part of our memory was seen last. */
    uint64_t place[FRAMES] = {0};
    volatile uint64_t sum = 0;
    long made = 0;
    for (long pass = 0; pass < passes; pass++)
        for (long part = 0; part < wanted; part++) {
            uint64_t us = (uint64_t)getpid() << 16 | (uint64_t)(part + 1);
            uint64_t *owner = &cache->owner[place[part]];
            if (__atomic_load_n(owner, __ATOMIC_ACQUIRE) != us) {
                uint64_t at = __atomic_fetch_add(&cache->hand, 1, __ATOMIC_RELAXED) % FRAMES;
                place[part] = at;
                __atomic_store_n(&cache->owner[at], us, __ATOMIC_RELEASE);
                make_frame(cache->frame[at], us);
                made++;
            }
            for (int i = 0; i < FRAME_WORDS; i++)
                sum += cache->frame[place[part]][i];
        }
    return made;
}

int main(void)
{
    double factor = slower(), cpu = number("cpu"), heavy = 0, light = 0, share = 0;
    long made = 0, megabytes = (long)number("thrash");
    const char *mix = field("mix");
    if (mix && sscanf(mix, "%lf:%lf:%lf", &share, &heavy, &light) == 3) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        srandom((unsigned)(now.tv_nsec ^ getpid() << 8));
        cpu += (double)(random() % 10000) / 100 < share ? heavy : light;
    }
    if (megabytes > FRAMES / FRAMES_A_MB)
        megabytes = FRAMES / FRAMES_A_MB;
    if (megabytes > 0)
        made = thrash(megabytes * FRAMES_A_MB, (long)(PASSES * factor));
    if (number("sleep") > 0)
        wait_for(number("sleep") * factor);
    burn(cpu > 0 ? cpu * factor : 1);
    printf("Content-Type: text/plain\r\n\r\n%ld frames made\n", made);
    return 0;
}
