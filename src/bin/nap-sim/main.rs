//! `nap-sim`: the room in virtual time.

fn main() {}
