//! An access and its session: what it has used is paid to it, its name, its end.

use super::{Access, House, State};
use crate::micros::Micros;
use crate::room::starts::End;

impl Access {
    /// Time in Run Ready; zero: it has had no permit.
    fn work(&self, now: Micros) -> Micros {
        match self.granted {
            Micros::ZERO => Micros::ZERO,
            granted => now - granted,
        }
    }

    /// It is an access of its session's no more. `ended`: when it ended, or zero.
    pub(super) fn leave_session(&mut self, house: &mut impl House, ended: Micros) {
        if self.session == 0 {
            return;
        }
        let mut access = *self;
        if matches!(access.state, State::Detached | State::Returning) {
            access.granted = Micros::ZERO; // paid
        }
        let Some(mut stay) = self.stay(house) else {
            return;
        };
        let now = match ended {
            Micros::ZERO => house.now(),
            ended => ended,
        };
        house.members(|members| members.leave(&mut stay, access.owner, access.work(now), now));
        self.put_stay(&stay);
    }

    /// Its permit is back and its answer still on its way: the work is its session's already.
    #[cold]
    pub(super) fn pay_session(&mut self, house: &mut impl House, now: Micros) {
        let Some(at) = self.session.checked_sub(1) else {
            return;
        };
        let access = *self;
        let now = match now {
            Micros::ZERO => house.now(),
            now => now,
        };
        let work = access.work(now);
        house.members(|members| members.sessions.pay(at, access.owner.0, work, now));
    }

    /// What its visitor will present is this key: of the session that it has begun, or of its session anew.
    pub fn name_session(&mut self, house: &mut impl House, key: u64) {
        let (owner, now, Some(mut stay)) = (self.owner, house.now(), self.stay(house)) else {
            return;
        };
        let named = house.members(|members| members.name(&mut stay, owner, key, now));
        if named.is_some() {
            self.put_stay(&stay);
        }
    }

    /// Its answer says that its session is over.
    pub fn end_session(&mut self, house: &mut impl House) {
        let (access, Some(mut stay)) = (*self, self.stay(house)) else {
            return;
        };
        let work = access.work(house.now());
        house.members(|members| members.end(&mut stay, access.owner, work, End::Finished));
        self.put_stay(&stay);
    }
}
