/* nap/debts.h: mod_bwshare: what clients owe. */

enum { NAP_BW_DRY = 1, NAP_BW_EXCUSED };    /* shim sets: DryRun; charged but never refused */

/* A request that is charged to a client; lives as long as it. */
typedef struct nap_visit {
    uint32_t limits, flags;     /* shim sets: index from debts.limits, NAP_BW_* */
    uint64_t key;               /* core sets; 0: nobody is charged */
    uint32_t status;            /* refused: shim sets, what the page is answered with */
    uint32_t own[9];
} nap_visit;

/* Bytes that a client is charged for before they are sent. */
typedef struct nap_reserved { uint64_t bytes /* only this is zeroed; 0: none */, own[15]; } nap_reserved;

/* The client that asked last on a connection, so that its address need not be looked up again. */
typedef struct nap_client { uint64_t own[8]; } nap_client;

typedef struct nap_debts_calls {
    uint32_t (*limits)(const nap_conf *conf, nap_str host);     /* the parent: their index; host empty: the server's */
    int (*start)(void);         /* all limits are there. 0: there are no tables, nobody is charged */
    /* charges the client of this address, on the connection of `last`. 1: excuse must decide */
    int (*enter)(nap_visit *v, nap_client *last, const uint8_t client[16]);
    /* may it pass all the same (1)? By NAP_BW_EXCUSED, a ticket of `room` or of `owner` whose page it asks for, a
     * session there (NAP_NONE: in any room). With NAP_BW_DRY all may; then, if it should not, `key` is 0 */
    int (*excuse)(nap_visit *v, const nap_request *q, uint32_t room, uint32_t owner);
    void (*bytes)(const nap_visit *v, uint64_t bytes, uint64_t now_us);     /* now_us: of access.leave, or 0 */
    /* the same for bytes not sent yet; then how many of the last reserved ones stayed unsent */
    void (*reserve)(const nap_visit *v, nap_reserved *reserved, uint64_t bytes, uint64_t now_us);
    void (*give_back)(const nap_visit *v, const nap_reserved *reserved, uint64_t unsent);
    void (*refusal)(const nap_visit *v, const nap_request *q);  /* its headers */
    nap_str (*debt_name)(const nap_visit *v);
} nap_debts_calls;
