//! An access and its session: what it has used is paid to it, its name, its end.

use super::{Access, AccessState, House, flag};
use crate::micros::Micros;
use crate::room::starts::End;
use crate::room::stay::{Membership, Stay};

impl Access {
    /// Time in Run Ready that its session does not have yet; zero: it has had no permit.
    fn work(&self, now: Micros) -> Micros {
        let is_paid = matches!(self.state, AccessState::Detached | AccessState::Returning);
        match self.granted {
            granted if granted == Micros::ZERO || is_paid => Micros::ZERO,
            granted => now - granted,
        }
    }

    /// It is an access of its session's no more. `ended`: when it ended, or zero.
    pub(super) fn leave_session(&mut self, house: &mut impl House, ended: Micros) {
        let Some(at) = self.session.checked_sub(1) else {
            return;
        };
        let access = &*self;
        let ended = |now: &dyn Fn() -> Micros| match ended {
            Micros::ZERO => now(),
            ended => ended,
        };
        if !self.has(flag::BEGUN) {
            house.members(|members, now| {
                let now = ended(now);
                let work = access.work(now);
                members.sessions.leave(at, access.owner.0, work, now);
            });
            self.session = 0;
            return;
        }
        self.at_session(house, |access, members, stay, now| {
            let now = ended(now);
            members.leave(stay, access.owner, access.work(now), now);
        });
    }

    /// An operation on the session of an access whose room has them.
    fn at_session(
        &mut self,
        house: &mut impl House,
        act: impl FnOnce(&Access, &mut Membership<'_>, &mut Stay, &dyn Fn() -> Micros),
    ) {
        let Some(mut stay) = self.stay(house) else {
            return;
        };
        house.members(|members, now| act(self, members, &mut stay, now));
        self.put_stay(Some(stay));
    }

    /// Its permit is back and its answer still on its way: the work is its session's already.
    #[cold]
    pub(super) fn pay_session(&self, house: &mut impl House, now: Micros) {
        let Some(at) = self.session.checked_sub(1) else {
            return;
        };
        house.members(|members, clock| {
            let now = match now {
                Micros::ZERO => clock(),
                now => now,
            };
            let work = self.work(now);
            members.sessions.pay(at, self.owner.0, work, now);
        });
    }

    /// What its visitor will present is this key: of the session that it has begun, or of its session anew.
    pub fn name_session(&mut self, house: &mut impl House, key: u64) {
        self.at_session(house, |access, members, stay, now| {
            members.name(stay, access.owner, key, now());
        });
    }

    /// Its answer says that its session is over.
    pub fn end_session(&mut self, house: &mut impl House) {
        self.at_session(house, |access, members, stay, now| {
            members.end(stay, access.owner, access.work(now()), End::Finished);
        });
    }
}
