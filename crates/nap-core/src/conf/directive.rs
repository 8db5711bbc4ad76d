//! [`Directive`]: what the core parses, by name and by number.

use Directive::*;

/// Where the directives' names and numbers are kept in step with `nap_directive` of nap.h.
macro_rules! directives {
    ($($variant:ident = $number:literal $name:literal,)*) => {
        /// The directives the core parses; numbers as in `nap_directive`.
        #[repr(u32)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum Directive { $($variant = $number,)* }

        impl Directive {
            /// All of them, in the order of their numbers.
            pub const ALL: &[Directive] = &[$($variant,)*];

            /// As the administrator writes it.
            pub fn name(self) -> &'static str {
                match self { $($variant => $name,)* }
            }

            /// The directive with this number in `nap_directive`.
            pub fn from_number(number: u32) -> Option<Directive> {
                match number { $($number => Some($variant),)* _ => None }
            }
        }
    };
}

directives! {
    RunReady = 1 "NapRunReady",
    WaitMax = 2 "NapWaitMax",
    WaitLimit = 3 "NapWaitLimit",
    ReAccess = 4 "NapReAccess",
    History = 5 "NapHistory",
    Reserve = 6 "NapReserve",
    Download = 7 "NapDownload",
    SlotPeriod = 8 "NapSlotPeriod",
    SlotTickets = 9 "NapSlotTickets",
    TicketLifetime = 10 "NapTicketLifetime",
    TicketPrime = 11 "NapTicketPrime",
    TicketHorizon = 12 "NapTicketHorizon",
    TicketShare = 13 "NapTicketShare",
    Overbook = 14 "NapOverbook",
    TicketsPerClient = 15 "NapTicketsPerClient",
    TicketCookie = 16 "NapTicketCookie",
    TicketBind = 17 "NapTicketBind",
    TicketStatus = 18 "NapTicketStatus",
    TicketPath = 19 "NapTicketPath",
    Tables = 20 "NapTables",
    Admit = 21 "NapAdmit",
    KeepForm = 22 "NapKeepForm",
    Session = 23 "NapSession",
    SessionStart = 24 "NapSessionStart",
    SessionQueue = 25 "NapSessionQueue",
    Poll = 26 "NapPoll",
    Priority = 27 "NapPriority",
    Body = 28 "NapBody",
    Park = 29 "NapPark",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_keep_their_numbers() {
        for (n, &which) in (1..).zip(Directive::ALL) {
            assert_eq!(which as u32, n);
            assert_eq!(Directive::from_number(n), Some(which));
        }
        assert_eq!(Directive::from_number(0), None);
        assert_eq!(Directive::from_number(99), None);
    }
}
