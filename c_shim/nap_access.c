/* nap_access.c: an access until it runs.
 *
 * An access is a chain of internal redirects; its handle hangs on the chain's first request. The
 * core decides; here the request waits (nap_wait_turn and nap_access_again), gets its 503, or runs.
 * What comes then is in nap_answer.c.
 *
 * Most requests go through here, so cheap questions are asked first: one admitted access may cost
 * some 600 instructions, the core's included.
 */
#include <mod_core.h>
#include <poll.h>

#include "mod_nap.h"

#define SLICE_US 250000     /* between two looks at client and server */
#define COOKIES_MAX 16      /* Cookie headers looked at */

#define CLEARED offsetof(nap_handle, access.rest)  /* bytes of a handle that must be zero */
#define PIECE 112           /* they are cleared so many at a time */

_Static_assert((CLEARED + PIECE - 1) / PIECE * PIECE <= sizeof(nap_handle), "PIECE");

/* ---- Handle ----------------------------------------------------------------------------------- */

/* r has no handle yet. */
static inline __attribute__((always_inline)) nap_handle *handle_new(request_rec *r)
{
    nap_handle *h = apr_palloc(r->pool, sizeof *h);

    /* in pieces so small that no function is called */
    #pragma GCC unroll 4
    for (size_t at = 0; at < CLEARED; at += PIECE)
        memset((char *)h + at, 0, PIECE);
    h->first = r;
    h->method = r->method;
    ap_set_module_config(r->request_config, &nap_itself, h);
    return h;
}

nap_handle *nap_handle_make(request_rec *r)
{
    nap_handle *h = nap_handle_at(r);

    return h ? h : handle_new(r);
}

/* For apr_table_do: adds a header to a list of nap_str, while the list has room. */
int nap_str_add(void *list, const char *key, const char *value)
{
    apr_array_header_t *to = list;

    if (to->nelts == to->nalloc)
        return 0;
    APR_ARRAY_PUSH(to, nap_str) = nap_str_of(value);
    return 1;
}

/* The ticket page of the access h; r is what is asked for now. */
static uint32_t own_page(const nap_handle *h, const request_rec *r)
{
    const nap_dir *dir = h->dir ? h->dir : nap_dir_of(r);
    const nap_own_page *page = dir->own_page ? dir->own_page : h->owner ? h->owner->own_page
                             : h->room ? h->room->own_page : NULL;

    return page ? page->number : NAP_NONE;
}

/* What the core may want to know of the access h; answers go to r. */
void nap_request_fill(nap_request *q, nap_handle *h, request_rec *r)
{
    request_rec *first = h->first;
    apr_array_header_t *cookies = apr_array_make(r->pool, COOKIES_MAX, sizeof(nap_str));

    memset(q, 0, sizeof *q);
    q->r = r;
    q->method = nap_str_of(h->method);
    q->uri = nap_str_of(first->unparsed_uri);
    apr_table_do(nap_str_add, cookies, first->headers_in, "Cookie", NULL);
    q->cookies = (const nap_str *)cookies->elts;
    q->n_cookies = (size_t)cookies->nelts;
    q->ticket_header = nap_header(first, "Nap-Ticket");
    q->ticket_query = h->ticket_query;
    q->accept = nap_header(first, "Accept");
    q->accept_language = nap_header(first, "Accept-Language");
    q->fetch_dest = nap_header(first, "Sec-Fetch-Dest");
    q->purpose = nap_header(first, "Sec-Purpose");
    if (!q->purpose.len)
        q->purpose = nap_header(first, "Purpose");
    if (q->n_cookies)           /* the core asks it only if a cookie brings a ticket */
        q->requested_with = nap_header(first, "X-Requested-With");
    if (h->uploads)
        q->body_us = h->body_us;
    q->origin = nap_header(first, "Origin");
    nap_address(q->client, first->useragent_addr);
    /* also true behind a proxy, when ServerName says https:// */
    q->tls = strcmp(ap_http_scheme(first), "https") == 0;
    q->ticket_path = nap_str_of(nap_the_site->ticket_path);
    q->own_page = own_page(h, r);
    q->ticket_status = HTTP_SERVICE_UNAVAILABLE;
    if (h->dir && h->dir->ticket_status != NAP_UNSET)
        q->ticket_status = h->dir->ticket_status;
    else if (h->owner && h->owner->ticket_status != NAP_UNSET)
        q->ticket_status = h->owner->ticket_status;
}

/* ---- Waiting ---------------------------------------------------------------------------------- */

