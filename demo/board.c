/* The bulletin board of the NAP-Web paper's experiment (chapter 6), as a CGI program.
 *
 * A POST appends one entry (form field `text`) to a file under a lock; every request shows the last
 * entries as HTML. Each request burns as much processor time as an interpreted script would, so
 * that a crowd overloads the machine and not only the queue:
 *
 *   BOARD_DIR       directory of the file `posts` and of its `lock`
 *   BOARD_CPU_MS    processor time of one request in ms, its own work included (30)
 *   BOARD_SLEEP_MS  time asleep besides, for experiments that must not be CPU bound (0)
 *   BOARD_SLEEP_SPREAD  up to so many per cent of that more or less, by chance (0)
 *
 * A number in the file `cpu_ms` of that directory overrides BOARD_CPU_MS, for a board that becomes
 * slower or faster while a crowd is there.
 *
 * The file keeps KEEP entries, one a line: seconds, a blank, the text as it was sent, urlencoded.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define KEEP 200      /* entries in the file */
#define SHOW 10       /* entries on the page */
#define LINE_MAX_ 4096 /* bytes of one entry; a longer one is cut */

static void fail(const char *what)
{
    printf("Status: 500\r\nContent-Type: text/plain\r\n\r\nboard: %s: %s\n", what, strerror(errno));
    exit(0);
}

static long number(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

/* The number in a file; without the file `otherwise`. */
static long number_in(const char *path, long otherwise)
{
    FILE *file = fopen(path, "r");
    long found;
    if (!file)
        return otherwise;
    if (fscanf(file, "%ld", &found) != 1)
        found = otherwise;
    fclose(file);
    return found;
}

static void burn_until(long cpu_ms)
{
    struct timespec used;
    volatile unsigned long hash = 5381;
    do {
        for (int i = 0; i < 20000; i++)
            hash = hash * 33 + (unsigned long)i;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    } while (used.tv_sec * 1000 + used.tv_nsec / 1000000 < cpu_ms);
}

static void nap_ms(long ms)
{
    struct timespec left = {ms / 1000, (ms % 1000) * 1000000};
    while (nanosleep(&left, &left) == -1 && errno == EINTR)
        ;
}

/* Up to `percent` of `ms` more or less; each in between is as likely. */
static long spread(long ms, long percent)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    srandom((unsigned)now.tv_nsec ^ (unsigned)getpid() << 16);
    long most = ms * percent / 100;
    return most > 0 ? ms - most + random() % (2 * most + 1) : ms;
}

/* The field `text` of the form on stdin, still urlencoded; the whole body is read. */
static void read_text(char *text, size_t size)
{
    static char body[64 * 1024];
    size_t length = fread(body, 1, sizeof body - 1, stdin);
    body[length] = 0;
    *text = 0;
    for (char *field = strtok(body, "&"); field; field = strtok(NULL, "&"))
        if (!strncmp(field, "text=", 5))
            snprintf(text, size, "%s", field + 5);
    text[strcspn(text, "\r\n")] = 0;
}

static void print_escaped(const char *urlencoded)
{
    for (const char *c = urlencoded; *c; c++) {
        int byte = (unsigned char)*c;
        if (byte == '+') {
            byte = ' ';
        } else if (byte == '%' && isxdigit((unsigned char)c[1]) && isxdigit((unsigned char)c[2])) {
            char hex[3] = {c[1], c[2], 0};
            byte = (int)strtol(hex, NULL, 16);
            c += 2;
        }
        switch (byte) {
        case '<': fputs("&lt;", stdout); break;
        case '>': fputs("&gt;", stdout); break;
        case '&': fputs("&amp;", stdout); break;
        case '"': fputs("&quot;", stdout); break;
        default: putchar(byte);
        }
    }
}

/* Reads the last entries; returns how many. Caller holds the lock. */
static int load(const char *path, char (*lines)[LINE_MAX_])
{
    FILE *file = fopen(path, "r");
    int count = 0;
    if (!file)
        return 0;
    while (fgets(lines[count % KEEP], LINE_MAX_, file))
        count++;
    fclose(file);
    return count;
}

/* Writes the kept entries and the new one. Caller holds the lock. */
static void save(const char *path, char (*lines)[LINE_MAX_], int count)
{
    char fresh[4200];
    snprintf(fresh, sizeof fresh, "%s.new", path);
    FILE *file = fopen(fresh, "w");
    if (!file)
        fail(fresh);
    for (int i = count > KEEP ? count - KEEP : 0; i < count; i++)
        fputs(lines[i % KEEP], file);
    if (fclose(file) || rename(fresh, path))
        fail(path);
}

int main(void)
{
    static char lines[KEEP][LINE_MAX_], text[LINE_MAX_ - 32];
    char path[4096], lock[4096], speed[4096];
    const char *dir = getenv("BOARD_DIR"), *method = getenv("REQUEST_METHOD");
    if (!dir)
        fail("BOARD_DIR is not set");
    snprintf(path, sizeof path, "%s/posts", dir);
    snprintf(lock, sizeof lock, "%s/lock", dir);
    snprintf(speed, sizeof speed, "%s/cpu_ms", dir);

    int post = method && !strcmp(method, "POST");
    if (post)
        read_text(text, sizeof text);
    burn_until(number_in(speed, number("BOARD_CPU_MS", 30)));
    nap_ms(spread(number("BOARD_SLEEP_MS", 0), number("BOARD_SLEEP_SPREAD", 0)));

    int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || flock(fd, LOCK_EX))
        fail(lock);
    int count = load(path, lines);
    if (post && *text) {
        snprintf(lines[count % KEEP], LINE_MAX_, "%ld %s\n", (long)time(NULL), text);
        save(path, lines, ++count);
    }
    flock(fd, LOCK_UN);

    printf("Content-Type: text/html; charset=utf-8\r\nCache-Control: no-store\r\n\r\n"
           "<!DOCTYPE html>\n<html lang=\"en\"><title>Board</title>\n<h1>Board</h1>\n"
           "<form method=\"post\"><input name=\"text\" maxlength=\"1024\" aria-label=\"text\">"
           "<button>Post</button></form>\n<ol reversed>\n");
    for (int i = count - 1; i >= 0 && i >= count - SHOW && i > count - 1 - KEEP; i--) {
        char *line = lines[i % KEEP];
        line[strcspn(line, "\n")] = 0;
        char *entry = strchr(line, ' ');
        fputs("<li>", stdout);
        print_escaped(entry ? entry + 1 : line);
        putchar('\n');
    }
    puts("</ol>\n</html>");
    return 0;
}
