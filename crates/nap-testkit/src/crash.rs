//! Children of event and prefork that crash at SIGTERM: cores tell httpd's own races from a fault of ours.
//!
//! A child that is told to end closes the sockets of all connections in hand (close_worker_sockets of
//! event.c), while a thread may already have given back the pool in which such a socket lies. Bare httpd
//! 2.4.71 crashed in this way once in 1,432 stops right after answers: its main thread in apr_os_sock_get,
//! called by mod_mpm_event.so, another thread in munmap.
//!
//! A child of prefork destroys its pools in the signal's handler, whatever it is doing. One in 40 stops right
//! after an answer over TLS found it in SSL_free, called by mod_ssl.so for the connection's end, and so
//! mod_ssl.so freed the same memory again.

use super::config;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs a program with cores of any size allowed, and with a sanitizer's runtime loaded first: dash does not
/// work under TSan's.
pub const WITH_CORES: [&str; 4] = [
    "sh",
    "-c",
    r#"ulimit -c unlimited 2>/dev/null; [ -z "$RUNTIME" ] || export LD_PRELOAD="$RUNTIME"; exec "$@""#,
    "sh",
];

/// Whether the cores in this directory show nothing but a race. Without cores (the machine puts them
/// elsewhere) or gdb, that is assumed.
pub fn is_httpds_race(cores: &Path) -> bool {
    let files = fs::read_dir(cores).into_iter().flatten().flatten();
    files.map(|core| backtrace(&core.path())).all(|frames| {
        eprintln!("{}", frames.join("\n"));
        frames.is_empty() || is_race(&frames)
    })
}

fn is_race(frames: &[String]) -> bool {
    let any = |part: &str| frames.iter().any(|frame| frame.contains(part));
    let event = any("mod_mpm_event.so") || any("event.c");
    let first = |part: &str| frames.iter().position(|frame| frame.contains(part));
    let handler = first("<signal handler called>");
    let prefork = first("mod_mpm_prefork.so").or_else(|| first("prefork.c"));
    let in_handler = prefork.is_some_and(|at| handler.is_some_and(|handler| at < handler));
    (event || in_handler) && !any("mod_nap") && !any("nap_")
}

/// The frames of the thread that crashed, the innermost first.
fn backtrace(core: &Path) -> Vec<String> {
    let gdb = Command::new("gdb")
        .args([
            "-batch",
            "-ex",
            "backtrace",
            "-ex",
            "thread apply all backtrace",
        ])
        .args([config::binary(), core])
        .output();
    let said = gdb.map(|output| output.stdout).unwrap_or_default();
    crashed(&String::from_utf8_lossy(&said))
}

/// The frames of the thread that crashed, out of all threads' frames. httpd's handler sends its process the
/// signal once more, the kernel gives it to any thread, and gdb takes that thread for the crashed one. The
/// one that really crashed has the handler in its frames, if it has not returned yet; if several crashed, all
/// their frames count. A thread in a system call has not crashed.
fn crashed(said: &str) -> Vec<String> {
    let frames = |thread: &str| -> Vec<String> {
        let frames = thread.lines().filter(|line| line.starts_with('#'));
        frames.map(str::to_owned).collect()
    };
    let threads: Vec<_> = said.split("\nThread ").map(frames).collect();
    let handler =
        |frames: &&Vec<String>| frames.iter().any(|f| f.contains("<signal handler called>"));
    let handled: Vec<_> = threads.iter().filter(handler).flatten().cloned().collect();
    match handled.is_empty() {
        true => {
            let at =
                |frames: &[String], part: &str| frames.first().is_some_and(|f| f.contains(part));
            let calls = |frames: &[String]| {
                ["syscall ()", "futex", "munmap"]
                    .into_iter()
                    .any(|name| at(frames, name))
            };
            // gdb shows the thread that it chose when it has read the core.
            let taken = threads.first().cloned().unwrap_or_default();
            let back = threads
                .into_iter()
                .find(|frames| at(frames, "apr_os_sock_get"));
            back.filter(|_| calls(&taken)).unwrap_or(taken)
        }
        false => handled,
    }
}

