/* nap_session.c: NapSession. What starts and ends a session, and what an answer says of it.
 *
 * The core knows which clients are in a session, but must be told the cookie that identifies them. So
 * answers of a room with sessions pass a filter once, before their headers are made. By then the
 * application has set its cookie, or has said that the session is over.
 */
#include <apr_fnmatch.h>

#include "mod_nap.h"

#define COOKIES_MAX 8       /* Set-Cookie headers looked at */

static ap_filter_rec_t *answer_filter;

static const char *pattern(cmd_parms *cmd, const nap_page **to, const char *option)
{
    nap_page *page = apr_pcalloc(cmd->pool, sizeof *page);
    const char *equals = ap_strchr_c(option, '=');
    const char *title = apr_psprintf(cmd->pool, "NapSession: %.*s", (int)(equals - option), option);

    *to = page;
    if (!equals[1])
        return apr_pstrcat(cmd->pool, title, "= wants a regular expression", NULL);
    return nap_page_regex(cmd, page, title, equals + 1);
}

/* Takes start= and end=; the rest is put back into argv for the core, and *argc says how many. */
const char *nap_session_patterns(cmd_parms *cmd, nap_room *room, int *argc, char **argv)
{
    int n = 0;

    for (int i = 0; i < *argc; i++) {
        const char *err = NULL;

        if (!ap_cstr_casecmpn(argv[i], "start=", 6))
            err = pattern(cmd, &room->starts, argv[i]);
        else if (!ap_cstr_casecmpn(argv[i], "end=", 4))
            err = pattern(cmd, &room->ends, argv[i]);
        else
            argv[n++] = argv[i];
        if (err)
            return err;
    }
    *argc = n;
    return NULL;
}

/* Only a <Location> of a plain path tells what lies in the room. */
static int lies_there(const nap_room *room, const nap_page *page, apr_pool_t *p)
{
    const ap_directive_t *use;

    NAP_EACH(use, room->uses) {
        const char *path = nap_section_word(use->parent, "<Location", p);

        if (!path || path[0] != '/' || apr_fnmatch_test(path) ||
            !strncmp(path, page->prefix, strlen(path) < page->prefix_len ? strlen(path) : page->prefix_len))
            return 1;
    }
    return !room->uses;
}

/* A session that nothing can start would shut everybody out. */
int nap_session_check(server_rec *s, nap_room *room, apr_pool_t *p)
{
    const char *what = room->starts && !lies_there(room, room->starts, p) ? "start"
                     : room->ends && !lies_there(room, room->ends, p) ? "end" : NULL;

    if (!what || room->view.session != 1)
        return OK;
    return nap_complain(s, p, room->section, "room %s: NapSession: %s= matches nothing in the room: URLs that begin "
                        "with %s lie in no <Location> with NapUse %s", room->view.name, what,
                        what[0] == 's' ? room->starts->prefix : room->ends->prefix, room->view.name);
}

int nap_session_starts(const nap_handle *h)
{
    return !h->room->starts || nap_page_matches(h->room->starts, h->first, h->named);
}

/* `Nap-Session: end` is for us. */
static int is_over(request_rec *r, const nap_handle *h)
{
    const char *word = apr_table_get(r->headers_out, "Nap-Session");
    int over;

    if (!word && !apr_is_empty_table(r->err_headers_out))
        word = apr_table_get(r->err_headers_out, "Nap-Session");
    over = word && !ap_cstr_casecmp(word, "end");
    if (word) {
        apr_table_unset(r->headers_out, "Nap-Session");
        apr_table_unset(r->err_headers_out, "Nap-Session");
    }
    return over || (h->access.session && h->room->ends && r->status < HTTP_BAD_REQUEST &&
                    nap_page_matches(h->room->ends, h->first, h->named));
}

static NAP_SELDOM void tell(request_rec *r, nap_handle *h, const apr_array_header_t *sets, int over)
{
    nap_request q;

    nap_request_fill(&q, h, r);
    nap_the_core->access.answered(&h->access, &q, sets ? (const nap_str *)sets->elts : NULL,
                           sets ? (size_t)sets->nelts : 0, over);
}

/* The application's cookie; ours is in err_headers_out too, under another name. */
static apr_array_header_t *set_cookies(request_rec *r)
{
    apr_array_header_t *sets = NULL;

    if (apr_table_get(r->headers_out, "Set-Cookie") ||
        apr_table_get(r->err_headers_out, "Set-Cookie")) {
        sets = apr_array_make(r->pool, COOKIES_MAX, sizeof(nap_str));
        apr_table_do(nap_str_add, sets, r->headers_out, "Set-Cookie", NULL);
        apr_table_do(nap_str_add, sets, r->err_headers_out, "Set-Cookie", NULL);
    }
    return sets;
}

static apr_status_t answer(ap_filter_t *f, apr_bucket_brigade *bb)
{
    request_rec *r = f->r;
    nap_handle *h = f->ctx;
    int over = is_over(r, h);

    ap_remove_output_filter(f);
    if (h->access.session) {
        apr_array_header_t *sets = h->room->view.session_cookie[0] ? set_cookies(r) : NULL;

        if (over || sets || (h->access.flags & NAP_FLAG_BEGUN))
            tell(r, h, sets, over);
    }
    return ap_pass_brigade(f->next, bb);
}

static void insert(request_rec *r)
{
    nap_handle *h = r->main ? NULL : nap_handle_at(nap_first(r));

    if (h && h->made && h->room->view.session == 1)
        ap_add_output_filter_handle(answer_filter, h, r, r->connection);
}

void nap_session_hook(void)
{
    if (nap_the_site->has_sessions)
        return;
    nap_the_site->has_sessions = 1;
    ap_hook_insert_filter(insert, NULL, NULL, APR_HOOK_LAST);
    ap_hook_insert_error_filter(insert, NULL, NULL, APR_HOOK_LAST);
    /* before the filter that makes the headers, after those that still change them */
    answer_filter = ap_register_output_filter("NAP_SESSION", answer, NULL, AP_FTYPE_PROTOCOL - 1);
}
