/* nap_server.c: the parent and its children.
 *
 * The parent makes the segment before the first fork and keeps it over graceful restarts. As httpd
 * unloads and reloads this module then, the process's own pool holds the pointer to it. If anything
 * fails, the server starts all the same and every request passes.
 */
#include <http_main.h>
#include <unixd.h>
#include <apr_shm.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mod_nap.h"

#define SEGMENT_KEY "mod_nap:segment"
#define KEYS_MAX (64 * 1024)     /* a longer file cannot be a key file */
#define PIPE_SIZE (1024 * 1024)  /* bytes; without root a pipe may have no more */

static pid_t parent_pid;

static int mpm(int question)
{
    int answer = 0;

    return ap_mpm_query(question, &answer) == APR_SUCCESS && answer > 0 ? answer : 0;
}

void nap_server_measure(nap_mpm *m)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    m->threaded = mpm(AP_MPMQ_IS_THREADED) != AP_MPMQ_NOT_SUPPORTED;
    m->server_limit = mpm(AP_MPMQ_HARD_LIMIT_DAEMONS);
    m->thread_limit = m->threaded ? mpm(AP_MPMQ_HARD_LIMIT_THREADS) : 1;
    m->threads_per_child = m->threaded ? mpm(AP_MPMQ_MAX_THREADS) : 1;
    m->max_workers = mpm(AP_MPMQ_MAX_DAEMONS) * m->threads_per_child;
    m->cores = cores > 0 ? (uint32_t)cores : 1;
    m->debts = (uint32_t)nap_the_site->owes;
}

/* ---- The parent at start and restart -------------------------------------------------------- */

/* The segment an earlier load of this module left, or an empty one. */
static nap_segment *segment_kept(server_rec *s)
{
    apr_pool_t *process = s->process->pool;
    void *kept = NULL;

    apr_pool_userdata_get(&kept, SEGMENT_KEY, process);
    if (!kept) {
        nap_segment *segment = apr_pcalloc(process, sizeof *segment);

        segment->fd = -1;
        kept = segment;
        /* not _setn: the key would lie in this .so, which is unloaded on restart */
        apr_pool_userdata_set(kept, SEGMENT_KEY, NULL, process);
    }
    return kept;
}

/* pconf goes at every restart; the segment is closed only at the server's end. */
static apr_status_t parent_end(void *data)
{
    if (getpid() == parent_pid && nap_the_core &&
        ap_state_query(AP_SQ_MAIN_STATE) == AP_SQ_MS_EXITING)
        nap_the_core->server.close();
    return APR_SUCCESS;
}

/* The text of a key file, or NULL with *why. Read as root, before there are children. */
static const char *keys_read(const char *path, apr_pool_t *p, const char **why)
{
    apr_file_t *file;
    apr_finfo_t info;
    char *text, msg[120], *err = apr_pcalloc(p, NAP_ERR_MAX);
    apr_size_t len = 0;
    apr_status_t rv = apr_file_open(&file, path, APR_READ, APR_OS_DEFAULT, p);

    if (!rv)
        rv = apr_file_info_get(&info, APR_FINFO_OWNER | APR_FINFO_PROT | APR_FINFO_SIZE |
                               APR_FINFO_TYPE, file);
    if (rv)
        *why = apr_pstrdup(p, apr_strerror(rv, msg, sizeof msg));
    else if (info.filetype != APR_REG || info.size > KEYS_MAX)
        *why = "not a file of keys, one \"id hex\" a line, such as \"1 00112233445566778899aabbccddeeff\"";
    else if (info.user != 0 && info.user != geteuid())
        *why = "must belong to root or to the user who starts the server";
    else if (info.protection & (APR_GWRITE | APR_WREAD | APR_WWRITE))
        *why = "must not be readable by everybody nor writable by its group; use chmod 600";
    if (*why)
        return NULL;
    text = apr_palloc(p, info.size + 1);
    apr_file_read_full(file, text, info.size, &len);
    apr_file_close(file);
    text[len] = '\0';
    if (nap_the_core->server.keys(nap_str_of(text), 0, err))
        *why = err;
    return text;
}

