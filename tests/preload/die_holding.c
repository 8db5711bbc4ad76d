/* Kills a process that holds a robust mutex, for tests: LD_PRELOAD it, then make the file that
 * DIE_FILE names. The next process that takes such a mutex removes the file (so it is only one),
 * writes its pid to DIE_FILE.by and dies up to 30 us later: before, while or just after it changes
 * what the mutex protects.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define ROBUST 16   /* glibc: PTHREAD_MUTEX_ROBUST_NORMAL_NP in a mutex's kind */

static long nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_nsec;
}

static void sign(const char *file)
{
    char name[4096], pid[16];
    int fd, length = snprintf(pid, sizeof pid, "%d\n", (int)getpid());

    snprintf(name, sizeof name, "%s.by", file);
    fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, pid, (size_t)length) != length)
        abort();
    close(fd);
}

static int taken(pthread_mutex_t *mutex, int code)
{
    static const char *file;
    struct sigevent kill = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    struct itimerspec soon = {.it_value = {0, 1}};
    timer_t timer;

    if (code || !(mutex->__data.__kind & ROBUST))
        return code;
    if (!file && !(file = getenv("DIE_FILE")))
        return code;
    if (getppid() == getpgrp() && unlink(file) == 0) {   /* a child, not the server's parent */
        sign(file);
        soon.it_value.tv_nsec += nanoseconds() / 100 % 30000;
        if (timer_create(CLOCK_MONOTONIC, &kill, &timer) || timer_settime(timer, 0, &soon, NULL))
            abort();
    }
    return code;
}

int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    static int (*real)(pthread_mutex_t *);

    if (!real)
        real = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_trylock");
    return taken(mutex, real(mutex));
}

int pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until)
{
    static int (*real)(pthread_mutex_t *, clockid_t, const struct timespec *);

    if (!real)
        real = (int (*)(pthread_mutex_t *, clockid_t, const struct timespec *))dlsym(
            RTLD_NEXT, "pthread_mutex_clocklock");
    return taken(mutex, real(mutex, clock, until));
}
