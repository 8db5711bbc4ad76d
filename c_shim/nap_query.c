/* nap_query.c: the first look at a request, as soon as its headers are there.
 *
 * The nap-ticket parameter is removed from the URL and from the Referer before anybody can see it. Whether
 * the request has a body is noted for its access. One pass over the first letters of the headers spares most
 * requests three look-ups by name.
 */
#include "mod_nap.h"

#define PARAMETER "nap-ticket="

/* APR keeps the first four letters of a header's name as a number. Each name we look for has a bit, chosen by
 * the last two of these letters; no other header that browsers send has one of these bits. */
static apr_uint32_t wanted;

static inline unsigned bit(apr_uint32_t noted)
{
    return (noted ^ noted >> 8) & 31;
}

static int in_query(const char *start, const char *p)
{
    return p == start || p[-1] == '?' || p[-1] == '&' || p[-1] == ';';
}

/* s without its nap-ticket parameters; the first one's value goes to *value. `start`: where the
 * query begins, right after a "?" or at s. */
static char *without_ticket(apr_pool_t *p, const char *s, const char *start, nap_str *value)
{
    char *out = apr_palloc(p, strlen(s) + 1), *w = out;
    const char *query = start;

    memcpy(w, s, start - s);
    w += start - s;
    while (*start) {
        if (in_query(query, start) && !strncmp(start, PARAMETER, sizeof PARAMETER - 1)) {
            const char *v = start + sizeof PARAMETER - 1;
            size_t len = strcspn(v, "&;# ");

            if (value && !value->len) {
                value->ptr = apr_pstrmemdup(p, v, len);
                value->len = len;
            }
            start = v + len;
            if (*start == '&' || *start == ';')
                start++;                               /* a=1&T&b=2, T&b=2 */
            else if (w > out && (w[-1] == '&' || w[-1] == ';' || w[-1] == '?'))
                w--;                                   /* a=1&T, ?T */
            continue;
        }
        *w++ = *start++;
    }
    *w = '\0';
    return out;
}

static char *line_without_ticket(apr_pool_t *p, const char *line)
{
    const char *query = line ? ap_strchr_c(line, '?') : NULL;

    return query ? without_ticket(p, line, query + 1, NULL) : (char *)line;
}

static NAP_SELDOM void take(request_rec *r)
{
    nap_str value = { NULL, 0 };
    char *args = without_ticket(r->pool, r->args, r->args, &value);

    if (!strcmp(args, r->args))
        return;
    nap_handle_make(r)->ticket_query = value;
    r->args = *args ? args : NULL;
    r->parsed_uri.query = r->args;
    r->unparsed_uri = line_without_ticket(r->pool, r->unparsed_uri);
    r->the_request = line_without_ticket(r->pool, r->the_request);
}

static __attribute__((noinline)) void look_closer(request_rec *r, nap_line *line)
{
    const char *referer = apr_table_get(r->headers_in, "Referer");

    /* the URL that brought a ticket to a page is the Referer of the next request */
    if (referer && nap_the_core && ap_strstr_c(referer, PARAMETER))
        apr_table_setn(r->headers_in, "Referer", line_without_ticket(r->pool, referer));
    if (line)       /* a request may lie where the one before it lay */
        line->bare = nap_has_body(r) ? NULL : r;
}

int nap_query_take(request_rec *r)
{
    const apr_array_header_t *headers = apr_table_elts(r->headers_in);
    const apr_table_entry_t *header = (const apr_table_entry_t *)headers->elts, *end = header + headers->nelts;
    /* the header that tells of a stream's body may come later */
    nap_line *line = r->connection->master ? NULL : nap_line_of(r->connection);

    while (header < end && !(wanted >> bit(header->key_checksum) & 1))
        header++;
    if (header < end)
        look_closer(r, line);
    else if (line)
        line->bare = r;
    if (r->args && nap_the_core && ap_strstr_c(r->args, PARAMETER))
        take(r);
    return DECLINED;
}

void nap_query_register(apr_pool_t *p)
{
    static const char *const names[] = { "Content-Length", "Transfer-Encoding", "Referer" };
    apr_table_t *table = apr_table_make(p, 3);
    const apr_array_header_t *headers = apr_table_elts(table);

    wanted = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        apr_table_addn(table, names[i], "");
    for (int i = 0; i < headers->nelts; i++)
        wanted |= (apr_uint32_t)1 << bit(APR_ARRAY_IDX(headers, i, apr_table_entry_t).key_checksum);
}
