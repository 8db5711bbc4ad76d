//! [`line!`]: what a report says of one thing, and where each figure comes from, in one list.

/// Declares a struct of the report with its constructor `of`: each field is a key of the JSON form, and
/// behind it stands what fills it.
macro_rules! line {
    (
        $(#[$meta:meta])*
        $vis:vis struct $Line:ident of($($from:ident: $of:ty),+) {
            $($(#[$on_field:meta])* $field:ident: $type:ty = $value:expr,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, serde::Serialize)]
        $vis struct $Line {
            $($(#[$on_field])* $vis $field: $type,)+
        }

        impl $Line {
            $vis fn of($($from: $of),+) -> $Line {
                $Line { $($field: $value,)+ }
            }
        }
    };
}

pub(super) use line;
