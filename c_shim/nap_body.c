/* nap_body.c: reading a request's body, and clients that send it slowly.
 *
 * A permit is for making an answer, not for receiving a request. So the first NapBody bytes of a body are
 * read before its access enters its room. A filter in front of httpd's own then hands them to the reader.
 * Beyond MEMORY they lie in a temporary file. Bytes that come after the access runs are read as usual. When
 * the reader has waited PATIENCE in all for them, the permit goes back; when all is there, the access waits
 * for its turn again before the reader is given the end.
 *
 * A client that does not say how long its body is may wait for an answer to its beginning before it sends the
 * end (gRPC). So a stream of HTTP/2 is not read before entry, and a chunked body only until it has been
 * waited for PAUSE in all. With `Expect: 100-continue` nothing is read before entry: the client is told to go
 * on when the handler reads, which is when its access runs. Nor is anything with NapAdmit early: the client
 * is not authorized yet.
 *
 * A body that is read without a permit holds a worker. The more are read where others want workers, the
 * faster the bodies must come: slow ones get 408, unless they bring a ticket. httpd's own time-outs,
 * mod_reqtimeout's too, hold for all. Streams of HTTP/2 have threads of their own, and are not counted.
 */
#include <poll.h>

#include "mod_nap.h"

#define MEMORY 65536                    /* bytes kept in memory */
#define PIECE 8192
#define SLICE_US 50000                  /* between two looks at the client's pace */
#define STREAM_US 20000                 /* the same for a stream of HTTP/2, which has no socket */
#define PATIENCE_US 100000              /* how long a reader with a permit waits in all */
#define TOLD_US APR_USEC_PER_SEC        /* the same where the client waits to be told to go on */
#define PAUSE_US APR_USEC_PER_SEC       /* chunked: after so long the client may be waiting for us */
#define WINDOW_US (2 * APR_USEC_PER_SEC)  /* over which the pace is looked at */
#define FIRST_US (APR_USEC_PER_SEC / 2) /* how long the first byte may take */
#define RECORD 16384                    /* of TLS, at most */
#define TLS_WINDOW_US (6 * APR_USEC_PER_SEC)  /* some of these at a pace that is not slow */

typedef struct nap_body {
    nap_handle *h;
    ap_filter_t *filter;
    apr_bucket_brigade *kept;           /* read, and not yet handed on */
    apr_file_t *file;                   /* what is beyond MEMORY; NULL: nothing yet */
    apr_off_t filed;                    /* bytes in it */
    apr_off_t length;                   /* read so far, so at least this much has come */
    int ended;                          /* all of it has been read */
    int counted;                        /* among those that are read without a permit */
    int enough;                         /* no more is read before entry: the client may wait for an answer, or
                                         * nothing comes and it would be refused */
    apr_time_t asked;                   /* when we last asked whether it would be */
    int gathers;                        /* gather() reads: httpd's filter reads trailers by the whole chain */
    int outside;                        /* the access has given its permit back until the rest is there */
    int holder;                         /* 1: the client brings a ticket; -1: it does not; 0: not looked at */
    apr_time_t began;                   /* when we began to wait for the client, if `counted` */
    apr_time_t waited;                  /* how long we waited before that */
    apr_time_t heard;                   /* when something last came */
    apr_time_t window;                  /* of the pace: after this much waiting `length` was `then` */
    apr_off_t then;
    apr_time_t looked;                  /* when the pace was last looked at */
    apr_time_t patience;                /* left of it, once the access runs */
    request_rec *failed;                /* whose body did not come, and what it was told; NULL: it did */
    int status;
} nap_body;

static ap_filter_rec_t *body_filter;

/* Waits until there is something to read, but not longer. A stream's connection has no socket of its own. */
static void poll_client(conn_rec *c, apr_time_t at_most)
{
    struct pollfd pfd = { .fd = c->master ? -1 : nap_descriptor(ap_get_conn_socket(c)), .events = POLLIN };

    if (pfd.fd < 0)
        apr_sleep(at_most < STREAM_US ? at_most : STREAM_US);
    else
        poll(&pfd, 1, (int)(at_most / 1000));
}

