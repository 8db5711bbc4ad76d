//! [`long`]: are the long forms of tests wanted?

/// `make test-all` sets NAP_TEST=all. What it may not be stops the test: with a slip of the pen, the
/// long forms would be left out and called passed.
pub fn long() -> bool {
    match std::env::var_os("NAP_TEST") {
        None => false,
        Some(which) if which == "all" => true,
        Some(which) => panic!("NAP_TEST is {which:?}; only `all` is known"),
    }
}
