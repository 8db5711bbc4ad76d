//! [`Directive`]: the directives that the core parses, by the names that administrators write.

/// An enum of directives, and their names.
macro_rules! directives {
    ($(#[$doc:meta])* $kind:ident: $($variant:ident $name:literal,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum $kind { $($variant,)* }

        impl $kind {
            /// All of them.
            pub const ALL: &[$kind] = &[$($kind::$variant,)*];

            /// Its name as the administrator writes it.
            pub fn name(self) -> &'static str {
                match self { $($kind::$variant => $name,)* }
            }

            /// The directive of this name, as httpd's own table spells it.
            pub fn named(name: &str) -> Option<$kind> {
                $kind::ALL.iter().find(|which| which.name() == name).copied()
            }
        }
    };
}

pub(super) use directives;

directives! {
    /// The directives of rooms, and of the whole server.
    Directive:
    RunReady "NapRunReady",
    WaitMax "NapWaitMax",
    WaitLimit "NapWaitLimit",
    ReAccess "NapReAccess",
    History "NapHistory",
    Reserve "NapReserve",
    Download "NapDownload",
    SlotPeriod "NapSlotPeriod",
    SlotTickets "NapSlotTickets",
    TicketLifetime "NapTicketLifetime",
    TicketPrime "NapTicketPrime",
    TicketHorizon "NapTicketHorizon",
    TicketShare "NapTicketShare",
    Overbook "NapOverbook",
    TicketsPerClient "NapTicketsPerClient",
    TicketCookie "NapTicketCookie",
    TicketBind "NapTicketBind",
    TicketPath "NapTicketPath",
    Tables "NapTables",
    Admit "NapAdmit",
    KeepForm "NapKeepForm",
    Session "NapSession",
    SessionStart "NapSessionStart",
    SessionQueue "NapSessionQueue",
    Poll "NapPoll",
    Priority "NapPriority",
    Body "NapBody",
    Park "NapPark",
    Static "NapStatic",
    Store "NapStore",
    Node "NapNode",
}