/* ---- Without a permit -------------------------------------------------------------------------- */

/* How long we have waited for the client. Time that others took, the handler too, does not count. */
static apr_time_t waited(const nap_body *b, apr_time_t now)
{
    return b->waited + (b->counted ? now - b->began : 0);
}

static void begin_waiting(nap_body *b)
{
    conn_rec *c = b->h->first->connection;

    b->counted = 1;
    b->began = b->heard = apr_time_now();
    if (!c->master)
        nap_the_core->access.reading(1, &b->h->access);
}

static void end_waiting(nap_body *b)
{
    if (!b->counted)
        return;
    b->waited = waited(b, apr_time_now());
    b->counted = 0;
    if (!b->h->first->connection->master)
        nap_the_core->access.reading(-1, &b->h->access);
}

static int is_less(apr_off_t bytes, uint32_t a_second, apr_time_t span)
{
    return bytes * APR_USEC_PER_SEC < (apr_off_t)a_second * span;
}

/* 1: so many others are read that the client sends too slowly, on average or of late. */
static int is_slow(nap_body *b, apr_time_t now)
{
    apr_time_t all = waited(b, now), since = all - b->window, at_least;
    nap_pace pace;
    int slow, tls;

    if (!b->counted || now - b->looked < SLICE_US)
        return 0;
    b->looked = now;
    pace = nap_the_core->access.pace();
    at_least = apr_time_from_msec(pace.after_ms);
    if (!b->length && at_least < FIRST_US)      /* its first byte may come a round trip after the head */
        at_least = FIRST_US;
    /* TLS sends records, which are seen only when they are whole */
    tls = strcmp(ap_http_scheme(b->h->first), "https") == 0;
    if (pace.in_all && all >= at_least && is_less(b->length + (tls ? RECORD : 0), pace.in_all, all))
        return 1;
    if (since < (tls ? TLS_WINDOW_US : WINDOW_US))
        return 0;
    slow = pace.lately && is_less(b->length - b->then, pace.in_all > pace.lately ? pace.in_all : pace.lately, since);
    b->window = all;
    b->then = b->length;
    return slow;
}

/* A holder was told to come, so we wait for them. */
static int is_holder(request_rec *r, nap_body *b)
{
    nap_request q;

    if (!b->holder) {
        b->holder = -1;
        if (nap_carries_ticket(r, b->h)) {
            nap_request_fill(&q, b->h, r);
            b->holder = nap_the_core->access.holds((uint32_t)b->h->owner->index, &q) ? 1 : -1;
        }
    }
    return b->holder > 0;
}

/* Nothing has come for PAUSE, and in that time we have not asked: would it be refused if everything had come?
 * Its page will not give the form back. If there is room for the access, the body is waited for. */
static int is_refused(request_rec *r, nap_body *b, apr_time_t now)
{
    if (b->outside || now - (b->asked > b->heard ? b->asked : b->heard) < PAUSE_US)
        return 0;
    b->asked = now;
    return nap_access_refused(r, b->h);
}

/* Nothing has come yet: OK to look again, or the status that the client gets. */
static int wait_for_more(request_rec *r, nap_body *b)
{
    apr_time_t now;

    if (!b->counted)
        begin_waiting(b);
    now = apr_time_now();
    if (now - b->heard <= r->server->timeout &&
        (r->connection->master || !is_slow(b, now) || is_holder(r, b))) {
        poll_client(r->connection, SLICE_US);
        now = apr_time_now();
        b->enough = (waited(b, now) >= PAUSE_US && !apr_table_get(r->headers_in, "Content-Length")) ||
                    is_refused(r, b, now);
        return OK;
    }
    ap_log_rerror(APLOG_MARK, APLOG_INFO, 0, r, "mod_nap: the body comes too slowly: %" APR_OFF_T_FMT
                  " bytes have come", b->length);
    r->connection->keepalive = AP_CONN_CLOSE;
    return HTTP_REQUEST_TIME_OUT;
}

