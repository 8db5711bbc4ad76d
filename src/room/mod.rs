//! Rooms: what is protected. Composes the systems into enter, events and leave. Pure.