#[test]
fn the_thread_whose_signal_was_handled_is_the_one_that_crashed() {
    let said = "Program terminated with signal SIGSEGV, Segmentation fault.\n\
                #0  __futex_abstimed_wait_common64 (private=0)\n\
                #5  0x00007f00cc1cd08d in ?? () from /usr/lib/apache2/modules/mod_http2.so\n\
                \nThread 28 (Thread 0x7f00cc256780 (LWP 17579)):\n\
                #0  0x00007f00cc308267 in __GI_kill ()\n\
                #1  <signal handler called>\n\
                #2  0x00007f00cc4d6180 in apr_os_sock_get () from /lib/libapr-1.so.0\n\
                #3  0x00007f00cc21506c in ?? () from /usr/lib/apache2/modules/mod_mpm_event.so\n\
                \nThread 1 (Thread 0x7f00c9dee6c0 (LWP 17581)):\n\
                #0  __futex_abstimed_wait_common64 (private=0)\n";
    let frames = crashed(said);
    assert!(
        frames[0].contains("__GI_kill") && frames.len() == 4,
        "{frames:?}"
    );
    assert!(is_race(&frames));
    let ours = "\nThread 2 (x):\n#0  <signal handler called>\n#1  0x00007f in nap_access_end ()\n";
    assert!(
        !is_race(&crashed(&(said.to_owned() + ours))),
        "ours crashed as well"
    );
    let (alone, _) = said.split_once("\nThread").expect("threads");
    assert!(!is_race(&crashed(alone)), "a wait of mod_http2's");
    let back = "\nThread 4 (x):\n#0  0x00007f in apr_os_sock_get () from /lib/libapr-1.so.0\n\
                #1  0x00007f in ?? () from /usr/lib/apache2/modules/mod_mpm_event.so\n";
    let ours = |innermost: &str| format!("{innermost}\n#1  0x00007f in nap_yard_in ()\n{back}");
    assert!(is_race(&crashed(&ours("#0  syscall () at syscall.S:38"))));
    assert!(!is_race(&crashed(&ours("#0  0x00007f in nap_yard_out ()"))));
}

#[test]
fn a_crash_with_a_frame_of_ours_is_not_httpds() {
    let race = [
        "#0  0x00007f3f138d5180 in apr_os_sock_get () from /usr/lib/libapr-1.so.0",
        "#1  0x00007f3f1361406c in ?? () from /usr/lib/apache2/modules/mod_mpm_event.so",
        "#2  0x0000555e5f5ad850 in ap_run_mpm ()",
    ]
    .map(str::to_owned);
    assert!(is_race(&race));
    assert!(!is_race(&race[2..]), "somewhere else in httpd");
    let mut ours = race.to_vec();
    ours[0] = "#0  0x00007f in nap_core::room::gate::serve () from mod_nap.so".to_owned();
    assert!(!is_race(&ours));
    let twice = [
        "#0  0x00007f3cdb161ba2 in ?? () from /usr/lib/apache2/modules/mod_ssl.so",
        "#1  0x00007f3cdb47a5de in apr_pool_destroy () from /lib/libapr-1.so.0",
        "#4  0x00007f3cdb1c5e7b in ?? () from /usr/lib/apache2/modules/mod_mpm_prefork.so",
        "#5  <signal handler called>",
        "#7  0x00007f3cdb0d258a in SSL_free () from /lib/libssl.so.3",
    ]
    .map(str::to_owned);
    assert!(is_race(&twice));
    assert!(!is_race(&twice[..3]), "no signal");
    let mut ours = twice.to_vec();
    ours[4] = "#7  0x00007f in nap_access_end () from mod_nap.so".to_owned();
    assert!(!is_race(&ours), "it was interrupted in ours");
}
