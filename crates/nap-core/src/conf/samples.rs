//! What the tests of this folder share.

use super::{Directive, RoomConf, ServerConf};

pub fn room() -> RoomConf {
    RoomConf::new("shop").expect("a good name")
}

pub fn server(max_workers: u32, threads_per_child: u32) -> ServerConf {
    let threaded = u32::from(threads_per_child > 1);
    ServerConf {
        max_workers,
        threads_per_child,
        threaded,
        cores: 2,
        ..ServerConf::UNSET
    }
}

/// Sets one directive on a fresh room and returns the one field that must have changed.
pub fn set(line: &str, field: fn(&RoomConf) -> i64) -> Result<i64, String> {
    let mut room = room();
    let mut words = line.split(' ');
    let name = words.next().expect("a name");
    let which = *Directive::ALL
        .iter()
        .find(|d| d.name() == name)
        .expect("a directive");
    room.directive(which, &words.collect::<Vec<_>>())?;
    Ok(field(&room))
}
