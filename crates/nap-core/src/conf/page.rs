//! A page of a room is configured by the same struct: it may set what its gate has for itself, and
//! takes everything else from its room.

use super::directive::Directive::{self, *};
use super::room::RoomConf;
use super::values::{UNSET, named};

/// May this directive stand inside `<NapPage>`?
pub(super) fn goes_with_a_page(which: Directive) -> bool {
    matches!(which, RunReady | WaitMax | WaitLimit | ReAccess)
}

impl RoomConf {
    /// A page of `room` for which nothing has been set yet.
    pub fn new_page(room: &RoomConf, page: &str) -> Result<RoomConf, String> {
        Ok(RoomConf {
            name: room.name,
            page: named("NapPage", "a page", page)?,
            ..RoomConf::UNSET
        })
    }

    /// Is this a page's configuration?
    pub fn is_page(&self) -> bool {
        !self.page.as_str().is_empty()
    }

    /// How a message about it begins.
    pub fn title(&self) -> String {
        let (room, page) = (self.name.as_str(), self.page.as_str());
        match page {
            "" => format!("room {room}"),
            page => format!("room {room} page {page}"),
        }
    }

    /// Takes from `room`, which is not finished yet, what the page has not set. All settings of
    /// `NapRunReady` go together.
    pub fn over(&mut self, room: &RoomConf) {
        let own = *self;
        *self = own.or(room);
        if own.run_ready != UNSET {
            self.run_ready_own = own.run_ready_own;
            self.run_ready_shared = own.run_ready_shared;
            self.run_ready_history = own.run_ready_history;
            (self.run_ready_min, self.run_ready_max) = (own.run_ready_min, own.run_ready_max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conf::samples::{room, server};

    fn said(room: &mut RoomConf, line: &str) -> Result<(), String> {
        let mut words = line.split(' ');
        let name = words.next().expect("a name");
        let which = Directive::ALL.iter().find(|d| d.name() == name);
        room.directive(*which.expect("known"), &words.collect::<Vec<_>>())
    }

    #[test]
    fn a_page_has_its_own_settings_and_its_rooms() {
        let mut shop = room();
        for line in [
            "NapRunReady auto min=3 max=9",
            "NapWaitMax 8s",
            "NapTicketLifetime 1min",
        ] {
            said(&mut shop, line).expect("good");
        }
        let mut search = RoomConf::new_page(&shop, "search").expect("a good name");
        said(&mut search, "NapRunReady 5").expect("good");
        search.over(&shop);
        search.finish(&server(400, 25)).expect("good");
        assert_eq!(
            (search.run_ready, search.run_ready_min),
            (5, 5),
            "auto's options stay with auto"
        );
        assert_eq!(search.wait_max_us, 8_000_000);
        assert_eq!(search.ticket_lifetime_us, 60_000_000);
        assert_eq!(search.title(), "room shop page search");

        let mut browse = RoomConf::new_page(&shop, "browse").expect("a good name");
        said(&mut browse, "NapWaitMax 500ms").expect("good");
        browse.over(&shop);
        browse.finish(&server(400, 25)).expect("good");
        assert_eq!((browse.run_ready_min, browse.run_ready_max), (3, 9));
        assert_eq!(browse.wait_max_us, 500_000);
    }

    #[test]
    fn a_page_has_a_plain_name_and_no_tickets_of_its_own_make() {
        let shop = room();
        assert_eq!(
            RoomConf::new_page(&shop, "a/b").map(drop),
            Err(
                "NapPage: \"a/b\" is not a name for a page; use 1 to 63 of A-Z a-z 0-9 _ . -"
                    .into()
            )
        );
        let mut page = RoomConf::new_page(&shop, "a").expect("a good name");
        assert_eq!(
            said(&mut page, "NapTicketLifetime 1min"),
            Err("NapTicketLifetime does not belong inside <NapPage>".into())
        );
    }

    #[test]
    fn the_pages_permits_are_workers_too() {
        let fit = |beside| {
            let mut shop = RoomConf { beside, ..room() };
            said(&mut shop, "NapRunReady 10").expect("good");
            shop.finish(&server(150, 25))
        };
        assert!(fit(UNSET).is_ok());
        assert_eq!(
            fit(130),
            Err(
                "room shop: NapRunReady 10, 130 of its pages and 18 workers in reserve \
                 (NapReserve: 3 in each of 6 children) leave no worker to wait on under \
                 MaxRequestWorkers 150; this room wants MaxRequestWorkers 318"
                    .into()
            )
        );
    }
}
