/* nap_bytes.c: mod_bwshare: the charge of an answer's bytes.
 *
 * The connection's filter (nap_answer.c) counts bytes, headers included. An answer of known length is
 * charged when its body begins and corrected when the request ends; others are charged brigade by
 * brigade, so that parallel downloads cannot slip through. A brigade may hold a whole download of which
 * nothing has been sent yet: marks between its pieces tell how much has been sent.
 */
#include "mod_nap.h"

/* What an answer's marks report; lives with the connection, as the last marks may outlive the request. */
struct progress {
    const conn_rec *c;
    int64_t sent;                   /* up to the last mark that passed while the client was there */
    int64_t next;                   /* from there to the next mark; 0: none is under way */
    struct mark *last;              /* the last mark, unless it has passed */
};

#define PIECE NAP_BW_PIECE          /* at least this between two marks */
#define LONG (1024 * 1024)          /* from this on a stream of HTTP/2 is sent in pieces */

/* Pieces grow with what lies before them. A mark costs some 300 bytes; a terabyte has 120 marks. */
static int64_t piece_behind(int64_t before)
{
    return before / 8 > PIECE ? before / 8 : PIECE;
}

typedef struct mark {
    struct progress *of;
    int64_t length;                 /* of the piece before it */
    int64_t next;                   /* of the piece after it; 0: there is none yet */
} mark;

/* httpd is done with all that lies before the mark: it was sent, or given up with the connection. */
static void mark_passed(void *data)
{
    mark *m = data;

    if (!m->of->c->aborted) {
        m->of->sent += m->length;
        m->of->next = m->next;
    }
    if (m->of->last == m)
        m->of->last = NULL;
    apr_bucket_free(m);
}

static apr_status_t mark_read(apr_bucket *b, const char **str, apr_size_t *len,
                              apr_read_type_e block)
{
    *str = NULL;
    *len = 0;
    return APR_SUCCESS;
}

static const apr_bucket_type_t mark_type = {
    "BWSHARE", 5, APR_BUCKET_METADATA, mark_passed, mark_read, apr_bucket_setaside_noop,
    apr_bucket_split_notimpl, apr_bucket_copy_notimpl
};

static void mark_behind(apr_bucket *last, struct progress *of, int64_t length)
{
    apr_bucket *b = apr_bucket_alloc(sizeof *b, last->list);
    mark *m = apr_bucket_alloc(sizeof *m, last->list);

    m->of = of;
    m->length = length;
    m->next = 0;
    if (of->last)
        of->last->next = length;
    else
        of->next = length;
    of->last = m;
    APR_BUCKET_INIT(b);
    b->free = apr_bucket_free;
    b->list = last->list;
    b->type = &mark_type;
    b->length = 0;
    b->start = 0;
    b->data = m;
    APR_BUCKET_INSERT_AFTER(last, b);
}

/* HTTP/2 moves its buckets to another connection and drops the marks. So there the pieces are passed one
 * by one (pass_pieces in nap_answer.c). That holds the stream's worker until they are sent, so it is done
 * only for a long answer. */
static NAP_SELDOM void mark_pieces(nap_charge *c, conn_rec *conn, apr_bucket_brigade *bb,
                                   apr_off_t length)
{
    int64_t piece = 0, most = piece_behind(c->marked);
    apr_bucket *last = NULL;

    if (conn->master) {
        c->pieces |= length > LONG;
        return;
    }
    if (!c->progress) {
        c->progress = apr_pcalloc(conn->pool, sizeof *c->progress);
        c->progress->c = conn;
    }
    for (apr_bucket *b = APR_BRIGADE_FIRST(bb); b != APR_BRIGADE_SENTINEL(bb);
         b = APR_BUCKET_NEXT(b)) {
        if (b->length == (apr_size_t)-1 || b->length == 0)
            continue;
        if (b->length > (apr_size_t)(most - piece))
            apr_bucket_split(b, most - piece);     /* if it cannot be split, it goes whole */
        piece += b->length;
        last = b;
        if (piece < most)
            continue;
        mark_behind(b, c->progress, piece);
        c->marked += piece;
        piece = 0;
        most = piece_behind(c->marked);
        b = APR_BUCKET_NEXT(b);
    }
    if (piece)
        mark_behind(last, c->progress, piece);
    c->marked += piece;
}

/* Leaves a piece in bb, with its metadata; moves the rest to `rest`, which is empty. Returns the piece's
 * length in bytes; data of unknown length counts as 0. */
