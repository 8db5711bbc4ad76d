/* nap_answer.c: an access that runs, until its end.
 *
 * The permit comes back from the connection's filter when the answer is made, and at the latest in
 * log_transaction, where every request ends. That is too early only for an aborted client, whose
 * script may still run then: the permit comes back when the client's connection's pool goes.
 */
#include <poll.h>

#include "mod_nap.h"

#define STALL_MS 100        /* how long a reader may stall writes, in all, before the permit goes */
#define SHORT 16384         /* bytes that the kernel takes at once: the start of tcp_wmem */

static ap_filter_rec_t *watch_filter;

/* ---- Its bytes -------------------------------------------------------------------------------- */

/* 1: the answer's end is here, and the length of everything before it is known. */
static int ends(nap_handle *h, const apr_bucket_brigade *bb)
{
    apr_off_t sent = h->sent;
    int known = 1, end = 0;

    for (const apr_bucket *b = APR_BRIGADE_FIRST(bb); b != APR_BRIGADE_SENTINEL(bb);
         b = APR_BUCKET_NEXT(b)) {
        if (b->length == (apr_size_t)-1)
            known = 0;
        else if (b->length)
            sent += b->length;
        else if (APR_BUCKET_IS_EOS(b))
            end = known;
    }
    h->sent = sent;
    return end;
}

/* 1: a long answer, or one that never ends: 101, a tunnel or an event stream. */
static inline int lasts(const nap_handle *h)
{
    const request_rec *last = nap_last(h->first);

    /* mod_proxy_wstunnel has the connection to itself: the request has no answer any more */
    if (last->status == HTTP_SWITCHING_PROTOCOLS || last->proto_output_filters == last->connection->output_filters)
        return 1;
    /* the headers come first */
    return h->passes && ((h->room->view.download >= 0 && h->sent > h->room->view.download) ||
                         (h->passes == 1 && last->content_type &&
                          !ap_cstr_casecmpn(last->content_type, "text/event-stream", 17)));
}

/* 1: the client does not take what has been written, so the next write would wait for it. */
static NAP_SELDOM int stalls(nap_handle *h)
{
    struct pollfd pfd = { .fd = nap_descriptor(ap_get_conn_socket(h->first->connection)), .events = POLLOUT };
    apr_time_t began;
    int taken;

    h->looked = (unsigned)(h->sent >> 15);      /* once per 32 KB: it is a system call */
    if (pfd.fd < 0 || poll(&pfd, 1, 0))
        return 0;
    began = apr_time_now();
    taken = poll(&pfd, 1, STALL_MS - h->stalled_ms);
    h->stalled_ms += (int)((apr_time_now() - began) / 1000);
    return !taken || h->stalled_ms >= STALL_MS;
}

enum { PASSES, PASSES_LAST, MAY_WAIT };

/* A long answer. PASSES_LAST: its end is here, and once that has passed, its worker is free. */
static NAP_SELDOM int watch_long(nap_line *line, int end)
{
    nap_handle *h = line->now;
    const conn_rec *c = h->first->connection;
    int async = 0, alone;

    /* event sends what is left of an answer without a worker; a stream's connection is not event's */
    alone = !c->master && !c->clogging_input_filters && !ap_mpm_query(AP_MPMQ_IS_ASYNC, &async) && async;
    if (!h->passes)
        h->passes = 1;
    if (!h->detached) {
        h->detached = 1;
        nap_the_core->access.detach(&h->access);
    }
    if (end || !alone)
        line->now = NULL;
    return end && alone ? PASSES_LAST : PASSES;
}

static NAP_SELDOM int watch_reader(nap_line *line)
{
    nap_handle *h = line->now;

    if (h->first->connection->master)
        return MAY_WAIT;
    return (unsigned)(h->sent >> 15) != h->looked && stalls(h) ? watch_long(line, 0) : PASSES;
}

/* A permit is for making an answer, not for sending it. So it goes back when the answer's end is here
 * (its body has been read by now), or when end or reader would keep it waiting. *now: see leave(). */
static inline __attribute__((always_inline)) int watch_permit(nap_line *line, int end, uint64_t *now)
{
    nap_handle *h = line->now;

    if (end && h->sent <= SHORT) {      /* its worker is as good as free */
        line->now = NULL;
        h->holds = 0;
        *now = nap_the_core->access.leave(&h->access);
    }
    else if (end || h->detached || lasts(h)) {
        return watch_long(line, end);
    }
    else if (h->passes++ == 1) {
        h->looked = 0;
        h->stalled_ms = 0;
        nap_the_core->access.first_byte(&h->access);
    }
    else if (h->passes > 2 && h->sent > SHORT && h->room->view.download >= 0) {
        return watch_reader(line);
    }
    return PASSES;
}

