//! Reads httpd's error log: generations of the server, and unexpected lines.

/// What httpd says when not all workers are idle or a generation overlaps the next: the harness asks for
/// exactly the workers it needs, so this is no fault. The last two: the harness connects as soon as the port
/// is open, when event's listener may not be ready yet for a connection that writes or is kept. Bare httpd
/// says the first of them too.
const BUSY: [&str; 10] = [
    "AH00161:", "AH00162:", "AH00286:", "AH00287:", "AH00288:", "AH00484:", "AH00485:", "AH10159:",
    "AH03092:", "AH03093:",
];

/// How often the server has become ready to serve. httpd writes this notice whatever the LogLevel.
pub fn generations(log: &str) -> usize {
    log.matches("resuming normal operations").count()
}

/// Lines of level warn and worse, crashes, and lines that are no log lines at all, except those that contain
/// an expected part.
pub fn unexpected(log: &str, expected: &[(String, &'static str)]) -> String {
    log.lines()
        .filter(|line| is_alarming(line))
        .filter(|line| !BUSY.iter().any(|number| line.contains(number)))
        .filter(|line| !expected.iter().any(|(part, _)| line.contains(part)))
        .map(|line| format!("{line}\n"))
        .collect()
}

/// httpd writes `[date] [module:level] [pid ...] message`. A line without a level was written by something
/// else: a panic, an assertion, the C library.
fn is_alarming(line: &str) -> bool {
    let field = line
        .strip_prefix('[')
        .and_then(|rest| rest.split("] [").nth(1));
    let level = field.and_then(|f| {
        f.split(']')
            .next()?
            .rsplit_once(':')
            .map(|(_, level)| level)
    });
    match level {
        // httpd reports a crashed child at level notice.
        Some("notice") => line.contains("exit signal"),
        Some(level) => !(level == "info" || level == "debug" || level.starts_with("trace")),
        None => !line.is_empty(),
    }
}

#[test]
fn only_lines_of_weight_are_alarming() {
    let table = [
        (
            "[Sat Nov 21 09:40:22.1 2026] [mpm_event:notice] [pid 1:tid 2] AH00489: fine",
            false,
        ),
        (
            "[Sat Nov 21 09:40:22.1 2026] [nap:info] [pid 1:tid 2] room board",
            false,
        ),
        (
            "[Sat Nov 21 09:40:22.1 2026] [nap:warn] [pid 1:tid 2] room board",
            true,
        ),
        (
            "[Sat Nov 21 09:40:22.1 2026] [core:crit] [pid 1:tid 2] (2)No such file",
            true,
        ),
        (
            "[x] [core:notice] [pid 1] AH00052: child pid 7 exit signal Segmentation fault (11)",
            true,
        ),
        ("thread '<unnamed>' panicked at src/room/mod.rs:1:1:", true),
        ("", false),
    ];
    for (line, alarming) in table {
        assert_eq!(is_alarming(line), alarming, "{line}");
    }
    assert_eq!(
        unexpected(table[2].0, &[("room board".into(), "the test fills it")]),
        ""
    );
}