static apr_status_t write_file(nap_body *b, const char *data, apr_size_t len)
{
    request_rec *r = b->h->first;
    const char *dir;
    char *name;
    apr_status_t rv;

    if (!b->file) {
        if ((rv = apr_temp_dir_get(&dir, r->pool)))
            return rv;
        name = apr_pstrcat(r->pool, dir, "/mod_nap-body.XXXXXX", NULL);
        rv = apr_file_mktemp(&b->file, name, APR_FOPEN_READ | APR_FOPEN_WRITE | APR_FOPEN_CREATE |
                             APR_FOPEN_EXCL | APR_FOPEN_BINARY | APR_FOPEN_DELONCLOSE, r->pool);
        if (rv)
            return rv;
    }
    b->filed += (apr_off_t)len;
    return apr_file_write_full(b->file, data, len, NULL);
}

static apr_status_t keep(nap_body *b, apr_bucket_brigade *bb)
{
    apr_status_t rv = APR_SUCCESS;

    for (apr_bucket *e = APR_BRIGADE_FIRST(bb); !rv && e != APR_BRIGADE_SENTINEL(bb);
         e = APR_BUCKET_NEXT(e)) {
        const char *data;
        apr_size_t len;

        if (APR_BUCKET_IS_EOS(e))
            b->ended = 1;
        if (APR_BUCKET_IS_METADATA(e) || (rv = apr_bucket_read(e, &data, &len, APR_BLOCK_READ)))
            continue;
        rv = b->length < MEMORY ? apr_brigade_write(b->kept, NULL, NULL, data, len)
                                : write_file(b, data, len);
        b->length += (apr_off_t)len;
    }
    apr_brigade_cleanup(bb);
    return rv;
}

/* Reads up to `most` bytes; OK, or the status that the client gets. */
static int gather(request_rec *r, nap_body *b, apr_off_t most)
{
    apr_bucket_brigade *bb = apr_brigade_create(r->pool, r->connection->bucket_alloc);
    apr_status_t rv;
    int status = OK;

    b->gathers = 1;
    while (status == OK && !b->ended && !b->enough && b->length < most) {
        apr_off_t want = most - b->length < PIECE ? most - b->length : PIECE;

        rv = ap_get_brigade(b->filter->next, bb, AP_MODE_READBYTES, APR_NONBLOCK_READ, want);
        if (nap_is_nothing(rv, bb)) {
            status = wait_for_more(r, b);
            continue;
        }
        b->heard = b->counted ? apr_time_now() : 0;
        if (rv) {
            ap_log_rerror(APLOG_MARK, APLOG_INFO, rv, r, "mod_nap: the body is incomplete");
            status = ap_map_http_request_error(rv, HTTP_BAD_REQUEST);
        }
        else if ((rv = keep(b, bb))) {
            ap_log_rerror(APLOG_MARK, APLOG_ERR, rv, r, "mod_nap: the body cannot be kept in a temporary file");
            status = HTTP_INTERNAL_SERVER_ERROR;
        }
    }
    end_waiting(b);
    b->gathers = 0;
    apr_brigade_destroy(bb);
    if (status == OK && b->file)        /* what is in it comes after what is in memory */
        apr_brigade_insert_file(b->kept, b->file, 0, b->filed, b->h->first->pool);
    return status;
}

/* httpd's filter enforces LimitRequestBody when it is first read, but not for a proxied request. One that a
 * handler setting sends to a proxy is not marked as proxied yet. */
static int gather_as_handled(request_rec *r, nap_body *b, apr_off_t most)
{
    int proxied = r->proxyreq, status;

    if (!proxied && r->handler && !strncmp(r->handler, "proxy:", 6))
        r->proxyreq = PROXYREQ_REVERSE;
    status = gather(r, b, most);
    r->proxyreq = proxied;
    return status;
}

