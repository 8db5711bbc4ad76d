/* nap_store.c: the agent, which speaks with a fleet's store (NapStore).
 *
 * It is another program, started by the parent as piped loggers are, and run as the children's user. Its descriptor
 * 0 is a pipe with its brief, which the parent keeps open as long as it lives; 3 is the segment. Nothing here waits
 * for it. A restart closes the pipe and starts another agent: the old one lives on until the new one has its place,
 * and dies by itself.
 */
#include <ap_mpm.h>
#include <mpm_common.h>
#include <unixd.h>
#include <apr_shm.h>
#include <apr_time.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mod_nap.h"

#define SEGMENT_FD 3             /* as src/agent.rs has it */
#define PIPE_SIZE (1024 * 1024)  /* bytes; without root a pipe may have no more */
#define PAUSE_MS 1000            /* of an agent whose predecessor has died */
#define PAUSE_MAX_MS 30000       /* of one whose predecessors all died young */
#define YOUNG_MS 60000
#define FOREIGN 90               /* its status where it is of another version (src/agent.rs) */

/* The agent that runs, as the parent knows it. */
static struct {
    apr_proc_t proc;             /* pid 0: none */
    pid_t parent;
    server_rec *server;
    apr_pool_t *pool;            /* pconf */
    int segment, pipe;           /* descriptors; -1: none */
    apr_time_t begun;
    uint32_t pause_ms;           /* with which it began */
    int due;                     /* the next one is started with the next tick */
    volatile int *error;         /* shared with it until it is itself: why it could not be started; 0: it was */
} agent = { .segment = -1, .pipe = -1 };

int nap_store_check(server_rec *s, apr_pool_t *p)
{
    nap_site *site = nap_the_site;
    char *err = apr_pcalloc(p, NAP_ERR_MAX);

    /* as with a key file: what is wrong must not stop a server that runs */
    if (!site->view.agent[0] || ap_state_query(AP_SQ_MAIN_STATE) != AP_SQ_MS_CREATE_PRE_CONFIG)
        return OK;
    return nap_the_core->server.brief(site->conf, nap_str_of(site->store_auth), nap_str_of(site->key_file), -1, 0,
                                      err) ? nap_complain(s, p, NULL, "%s", err) : OK;
}

/* ---- Starting it ------------------------------------------------------------------------------ */

/* Whatever else is open ends with exec. */
static void close_others(void)
{
#ifdef CLOSE_RANGE_CLOEXEC
    if (close_range(SEGMENT_FD + 1, ~0U, CLOSE_RANGE_CLOEXEC) == 0)
        return;
#endif
    for (long fd = sysconf(_SC_OPEN_MAX) - 1; fd > SEGMENT_FD; fd--)
        fcntl((int)fd, F_SETFD, FD_CLOEXEC);
}

/* In the new process. httpd's log may lie at a descriptor that is overwritten here: the parent says what failed. */
static void become(int in)
{
    const char *path = nap_the_site->view.agent;
    int segment = fcntl(agent.segment, F_DUPFD, SEGMENT_FD + 1);
    sigset_t none;

    in = fcntl(in, F_DUPFD, SEGMENT_FD + 1);
    sigemptyset(&none);
    if (ap_run_drop_privileges(agent.pool, agent.server))
        errno = EPERM;
    else if (segment >= 0 && dup2(in, STDIN_FILENO) >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0 &&
             dup2(segment, SEGMENT_FD) >= 0 && !sigprocmask(SIG_SETMASK, &none, NULL)) {
        close_others();
        execl(path, path, (char *)NULL);
    }
    *agent.error = errno ? errno : EINVAL;
    _exit(1);
}

/* The server goes on without one, until its next restart. */
static void give_up(const char *why)
{
    ap_log_error(APLOG_MARK, APLOG_ERR, 0, agent.server, "mod_nap: cannot start %s: %s; this server runs alone",
                 nap_the_site->view.agent, why);
    nap_the_core->server.no_agent();
}

static void give_up_errno(int error)
{
    char msg[120];

    give_up(apr_strerror(error, msg, sizeof msg));
}

static void watch(int reason, void *data, int status);

static void start(uint32_t pause_ms)
{
    const nap_site *site = nap_the_site;
    char err[NAP_ERR_MAX] = "";
    struct stat st;
    int ends[2];
    pid_t pid;

    agent.due = 0;
    *agent.error = 0;
    /* most often it is not installed: that is told before anything else */
    if (!ap_unixd_config.chroot_dir && stat(site->view.agent, &st)) {
        give_up_errno(errno);
        return;
    }
    if (agent.segment < 0) {
        give_up("the memory of this server is of an earlier version; restart it fully");
        return;
    }
    if (pipe2(ends, O_CLOEXEC)) {
        give_up_errno(errno);
        return;
    }
    fcntl(ends[1], F_SETPIPE_SZ, PIPE_SIZE);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    if (nap_the_core->server.brief(site->conf, nap_str_of(site->store_auth), nap_str_of(site->key_file), ends[1],
                                   pause_ms, err)) {
        give_up(err);
        pid = -1;
    }
    else if ((pid = fork()) == 0)
        become(ends[0]);
    else if (pid < 0)
        give_up_errno(errno);
    close(ends[0]);
    if (pid < 0) {
        close(ends[1]);
        return;
    }
    agent.proc.pid = pid;
    agent.pipe = ends[1];
    agent.pause_ms = pause_ms;
    agent.begun = apr_time_now();
    apr_proc_other_child_register(&agent.proc, watch, &agent, NULL, agent.pool);
}

