/* nap_telepoll.c: TelePolling of the site's own polled URLs.
 *
 * An access to a URL with `TelePoll event` is counted in the last fixup, after authorization and after
 * admission to its room, whatever its method: a poll may bring data. The application finds in its
 * environment in which part of the period the poll came. When the answer begins, it gets these headers
 * unless the site has set its own: TelePoll-Interval, Retry-After, Cache-Control: no-store, and Refresh
 * for pages that people look at.
 */
#include "mod_nap.h"

/* An event; each name has one record. */
typedef struct nap_event {
    nap_conf *conf;
    const char *name;
    int64_t index;                   /* in the segment; -1: not there */
    const ap_directive_t *where;     /* the first TelePoll that names it */
} nap_event;

static const nap_event no_event = { .index = -1 };   /* TelePoll None */
static ap_filter_rec_t *head_filter;

/* Tells the application whether data is brought or counted now, and in which period. */
static void environment(request_rec *r, const nap_poll *poll)
{
    apr_table_setn(r->subprocess_env, "TELEPOLL_PHASE", poll->tally ? "tally" : "collect");
    apr_table_setn(r->subprocess_env, "TELEPOLL_PERIOD",
                   apr_psprintf(r->pool, "%" APR_UINT64_T_FMT, (apr_uint64_t)poll->period));
}

static int is_counted(const request_rec *r)
{
    int m = r->method_number;

    return !r->main && m != M_OPTIONS && m != M_CONNECT && m != M_TRACE &&
           !(r->prev && r->prev->status != HTTP_OK);
}

/* After the last fixup: for the first request of a chain that lies in an event. */
int nap_telepoll_access(request_rec *r)
{
    const nap_event *event = nap_dir_of(r)->event;
    nap_handle *h = r->prev ? nap_handle_at(nap_first(r)) : NULL;
    nap_poll *poll;

    if (h && h->poll && !r->main) {
        environment(r, h->poll);
        return DECLINED;
    }
    if (!event || event->index < 0 || !nap_the_core || !is_counted(r))
        return DECLINED;
    poll = apr_palloc(r->pool, sizeof *poll);
    if (!nap_the_core->polls.poll(event->index, poll))
        return DECLINED;
    nap_handle_make(nap_first(r))->poll = poll;
    /* A 304 carries none of our headers. Its client would go on by those of the answer it has, and poll at that
     * interval for ever. So polls get a full answer. For methods other than GET and HEAD these headers are
     * conditions (PUT only what is not there yet), so they stay. */
    if (r->method_number == M_GET) {
        apr_table_unset(r->headers_in, "If-None-Match");
        apr_table_unset(r->headers_in, "If-Modified-Since");
    }
    environment(r, poll);
    return DECLINED;
}

static int is_set(const request_rec *r, const char *name)
{
    return apr_table_get(r->headers_out, name) || apr_table_get(r->err_headers_out, name);
}

/* A page that a person looks at, and not a request of its script. */
static int is_looked_at(const request_rec *r)
{
    const char *dest;

    if (r->status != HTTP_OK || r->method_number != M_GET || !r->content_type ||
        ap_cstr_casecmpn(r->content_type, "text/html", 9))
        return 0;
    dest = apr_table_get(r->headers_in, "Sec-Fetch-Dest");
    return !dest || !strcmp(dest, "document") || !strcmp(dest, "iframe") || !strcmp(dest, "frame");
}

/* Whole seconds are rounded up: a client that obeys them never comes sooner than by the milliseconds. */
static void head(request_rec *r, const nap_poll *poll)
{
    apr_uint64_t ms = (poll->wait_us + 999) / 1000;
    const char *seconds = apr_psprintf(r->pool, "%" APR_UINT64_T_FMT, (ms + 999) / 1000);

    /* an answer from a cache would not count as a poll */
    if (!is_set(r, "Cache-Control") && !is_set(r, "Expires"))
        apr_table_setn(r->headers_out, "Cache-Control", "no-store");
    if (!is_set(r, "TelePoll-Interval"))
        apr_table_setn(r->headers_out, "TelePoll-Interval",
                       apr_psprintf(r->pool, "%" APR_UINT64_T_FMT ".%03d", ms / 1000,
                                    (int)(ms % 1000)));
    if (ap_is_HTTP_REDIRECT(r->status))
        return;
    if (!is_set(r, "Retry-After"))
        apr_table_setn(r->headers_out, "Retry-After", seconds);
    if (is_looked_at(r) && !is_set(r, "Refresh"))
        apr_table_setn(r->headers_out, "Refresh", seconds);
    if (apr_table_get(r->headers_in, "Origin"))
        apr_table_mergen(r->headers_out, "Access-Control-Expose-Headers",
                         "TelePoll-Interval, Retry-After");
}