/* httpd's core filter has sent as much as it blocks for. The request and its handle live until its EOR,
 * which httpd sends after all this; if bb itself ends with an EOR, end_told has given the permit back. */
static apr_status_t pass_last(ap_filter_t *f, apr_bucket_brigade *bb, nap_handle *h)
{
    int goes = AP_BUCKET_IS_EOR(APR_BRIGADE_LAST(bb));
    apr_status_t rv = ap_pass_brigade(f->next, bb);

    if (!goes) {
        h->holds = 0;
        nap_the_core->access.leave(&h->access);
    }
    return rv;
}

/* Whether a stream's reader takes the data shows only by how long the write lasts. If the request ends
 * meanwhile, the line is no longer its own. */
static apr_status_t pass_stream(ap_filter_t *f, apr_bucket_brigade *bb, nap_handle *h)
{
    const nap_line *line = f->ctx;
    apr_status_t rv;

    nap_the_core->access.writes(&h->access, 1);
    rv = ap_pass_brigade(f->next, bb);
    if (line->now == h)
        nap_the_core->access.writes(&h->access, 0);
    return rv;
}

static NAP_SELDOM apr_status_t pass_otherwise(ap_filter_t *f, apr_bucket_brigade *bb, nap_handle *h, int what)
{
    return what == PASSES_LAST ? pass_last(f, bb, h) : pass_stream(f, bb, h);
}

/* Out of line: most of what passes belongs to no access. */
static __attribute__((noinline)) apr_status_t watch(ap_filter_t *f, apr_bucket_brigade *bb)
{
    nap_line *line = f->ctx;
    nap_handle *h = line->now;
    uint64_t now;
    int what = watch_permit(line, ends(h, bb), &now);

    return what == PASSES ? ap_pass_brigade(f->next, bb) : pass_otherwise(f, bb, h, what);
}

/* A stream of HTTP/2 takes a file whole and sends it long after the request is over. Given piece by piece,
 * it takes no more than its client reads, and we know what was sent when the client breaks off. */
static NAP_SELDOM apr_status_t pass_pieces(ap_filter_t *f, apr_bucket_brigade *bb, nap_handle *h,
                                           apr_off_t before, int what)
{
    apr_bucket_brigade *rest = apr_brigade_create(f->c->pool, f->c->bucket_alloc);
    apr_status_t rv;

    h->sent = before;
    do {
        apr_off_t piece = nap_bytes_cut(bb, rest);

        h->sent += piece;       /* a piece under way at the break counts as sent */
        rv = what == MAY_WAIT ? pass_stream(f, bb, h) : ap_pass_brigade(f->next, bb);
        apr_brigade_cleanup(bb);
        APR_BRIGADE_CONCAT(bb, rest);
    } while (rv == APR_SUCCESS && !APR_BRIGADE_EMPTY(bb));
    apr_brigade_destroy(rest);
    return rv;
}

/* A brigade of the answer, `length` bytes, is about to reach the connection; ends: it is the last; now: from
 * leave(), or 0. 1: no more will come. */
static inline int charge_passes(nap_handle *h, apr_bucket_brigade *bb, apr_off_t length, int ends,
                                uint64_t now)
{
    /* of an answer without a body (HEAD, too) this is the only sign of the end */
    ends |= !APR_BRIGADE_EMPTY(bb) && AP_BUCKET_IS_EOR(APR_BRIGADE_LAST(bb));
    /* over HTTP/1 the headers come as a brigade of their own, right before the body */
    if (ends || length > NAP_BW_PIECE || h->charge.begun || h->first->connection->master ||
        ap_is_HTTP_INFO(nap_last(h->first)->status))
        return nap_bytes_body(h, bb, length, ends, now);
    h->charge.begun = 1;
    return 0;
}