/* The access h is about to enter. OK: as much of its body is there as is waited for; else the status that the
 * visitor gets. */
int nap_body_await(request_rec *r, nap_handle *h)
{
    apr_time_t began;
    nap_body *b = h->uploads ? h->upload : NULL;

    if (b)                          /* an error's document, or `Satisfy Any` overruled it */
        return b->failed == r ? b->status : OK;
    if (h->room->view.body < 0 || !nap_has_body(r) || h->room->view.admit_early == 1 ||
        h->dir->engine == NAP_ENGINE_DRY_RUN)
        return OK;
    h->uploads = 1;
    h->body_us = 0;
    b = h->upload = apr_pcalloc(r->pool, sizeof *b);
    b->h = h;
    b->kept = apr_brigade_create(r->pool, r->connection->bucket_alloc);
    b->patience = r->expecting_100 ? TOLD_US : PATIENCE_US;
    b->filter = ap_add_input_filter_handle(body_filter, b, r, r->connection);
    /* one of the protocol's own: it stays where a request becomes another of its chain */
    if (b->filter->next == r->proto_input_filters)
        r->proto_input_filters = b->filter;
    if (r->expecting_100 || (r->proto_num >= HTTP_VERSION(2, 0) && !apr_table_get(r->headers_in, "Content-Length")))
        return OK;
    began = apr_time_now();
    b->status = gather_as_handled(r, b, h->room->view.body);
    h->body_us = (uint64_t)(apr_time_now() - began);
    if (b->enough)                  /* the client has been waited for enough */
        b->patience = 0;
    if (b->status != OK)
        b->failed = r;
    return b->status;
}

/* ---- While it runs ------------------------------------------------------------------------------ */

/* httpd's filter tells the client to go on when it is read and may block; we never block for long. */
static void tell_to_go_on(nap_handle *h, request_rec *r)
{
    const char *line = r->status_line;
    int status = r->status;
    unsigned passes = h->passes;

    if (!r->expecting_100 || r->proto_num < HTTP_VERSION(1, 1) || r->eos_sent || r->bytes_sent ||
        !ap_is_HTTP_SUCCESS(status))
        return;
    r->status = HTTP_CONTINUE;
    r->status_line = NULL;
    ap_send_interim_response(r, 0);
    r->status = status;
    r->status_line = line;
    h->passes = passes;             /* that was not part of the answer */
}

/* An answer that begins before its whole body is read needs no permit any more. */
static int is_unanswered(const nap_handle *h)
{
    const nap_line *line = nap_line_of(h->first->connection);

    return h->holds && !h->passes && !nap_last(h->first)->sent_bodyct && line && line->now == h;
}

/* The permit is back, and the reader waits as one does before its access enters. */
static apr_status_t read_outside(nap_body *b, apr_bucket_brigade *bb, apr_off_t readbytes)
{
    request_rec *r = b->h->first;
    apr_status_t rv;

    do {
        rv = ap_get_brigade(b->filter->next, bb, AP_MODE_READBYTES, APR_NONBLOCK_READ, readbytes);
    } while (nap_is_nothing(rv, bb) && wait_for_more(r, b) == OK);
    end_waiting(b);
    if (nap_is_nothing(rv, bb))
        return APR_TIMEUP;
    return rv;
}

/* Waits a while with the permit. If nothing has come by then, the permit goes back. */
static apr_status_t read_inside(nap_body *b, apr_bucket_brigade *bb, apr_off_t readbytes)
{
    nap_handle *h = b->h;
    apr_status_t rv;

    while (nap_is_nothing(rv = ap_get_brigade(b->filter->next, bb, AP_MODE_READBYTES, APR_NONBLOCK_READ, readbytes),
                      bb) && b->patience > 0) {
        apr_time_t began = apr_time_now();

        poll_client(h->first->connection, b->patience);
        b->patience -= apr_time_now() - began;
    }
    if (nap_is_nothing(rv, bb)) {
        h->detached = 1;
        b->outside = nap_the_core->access.step_out(&h->access);
    }
    return rv;
}

