//! An application in a room that a held access fills: a visitor who comes then is refused with a ticket that
//! begins a few seconds later.

use super::{Builder, Httpd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// One access runs, newcomers do not wait, and there is a ticket for everybody.
pub const ROOM: &str = "<NapRoom site>
NapRunReady 1
NapWaitMax 2s
NapWaitLimit 0
NapReAccess 4
NapSlotPeriod 1s
NapTicketsPerClient 1000
</NapRoom>";

const PLACES: &str = "<Location /cgi-bin>\nNapUse site\n</Location>
# The form itself is not scheduled.
<Location /form>\nNapUse None\n</Location>";

/// Records each request it gets, a line each.
const APP: &str = "#!/bin/sh
body=$(head -c \"${CONTENT_LENGTH:-0}\")
printf '%s %s %s\\n' \"$REQUEST_METHOD\" \"$QUERY_STRING\" \"$body\" | tr -d '\\r' >> \"$BOARD_DIR/asked\"
printf 'Content-Type: text/plain\\r\\n\\r\\nthe application\\n'
";

impl Builder {
    /// With `/cgi-bin/app` and `/cgi-bin/hold` in a room of one.
    pub fn app(self) -> Self {
        self.app_with("")
    }

    /// The same, with additional lines in its room.
    pub fn app_with(self, lines: &str) -> Self {
        let room = ROOM.replace("</NapRoom>", &format!("{lines}\n</NapRoom>"));
        self.nap()
            .holding()
            .config(&room)
            .config(PLACES)
            .cgi("app", APP)
    }

    /// With a form at `/form/`.
    pub fn form(self, page: &str) -> Self {
        let page = format!("<!DOCTYPE html><meta charset=utf-8><title>form</title>{page}");
        self.file("htdocs/form/index.html", page)
    }
}

impl Builder {
    /// The board in a room that has to send some of [`Httpd::in_a_crowd`]'s visitors away for some seconds.
    pub fn crowded_board(self) -> Self {
        self.nap()
            .workers(2, 128)
            .info()
            .config("SetEnv BOARD_CPU_MS 4\nSetEnv BOARD_SLEEP_MS 80")
            .config("<NapRoom board>\nNapRunReady 4\nNapWaitMax 2s\nNapSlotPeriod 5s\n</NapRoom>")
            .config("<Location /board>\nNapUse board\n</Location>")
    }
}

impl Httpd {
    /// Calls `look` while 150 visitors of the board come and go.
    pub fn in_a_crowd<T>(&self, look: impl FnOnce() -> T) -> T {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Each round is soon over.
                while !over.load(Relaxed) {
                    let url = format!("{}/board", self.url());
                    let crowd = ["--clients", "150", "--posts", "4", "--stop", "15s"];
                    super::crowd(&url, &crowd);
                }
            });
            let _over = super::SetOnDrop(&over);
            look()
        })
    }
}

/// Addresses at which the application of [`Builder::everywhere`] answers; an attacker would like to get more
/// out of them.
pub fn hostile_addresses() -> Vec<String> {
    let mut all: Vec<String> = [
        "//evil.example/evil",
        "/%2f/evil.example/evil",
        "/%5cevil.example/evil",
        "/evil?//evil.example",
        "/evil?0;url=//evil.example/",
        "/evil?javascript:document.title='hacked'",
        "/evil?q=%22%3E%3Cscript%3Edocument.title='hacked'%3C/script%3E",
        "/evil?q=\"><img src=x onerror=document.title='hacked'>",
        "/evil?q=';document.title='hacked';'",
        "/%3Cscript%3Edocument.title='hacked'%3C%2fscript%3E/evil",
        "/%22onload=%22document.title='hacked'/evil",
        "/evil?nap-ticket=\"><script>document.title='hacked'</script>",
        "/evil?%0d%0aLocation:%20//evil.example/%0d%0a%0d%0a<script>document.title='hacked'</script>",
        "/evil?%ff%fe=%00%82",
        "/%ff%fe/evil",
        "/evil?x#//evil.example",
    ]
    .map(str::to_owned)
    .to_vec();
    all.push(format!("/evil?{}", "x".repeat(8000 - 20)));
    all.push(format!("/{}evil", "x/".repeat(3990)));
    all
}

impl Builder {
    /// The same application under every address that ends in `evil`, in the same room.
    pub fn everywhere(self) -> Self {
        self.config("AllowEncodedSlashes NoDecode")
            .config("<Location />\nNapUse site\n</Location>")
            .config("<Location /nap-info>\nNapUse None\n</Location>")
            .config("<Location /form>\nNapUse None\n</Location>")
            .config("AliasMatch ^/.*evil {root}/cgi-bin/app")
            .config(
                "<LocationMatch evil>\nSetHandler cgi-script\nOptions +ExecCGI\n</LocationMatch>",
            )
    }
}

impl Httpd {
    /// The same when bodies are not UTF-8: each byte is a character.
    pub fn asked_in_bytes(&self) -> Vec<String> {
        let bytes = std::fs::read(self.root().join("data/asked")).expect("it was asked");
        let text: String = bytes.iter().map(|&b| char::from(b)).collect();
        text.lines().map(str::to_owned).collect()
    }

    /// The requests that the application got: method, query, body.
    pub fn asked(&self) -> Vec<String> {
        let text = self.read("data/asked");
        text.lines().map(str::to_owned).collect()
    }
}
