/* Keeps a new connection back before event counts it, for tests: LD_PRELOAD it, then make the file that
 * LATE_FILE names. The worker that takes the next connection removes it (so it is only one), writes its pid
 * to LATE_FILE.by and goes on when that file is gone, or after half a minute.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MOST_MS 30000

typedef void *create(void *pool);

static void wait_for_the_test(const char *file)
{
    char name[4096], pid[16];
    int fd, length = snprintf(pid, sizeof pid, "%d\n", (int)getpid());

    snprintf(name, sizeof name, "%s.by", file);
    fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, pid, (size_t)length) != length)
        abort();
    close(fd);
    for (int ms = 0; ms < MOST_MS && access(name, F_OK) == 0; ms++)
        usleep(1000);
}

/* apr_buckets.h: what event calls between taking a connection from its queue and counting it. */
create apr_bucket_alloc_create;

void *apr_bucket_alloc_create(void *pool)
{
    static create *real;
    const char *file = getenv("LATE_FILE");

    if (!real)
        real = (create *)dlsym(RTLD_NEXT, "apr_bucket_alloc_create");
    if (file && unlink(file) == 0)
        wait_for_the_test(file);
    return real(pool);
}
