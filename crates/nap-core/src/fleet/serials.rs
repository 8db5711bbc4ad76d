//! [`Serials`]: which serial the ticket of a place has. A ticket brings its own along; of one that was redeemed at another
//! node its seller hears only the place.

/// Tickets that are remembered: twice as many as buyers are.
const SALES: usize = 1 << 14;

/// A ticket of one position.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
struct Sale {
    position: u32,
    /// 0: there is none.
    serial: u32,
}

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
        (sale.position == position && sale.serial != 0).then_some(sale.serial)
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
}
