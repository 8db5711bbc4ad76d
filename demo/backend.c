/* backend.c: an executor for tests, the bench and the demo, with one queue and a speed.
 *
 *   backend NAME PORT RATE
 *
 * Each request sleeps for size / RATE seconds, one after the other in arrival order. Its size is
 * that of its body; without a body it is what ?size= says, or 1000. Sleeping takes no processor, so
 * a machine with two cores can run many backends.
 *
 *   /_mode?ok  /_mode?500  /_mode?slow=20     how it behaves from now on
 *   /_mode?cut                                ... it breaks off in the middle of each answer
 *   /_mode?500&only=/b                        ... on paths that begin with this; others work
 *   /_count                                   requests answered since the last time this was asked,
 *                                             by attempts: all, then those that were not the first
 *
 * The answer is the backend's name. When stopped with SIGSTOP it accepts connections and says
 * nothing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const char *name;
static double rate;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static unsigned long next_number, serving;       /* the queue */
static int fails, cuts;                          /* the mode */
static double slow = 1;
static char only[64];
static unsigned long answered, again;            /* since /_count */

static void work(double seconds)
{
    struct timespec t = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
    unsigned long own;

    pthread_mutex_lock(&lock);
    own = next_number++;
    while (serving != own)
        pthread_cond_wait(&turn, &lock);
    pthread_mutex_unlock(&lock);
    while (nanosleep(&t, &t) && errno == EINTR)
        ;
    pthread_mutex_lock(&lock);
    serving++;
    pthread_cond_broadcast(&turn);
    pthread_mutex_unlock(&lock);
}

static void set_mode(const char *query)
{
    const char *part = strstr(query, "only=");

    pthread_mutex_lock(&lock);
    fails = !strncmp(query, "500", 3);
    cuts = !strncmp(query, "cut", 3);
    slow = !strncmp(query, "slow=", 5) ? atof(query + 5) : 1;
    only[0] = '\0';
    if (part)
        snprintf(only, sizeof only, "%.*s", (int)strcspn(part + 5, "& "), part + 5);
    pthread_mutex_unlock(&lock);
}

static int send_all(int fd, const char *data, size_t len)
{
    while (len) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

        if (n <= 0)
            return 0;
        data += n;
        len -= (size_t)n;
    }
    return 1;
}

/* Promises more than it sends. */
static int half_an_answer(int fd)
{
    char head[512];
    int n = snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
                     "X-Backend: %s\r\nContent-Length: 20000\r\n\r\nhalf an answ", name);

    send_all(fd, head, (size_t)n);
    return 0;
}

static int answer(int fd, int status, const char *body)
{
    char head[512];
    int n = snprintf(head, sizeof head, "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\n"
                     "X-Backend: %s\r\nContent-Length: %zu\r\n\r\n%s", status,
                     status == 200 ? "OK" : "Internal Server Error", name, strlen(body), body);

    return send_all(fd, head, (size_t)n);
}

/* Serves one request; its head is in `head`. 0: the connection is done. */
static int serve(int fd, const char *head, size_t body)
{
    char path[1024] = "", text[128];
    const char *query, *size, *attempt = strcasestr(head, "\r\nNap-Attempt: ");
    double bytes = (double)body, factor;
    int failing, cutting;

    sscanf(head, "%*s %1023s", path);
    query = strchr(path, '?');
    query = query ? query + 1 : "";
    if (!strncmp(path, "/_mode", 6)) {
        set_mode(query);
        return answer(fd, 200, "set\n");
    }
    if (!strncmp(path, "/_count", 7)) {
        pthread_mutex_lock(&lock);
        snprintf(text, sizeof text, "%lu %lu\n", answered, again);
        answered = again = 0;
        pthread_mutex_unlock(&lock);
        return answer(fd, 200, text);
    }
    size = strstr(query, "size=");
    if (!body)
        bytes = size ? atof(size + 5) : 1000;
    pthread_mutex_lock(&lock);
    failing = fails && !strncmp(path, only, strlen(only));
    cutting = cuts;
    factor = !strncmp(path, only, strlen(only)) ? slow : 1;
    answered++;
    again += attempt && atoi(attempt + 15) > 1;
    pthread_mutex_unlock(&lock);
    if (failing) {
        usleep(1000);
        return answer(fd, 500, "broken\n");
    }
    if (cutting)
        return half_an_answer(fd);
    work(bytes / rate * factor);
    snprintf(text, sizeof text, "%s\n", name);
    return answer(fd, 200, text);
}

static void *connection(void *arg)
{
    int fd = (int)(long)arg, alive = 1, one = 1;
    char buf[16384];
    size_t have = 0;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    while (alive) {
        char *end, *length;
        size_t body = 0, left;
        ssize_t n;

        buf[have] = '\0';
        end = strstr(buf, "\r\n\r\n");
        if (!end) {
            if (have == sizeof buf - 1 || (n = recv(fd, buf + have, sizeof buf - 1 - have, 0)) <= 0)
                break;
            have += (size_t)n;
            continue;
        }
        end[2] = '\0';
        length = strcasestr(buf, "\r\nContent-Length: ");
        if (length)
            body = strtoul(length + 18, NULL, 10);
        have -= (size_t)(end + 4 - buf);
        left = body > have ? body - have : 0;
        while (left) {                      /* the body is only counted */
            char sink[16384];

            n = recv(fd, sink, left < sizeof sink ? left : sizeof sink, 0);
            if (n <= 0)
                break;
            left -= (size_t)n;
        }
        if (left)
            break;
        alive = serve(fd, buf, body);
        body = body < have ? body : have;
        have -= body;
        memmove(buf, end + 4 + body, have);
    }
    close(fd);
    return NULL;
}

int main(int argc, char **argv)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    pthread_attr_t small;

    if (argc != 4 || (rate = atof(argv[3])) <= 0) {
        fprintf(stderr, "usage: backend NAME PORT RATE\n");
        return 2;
    }
    name = argv[1];
    at.sin_port = htons((unsigned short)atoi(argv[2]));
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 511)) {
        perror("backend");
        return 1;
    }
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 128 * 1024);
    pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        pthread_t thread;

        if (fd >= 0 && pthread_create(&thread, &small, connection, (void *)(long)fd))
            close(fd);
    }
}