/* A stream of HTTP/2 has a connection of its own, whose socket tells nothing; its master's does. */
static int client_gone(const conn_rec *c)
{
    conn_rec *line = c->master ? c->master : (conn_rec *)c;
    apr_socket_t *socket = ap_get_conn_socket(line);
    struct pollfd pfd = { .fd = nap_descriptor(socket), .events = POLLRDHUP };

    if (c->aborted || line->aborted)
        return 1;
    if (!socket || pfd.fd < 0)  /* closed under us: event and worker do that at a hard stop */
        return socket != NULL;
    return poll(&pfd, 1, 0) > 0 && (pfd.revents & (POLLRDHUP | POLLERR | POLLHUP | POLLNVAL));
}

static int show(request_rec *r, int status)
{
    return !r->connection->master && r->connection->sbh
           ? ap_update_child_status(r->connection->sbh, status, r) : 0;
}

/* Waits up to `us` for its turn. NAP_WAIT on an aborted connection: its client has gone, and the next one has
 * its place, or the permit it just got. */
static nap_verdict look(request_rec *r, nap_access *a, uint64_t us, const nap_request *q)
{
    nap_verdict verdict = nap_the_core->access.wait(a, us, q);

    if ((verdict == NAP_WAIT || verdict == NAP_RUN) && client_gone(r->connection)) {
        nap_the_core->access.give_up(a, NAP_GONE, q);
        nap_the_core->access.leave(a);
        r->connection->aborted = 1;
        return NAP_WAIT;
    }
    return verdict == NAP_WAIT && nap_server_stopping() ? nap_the_core->access.give_up(a, NAP_STOPPING, q) : verdict;
}

/* Waits on its worker until the access may run or is refused. (Without a worker: nap_park.c; in the middle of
 * a handler: nap_access_again.) */
static nap_verdict nap_wait_turn(request_rec *r, nap_access *a, const nap_request *q)
{
    nap_verdict verdict;
    int shown = show(r, SERVER_BUSY_LOG);     /* "L" in server-status */

    do {
        verdict = look(r, a, SLICE_US, q);
    } while (verdict == NAP_WAIT && !r->connection->aborted);
    if (verdict == NAP_WAIT) {                /* mod_http2 may have noticed it before us; both do nothing twice */
        nap_the_core->access.give_up(a, NAP_GONE, q);
        nap_the_core->access.leave(a);
    }
    show(r, shown == SERVER_BUSY_LOG ? SERVER_BUSY_WRITE : shown);
    return verdict;
}

/* Its permit went back while its body came. Now the body is there, and it waits for its turn again. An access
 * that has begun is not refused: if it cannot wait, it goes on without a permit. 0: the client has gone. */
int nap_access_again(nap_handle *h)
{
    request_rec *r = h->first;
    nap_verdict verdict;
    int shown = show(r, SERVER_BUSY_LOG);

    while ((verdict = nap_the_core->access.step_in(&h->access, SLICE_US)) == NAP_WAIT) {
        if (client_gone(r->connection))
            r->connection->aborted = 1;
        if (r->connection->aborted || nap_server_stopping()) {
            nap_the_core->access.stay_out(&h->access);
            break;
        }
    }
    h->detached = verdict != NAP_RUN;
    show(r, shown == SERVER_BUSY_LOG ? SERVER_BUSY_WRITE : shown);
    return !r->connection->aborted;
}

apr_status_t nap_access_leave_late(void *access)
{
    nap_the_core->access.leave(access);
    return APR_SUCCESS;
}

/* ---- Admission -------------------------------------------------------------------------------- */

static NAP_SELDOM int has_includes(const request_rec *r)
{
    const core_dir_config *core = ap_get_core_module_config(r->per_dir_config);

    for (const ap_filter_t *f = r->output_filters; f; f = f->next)
        if (f->frec->ftype < AP_FTYPE_PROTOCOL && !ap_cstr_casecmp(f->frec->name, "includes"))
            return 1;
    return core->output_filters && ap_strcasestr(core->output_filters, "INCLUDES");
}

/* A file that httpd itself reads and sends. In the last fixup: the handler is NULL, unless its type
 * is one that a module takes for a handler, or a filter makes it a program. For those that show
 * later, see enter_filtered. */
static int is_static(const request_rec *r)
{
    if (r->proxyreq || (r->handler && strcmp(r->handler, "default-handler")))
        return 0;
    if (!r->handler && r->content_type && !strncmp(r->content_type, "application/x-httpd-", 20))
        return 0;
    return !has_includes(r);
}

