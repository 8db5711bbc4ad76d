//! Every directive in one table, of which the shim's rows for httpd, the reference and the package's configuration
//! are made. `make directives` writes all three; a test compares them.

mod table;

use std::fmt::Write as _;
use std::io;
use std::path::Path;

pub use table::directives;

/// A directive.
#[derive(Clone, Copy, Debug)]
pub struct Directive {
    /// As an administrator writes it. A section's begins with `<`.
    pub name: &'static str,
    /// Which function of the shim takes it.
    pub set_by: SetBy,
    /// Name and arguments, as the reference shows them.
    pub syntax: &'static str,
    /// What holds without it, as Markdown; empty: nothing.
    pub default: &'static str,
    /// Where it may stand: the column *where* of the reference.
    pub place: &'static str,
    /// What httpd prints of it (`httpd -L`), as a C string.
    pub help: &'static str,
    /// What it does, as Markdown.
    pub text: &'static str,
    /// Its lines in the package's configuration, each behind a `#`, with what stands around them.
    pub shipped: &'static str,
}

/// The function of the shim that takes a directive.
#[derive(Clone, Copy, Debug)]
pub enum SetBy {
    /// The core's settings of a room or page.
    Room,
    /// The core's settings of the server.
    Server,
    /// The core's settings of debts.
    Debts,
    /// The core's settings of a balancer.
    Balancer,
    /// A path of the whole server: the field of `nap_site`.
    Path(&'static str),
    /// One of its own: how httpd hands over the arguments (`AP_INIT_...`), its name, and where it is allowed.
    Own(&'static str, &'static str, &'static str),
}

/// The files that are made of the table, under the project's root.
pub const FILES: [&str; 3] = [
    "c_shim/directives.inc",
    "docs/directives.md",
    "debian/nap.conf",
];

/// What each of [`FILES`] must contain. Of the second and third, what stands around the directives is read from the
/// files as they are.
pub fn contents(root: &Path) -> io::Result<[String; 3]> {
    let read = |file: &str| std::fs::read_to_string(root.join(file));
    Ok([
        rows_for_httpd(),
        around(
            &read(FILES[1])?,
            "|---|---|---|---|\n",
            "\nHandlers:",
            reference(),
        )?,
        around(
            &read(FILES[2])?,
            "libapache2-mod-nap/docs/. Lines of a\n# configuration have no blank behind their \"#\". \
             Check what you change with `apache2ctl configtest`.\n\n",
            "# ---- Pages for the administrator",
            shipped(),
        )?,
    ])
}

/// `made` in place of what stands between the two marks.
fn around(file: &str, begin: &str, end: &str, made: String) -> io::Result<String> {
    let parts = file.split_once(begin).and_then(|(before, rest)| {
        let at = rest.find(end)?;
        Some(format!("{before}{begin}{made}{}", &rest[at..]))
    });
    parts.ok_or_else(|| io::Error::other(format!("there is no {begin:?} followed by {end:?}")))
}

/// Rows of httpd's `command_rec`.
fn rows_for_httpd() -> String {
    let mut out = String::from(
        "/* Written by `make directives` from crates/nap-directives: not to be edited. */\n",
    );
    for directive in directives() {
        let Directive { name, help, .. } = directive;
        let begin = match directive.set_by {
            SetBy::Room => format!("ROOM(\"{name}\""),
            SetBy::Server => format!("SERVER(\"{name}\""),
            SetBy::Debts => format!("DEBTS(\"{name}\""),
            SetBy::Balancer => format!("BALANCER(\"{name}\""),
            SetBy::Path(field) => format!("PATH(\"{name}\", {field}"),
            SetBy::Own(how, set, place) => {
                format!("AP_INIT_{how}(\"{name}\", {set}, NULL, {place}")
            }
        };
        let help = help.replace('\\', "\\\\").replace('"', "\\\"");
        writeln!(out, "{begin},\n    \"{help}\"),").ok();
    }
    out
}

/// Rows of the reference.
fn reference() -> String {
    let mut out = String::new();
    for directive in directives() {
        let syntax = directive.syntax.replace('|', "\\|");
        let default = match directive.default {
            "" => String::new(),
            default => format!(" {default}"),
        };
        let (place, text) = (directive.place, directive.text);
        let text = match text {
            "" => String::new(),
            text => format!(" {text}"),
        };
        writeln!(out, "| `{syntax}` |{default} | {place} |{text} |").ok();
    }
    out
}

/// The package's configuration.
fn shipped() -> String {
    directives().map(|directive| directive.shipped).collect()
}
