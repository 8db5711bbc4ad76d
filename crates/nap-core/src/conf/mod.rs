//! Directives: from an administrator's words to a checked configuration.
//!
//! [`RoomConf::directive`] and [`ServerConf::directive`] take one directive as httpd split it and
//! store plain numbers. [`RoomConf::finish`] puts the defaults in and checks what must fit
//! together. To the shim they all are an [`AnyConf`], whose fields it does not know. Numbers are read
//! digit by digit as decimals (no floats, hence no NaN and no rounding). Every message is one
//! sentence with directive, value and allowed range: httpd prints it and does not start.
//!
//! | file | what it holds |
//! |---|---|
//! | [`any`] | settings of any kind, as the shim hands them around |
//! | [`directive`] | the directives' names and numbers |
//! | [`values`] | what an administrator may write: numbers, times, sizes, words |
//! | `settings` | a struct of settings, with what each is while unset and its default |
//! | [`text`] | a text of fixed size |
//! | [`room`], [`server`] | the two structs: directives, defaults, checks |
//! | [`store`] | the store of a fleet: `NapStore`, `NapNode`, `NapStoreAuth` |
//! | `page` | a page of a room: what it may set, and what it takes over |
//! | `run_ready` | `NapRunReady` |
//! | `session` | the sessions of a room |
//! | [`bwshare`] | the same for `BwShare...` |
//! | [`telepoll`] | the same for `TelePoll` |
//! | [`oxthas`] | and for `Oxthas...` |
//! | `terms` | the settings as the gates and the laws want them |
//! | `cookie` | what `NapTicketCookie` may contain |

pub mod any;
pub mod bwshare;
mod cookie;
pub mod directive;
pub mod oxthas;
mod page;
pub mod room;
mod run_ready;
#[cfg(test)]
mod samples;
pub mod server;
mod session;
mod settings;
pub mod store;
pub mod telepoll;
mod terms;
pub mod text;
pub mod values;

pub use any::AnyConf;
pub use bwshare::{BwDirective, BwShareConf, YEARS_S};
pub use directive::Directive;
pub use oxthas::{OxthasConf, OxthasDirective};
pub use room::RoomConf;
pub use server::{ServerConf, TICKET_PATH, refusal_status};
pub use store::{StoreAuth, StoreConf};
pub use telepoll::EventConf;
pub use text::Text;
pub use values::{AUTO, OFF, PAPER, PRIORITIES, UNSET, WORK};