/* check_config. A running server keeps the keys it has: a bad file must not stop a restart. If configtest runs as
 * a user other than its owner, it can only tell that the file is missing. */
int nap_keys_check(server_rec *s, apr_pool_t *p)
{
    const char *why = NULL, *path = nap_the_site->key_file;
    apr_finfo_t info;
    apr_status_t rv;

    if (!path || ap_state_query(AP_SQ_MAIN_STATE) != AP_SQ_MS_CREATE_PRE_CONFIG)
        return OK;
    rv = apr_stat(&info, path, APR_FINFO_OWNER, p);
    if (geteuid() == 0 || APR_STATUS_IS_ENOENT(rv) || (!rv && info.user == geteuid()))
        keys_read(path, p, &why);
    return why ? nap_complain(s, p, NULL, "NapTicketKey %s: %s", path, why) : OK;
}

/* The text of the keys in force. It outlives the module, which each restart reloads. */
#define KEYS_BEFORE "mod_nap: keys"

/* Without a good file the site is still protected: at a restart by the previous keys, which signed the
 * tickets in use, and at a start by a random key, as without NapTicketKey. */
static void keys_set(const char *path, server_rec *s, apr_pool_t *p)
{
    apr_pool_t *process = s->process->pool;
    char *err = apr_pcalloc(p, NAP_ERR_MAX);
    const char *why = NULL, *text = path ? keys_read(path, p, &why) : "";
    void *before = NULL;

    apr_pool_userdata_get(&before, KEYS_BEFORE, process);
    if (!why && nap_the_core->server.keys(nap_str_of(text), 1, err))
        why = err;
    if (!why) {
        if (!before || strcmp(before, text))
            apr_pool_userdata_set(apr_pstrdup(process, text), KEYS_BEFORE, NULL, process);
        return;
    }
    ap_log_error(APLOG_MARK, APLOG_ERR, 0, s, "mod_nap: NapTicketKey %s: %s; tickets are signed with %s",
                 path ? path : "", why, before ? "the keys from before this restart" : "a random key");
    nap_the_core->server.keys(nap_str_of(before ? before : ""), 1, err);
}

/* The file may have broken since configtest, or this is a restart: protect the site all the same. */
static void own_pages_read(nap_site *site, server_rec *s, apr_pool_t *p)
{
    char *err = apr_pcalloc(p, NAP_ERR_MAX);

    nap_own_page *page;

    NAP_EACH(page, site->own_pages) {
        int number = nap_the_core->server.own_page(nap_str_of(page->path), 1, err);

        if (number >= 0)
            page->number = (uint32_t)number;
        else
            ap_log_error(APLOG_MARK, APLOG_ERR, 0, s, "mod_nap: NapTicketPage: %s; visitors see "
                         "the built-in page", err);
    }
}

/* The pipe's reader must not hold up anybody, least of all the parent, if it stops reading; but a short delay
 * loses no line, even though the parent writes of up to a thousand tickets at once. */
static void pipe_widen(apr_file_t *log)
{
    apr_os_file_t fd;

    apr_file_pipe_timeout_set(log, 0);
    if (apr_os_file_get(&fd, log) == APR_SUCCESS)
        fcntl(fd, F_SETPIPE_SZ, PIPE_SIZE);
}

static const char *log_open(nap_site *site, apr_pool_t *pconf)
{
    char msg[120];
    apr_status_t rv;

    if (!site->log_name)
        return NULL;
    if (*site->log_name == '|') {
        piped_log *pipe = ap_open_piped_log(pconf, site->log_name + 1);

        site->log = pipe ? ap_piped_log_write_fd(pipe) : NULL;
        if (site->log)
            pipe_widen(site->log);
        return pipe ? NULL : "the command cannot be started";
    }
    rv = apr_file_open(&site->log, site->log_name,
                       APR_WRITE | APR_APPEND | APR_CREATE | APR_LARGEFILE,
                       APR_UREAD | APR_UWRITE | APR_GREAD, pconf);
    if (rv)
        site->log = NULL;
    return rv ? apr_pstrdup(pconf, apr_strerror(rv, msg, sizeof msg)) : NULL;
}

