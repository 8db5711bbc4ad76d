//! `/nap-info` as a page. It styles and runs nothing inline: see [`Files`].

use askama::Template;

use super::chart::Chart;
use super::minutes::Minutes;
use super::report::{GateLine, Report, RoomLine};
use super::sessions::SessionsLine;
use super::{charts, time_of_day, to_the_millisecond};

/// Addresses of the page's own style, script and icon.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    /// Of `info.css`.
    pub style: &'a str,
    /// Of `info.js`.
    pub script: &'a str,
    /// Of `icon.svg`.
    pub icon: &'a str,
}

#[derive(Template)]
#[template(path = "info.html")]
struct Html<'a> {
    report: &'a Report,
    files: Files<'a>,
    /// Rooms shown gate by gate: the one asked for, or all if they are few.
    rooms: Vec<RoomHtml<'a>>,
    /// A line a gate, if they are not few.
    overview: &'a [RoomLine],
    /// The page is of one room, and there are others.
    of_several: bool,
}

/// If there are more gates than this, each has a line, and a link leads to its room.
const FEW: usize = 12;

impl Report {
    /// `/nap-info`; `asked`: only the room of this name, if there is one.
    pub fn to_html(&self, files: Files<'_>, asked: Option<&str>) -> String {
        let mut page = String::with_capacity(128 << 10);
        let asked = asked.filter(|name| self.has_room(name));
        let gates: usize = self.rooms.iter().map(|room| room.gates.len()).sum();
        let many = gates > FEW && asked.is_none();
        let shown = |room: &&RoomLine| !many && asked.is_none_or(|name| room.name == name);
        let rooms = (1..).zip(self.rooms.iter().filter(shown));
        let html = Html {
            report: self,
            files,
            rooms: rooms.map(|(at, room)| RoomHtml::of(room, at)).collect(),
            overview: if many { &self.rooms } else { &[] },
            of_several: asked.is_some() && self.rooms.len() > 1,
        };
        // Writing to a string does not fail; if the template does, what it has written is sent.
        html.render_into(&mut page).ok();
        page
    }
}

impl Html<'_> {
    /// Rooms with a queue, or whose newcomers are sent away.
    fn crowded(&self) -> Vec<&str> {
        let has_crowd = |room: &&RoomLine| room.gates.iter().any(GateLine::has_crowd);
        let rooms = self.overview.iter().filter(has_crowd);
        rooms.map(|room| room.name.as_str()).collect()
    }
}

/// A room; `id` is unique on the page.
struct RoomHtml<'a> {
    id: String,
    name: &'a str,
    sessions: Option<SessionsHtml<'a>>,
    gates: Vec<GateHtml<'a>>,
}

/// Its sessions.
#[derive(Template)]
#[template(path = "info/sessions.html")]
struct SessionsHtml<'a> {
    sessions: &'a SessionsLine,
    charts: Vec<Chart>,
}

impl<'a> RoomHtml<'a> {
    /// The gate at which visitors come in. It shows who is let in by hand, and the notice.
    fn first(&self) -> Option<&GateLine> {
        self.gates.first().map(|gate| gate.gate)
    }

    /// The first of its page gates, which all have the limit that was fixed by hand.
    fn page(&self) -> Option<&GateLine> {
        let at = usize::from(self.sessions.is_some());
        self.gates.get(at).map(|gate| gate.gate)
    }

    fn of(room: &'a RoomLine, at: u32) -> RoomHtml<'a> {
        let gates = (1..).zip(&room.gates);
        RoomHtml {
            id: format!("room-{at}"),
            name: &room.name,
            sessions: room.sessions.as_ref().map(|sessions| {
                let minutes = room.gates.first().map(|gate| &gate.recent);
                let id = format!("room-{at}-sessions");
                SessionsHtml {
                    sessions,
                    charts: charts::of_sessions(sessions, minutes, &id),
                }
            }),
            gates: gates
                .map(|(n, gate)| GateHtml::of(gate, &room.name, format!("room-{at}-{n}")))
                .collect(),
        }
    }
}

/// A gate with its charts; `id` is unique on the page.
#[derive(Template)]
#[template(path = "info/gate.html")]
struct GateHtml<'a> {
    gate: &'a GateLine,
    room: &'a str,
    id: String,
    charts: Vec<Chart>,
}

impl<'a> GateHtml<'a> {
    fn of(gate: &'a GateLine, room: &'a str, id: String) -> GateHtml<'a> {
        GateHtml {
            gate,
            room,
            charts: charts::of(gate, &id),
            id,
        }
    }

    /// The bar of the expected wait.
    fn wait_share(&self) -> String {
        let gate = self.gate;
        percent(gate.wait.expected_s.unwrap_or(0.0), gate.settings.bound_s)
    }
}

/// A figure with so many decimals, or a dash where there is none.
fn figure(value: &Option<f64>, decimals: usize) -> String {
    value.map_or("–".to_owned(), |value| format!("{value:.decimals$}"))
}

/// How much of a bar is full, in per cent.
fn share(part: u32, whole: u32) -> String {
    percent(f64::from(part), f64::from(whole))
}

fn percent(part: f64, whole: f64) -> String {
    super::chart::short((100.0 * part / whole).clamp(0.0, 100.0))
}
