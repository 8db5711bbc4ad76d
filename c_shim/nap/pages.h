/* nap/pages.h: the ticket page, and pages for the administrator. */

enum { NAP_FORM_NONE, NAP_FORM_READ, NAP_FORM_LOST };   /* none is kept; of this origin, and here; could not be kept */

/* A refused POST's form, or one sent to nap-control. Empty: the request does not say. */
typedef struct nap_form {
    nap_str fetch_site, origin, referer;    /* Sec-Fetch-Site, Origin, Referer (of a refused POST) */
    nap_str scheme, host, content_type;     /* the request's own, with its port */
    nap_str nonce, body;                    /* nap-control's: X-Nap-Control */
} nap_form;

typedef enum nap_page_kind {
    NAP_PAGE_TICKET,            /* of a refusal, or the visitor's own ticket */
    NAP_PAGE_SLOW_DOWN,         /* of a refusal for debts */
    NAP_PAGE_INFO, NAP_PAGE_METRICS, NAP_PAGE_PREVIEW,      /* the handlers nap-... */
    NAP_PAGE_DEBTS, NAP_PAGE_TRACE, NAP_PAGE_MINE,          /* bwshare-info, -trace, -mine */
    NAP_PAGE_STATUS             /* our section of /server-status */
} nap_page_kind;

typedef struct nap_wanted {
    nap_page_kind kind;
    uint32_t lines, limits;     /* NAP_PAGE_STATUS: of its ?auto form; NAP_PAGE_MINE: index from debts.limits */
    nap_access *access;         /* NAP_PAGE_TICKET: the refused one; NULL: the visitor opened the page directly */
    const struct nap_visit *visit;      /* NAP_PAGE_SLOW_DOWN */
    nap_str query;              /* of the URL */
    nap_str control, own;       /* NAP_PAGE_INFO: NapControl's path, or empty, and its own */
} nap_wanted;

typedef struct nap_pages_calls {
    int (*page)(const nap_wanted *wanted, const nap_request *q);    /* writes it; the status to answer with */
    void (*variables)(nap_access *a, const nap_request *q);     /* what it would say, for an ErrorDocument */
    int (*form_wanted)(const nap_form *form);   /* is it worth reading: of this origin, and can it be given back? */
    /* a file that pages need, by its name under ticket_path; *body lives for ever. 0: no file has that name */
    int (*asset)(void *r, nap_str name, nap_str query, nap_str *body);
    /* tells q's holder how the ticket stands, asked for took_us ago. When to ask again, microseconds; -1: no more */
    int64_t (*status)(const nap_request *q, uint64_t took_us);
    /* a child: counters of tickets that are out, NULL behind the last; read with every request */
    const uint32_t *const *(*tickets_out)(void);
    void (*call)(const nap_request *q);         /* is about to be answered: tells its holder, if it is time, to come */
    /* nap-control: a status, what was done or why not, and where the browser should go, or empty */
    int (*control)(const nap_form *form, char said[NAP_ERR_MAX], char back[NAP_ERR_MAX]);
} nap_pages_calls;
