//! [`line!`]: what a report says of one thing, and where each figure comes from, in one list.

/// Declares a struct with its constructor `of`: behind each field stands what fills it. That can name fields
/// above it.
macro_rules! filled {
    (
        $(#[$meta:meta])*
        $vis:vis struct $Line:ident of($($from:ident: $of:ty),+) {
            $($(#[$on_field:meta])* $field:ident: $type:ty = $value:expr,)+
        }
    ) => {
        $(#[$meta])*
        $vis struct $Line {
            $($(#[$on_field])* pub(in crate::info) $field: $type,)+
        }

        impl $Line {
            /// What there is to tell of these.
            $vis fn of($($from: $of),+) -> $Line {
                $(let $field: $type = $value;)+
                $Line { $($field,)+ }
            }
        }
    };
}

/// The same for what the report says: each field is a key of the JSON form.
macro_rules! line {
    ($($line:tt)+) => {
        $crate::info::line::filled! {
            #[derive(Clone, Debug, serde::Serialize)]
            $($line)+
        }
    };
}

pub(super) use {filled, line};