static NAP_SELDOM uint32_t priority_of(request_rec *r, const nap_room *room)
{
    const nap_priority *one;
    uint32_t highest = 0;

    NAP_EACH(one, room->priorities)
        if (one->number > highest && nap_expr_holds(r, one->expr, "NapPriority"))
            highest = one->number;
    return highest;
}

/* Requests that are no accesses, room or not. handler: its first letter. */
static inline __attribute__((always_inline)) int never(const request_rec *r, char handler)
{
    int m = r->method_number;

    return r->main || m == M_OPTIONS || m == M_CONNECT || m == M_TRACE ||
           (handler == 'n' && !strncmp(r->handler, "nap-", 4));
}

NAP_SELDOM int nap_carries_ticket(request_rec *r, const nap_handle *h)
{
    const char *cookie;

    if (h->ticket_query.len || apr_table_get(r->headers_in, "Nap-Ticket"))
        return 1;
    cookie = apr_table_get(r->headers_in, "Cookie");
    /* HTTP/2 may split the Cookie header; the core sorts it out */
    return cookie && (ap_strstr_c(cookie, h->owner->cookie) || h->first->proto_num >= 2000);
}

/* Answers with the page, or by httpd's ErrorDocument: the site's if there is one, ours if other
 * requests of the chain have a say. */
static int refuse(request_rec *r, nap_handle *h, nap_request *q)
{
    /* behind another error's document the answer is made on the request that failed first */
    while (((request_rec *)q->r)->status != HTTP_OK && ((request_rec *)q->r)->prev &&
           ((request_rec *)q->r)->prev->status != HTTP_OK)
        q->r = ((request_rec *)q->r)->prev;
    h->refused = r;
    h->noted = 1;
    nap_form_note(r, h);
    nap_the_core->access.refusal(&h->access, q);
    if (ap_response_code_string(r, ap_index_of_response(HTTP_SERVICE_UNAVAILABLE))) {
        q->r = r;
        nap_the_core->pages.variables(&h->access, q);
        return HTTP_SERVICE_UNAVAILABLE;
    }
    if (r == h->first && ap_satisfies(r) != SATISFY_ANY)
        return nap_page_refuse(r, h, q);
    ap_custom_response(r, HTTP_SERVICE_UNAVAILABLE, nap_the_site->ticket_path);
    return HTTP_SERVICE_UNAVAILABLE;
}

/* leave() must follow. For a stream its pool calls it; registered before the script's cleanups, it runs after
 * them. */
static inline void hold(const request_rec *r, nap_handle *h)
{
    if (r->connection->master)
        apr_pool_cleanup_register(h->first->pool, &h->access, nap_access_leave_late, apr_pool_cleanup_null);
    h->holds = 1;
}

static inline int run(const request_rec *r, nap_handle *h, nap_line *line)
{
    if (line)
        line->now = h;
    if (!h->holds)
        hold(r, h);
    return DECLINED;
}

static NAP_SELDOM int decided(request_rec *r, nap_handle *h, nap_verdict verdict, nap_request *q)
{
    nap_access *a = &h->access;

    if (verdict == NAP_WAIT) {  /* nobody is there to read an answer; the log shows 503, no bytes, and %X as X */
        h->gone = 1;
        r->status = HTTP_SERVICE_UNAVAILABLE;
        r->connection->keepalive = AP_CONN_CLOSE;
        return DONE;
    }
    /* a session has begun even if its page has no place left to wait on */
    if (verdict == NAP_RUN || (verdict == NAP_PASS && a->session))
        nap_the_core->access.redeemed(a, q);
    if (verdict == NAP_RUN)
        return run(r, h, nap_line_of(r->connection));
    if (verdict == NAP_REFUSE && !(a->flags & NAP_FLAG_DRY_RUN))
        return refuse(r, h, q);
    return DECLINED;
}

/* Waits on this worker until it may run or is refused. An access that cannot be parked after all, when too
 * many wait on workers already, is told when to come as if the server stopped. */
int nap_access_wait_here(request_rec *r, nap_handle *h, nap_request *q)
{
    nap_access *a = &h->access;
    nap_verdict verdict = nap_the_core->access.blocks(a) ? NAP_WAIT : nap_the_core->access.give_up(a, NAP_STOPPING, q);

    return decided(r, h, verdict == NAP_WAIT ? nap_wait_turn(r, a, q) : verdict, q);
}

/* A parked access looks up. SUSPENDED: it waits on. */
int nap_access_look_up(request_rec *r, nap_handle *h, nap_request *q)
{
    nap_verdict verdict = look(r, &h->access, 0, q);

    return verdict == NAP_WAIT && !r->connection->aborted ? SUSPENDED : decided(r, h, verdict, q);
}

