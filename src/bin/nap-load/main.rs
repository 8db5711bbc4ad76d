//! `nap-load`: visitors who obey their tickets, and some who do not.

fn main() {}
