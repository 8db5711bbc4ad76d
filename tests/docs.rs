//! The docs describe what exists, and what they show works. They mention every directive, handler, log note
//! and page variable; every configuration in them passes configtest; every link leads somewhere.

use nap_core::conf::{BwDirective, Directive, OxthasDirective};
use nap_directives::SetBy;
use nap_testkit::Httpd;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn in_folder(folder: &str, ends: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(root().join(folder)).expect("a folder of ours");
    let mut found: Vec<PathBuf> = files
        .map(|file| file.expect("a readable folder").path())
        .filter(|path| path.to_string_lossy().ends_with(ends))
        .collect();
    found.sort();
    found
}

/// README.md and docs/*.md: what administrators read.
fn pages() -> Vec<PathBuf> {
    let mut pages = in_folder("docs", ".md");
    pages.push(root().join("README.md"));
    pages
}

/// And the pages that developers read.
fn all_pages() -> Vec<PathBuf> {
    let mut pages = pages();
    for folder in ["docs/dev", "docs/lab"] {
        pages.extend(in_folder(folder, ".md"));
    }
    for page in ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"] {
        pages.push(root().join(page));
    }
    pages
}

/// The texts between `before` and `after` in the shim's sources.
fn in_shim(before: &str, after: char) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in in_folder("c_shim", ".c") {
        for part in read(path).split(before).skip(1) {
            found.extend(part.split(after).next().map(str::to_owned));
        }
    }
    found
}

fn all_text() -> String {
    pages().iter().map(read).collect()
}

#[test]
fn what_is_made_of_the_table_of_directives_is_up_to_date() {
    let made = nap_directives::contents(root()).expect("the files, with their marks");
    for (file, made) in nap_directives::FILES.into_iter().zip(made) {
        assert!(
            read(file) == made,
            "{file}: run make directives, and look at the difference"
        );
    }
}

#[test]
fn each_directive_stands_in_its_own_entry_of_the_table() {
    let mut n = 0;
    for directive in nap_directives::directives() {
        let name = directive.name;
        n += 1;
        assert!(directive.syntax.starts_with(name), "{name}: its syntax");
        assert!(
            !directive.help.is_empty() && !directive.place.is_empty(),
            "{name}"
        );
        let lines = directive.shipped.lines();
        let own = lines.filter(|line| line.starts_with("#    ") || !line.starts_with("# "));
        let words =
            own.filter_map(|line| line.trim_start_matches(['#', ' ']).split([' ', '>']).next());
        assert!(
            words.into_iter().any(|word| word == name),
            "{name}: the package's lines"
        );
    }
    assert!(n > 60, "only {n}");
}

#[test]
fn the_core_knows_the_directives_that_the_table_gives_it_and_no_others() {
    let of = |wanted: fn(&SetBy) -> bool| -> BTreeSet<&str> {
        let rows = nap_directives::directives().filter(|row| wanted(&row.set_by));
        rows.map(|row| row.name).collect()
    };
    let known = |names: Vec<&'static str>| -> BTreeSet<&str> { names.into_iter().collect() };
    let gates = of(|by| matches!(by, SetBy::Room | SetBy::Server));
    let own = ["NapPriority", "NapSession"];
    let parsed = known(Directive::ALL.iter().map(|which| which.name()).collect());
    assert_eq!(parsed, gates.union(&own.into()).copied().collect());
    let debts = known(BwDirective::ALL.iter().map(|which| which.name()).collect());
    assert_eq!(debts, of(|by| matches!(by, SetBy::Debts)));
    let balancers = known(
        OxthasDirective::ALL
            .iter()
            .map(|which| which.name())
            .collect(),
    );
    assert_eq!(balancers, of(|by| matches!(by, SetBy::Balancer)));
}

#[test]
fn every_handler_log_note_and_variable_is_told_of() {
    let docs = all_text();
    let mut handlers = in_shim("strcmp(r->handler, \"", '"');
    handlers.retain(|name| name.starts_with("nap-"));
    handlers.extend(["bwshare-info", "bwshare-trace", "bwshare-mine"].map(str::to_owned));
    assert!(
        handlers.contains("nap-info") && handlers.contains("nap-metrics"),
        "{handlers:?}"
    );
    for handler in handlers {
        assert!(
            docs.contains(&format!("`{handler}`")),
            "no page tells of the handler {handler}"
        );
    }
    let mut notes: BTreeSet<String> = in_shim("note(r, \"", '"');
    notes.insert("bwshare".to_owned());
    assert!(notes.contains("nap-group"), "{notes:?}");
    let logs = read("docs/logs.md");
    for note in notes {
        assert!(
            logs.contains(&format!("`%{{{note}}}n`")),
            "docs/logs.md lacks the note {note}"
        );
    }
    let own = read("docs/own-page.md");
    let values = read("src/page/own.rs");
    let (_, values) = values.split_once("const VALUES").expect("the variables");
    let (values, _) = values.split_once("];").expect("their end");
    let names = values
        .split("(\"")
        .skip(1)
        .filter_map(|row| row.split('"').next());
    let names: Vec<&str> = names.collect();
    assert!(names.contains(&"wait"), "{names:?}");
    for name in names {
        assert!(
            own.contains(&format!("| `{name}` |")),
            "docs/own-page.md lacks {name}"
        );
    }
}