/* Enters with the request's details: it has to wait, may be refused or may carry a ticket. */
static NAP_SELDOM int enter_told(request_rec *r, nap_handle *h, nap_verdict verdict)
{
    nap_access *a = &h->access;
    nap_request q;
    int parked = OK;

    h->noted = 1;
    hold(r, h);             /* in any case: leave() knows by its state what to give back */
    nap_request_fill(&q, h, r);
    if (verdict == NAP_MORE) {
        a->priority = priority_of(r, h->room);
        if (h->fixup && nap_park_may(r))
            a->flags |= NAP_FLAG_PARKS;
    }
    if (verdict == NAP_MORE || verdict == NAP_RUN)
        verdict = nap_the_core->access.enter(a, &q);
    if (verdict != NAP_WAIT)
        return decided(r, h, verdict, &q);
    if (a->flags & NAP_FLAG_PARKS)
        parked = nap_park(r, h, &q);
    return parked != OK ? parked : nap_access_wait_here(r, h, &q);
}

/* The access asks for a page that has a gate of its own. In a room with sessions the tickets are always
 * the room's, even if the page belongs to another. */
static __attribute__((noinline)) void name_page(nap_handle *h)
{
    const nap_page *page = nap_page_asked(h->room, h->first, h->named);

    if (!page || page->index < 0)
        return;
    h->scheduled = page;
    if (h->room->view.session != 1)
        h->owner = page->owner;
    h->access.room = (uint32_t)page->index;
}

/* NULL for a stream: its connection serves one request only. */
static nap_known *last_known(conn_rec *c)
{
    nap_line *line = nap_line_of(c);

    if (!line || c->master)
        return NULL;
    if (!line->known)
        line->known = apr_pcalloc(c->pool, sizeof *line->known);
    return line->known;
}

/* In a room with sessions most accesses are members'. An access that is neither a member's nor starts a
 * session goes to its page as in any room. */
static nap_verdict try_session(request_rec *r, nap_handle *h)
{
    nap_access *a = &h->access;
    const char *cookies = apr_table_get(h->first->headers_in, "Cookie");
    nap_verdict verdict;

    a->home = (uint32_t)h->room->index + 1;
    verdict = nap_the_core->access.try_member(a, nap_str_of(cookies), last_known(r->connection));
    if (verdict != NAP_MORE || a->session)
        return verdict;
    if (nap_session_starts(h))
        a->flags |= NAP_FLAG_STARTS;
    else if (!nap_carries_ticket(r, h))
        return nap_the_core->access.try_enter(a);
    return NAP_MORE;
}

/* Sets what the core must know of the access before it enters. */
static inline __attribute__((always_inline)) void introduce(const request_rec *r, nap_handle *h)
{
    h->owner = h->room;
    h->access.room = (uint32_t)h->room->index;
    if (h->room->pages)
        name_page(h);
    h->access.flags = (r->connection->master ? NAP_FLAG_SECONDARY : 0) |
                      (h->dir->engine == NAP_ENGINE_DRY_RUN ? NAP_FLAG_DRY_RUN : 0);
}

/* Would the access, which has not entered, be refused now? With sessions the answer is always no. */
int nap_access_refused(request_rec *r, nap_handle *h)
{
    nap_request q;

    if (h->room->view.session == 1)
        return 0;
    introduce(r, h);
    if (h->fixup && nap_park_may(r))
        h->access.flags |= NAP_FLAG_PARKS;
    nap_request_fill(&q, h, r);
    return nap_the_core->access.refuses(&h->access, &q);
}

static inline __attribute__((always_inline)) int enter(request_rec *r, nap_handle *h, nap_line *line)
{
    nap_access *a = &h->access;
    nap_verdict verdict;

    h->made = h->entered = 1;
    introduce(r, h);
    if (h->room->view.session == 1 && !(a->flags & NAP_FLAG_DRY_RUN))
        verdict = try_session(r, h);
    else
        verdict = nap_the_core->access.try_enter(a);
    if (verdict == NAP_RUN && !((a->flags & NAP_FLAG_TICKETS) && nap_carries_ticket(h->first, h)))
        return run(r, h, line);
    return verdict == NAP_PASS ? DECLINED : enter_told(r, h, verdict);
}

/* The same, unless the room exempts it, and after its body has come. */
static NAP_SELDOM int enter_if_due(request_rec *r, nap_handle *h)
{
    const apr_array_header_t *exempt = h->room->exempt;
    int status = OK;

    h->made = 1;
    /* behind a front controller the original request is tested too */
    if (nap_expr_any(r, exempt, "NapExempt") || (r != h->first && nap_expr_any(h->first, exempt, "NapExempt")))
        return DECLINED;
    h->owner = h->room;
    status = nap_body_await(r, h);
    return status ? status : enter(r, h, nap_line_of(r->connection));
}

