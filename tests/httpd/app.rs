//! An application in a room that a held access fills: who comes then is refused with a ticket that
//! begins a few seconds later.

use super::{Builder, Httpd};

const ROOM: &str = "<NapRoom site>
NapRunReady 1
NapWaitMax 2s
NapWaitLimit 0
NapReAccess 4
NapSlotPeriod 1s
NapTicketsPerClient 1000
</NapRoom>
<Location /cgi-bin>\nNapUse site\n</Location>
# The form itself is not scheduled.
<Location /form>\nNapUse None\n</Location>";

/// Writes down what it has been asked to do, a line each.
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

    /// The same, with further lines in its room.
    pub fn app_with(self, lines: &str) -> Self {
        let room = ROOM.replace("</NapRoom>", &format!("{lines}\n</NapRoom>"));
        self.nap().holding().config(&room).cgi("app", APP)
    }

    /// With a form at `/form/`.
    pub fn form(self, page: &str) -> Self {
        let page = format!("<!DOCTYPE html><meta charset=utf-8><title>form</title>{page}");
        self.file("htdocs/form/index.html", page)
    }
}

impl Httpd {
    /// What the application has been asked to do: method, query, body.
    pub fn asked(&self) -> Vec<String> {
        let text = self.read("data/asked");
        text.lines().map(str::to_owned).collect()
    }
}
    /// The same where bodies are no UTF-8: each byte a character.
    pub fn asked_in_bytes(&self) -> Vec<String> {
        let bytes = std::fs::read(self.root().join("data/asked")).expect("it was asked");
        let text: String = bytes.iter().map(|&b| char::from(b)).collect();
        text.lines().map(str::to_owned).collect()
    }