static apr_status_t read_waiting(nap_body *b, apr_bucket_brigade *bb, apr_off_t readbytes)
{
    nap_handle *h = b->h;
    apr_status_t rv;

    if (h->holds && !h->detached && !b->filter->r->expecting_100) {
        rv = read_inside(b, bb, readbytes);
        if (!nap_is_nothing(rv, bb))
            return rv;
    }
    rv = b->outside && !h->first->connection->master
         ? read_outside(b, bb, readbytes)
         : ap_get_brigade(b->filter->next, bb, AP_MODE_READBYTES, APR_BLOCK_READ, readbytes);
    if (!b->outside || rv || !nap_is_end(bb))
        return rv;
    b->outside = 0;             /* all is there: it waits for its turn again */
    return is_unanswered(h) && !nap_access_again(h) ? APR_ECONNABORTED : APR_SUCCESS;
}

/* Gives `most` bytes of what is kept, or all of it. stay: they are to be read once more. */
static apr_status_t give(nap_body *b, apr_bucket_brigade *bb, apr_off_t most, int stay)
{
    apr_bucket *after, *given;
    apr_status_t rv = apr_brigade_partition(b->kept, most, &after);

    if (rv && rv != APR_INCOMPLETE)
        return rv;
    for (apr_bucket *e = APR_BRIGADE_FIRST(b->kept), *next; e != after; e = next) {
        next = APR_BUCKET_NEXT(e);
        given = e;
        if (!stay)
            APR_BUCKET_REMOVE(e);
        else if ((rv = apr_bucket_copy(e, &given)))
            return rv;
        APR_BRIGADE_INSERT_TAIL(bb, given);
    }
    return APR_SUCCESS;
}

static apr_status_t body_in(ap_filter_t *f, apr_bucket_brigade *bb, ap_input_mode_t mode, apr_read_type_e block,
                            apr_off_t readbytes)
{
    nap_body *b = f->ctx;
    apr_off_t length = 0;
    apr_status_t rv;

    if (mode == AP_MODE_INIT || b->gathers)
        return ap_get_brigade(f->next, bb, mode, block, readbytes);
    if (APR_BRIGADE_EMPTY(b->kept) && !b->ended) {
        if (block == APR_BLOCK_READ)
            tell_to_go_on(b->h, f->r);
        rv = mode == AP_MODE_READBYTES && block == APR_BLOCK_READ
             ? read_waiting(b, bb, readbytes) : ap_get_brigade(f->next, bb, mode, block, readbytes);
        if (!rv && mode == AP_MODE_READBYTES && !apr_brigade_length(bb, 0, &length))
            b->length += length;
        return rv;
    }
    switch (mode) {
    case AP_MODE_READBYTES:
        rv = give(b, bb, readbytes, 0);
        break;
    case AP_MODE_SPECULATIVE:
        return give(b, bb, readbytes, 1);
    case AP_MODE_GETLINE:
        rv = apr_brigade_split_line(bb, b->kept, block, HUGE_STRING_LEN);
        break;
    case AP_MODE_EXHAUSTIVE:
        APR_BRIGADE_CONCAT(bb, b->kept);
        rv = APR_SUCCESS;
        break;
    default:
        return APR_ENOTIMPL;
    }
    if (!rv && b->ended && APR_BRIGADE_EMPTY(b->kept))
        APR_BRIGADE_INSERT_TAIL(bb, apr_bucket_eos_create(f->c->bucket_alloc));
    return rv;
}

void nap_body_register(apr_pool_t *p)
{
    body_filter = ap_register_input_filter("NAP-BODY", body_in, NULL, AP_FTYPE_PROTOCOL - 1);
}