/* The access enters its room, at once if there is nothing to ask or read first. Its line mostly knows already
 * whether it has a body. */
static inline __attribute__((always_inline)) int enter_now_or_later(request_rec *r, nap_handle *h)
{
    const nap_room *room = h->room;
    nap_line *line = nap_line_of(r->connection);

    if (room->exempt || (room->view.body >= 0 && !(line && line->bare == r) && nap_has_body(r)))
        return enter_if_due(r, h);
    return enter(r, h, line);
}

/* Refused or gone, but `Satisfy Any` overruled it: the same answer again. A debtor's answer is not the
 * room's concern, no matter what produces it. */
static NAP_SELDOM int again(const request_rec *r, const nap_handle *h)
{
    if (h->gone)
        return DONE;
    return h->entered && h->refused == r ? HTTP_SERVICE_UNAVAILABLE : DECLINED;
}

/* Decides whether r enters, and as what; h is its own handle; early: before its handler is known. */
static inline __attribute__((always_inline)) int admit(request_rec *r, nap_handle *h, const nap_dir *dir, int early)
{
    char handler = r->handler ? r->handler[0] : '\0';

    if (never(r, handler))
        return DECLINED;
    if (!r->prev && !h) {
        h = handle_new(r);
    }
    else {
        h = nap_handle_make(nap_first(r));
        if (h->entered || h->in_debt)
            return again(r, h);
    }
    if (!h->room) {
        h->room = dir->room;
        h->named = r;
        h->dir = dir;
    }
    if (handler == 'r' && nap_is_redirect(r))
        return DECLINED;
    if (!early && h->room->view.schedule_static != 1 && is_static(r))
        return DECLINED;
    h->fixup = !early;
    return enter_now_or_later(r, h);
}

/* Also tells whether the core is there: without it no room has an index. */
static int lies_in_room(const nap_dir *dir)
{
    return dir->room && dir->room->index >= 0 && dir->engine != NAP_ENGINE_OFF;
}

/* access_checker. mod_authz_core runs after it, so a full room answers before a login is checked.
 * Files of the default handler cannot be recognized here, so they are scheduled too. */
static int nap_access_early(request_rec *r)
{
    const nap_dir *dir = nap_dir_of(r);
    nap_handle *h = nap_handle_at(r);

    if (!lies_in_room(dir) || dir->room->view.admit_early != 1 || (h && h->page))
        return DECLINED;
    return admit(r, h, dir, 1);
}

/* While the configuration is read: httpd removes all hooks before it reads the next one. */
void nap_access_hook_early(void)
{
    if (nap_the_site->admits_early)
        return;
    nap_the_site->admits_early = 1;
    ap_hook_check_access(nap_access_early, NULL, NULL, APR_HOOK_LAST, AP_AUTH_INTERNAL_PER_CONF);
}

/* A redirect that leads out of the room in which the chain began. */
static NAP_SELDOM int admit_redirected(request_rec *r)
{
    const nap_handle *h = nap_handle_at(nap_first(r));

    return h && h->room && !h->entered ? admit(r, NULL, h->dir, 0) : DECLINED;
}

/* The last fixup. */
int nap_access_late(request_rec *r)
{
    const nap_dir *dir = nap_dir_of(r);
    nap_handle *h = nap_handle_at(r);

    /* `Satisfy Any` overruled that refusal; by now no other module changes the request */
    if (h && h->in_debt && !r->prev)
        return nap_bwshare_status(h);
    if (lies_in_room(dir))
        return admit(r, h, dir, 0);
    return r->prev ? admit_redirected(r) : DECLINED;
}

/* The first of all handlers: a request that looked like a file in the last fixup now shows its filters. */
static int enter_filtered(request_rec *r)
{
    nap_handle *h = nap_handle_at(nap_first(r));

    if (!h || !h->room || h->entered || h->in_debt || h->made || never(r, r->handler ? r->handler[0] : '\0') || nap_is_redirect(r))
        return DECLINED;
    h->fixup = 0;
    return nap_filters_run(r) ? enter_now_or_later(r, h) : DECLINED;
}

void nap_access_hook_filtered(void)
{
    if (nap_the_site->admits_filtered || !nap_filter_can_run())
        return;
    nap_the_site->admits_filtered = 1;
    ap_hook_handler(enter_filtered, NULL, NULL, APR_HOOK_REALLY_FIRST);
}