/* ---- Watching over it ------------------------------------------------------------------------- */

static int stops(void)
{
    int state = AP_MPMQ_STOPPING;

    return ap_mpm_query(AP_MPMQ_MPM_STATE, &state) != APR_SUCCESS || state == AP_MPMQ_STOPPING;
}

static void died(int status)
{
    int64_t lived_ms = apr_time_as_msec(apr_time_now() - agent.begun);
    uint32_t pause_ms = PAUSE_MS;

    agent.proc.pid = 0;
    close(agent.pipe);
    agent.pipe = -1;
    if (*agent.error) {
        give_up_errno(*agent.error);
        return;
    }
    /* of another version: another start would end likewise, and it has told so itself */
    if (stops() || status == FOREIGN)
        return;
    if (lived_ms < YOUNG_MS + agent.pause_ms && agent.pause_ms)
        pause_ms = agent.pause_ms < PAUSE_MAX_MS / 2 ? 2 * agent.pause_ms : PAUSE_MAX_MS;
    /* APR gives the number alone, and not which of both it is */
    ap_log_error(APLOG_MARK, APLOG_WARNING, 0, agent.server,
                 "mod_nap: %s has ended (status or signal %d); it is started again", nap_the_site->view.agent, status);
    /* one that does not even keep its pause must not make us start others without end */
    if (lived_ms < agent.pause_ms) {
        agent.pause_ms = pause_ms;
        agent.due = 1;
    }
    else
        start(pause_ms);
}

static void watch(int reason, void *data, int status)
{
    if (reason != APR_OC_REASON_DEATH && reason != APR_OC_REASON_LOST)
        return;                  /* a restart, a stop */
    apr_proc_other_child_unregister(data);
    died(status);
}

void nap_store_tick(void)
{
    if (agent.due && !stops() && apr_time_as_msec(apr_time_now() - agent.begun) >= agent.pause_ms)
        start(agent.pause_ms);
}

/* Only the parent holds the pipe open. */
void nap_store_child(void)
{
    if (agent.pipe >= 0)
        close(agent.pipe);
    agent.pipe = -1;
}

/* ---- Restarts --------------------------------------------------------------------------------- */

/* Agents from before restarts, until they have died: httpd would take them for children that it has lost. The
 * process's own pool has the list, as the module is loaded anew. */
#define FORMER_KEY "mod_nap:agents"
#define FORMER_MAX 16

static apr_proc_t *former(apr_pool_t *process)
{
    void *kept = NULL;

    apr_pool_userdata_get(&kept, FORMER_KEY, process);
    if (!kept) {
        kept = apr_pcalloc(process, FORMER_MAX * sizeof(apr_proc_t));
        apr_pool_userdata_set(kept, FORMER_KEY, NULL, process);
    }
    return kept;
}

static void watch_former(int reason, void *data, int status)
{
    apr_proc_t *one = data;

    if (reason != APR_OC_REASON_DEATH && reason != APR_OC_REASON_LOST)
        return;
    apr_proc_other_child_unregister(data);
    one->pid = 0;
}

/* pconf goes: at each restart, and at the server's end. Then the agent is to look out for no other. */
static apr_status_t leave(void *data)
{
    server_rec *s = data;
    apr_proc_t *list = former(s->process->pool);

    if (agent.pipe < 0 || getpid() != agent.parent)
        return APR_SUCCESS;      /* none runs, or this is another process of httpd's */
    if (ap_state_query(AP_SQ_MAIN_STATE) == AP_SQ_MS_EXITING)
        kill(agent.proc.pid, SIGTERM);
    close(agent.pipe);
    agent.pipe = -1;
    for (int i = 0; i < FORMER_MAX; i++)
        if (!list[i].pid) {
            list[i].pid = agent.proc.pid;
            break;
        }
    return APR_SUCCESS;
}

/* post_config, but not its rehearsal. segment: its descriptor; -1: there is none. */
void nap_store_start(server_rec *s, apr_pool_t *pconf, int segment)
{
    apr_proc_t *list = former(s->process->pool);
    apr_shm_t *shm;

    for (int i = 0; i < FORMER_MAX; i++)
        if (list[i].pid)
            apr_proc_other_child_register(&list[i], watch_former, &list[i], NULL, pconf);
    if (!nap_the_core || !nap_the_site->view.agent[0] ||
        apr_shm_create(&shm, sizeof *agent.error, NULL, pconf) != APR_SUCCESS)
        return;
    agent.parent = getpid();
    agent.server = s;
    agent.pool = pconf;
    agent.segment = segment;
    agent.error = apr_shm_baseaddr_get(shm);
    apr_pool_cleanup_register(pconf, s, leave, apr_pool_cleanup_null);
    start(0);
}