/// Modules that the examples use, besides ours.
const MODULES: [&str; 11] = [
    "headers",
    "setenvif",
    "remoteip",
    "http2",
    "proxy",
    "proxy_http",
    "slotmem_shm",
    "proxy_balancer",
    "lbmethod_byrequests",
    "status",
    "rewrite",
];

/// Adapted to a server of the test's own: its paths, and a room for each name that is only used.
fn fitted(config: &str) -> String {
    let own = config
        .replace("/var/lib/mod_nap", "{root}/run")
        .replace("/etc/apache2/nap.keys", "{root}/keys")
        .replace("/etc/apache2/nap.store", "{root}/store")
        .replace("/etc/apache2/busy.html", "{root}/busy.html");
    let lines = own.lines().filter(|line| !line.contains("LoadModule"));
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    let used: BTreeSet<&str> = text
        .split("NapUse ")
        .skip(1)
        .filter_map(|rest| rest.split_whitespace().next())
        .filter(|name| name.chars().all(char::is_alphanumeric))
        .filter(|name| *name != "None" && !text.contains(&format!("<NapRoom {name}>")))
        .collect();
    let rooms = used
        .iter()
        .map(|name| format!("<NapRoom {name}>\n</NapRoom>\n"));
    rooms.collect::<String>() + &text
}

fn configtest(config: &str) -> Result<(), String> {
    let keys = "1 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n";
    Httpd::builder()
        .nap()
        .modules(&MODULES)
        .workers(2, 128)
        .secret("keys", keys)
        .secret("store", "a-password\n")
        .file("logs/made", "")
        .file("busy.html", "{{ main }}")
        .config(&fitted(config))
        .configtest()
}

/// The blocks of a page in this language; "" finds those that name none.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    // Every other fence opens a block, and the line after it is its language.
    let fenced = text.split("```").skip(1).step_by(2);
    fenced
        .filter_map(|block| block.split_once('\n'))
        .filter(|(tag, _)| *tag == language)
        .map(|(_, block)| block)
        .collect()
}

/// Texts that show a block without a language to be a configuration.
const CONFIGURATION: [&str; 4] = ["<Location", "NapRoom", "TelePoll ", "BwShare"];

#[test]
fn every_configuration_in_the_docs_loads() {
    let mut wrong = Vec::new();
    let mut n = 0;
    for page in pages() {
        let text = read(&page);
        let name = page.file_name().expect("a file").to_string_lossy();
        for block in blocks(&text, "apache") {
            n += 1;
            if let Err(said) = configtest(block) {
                wrong.push(format!("{name}:\n{block}\n{said}"));
            }
        }
        for block in blocks(&text, "") {
            if CONFIGURATION.iter().any(|word| block.contains(word)) {
                wrong.push(format!("{name}: this is to be ```apache:\n{block}"));
            }
        }
    }
    assert!(n > 20, "only {n} blocks were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n----\n"));
}

#[test]
fn the_packages_configuration_loads_with_everything_in_force() {
    let shipped = read("debian/nap.conf");
    configtest(&shipped).expect("as it is shipped");
    let in_force: String = shipped
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(rest) if !rest.starts_with(' ') || rest.starts_with("    ") => rest,
            Some(_) => "",
            None => line,
        })
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(in_force.contains("\n    NapRunReady auto\n"), "{in_force}");
    configtest(&in_force).unwrap_or_else(|said| panic!("{said}"));
}

/// A page's headings as link anchors.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut fenced = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        fenced ^= line.starts_with("```");
        let Some(title) = line.trim_start_matches('#').strip_prefix(' ') else {
            continue;
        };
        if !fenced && line.starts_with('#') {
            let kept = title
                .chars()
                .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            found.insert(kept.collect::<String>().to_lowercase().replace(' ', "-"));
        }
    }
    found
}

