//! An access is a chain of internal redirects: one permit each, and none left behind.
//!
//! The room has one permit and nobody may wait. A chain that needed two permits would refuse itself. One that
//! left a permit behind would refuse everything after it. One that took none would pass while a held access
//! has the only one. The room counts one access for each chain.

use nap_testkit::{Builder, Httpd, Mpm, long, wait_until};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

const ROOM: &str = "<NapRoom site>
NapRunReady 1
NapWaitMax 2s
NapWaitLimit 0
NapReAccess 4
NapTicketsPerClient 100000
</NapRoom>
<Location />
NapUse site
</Location>
<Files *.cgi>
SetHandler cgi-script
</Files>
<Directory {root}/htdocs>
Options +ExecCGI
</Directory>
";

const APP: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\nthe application\\n'\n";

struct Chain {
    name: &'static str,
    modules: &'static [&'static str],
    config: &'static str,
    path: &'static str,
    /// When the permit is free.
    status: u16,
    /// When the permit is taken.
    full: u16,
}

const CHAINS: [Chain; 17] = [
    Chain {
        name: "front controller in a directory",
        modules: &["rewrite"],
        config: "<Directory {root}/htdocs>
            RewriteEngine On
            RewriteCond %{REQUEST_FILENAME} !-f
            RewriteRule ^ /front.cgi
            </Directory>",
        path: "/any/thing",
        status: 200,
        full: 503,
    },
    Chain {
        name: "two rewrites one after the other",
        modules: &["rewrite"],
        config: "<Directory {root}/htdocs>
            RewriteEngine On
            RewriteRule ^first$ /second
            RewriteRule ^second$ /front.cgi
            </Directory>",
        path: "/first",
        status: 200,
        full: 503,
    },
    Chain {
        name: "into the room from outside of it",
        modules: &["rewrite"],
        config: "<Location /outside>\nNapUse None\n</Location>
            <Directory {root}/htdocs>
            RewriteEngine On
            RewriteRule ^outside /front.cgi
            </Directory>",
        path: "/outside",
        status: 200,
        full: 503,
    },
    Chain {
        name: "out of the room it began in",
        modules: &["rewrite"],
        config: "<Location /front.cgi>\nNapUse None\n</Location>
            <Directory {root}/htdocs>
            RewriteEngine On
            RewriteRule ^inside /front.cgi
            </Directory>",
        path: "/inside",
        status: 200,
        full: 503,
    },
    Chain {
        name: "DirectoryIndex",
        modules: &[],
        config: "DirectoryIndex none.html index.cgi",
        path: "/dir/",
        status: 200,
        full: 503,
    },
    Chain {
        name: "FallbackResource",
        modules: &[],
        config: "FallbackResource /front.cgi",
        path: "/no/such/file",
        status: 200,
        full: 503,
    },
    Chain {
        name: "MultiViews",
        modules: &["negotiation", "mime"],
        config: "TypesConfig /dev/null\nMultiviewsMatch Any\n<Directory {root}/htdocs>\nOptions +MultiViews +ExecCGI\n</Directory>",
        path: "/front",
        status: 200,
        full: 503,
    },
    Chain {
        name: "Action",
        modules: &["actions"],
        config: "Action mine /cgi-bin/app\n<Files text.txt>\nSetHandler mine\n</Files>",
        path: "/text.txt",
        status: 200,
        full: 503,
    },
    Chain {
        name: "SSI that includes a program twice",
        modules: &["include"],
        config: "<Directory {root}/htdocs>
            Options +Includes +ExecCGI
            <Files *.shtml>\nSetOutputFilter INCLUDES\n</Files>
            </Directory>",
        path: "/page.shtml",
        status: 200,
        full: 503,
    },
    Chain {
        name: "SSI by its type",
        modules: &["include", "filter", "mime"],
        config: "TypesConfig /dev/null\nAddType text/html .shtml
            <Directory {root}/htdocs>
            Options +Includes +ExecCGI
            AddOutputFilterByType INCLUDES text/html
            </Directory>",
        path: "/page.shtml",
        status: 200,
        full: 503,
    },
    Chain {
        name: "SSI by its type, where a rule leads to it",
        modules: &["include", "filter", "mime", "rewrite"],
        config: "TypesConfig /dev/null\nAddType text/html .shtml
            <Directory {root}/htdocs>
            Options +Includes +ExecCGI
            AddOutputFilterByType INCLUDES text/html
            RewriteEngine On\nRewriteRule ^any /page.shtml
            </Directory>",
        path: "/any",
        status: 200,
        full: 503,
    },
    Chain {
        name: "SSI by a type of its own",
        modules: &["include", "filter", "mime"],
        config: "TypesConfig /dev/null\nAddType text/x-parts .shtml
            <Directory {root}/htdocs>
            Options +Includes +ExecCGI
            AddOutputFilterByType INCLUDES text/plain text/x-parts
            </Directory>",
        path: "/page.shtml",
        status: 200,
        full: 503,
    },
    Chain {
        name: "a file through a program",
        modules: &["ext_filter"],
        config: "ExtFilterDefine say mode=output cmd=\"/bin/sed 's/a text/the application/'\"
            <Files text.txt>\nSetOutputFilter say\n</Files>",
        path: "/text.txt",
        status: 200,
        full: 503,
    },
    Chain {
        name: "SSI by a chain of another name",
        modules: &["include", "filter", "mime"],
        config: "TypesConfig /dev/null\nAddType text/html .shtml
            FilterDeclare parts
            FilterProvider parts INCLUDES \"%{CONTENT_TYPE} =~ m#^text/html#\"
            <Directory {root}/htdocs>
            Options +Includes +ExecCGI
            FilterChain parts
            </Directory>",
        path: "/page.shtml",
        status: 200,
        full: 503,
    },
    Chain {
        name: "ErrorDocument 404 that is a program",
        modules: &[],
        config: "ErrorDocument 404 /cgi-bin/app",
        path: "/no/such/file",
        status: 404,
        full: 404,
    },
    Chain {
        name: "a program's own redirect",
        modules: &[],
        config: "",
        path: "/cgi-bin/onward",
        status: 200,
        full: 503,
    },
    Chain {
        name: "a program that fails, and its ErrorDocument",
        modules: &[],
        config: "ErrorDocument 500 /cgi-bin/app",
        path: "/cgi-bin/fails",
        status: 500,
        full: 503,
    },
];

