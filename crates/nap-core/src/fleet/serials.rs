//! [`Serials`]: which serial the ticket of a place has, and whether another node has it. A ticket brings its serial along; of
//! one that was redeemed at another node its seller hears only the place.

/// Tickets that are remembered: twice as many as buyers are.
const SALES: usize = 1 << 14;

/// A ticket of one position.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
struct Sale {
    /// With [`ELSEWHERE`].
    position: u32,
    /// 0: there is none.
    serial: u32,
}

/// Another node has the ticket: an access runs there with it, or only waits. No gate has so many positions.
const ELSEWHERE: u32 = 1 << 31;

/// The last tickets sold, by position. All zero = none.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Serials {
    sales: [Sale; SALES],
}

impl Serials {
    /// None.
    pub const EMPTY: Serials = Serials {
        sales: [Sale {
            position: 0,
            serial: 0,
        }; SALES],
    };

    /// The place at this position was sold.
    pub fn sold(&mut self, position: u32, serial: u32) {
        self.sales[position as usize % SALES] = Sale { position, serial };
    }

    /// The serial of the ticket at this position, if it is remembered.
    pub fn of(&self, position: u32) -> Option<u32> {
        let sale = &self.sales[position as usize % SALES];
        (sale.position & !ELSEWHERE == position && sale.serial != 0).then_some(sale.serial)
    }

    /// Another node has this ticket, or has given it back.
    pub fn set_elsewhere(&mut self, position: u32, elsewhere: bool) {
        if self.of(position).is_some() {
            let flag = if elsewhere { ELSEWHERE } else { 0 };
            self.sales[position as usize % SALES].position = position | flag;
        }
    }

    /// Has another node the ticket at this position? False, too, where that is not remembered.
    pub fn is_elsewhere(&self, position: u32) -> bool {
        let sale = &self.sales[position as usize % SALES];
        sale.position == position | ELSEWHERE && sale.serial != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_tickets_are_remembered() {
        let mut serials = Box::new(Serials::EMPTY);
        assert_eq!(serials.of(0), None);
        for position in 0..SALES as u32 + 2 {
            serials.sold(position, position + 7);
        }
        assert_eq!([0, 1, 2].map(|at| serials.of(at)), [None, None, Some(9)]);
        assert_eq!(serials.of(SALES as u32), Some(SALES as u32 + 7));
    }

    #[test]
    fn a_ticket_is_elsewhere_until_it_is_given_back_or_its_place_sold_again() {
        let mut serials = Box::new(Serials::EMPTY);
        serials.set_elsewhere(3, true);
        assert!(!serials.is_elsewhere(3), "it was not sold");
        serials.sold(3, 9);
        serials.set_elsewhere(3 + SALES as u32, true);
        assert!(!serials.is_elsewhere(3), "another one was");
        serials.set_elsewhere(3, true);
        assert_eq!((serials.is_elsewhere(3), serials.of(3)), (true, Some(9)));
        assert!(!serials.is_elsewhere(3 + SALES as u32));
        serials.set_elsewhere(3, false);
        assert_eq!((serials.is_elsewhere(3), serials.of(3)), (false, Some(9)));
        serials.set_elsewhere(3, true);
        serials.sold(3, 10);
        assert!(!serials.is_elsewhere(3));
    }
}
