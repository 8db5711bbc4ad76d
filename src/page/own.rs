//! A ticket page of the administrator's own (`NapTicketPage`): a template, read at start.
//!
//! Its language is Jinja's, by minijinja: every value is escaped for HTML unless it is HTML of ours.
//! [`VALUES`] is all that it can name; docs/own-page.md explains them, and an ErrorDocument of the
//! administrator's gets the same as `REDIRECT_NAP_*`. When it is read it is tried out on every
//! [`Sample`], so configtest finds a wrong name before a visitor does.

use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value};
use std::collections::HashSet;

use super::accept::Language;
use super::form::Sent;
use super::sample::Sample;
use super::{Attributes, Controls, Head, Main, Promise, RefusalPage, Title, View, Why, filled};

/// Bytes a template may have.
pub const SIZE: u64 = 256 * 1024;

/// Steps of the template engine that a page may take: some fifty times those of the built-in page.
const FUEL: u64 = 50_000;

/// A template that has been tried out.
#[derive(Debug)]
pub struct Own {
    environment: Environment<'static>,
    /// Its file, for messages.
    name: String,
    /// The [`VALUES`] that it names: others need not be made.
    wanted: Vec<Named>,
}

/// A name and what it stands for on some page.
type Named = (&'static str, fn(&View<'_>) -> Value);

/// What a template can name. Times are empty where there is none.
const VALUES: &[Named] = &[
    ("head", |view| html(filled(1024, &Head(*view)))),
    ("main", |view| html(filled(1024, &Main(*view)))),
    ("attributes", |view| html(filled(1024, &Attributes(*view)))),
    ("controls", |view| html(filled(1024, &Controls(*view)))),
    ("title", |view| filled(1024, &Title(*view)).into()),
    ("why", |view| filled(1024, &Why(*view)).into()),
    ("notice", |view| view.page.notice.into()),
    ("language", |view| view.language.tag().into()),
    ("reason", |view| view.page.reason.name().into()),
    ("promise", |view| view.promise.name().into()),
    ("new", |view| view.is_new().into()),
    ("returns", |view| view.page.returns().into()),
    ("form", |view| form(view.page.sent).into()),
    ("from", |view| view.time(|view| view.clock(view.from()))),
    ("prime", |view| view.time(|view| view.clock(view.prime()))),
    ("until", |view| view.time(|view| view.clock(view.until()))),
    ("from_stamp", |view| view.time(|view| view.from().stamp())),
    ("prime_stamp", |view| view.time(|view| view.prime().stamp())),
    ("until_stamp", |view| view.time(|view| view.until().stamp())),
    ("again", |view| view.clock(view.again()).to_string().into()),
    ("again_stamp", |view| {
        view.again().stamp().to_string().into()
    }),
    ("wait", |view| view.wait().to_string().into()),
    ("offset", |view| view.page.wall.offset().to_string().into()),
    ("retry_after", |view| {
        view.page.retry_after.secs_ceil().into()
    }),
    ("ticket_id", |view| view.time(|view| view.ticket().name())),
    ("token", |view| view.ticket().token.into()),
    ("room", |view| view.page.room.into()),
    ("status", |view| view.page.status.into()),
    ("path", |view| view.page.path.into()),
];

fn html(text: String) -> Value {
    Value::from_safe_string(text)
}

fn form(sent: Sent<'_>) -> &'static str {
    match sent {
        Sent::Nothing => "none",
        Sent::Kept(_) => "kept",
        Sent::Lost => "lost",
    }
}

impl View<'_> {
    /// A value of the ticket, if there is one.
    fn time<T: ToString>(&self, of: impl Fn(&Self) -> T) -> Value {
        match self.promise {
            Promise::None => "".into(),
            _ => of(self).to_string().into(),
        }
    }
}

/// Tells `put` name and text of each value.
pub fn variables(page: &RefusalPage<'_>, language: Language, mut put: impl FnMut(&str, &str)) {
    let view = View::of(page, language);
    for (name, value) in VALUES {
        put(name, &value(&view).to_string());
    }
}

impl Own {
    /// The template in `text`, from the file `name`. Err: what is wrong with it, where.
    pub fn parse(name: &str, text: &str) -> Result<Own, String> {
        let mut environment = Environment::new();
        environment.set_auto_escape_callback(|_| AutoEscape::Html);
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_fuel(Some(FUEL));
        let mut own = Own {
            environment,
            name: name.to_owned(),
            wanted: Vec::new(),
        };
        own.environment
            .add_template_owned(PAGE, text.to_owned())
            .map_err(|error| own.told(&error))?;
        own.find_wanted(text)?;
        for sample in Sample::all() {
            own.render(&sample.page("", 503), sample.language)?;
        }
        Ok(own)
    }

    /// Its file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The page. Err: why it could not be made.
    pub fn render(&self, page: &RefusalPage<'_>, language: Language) -> Result<String, String> {
        let view = View::of(page, language);
        let values = self.wanted.iter().map(|(name, of)| (*name, of(&view)));
        self.environment
            .get_template(PAGE)
            .and_then(|template| template.render(Value::from_pairs(values)))
            .map_err(|error| self.told(&error))
    }

    /// A comparison with a name that is not known would go unnoticed when it is rendered.
    fn find_wanted(&mut self, text: &str) -> Result<(), String> {
        let template = self.environment.get_template(PAGE);
        let template = template.map_err(|error| self.told(&error))?;
        let mut named: HashSet<String> = template.undeclared_variables(false);
        let known = VALUES.iter().filter(|(name, _)| named.remove(*name));
        self.wanted = known.copied().collect();
        for (global, _) in self.environment.globals() {
            named.remove(global);
        }
        match named.into_iter().min() {
            None => Ok(()),
            Some(stranger) => Err(format!(
                "{} line {}: there is no value named \"{stranger}\"",
                self.name,
                line_of(text, &stranger)
            )),
        }
    }