fn site(chain: &Chain) -> Builder {
    let mut site = Httpd::builder()
        .nap()
        .holding()
        .modules(chain.modules)
        .config(ROOM)
        .config(chain.config)
        // Some of them would take it for a page of the application.
        .config(
            "<Location /nap-info>\nFallbackResource disabled\n\
             <IfModule mod_rewrite.c>\nRewriteEngine Off\n</IfModule>\n</Location>",
        )
        .cgi("app", APP)
        .cgi(
            "onward",
            "#!/bin/sh\nprintf 'Location: /cgi-bin/app\\r\\n\\r\\n'\n",
        )
        .expect_log("AH01215", "a program fails")
        .expect_log("End of script output", "a program fails")
        .cgi("fails", "#!/bin/sh\nexit 1\n")
        .file("htdocs/text.txt", "a text\n")
        .file(
            "htdocs/page.shtml",
            "<!--#include virtual=\"/cgi-bin/app\" --><!--#include virtual=\"/front.cgi\" -->",
        );
    for path in ["htdocs/front.cgi", "htdocs/dir/index.cgi"] {
        site = site.program(path, APP);
    }
    site
}

#[test]
fn a_chain_takes_one_permit_and_gives_it_back() {
    // Each under one MPM; the only difference between them here is mod_cgi or mod_cgid. All in the long form.
    std::thread::scope(|scope| {
        for (mpm, some) in Mpm::ALL.into_iter().zip(CHAINS.chunks(CHAINS.len() / 3)) {
            let chains = if long() { &CHAINS } else { some };
            scope.spawn(move || chains.iter().for_each(|chain| runs_as_one(chain, mpm)));
        }
    });
}

/// Accesses that have been let in so far, at once or from the queue.
fn let_in(httpd: &Httpd) -> u64 {
    let counts = httpd.gate()["counts"].take();
    let count = |name| counts[name].as_u64().expect("a count");
    count("passed") + count("granted")
}

fn runs_as_one(chain: &Chain, mpm: Mpm) {
    let name = chain.name;
    eprintln!("--- {name}, under {mpm}");
    let httpd = site(chain).mpm(mpm).start();
    let ask = || httpd.get(chain.path);
    for _ in 0..3 {
        let before = let_in(&httpd);
        let answer = ask();
        assert_eq!(let_in(&httpd) - before, 1, "{name}: {answer:?}");
        assert_eq!(answer.status, chain.status, "{name}: {answer:?}");
        assert!(answer.header("nap-ticket").is_none(), "{name}: {answer:?}");
        assert!(
            answer.text().contains("the application"),
            "{name}: {answer:?}"
        );
    }
    let held = httpd.hold("full", 1);
    let full = ask();
    assert_eq!(full.status, chain.full, "{name}: {full:?}");
    assert!(!full.text().contains("the application"), "{name}: {full:?}");
    assert!(full.header("nap-ticket").is_some(), "{name}: {full:?}");
    held.release();
    wait_until("the permit is back", PATIENCE, || {
        ask().header("nap-ticket").is_none()
    });
    assert_eq!(ask().status, chain.status, "{name}");
}