#[test]
fn every_link_leads_somewhere() {
    let mut wrong = Vec::new();
    let mut n = 0;
    for page in all_pages() {
        let text = read(&page);
        let written = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        let pictures = text
            .split("src=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next());
        let of_ours = |link: &&str| !link.contains("://") && !link.starts_with('/');
        for link in written.chain(pictures).filter(of_ours) {
            n += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => page.clone(),
                file => page.parent().expect("a folder").join(file),
            };
            let good =
                target.exists() && (anchor.is_empty() || anchors(&read(&target)).contains(anchor));
            if !good {
                wrong.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(n > 50, "only {n} links were found");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// One name for one thing everywhere: other possible names, and the right one.
const NAMES: [(&str, &str); 12] = [
    ("prime part", "prime window"),
    ("prime period", "prime window"),
    ("time slot", "slot"),
    ("waiting queue", "Wait, or the queue"),
    ("wait queue", "Wait, or the queue"),
    ("waiting list", "Wait, or the queue"),
    ("rebook", "re-book"),
    ("late queue", "late pool"),
    ("early recall", "early call"),
    ("unit time", "unit interval"),
    ("voucher", "ticket"),
    ("run-ready", "Run Ready"),
];

#[test]
fn each_thing_has_one_name() {
    let mut texts = all_pages();
    texts.extend(in_folder("templates/en", ".html"));
    texts.extend(in_folder("templates/en", ".txt"));
    texts.extend(in_folder("apache-conf", ".conf"));
    assert!(texts.len() > 30, "{texts:?}");
    for path in texts {
        let text = read(&path).to_lowercase();
        for (other, name) in NAMES {
            assert!(
                !text.contains(other),
                "{}: \"{other}\" is called {name}",
                path.display()
            );
        }
    }
}

/// Words of a page's prose, without code, tables and headings; and its sentences.
fn prose(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut paragraphs = vec![String::new()];
    for line in text.lines() {
        fenced ^= line.starts_with("```");
        let apart =
            fenced || line.is_empty() || line.starts_with(['`', '#', '|', '<', '-', '*', '>']);
        if apart {
            paragraphs.push(String::new());
        }
        if !fenced && !line.starts_with(['`', '#', '|', '<', '>']) {
            let paragraph = paragraphs.last_mut().expect("there is one");
            paragraph.push(' ');
            paragraph.push_str(line.trim_start_matches(['-', '*', ' ']));
        }
    }
    let ends = |text: &str| -> Vec<String> {
        let text = text.replace("e.g. ", "e.g.").replace("i.e. ", "i.e.");
        let sentences =
            text.split_inclusive([' ', '\n'])
                .fold(vec![String::new()], |mut all, word| {
                    all.last_mut().expect("there is one").push_str(word);
                    if word.trim_end().ends_with(['.', ':', '?', '!', ';']) {
                        all.push(String::new());
                    }
                    all
                });
        let trimmed = sentences.iter().map(|one| one.trim().to_owned());
        trimmed.filter(|one| !one.is_empty()).collect()
    };
    paragraphs.iter().flat_map(|text| ends(text)).collect()
}

/// What nobody is called.
const PRONOUNS: [&str; 6] = ["he", "him", "his", "himself", "whoever", "whosoever"];

/// The greatest mean number of words in a page's sentences.
const WORDS: usize = 20;

/// The worst cases: people are "they", a sentence begins with its subject, and is short in the mean.
#[test]
fn the_pages_are_in_plain_english() {
    let japanese = |path: &PathBuf| path.to_string_lossy().ends_with(".ja.md");
    // What nap-sim prints beside its tables.
    let printed = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        ["papers.md", "tuning.md", "validation.md"].contains(&&*name)
    };
    let mut wrong = Vec::new();
    for path in all_pages().iter().filter(|path| !japanese(path)) {
        let text = read(path);
        let words = text.split(|c: char| !c.is_alphanumeric());
        let he = words.filter(|word| PRONOUNS.contains(&&*word.to_lowercase()));
        wrong.extend(he.map(|word| format!("{}: {word}", path.display())));
        if printed(path) {
            continue;
        }
        let sentences = prose(&text);
        let free = sentences
            .iter()
            .filter(|one| one.starts_with("Who ") && !one.ends_with('?'));
        wrong.extend(free.map(|one| format!("{}: {one}", path.display())));
        let all: usize = sentences
            .iter()
            .map(|one| one.split_whitespace().count())
            .sum();
        if all > WORDS * sentences.len() {
            let mean = all / sentences.len().max(1);
            wrong.push(format!(
                "{}: {mean} words a sentence in the mean",
                path.display()
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// All files below a folder.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of ours").flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => found.extend(below(&path)),
            false => found.push(path),
        }
    }
    found
}

/// The comments of a source in Rust or C, line by line.
fn comments(source: &str) -> impl Iterator<Item = &str> {
    source.lines().filter_map(|line| {
        let line = line.trim_start();
        let begins = ["//", "/*", "* "].iter().any(|mark| line.starts_with(mark));
        match begins {
            true => Some(line),
            false => line.split_once("/* ").map(|(_, comment)| comment),
        }
    })
}

/// The same words in what only developers read.
#[test]
fn comments_speak_of_people_as_they() {
    let folders = ["src", "c_shim", "crates", "tests", "bench", "demo"];
    let sources = folders
        .iter()
        .flat_map(|folder| below(&root().join(folder)));
    let is_source = |path: &PathBuf| {
        let ends = path.extension().unwrap_or_default().to_string_lossy();
        ["rs", "c", "h"].contains(&&*ends)
    };
    let mut wrong = Vec::new();
    for path in sources.filter(is_source) {
        let text = read(&path);
        for comment in comments(&text) {
            let mut words = comment.split(|c: char| !c.is_alphanumeric());
            let he = words.find(|word| PRONOUNS.contains(&&*word.to_lowercase()));
            wrong.extend(he.map(|word| format!("{}: {word}: {comment}", path.display())));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