/* A room that does not fit (a graceful restart added more than there is space for) is not scheduled:
 * its requests pass. The others are protected. */
static int gate_enter(const nap_conf *conf, server_rec *s, apr_pool_t *p)
{
    char *err = apr_pcalloc(p, NAP_ERR_MAX);
    int index = nap_the_core->server.enter(conf, err);

    if (index < 0)
        ap_log_error(APLOG_MARK, APLOG_ERR, 0, s, "mod_nap: %s", err);
    return index;
}

static void rooms_enter(nap_site *site, server_rec *s, apr_pool_t *p)
{
    nap_room *room;
    nap_page *page;

    NAP_EACH(room, site->in_order) {
        nap_the_core->server.keep(nap_str_of(room->view.name), nap_str_of(""));
        NAP_EACH(page, room->pages)
            nap_the_core->server.keep(nap_str_of(room->view.name), nap_str_of(page->view.page));
    }
    NAP_EACH(room, site->in_order) {
        if (room->remark)
            ap_log_error(APLOG_MARK, APLOG_WARNING, 0, s, "mod_nap: %s", room->remark);
        room->index = gate_enter(room->conf, s, p);
    }
    NAP_EACH(room, site->in_order)
        NAP_EACH(page, room->pages)
            if (page->owner == room && room->index >= 0)
                page->index = gate_enter(page->conf, s, p);
    NAP_EACH(room, site->in_order)
        NAP_EACH(page, room->pages)
            if (page->owner != room)
                page->index = nap_page_named(page->owner, page->view.page)->index;
}

/* A word, zero at first, that the parent writes and the children read. */
static volatile uint32_t *shared_word(apr_pool_t *p)
{
    static uint32_t never;
    apr_shm_t *shm;

    if (apr_shm_create(&shm, sizeof never, NULL, p) != APR_SUCCESS)
        return &never;
    return memset(apr_shm_baseaddr_get(shm), 0, sizeof never);
}

/* post_config. At the server's start it runs twice; the first time is only a rehearsal. */
int nap_server_start(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp, server_rec *s)
{
    nap_site *site = nap_the_site;
    char *err = apr_pcalloc(ptemp, NAP_ERR_MAX);
    const char *why;
    nap_room *room;
    size_t rooms, gates = 0;

    if (!nap_the_core || !site || ap_state_query(AP_SQ_MAIN_STATE) == AP_SQ_MS_CREATE_PRE_CONFIG)
        return OK;
    rooms = (size_t)site->in_order->nelts;
    NAP_EACH(room, site->in_order)
        gates += nap_pages_gates(room);
    site->mpm.members = nap_balancer_members(s);
    if (rooms == 0 && !site->owes && !site->events && !site->mpm.members) {
        nap_balancer_start(s, 0);
        nap_the_core = NULL;
        nap_store_start(s, pconf, -1);
        return OK;
    }
    nap_the_core->conf.runs(site->conf, &site->mpm);
    parent_pid = getpid();
    if ((why = log_open(site, pconf)))   /* the site is protected all the same */
        ap_log_error(APLOG_MARK, APLOG_ERR, 0, s, "mod_nap: NapTicketLog %s: %s", site->log_name,
                     why);
    /* without root the children run as the same user: nobody to keep the file from */
    if (nap_the_core->server.open(segment_kept(s), site->conf, rooms, gates,
                                   nap_str_of(site->state_file),
                                   geteuid() == 0 ? ap_unixd_config.user_id : 0, &nap_the_host, err)) {
        ap_log_error(APLOG_MARK, APLOG_ERR, 0, s, "mod_nap: segment: %s; nothing is scheduled", err);
        nap_the_core = NULL;
        return OK;
    }
    apr_pool_cleanup_register(pconf, NULL, parent_end, apr_pool_cleanup_null);
    keys_set(site->key_file, s, ptemp);
    own_pages_read(site, s, ptemp);
    rooms_enter(site, s, ptemp);
    nap_bwshare_start(s);
    nap_telepoll_start();
    nap_balancer_start(s, site->mpm.members);
    site->pid_file_gone = shared_word(pconf);
    nap_the_core->server.start(site->log != NULL);
    nap_store_start(s, pconf, segment_kept(s)->fd);
    return OK;
}

