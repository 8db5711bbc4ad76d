//! `settings!` defines a struct of settings: each with its value before anything is set and, where it does not depend on
//! others, its default after `=>`.

macro_rules! settings {
    ($(#[$meta:meta])* $kind:ident {
        $($(#[$doc:meta])* $field:ident: $type:ty = $unset:expr $(=> $default:expr)?;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $kind { $($(#[$doc])* pub $field: $type,)* }

        impl $kind {
            /// Nothing set yet.
            pub const UNSET: $kind = $kind { $($field: $unset,)* };

            /// These settings where they are set, `below` where not.
            pub fn or(&self, below: &$kind) -> $kind {
                let mut all = *self;
                $(if all.$field == Self::UNSET.$field {
                    all.$field = below.$field;
                })*
                all
            }

            /// Puts those defaults in that do not depend on other settings.
            pub fn put_defaults(&mut self) {
                $($(super::values::or_default(&mut self.$field, $default);)?)*
            }
        }
    };
}

pub(super) use settings;