/* An answer that its client is charged for, with or without a permit. */
static __attribute__((noinline)) apr_status_t watch_charged(ap_filter_t *f, apr_bucket_brigade *bb)
{
    nap_line *line = f->ctx;
    nap_handle *h = line->charged, *now = line->now;
    apr_off_t before = h->sent;
    uint64_t left = 0;
    int end = ends(h, bb), what = now ? watch_permit(line, end, &left) : PASSES;

    if (charge_passes(h, bb, h->sent - before, end, left))
        line->charged = NULL;
    if (h->charge.pieces && h->sent - before > NAP_BW_PIECE)
        return pass_pieces(f, bb, h, before, what);
    return what == PASSES ? ap_pass_brigade(f->next, bb) : pass_otherwise(f, bb, now, what);
}

/* A connection's filter, after chunking, before TLS. */
static apr_status_t watch_line(ap_filter_t *f, apr_bucket_brigade *bb)
{
    const nap_line *line = f->ctx;

    if (line->charged)
        return watch_charged(f, bb);
    return line->now ? watch(f, bb) : ap_pass_brigade(f->next, bb);
}

/* pre_connection, also of HTTP/2's streams. It cannot be later: the filters of a request that exists
 * already would bypass one that is added to its connection. */
int nap_line_open(conn_rec *c, void *socket)
{
    nap_line *line;

    if (!nap_the_core)
        return DECLINED;
    line = apr_pcalloc(c->pool, sizeof *line);
    line->around = nap_park_around(c);
    ap_set_module_config(c->conn_config, &nap_itself, line);
    ap_add_output_filter_handle(watch_filter, line, NULL, c);
    return OK;
}

void nap_answer_register(apr_pool_t *p)
{
    watch_filter = ap_register_output_filter("NAP", watch_line, NULL, AP_FTYPE_CONNECTION);
}

static void note(request_rec *r, const char *name, const char *value)
{
    request_rec *last = nap_last(r);    /* whose notes %{}n reads */

    apr_table_addn(r->notes, name, value);      /* set once, so there is no old value to look for */
    if (last != r)
        apr_table_addn(last->notes, name, value);
}

static void notes(request_rec *r, const nap_handle *h)
{
    const nap_access *a = &h->access;
    static const char *const groups[] = { "none", "run", "wait", "re-access", "next-wait" };
    nap_str reason;
    char id[17];
    size_t len;

    if (h->scheduled)
        note(r, "nap-page", h->scheduled->view.page);
    note(r, "nap-group", groups[a->group < 5 ? a->group : 0]);
    note(r, "nap-wait", a->waited_us < 1000 ? "0.000"
         : apr_psprintf(r->pool, "%" APR_UINT64_T_FMT ".%03d",
                        (apr_uint64_t)(a->waited_us / 1000000),
                        (int)(a->waited_us / 1000 % 1000)));
    reason = nap_the_core->access.reason_name(a);
    if (reason.len)
        note(r, "nap-ticket-fate", apr_pstrmemdup(r->pool, reason.ptr, reason.len));
    len = nap_the_core->access.ticket_id(a, id);
    if (len && len < sizeof id)
        note(r, "nap-ticket", apr_pstrmemdup(r->pool, id, len));
}

/* ---- Its end ---------------------------------------------------------------------------------- */

/* The answer is sent, or nobody is there to take it. mod_cgi and mod_cgid end an aborted client's
 * script only in cleanups of its pool; the connection's pool goes next. A stream's connection may live
 * long after that, so a stream has its own cleanup from the start. */
static void end(nap_handle *h)
{
    conn_rec *c = h->first->connection;

    h->holds = 0;
    if (h->detached || !c->aborted)
        nap_the_core->access.leave(&h->access);
    else if (!c->master)
        apr_pool_cleanup_register(c->pool, apr_pmemdup(c->pool, &h->access, sizeof h->access),
                                  nap_access_leave_late, apr_pool_cleanup_null);
}

static NAP_SELDOM int end_told(request_rec *r, nap_handle *h)
{
    nap_line *line = nap_line_of(r->connection);

    if (line && line->now == h)
        line->now = NULL;
    if (line && line->charged == h)
        line->charged = NULL;
    if (h->charged)
        nap_bytes_settle(h);
    if (h->holds)
        end(h);
    if (h->noted)
        notes(r, h);
    if (h->owed && nap_last(r) != r)    /* a refusal's page is a redirect away */
        apr_table_setn(nap_last(r)->notes, "bwshare", apr_table_get(r->notes, "bwshare"));
    return DECLINED;
}

/* log_transaction, on the chain's first request. */
int nap_answer_end(request_rec *r)
{
    nap_handle *h = nap_handle_at(r);

    return h && (h->holds || h->noted || h->charged || h->owed) ? end_told(r, h) : DECLINED;
}