apr_off_t nap_bytes_cut(apr_bucket_brigade *bb, apr_bucket_brigade *rest)
{
    apr_off_t piece = 0;

    for (apr_bucket *b = APR_BRIGADE_FIRST(bb); b != APR_BRIGADE_SENTINEL(bb);
         b = APR_BUCKET_NEXT(b)) {
        if (b->length == (apr_size_t)-1 || b->length == 0)
            continue;
        if (piece >= PIECE) {
            apr_brigade_split_ex(bb, b, rest);
            break;
        }
        if (b->length > (apr_size_t)(PIECE - piece))
            apr_bucket_split(b, PIECE - piece);    /* if it cannot be split, it goes whole */
        piece += b->length;
    }
    return piece;
}

/* HTTP/2 packs the headers after our filter: their length without that. */
static int table_size(void *sum, const char *key, const char *value)
{
    *(int64_t *)sum += strlen(key) + strlen(value) + 4;
    return 1;
}

/* The length of everything that follows the headers; -1: not known. */
static apr_off_t length_known(const request_rec *r)
{
    const char *length = apr_table_get(r->headers_out, "Content-Length");
    apr_off_t n = 0;

    if (!length || r->header_only || r->status == HTTP_NOT_MODIFIED || !ap_parse_strict_length(&n, length))
        return -1;
    return n < INT64_MAX / 10 ? n : -1;     /* more is to be added to it */
}

/* Charges bytes. ahead: before they are sent; else for good: only settling the answer can correct it. */
static inline void charge_up_to(nap_charge *c, int64_t sent, uint64_t now, int ahead)
{
    if (sent <= c->charged)
        return;
    if (ahead)
        nap_the_core->debts.reserve(&c->visit, &c->reserved, (uint64_t)(sent - c->charged), now);
    else
        nap_the_core->debts.bytes(&c->visit, (uint64_t)(sent - c->charged), now);
    c->charged = sent;
}

/* An answer that goes on: all of it at its start, if its length is known. */
static NAP_SELDOM void charge_part(nap_handle *h, apr_off_t length, uint64_t now)
{
    nap_charge *c = &h->charge;
    apr_off_t all = c->charged ? -1 : length_known(nap_last(h->first));

    if (all >= 0) {
        c->known = 1;
        charge_up_to(c, c->headers + h->sent - length + all, now, 1);
    }
    else if (!c->known) {
        charge_up_to(c, c->headers + h->sent, now, length > PIECE);
    }
}

/* The answer's first brigade, or an interim one's. 1: there is something to charge. */
static int begins(nap_handle *h, int ends)
{
    const request_rec *r = nap_last(h->first);

    if (ap_is_HTTP_INFO(r->status)) {
        /* after a switch of protocols the bytes are not counted */
        h->charged = r->status != HTTP_SWITCHING_PROTOCOLS;
        return 0;
    }
    h->charge.begun = 1;
    if (r->connection->master) {
        apr_table_do(table_size, &h->charge.headers, r->headers_out, NULL);
        apr_table_do(table_size, &h->charge.headers, r->err_headers_out, NULL);
        return 1;
    }
    return ends;
}

int nap_bytes_body(nap_handle *h, apr_bucket_brigade *bb, apr_off_t length, int ends, uint64_t now)
{
    nap_charge *c = &h->charge;

    if (length > PIECE)
        mark_pieces(c, h->first->connection, bb, length);
    if (!c->begun && !begins(h, ends))
        return !h->charged;
    if (!ends) {
        charge_part(h, length, now);
        return 0;
    }
    charge_up_to(c, c->headers + h->sent, now, length > PIECE);
    /* an early end comes from the backend or the client */
    if (!c->progress && !c->pieces && c->charged == c->headers + h->sent)
        h->charged = 0;
    return 1;
}

/* The request is over; an answer that was cut short was shorter than expected. The piece that was under way
 * counts as sent: otherwise a client that breaks off each download before the next mark would have had
 * those bytes for nothing. */
apr_status_t nap_bytes_settle(void *handle)
{
    nap_handle *h = handle;
    nap_charge *c = &h->charge;
    int64_t sent = c->headers + h->sent;

    if (!h->charged)
        return APR_SUCCESS;
    h->charged = 0;
    if (c->progress)
        sent += c->progress->sent + c->progress->next - c->marked;
    if (sent <= c->charged && c->reserved.bytes)   /* 0 too: the client was seen until now */
        nap_the_core->debts.give_back(&c->visit, &c->reserved, (uint64_t)(c->charged - sent));
    else
        charge_up_to(c, sent, 0, 0);
    return APR_SUCCESS;
}
