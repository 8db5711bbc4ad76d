//! [`long`]: whether the long forms of tests are wanted.

/// `make test-all` and `make test-fleet` set NAP_TEST=all. Any other value stops the test: after a typing mistake the long forms
/// would be left out and called passed.
pub fn long() -> bool {
    match std::env::var_os("NAP_TEST") {
        None => false,
        Some(which) if which == "all" => true,
        Some(which) => panic!("NAP_TEST is {which:?}; only `all` is known"),
    }
}