/* ---- The parent while it runs ---------------------------------------------------------------- */

void nap_child_status(server_rec *s, pid_t pid, ap_generation_t gen, int slot, mpm_child_status state)
{
    if (state == MPM_CHILD_EXITED && nap_the_core)
        nap_the_core->server.child_gone(pid);
}

/* The server's pid file; NULL: there is none that we may look at, so a missing file means nothing. A
 * relative name is under the ServerRoot in 2.4, and under DefaultRuntimeDir in trunk. */
static const char *pid_file_seen(apr_pool_t *p)
{
    const char *path[2];
    struct stat st;

    if (!ap_pid_fname)
        return NULL;
    path[0] = ap_server_root_relative(p, ap_pid_fname);
    path[1] = ap_runtime_dir_relative(p, ap_pid_fname);
    for (int i = 0; i < 2; i++)
        if (path[i] && stat(path[i], &st) == 0)
            return path[i];
    return NULL;
}

/* If somebody removes the pid file of a running server, a missing file no longer means that it stops. The
 * parent tells the children by a word that they share. */
static void pid_file_watch(apr_pool_t *p, server_rec *s)
{
    volatile uint32_t *known = nap_the_site->pid_file_gone;
    apr_pool_t *short_lived;
    int gone;

    if (!ap_pid_fname)
        return;
    apr_pool_create(&short_lived, p);
    gone = !pid_file_seen(short_lived);
    apr_pool_destroy(short_lived);
    if (gone && !*known)
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, s, "mod_nap: the server runs, but its PidFile %s is gone: "
                     "apachectl and httpd -k cannot stop or restart it until that file has the number of "
                     "the parent, %" APR_PID_T_FMT ", again", ap_pid_fname, getpid());
    *known = (uint32_t)gone;
}

int nap_server_tick(apr_pool_t *p, server_rec *s)
{
    if (nap_the_core) {
        nap_the_core->server.tick();
        pid_file_watch(p, s);
        nap_store_tick();
    }
    return DECLINED;
}

/* ---- A child --------------------------------------------------------------------------------- */

void nap_child_start(apr_pool_t *pchild, server_rec *s)
{
    if (!nap_the_core)
        return;
    nap_store_child();
    ap_mpm_query(AP_MPMQ_GENERATION, &nap_the_site->generation);
    nap_the_site->pid_file = pid_file_seen(pchild);
    nap_the_core->server.child_init(getpid());
    nap_call_start();
    nap_park_start(pchild, s);
}

/* This child ends, for whatever reason. Its MPM says so before its listener may end. */
int nap_child_stopping(void)
{
    int state = 0;

    return !ap_mpm_query(AP_MPMQ_MPM_STATE, &state) && state == AP_MPMQ_STOPPING;
}

/* The whole server is going down, not just this child. A child's MPM says STOPPING also at a graceful
 * restart, and when only that child retires (MaxConnectionsPerChild, too many spare ones): then accesses
 * that wait here go on waiting. A restart shows by the scoreboard's generation, which the parent raises
 * before it tells the children. A graceful stop shows by the missing pid file, which the parent removes
 * after that, unless somebody else has (pid_file_watch). On a hard stop the MPM closes the sockets under
 * us: see client_gone. */
int nap_server_stopping(void)
{
    struct stat st;

    if (!nap_child_stopping())
        return 0;
    if (ap_exists_scoreboard_image() &&
        ap_get_scoreboard_global()->running_generation != nap_the_site->generation)
        return 0;
    return nap_the_site->pid_file && !*nap_the_site->pid_file_gone &&
           stat(nap_the_site->pid_file, &st) != 0 && errno == ENOENT;
}
