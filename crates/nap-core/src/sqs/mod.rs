//! SQS (`papers/sqs.txt`): each page's best concurrency, found by its progress.
//!
//! A page scheduler runs as many of a page's accesses at once as make the most progress: with fewer
//! the machine idles; with more they are in each other's way. It need not know what they contend
//! for.
//!
//! | file | what it holds | ALGORITHMS |
//! |---|---|---|
//! | [`elastic_hill`] | our law: steps large enough to be seen through the noise | 3.3 |
//! | [`paper_hill`] | the paper's: one step at a time, with history | 3.2, 3.3 |
//! | [`progress`] | what a page's finished accesses are worth beside another's | 3.3 |
//! | [`page_scheduler`] | windows, and whose turn it is | 3.3 |
//! | [`moves`] | a limit that was set, and why | 3.3 |
//! | [`interval`] | the session interval: the paper's law, and ours on the rate | 3.4 |
//! | [`demand`] | what a session asks of the server, for the start that is fed forward | 3.4 |
//! | [`survey`] | what sessions that are not over have asked for | |
//! | [`capacity`] | how many sessions a second the pages pass, and how many are on their way | 3.4 |
//! | [`in_hand`] | the accesses of a session that wait or run | |
//! | [`session`] | one session | |
//! | [`sessions`] | the sessions there are, by a keyed hash of what the client presents | |

pub mod capacity;
pub mod demand;
pub mod elastic_hill;
pub mod in_hand;
pub mod interval;
pub mod moves;
pub mod page_scheduler;
pub mod paper_hill;
pub mod progress;
pub mod session;
pub mod sessions;
#[cfg(test)]
mod simulated;
pub mod survey;