    fn told(&self, error: &minijinja::Error) -> String {
        let line = error
            .line()
            .map_or(String::new(), |line| format!(" line {line}"));
        let what = match error.detail() {
            Some(detail) => detail.to_owned(),
            None => error.kind().to_string(),
        };
        format!("{}{line}: {what}", self.name)
    }
}

const PAGE: &str = "page";

/// The first line on which this word stands inside of braces.
fn line_of(text: &str, word: &str) -> usize {
    let inside = |line: &str| {
        line.split('{').skip(1).any(|tag| {
            tag.split(|c: char| !c.is_alphanumeric() && c != '_')
                .any(|part| part == word)
        })
    };
    text.lines().position(inside).map_or(1, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::form::SentForm;
    use nap_core::room::verdict::Reason;

    fn sample(promise: &str, language: Language) -> Sample {
        Sample {
            reason: Reason::Full,
            promise: Promise::named(promise).expect("one of them"),
            language,
            ..Sample::default()
        }
    }

    fn rendered(text: &str, sample: &Sample) -> String {
        let own = Own::parse("busy.html", text).expect("it is right");
        own.render(&sample.page("/nap-ticket", 503), sample.language)
            .expect("as it was tried out")
    }

    fn complaint(text: &str) -> String {
        Own::parse("busy.html", text).expect_err("it is wrong")
    }

    #[test]
    fn what_a_template_names_is_what_the_built_in_page_says() {
        let soon = sample("soon", Language::En);
        let text = "{{ promise }} {{ wait }} {{ from }}-{{ until }} {{ reason }} {{ room }} {{ status }}\n\
            {% if language == 'ja' %}{{ why }}{% else %}<h1>{{ title }}</h1>{% endif %}";
        assert_eq!(
            rendered(text, &soon),
            "soon 3:15 12:03:15-12:08:15 full site 503\n<h1>Your turn comes in 3:15</h1>"
        );
        let built_in = crate::page::render(
            &soon.page("/nap-ticket", 503),
            crate::page::accept::Format::Html,
            Language::En,
        );
        let main = rendered("{{ main }}", &soon);
        assert!(built_in.body.contains(&main) && main.contains("<main id=\"nap\" data-mark="));
        let head = rendered("{{ head }}", &soon);
        assert!(built_in.body.contains(&head) && head.contains("nap.js?v="));
        let controls = rendered("<main {{ attributes }}>{{ controls }}", &soon);
        assert!(controls.contains("data-return-ms=") && controls.contains("id=\"nap-stop\""));
    }

    #[test]
    fn without_a_ticket_its_times_are_empty() {
        let none = sample("none", Language::Ja);
        let text = "[{{ from }}{{ prime }}{{ until }}{{ ticket_id }}{{ from_stamp }}{{ token }}]{{ again }}";
        assert_eq!(rendered(text, &none), "[]12:03:15");
    }

    #[test]
    fn values_are_escaped_and_only_html_of_ours_is_not() {
        let body = b"a=%22%3E%3Cscript%3Ealert(1)%3C/script%3E";
        let form =
            SentForm::parse(b"application/x-www-form-urlencoded", body, None).expect("a form");
        let sample = sample("soon", Language::En);
        let page = RefusalPage {
            room: "<script>\"'&",
            sent: Sent::Kept(&form),
            ..sample.page("", 503)
        };
        let own = Own::parse("x", "<p title=\"{{ room }}\">{{ controls }}{{ form }}").expect("one");
        let html = own.render(&page, Language::En).expect("a page");
        assert!(
            html.starts_with("<p title=\"&lt;script&gt;&quot;&#x27;&amp;\">"),
            "{html}"
        );
        assert!(
            html.contains("value=\"&#34;&#62;&#60;script&#62;"),
            "{html}"
        );
        assert!(
            !html.contains("<script>") && html.ends_with("kept"),
            "{html}"
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_file_and_line() {
        for (text, words) in [
            (
                "\n\n{{ wiat }}",
                "busy.html line 3: there is no value named \"wiat\"",
            ),
            (
                "\n{% if resaon == 'full' %}x{% endif %}",
                "busy.html line 2: there is no value named \"resaon\"",
            ),
            ("a\n{% if new %}", "busy.html line 2: "),
            ("{{ title", "busy.html line 1: "),
            (
                "\n{{ title|upcase }}",
                "busy.html line 2: filter upcase is unknown",
            ),
            ("{{ wait.minutes }}", "busy.html line 1: "),
            ("{% include 'other.html' %}", "busy.html line 1: "),
            // Only where a ticket has a tail left.
            (
                "{% if promise == 'late' %}\n{{ status / 0 }}{% endif %}",
                "busy.html line 2: ",
            ),
            (
                "{% for i in range(100000) %}{{ i }}{% endfor %}",
                "busy.html line 1: ",
            ),
        ] {
            let said = complaint(text);
            assert!(said.starts_with(words), "{text:?}: {said}");
        }
    }

    #[test]
    fn each_value_is_explained_in_the_docs() {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/own-page.md");
        let docs = std::fs::read_to_string(docs).expect("docs/own-page.md");
        for (name, _) in VALUES {
            let row = format!("| `{name}` |");
            assert!(
                docs.contains(&row),
                "docs/own-page.md has no row for {name}"
            );
        }
    }
}