static apr_status_t head_first(ap_filter_t *f, apr_bucket_brigade *bb)
{
    const nap_poll *poll = f->ctx;
    apr_time_t took = apr_time_now() - nap_first(f->r)->request_time;

    nap_the_core->polls.polled(poll->event, took > 0 ? (apr_uint64_t)took : 0);
    head(f->r, poll);
    ap_remove_output_filter(f);
    return ap_pass_brigade(f->next, bb);
}

/* Also for an error's answer, whose filters are new ones. */
static void telepoll_head(request_rec *r)
{
    const nap_handle *h = r->main ? NULL : nap_handle_at(nap_first(r));

    if (h && h->poll)
        ap_add_output_filter_handle(head_filter, h->poll, r, r->connection);
}

static nap_event *event_named(const char *name)
{
    nap_event *event;

    NAP_EACH(event, nap_the_site->events)
        if (!strcmp(event->name, name))
            return event;
    return NULL;
}

const char *nap_telepoll_set(cmd_parms *cmd, void *conf, int argc, char *const argv[])
{
    nap_dir *dir = nap_dir_set(cmd, conf);
    nap_event *event, *known;
    const char *why;

    if (!nap_the_core)
        return NULL;
    if (argc == 1 && !strcasecmp(argv[0], "none")) {
        dir->event = &no_event;
        return NULL;
    }
    event = apr_pcalloc(cmd->pool, sizeof *event);
    event->conf = nap_conf_make(cmd->pool, NAP_CONF_EVENT);
    event->index = -1;
    why = nap_conf_set(cmd, event->conf, argc, argv);
    if (why)
        return why;
    event->name = argv[0];
    known = event_named(event->name);
    if (known && nap_the_core->conf.differ(known->conf, event->conf))
        return apr_psprintf(cmd->pool, "TelePoll: event %s has other settings in %s line %d; an "
                            "event has one level", event->name, known->where->filename,
                            known->where->line_num);
    if (!known && nap_the_site->events && nap_the_site->events->nelts == NAP_EVENTS_MAX)
        return apr_psprintf(cmd->pool, "TelePoll: event %s is one too many; use at most %d",
                            event->name, NAP_EVENTS_MAX);
    dir->event = known ? known : event;
    if (known)
        return NULL;
    event->where = cmd->directive;
    if (!nap_the_site->events) {
        ap_hook_fixups(nap_telepoll_access, NULL, NULL, NAP_LAST + 1);
        ap_hook_insert_filter(telepoll_head, NULL, NULL, APR_HOOK_LAST);
        ap_hook_insert_error_filter(telepoll_head, NULL, NULL, APR_HOOK_LAST);
        head_filter = ap_register_output_filter("TELEPOLL", head_first, NULL, AP_FTYPE_RESOURCE);
    }
    nap_list_add(cmd->pool, &nap_the_site->events, event);
    return NULL;
}

/* The parent at start: gives events an index before anybody polls, and drops events that are no longer
 * configured. */
void nap_telepoll_start(void)
{
    const nap_conf *confs[NAP_EVENTS_MAX] = { NULL };
    int64_t indices[NAP_EVENTS_MAX];
    nap_event *event;
    size_t n = 0;

    NAP_EACH(event, nap_the_site->events) {
        confs[n] = event->conf;
        indices[n++] = -1;
    }
    nap_the_core->polls.start(confs, n, indices);
    NAP_EACH(event, nap_the_site->events)
        event->index = indices[event_at];
}
