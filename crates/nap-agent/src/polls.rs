//! Polls: which part of the site's own events (`TelePoll`) comes to this node. Those of ticket holders are a gate's.

use mod_nap::shm::segment::Segment;
use nap_core::fleet::claims::in_ppm;
use nap_core::fleet::member::{Member, Presence};
use nap_core::fleet::weights::shares;

/// Tells the events this node's part, by the accesses that have come to the nodes that live.
pub fn share_out(segment: &Segment, members: &[Member], node: u8) {
    if let Some(part) = part_of(members, node) {
        for event in segment.events() {
            event.set_part(part);
        }
    }
}

/// In parts of a million, of all nodes one; None: it is not known yet.
fn part_of(members: &[Member], node: u8) -> Option<u32> {
    let lives = |(_, member): &(usize, &Member)| member.presence() == Some(Presence::Alive);
    let alive: Vec<_> = members.iter().enumerate().filter(lives).collect();
    let lately: Vec<u64> = alive
        .iter()
        .map(|(_, member)| member.share.into())
        .collect();
    let shares = shares(&lately);
    let mine = alive.iter().position(|(at, _)| *at == usize::from(node))?;
    // The least busy have more than comes to them: all parts together are one.
    Some(in_ppm(shares.get(mine)? / shares.iter().sum::<f64>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(shares: &[(Presence, u32)]) -> Vec<Member> {
        let member = |(presence, share): &(Presence, u32)| Member {
            presence: *presence as u32,
            share: *share,
            ..Member::default()
        };
        let all = shares.iter().map(member);
        std::iter::once(Member::default()).chain(all).collect()
    }

    #[test]
    fn all_parts_together_are_one() {
        use Presence::{Alive, Left, Silent};
        let cases: [&[(Presence, u32)]; 5] = [
            &[(Alive, 1_000_000)],
            &[(Alive, 0), (Alive, 0), (Alive, 0)],
            &[(Alive, 800_000), (Alive, 200_000), (Alive, 0)],
            &[(Alive, 500_000), (Silent, 0), (Alive, 500_000), (Left, 0)],
            &[(Alive, 999_999), (Alive, 1), (Alive, 0), (Alive, 0)],
        ];
        for case in cases {
            let all = members(case);
            let lives = |(_, (presence, _)): &(usize, &(Presence, u32))| *presence == Alive;
            let nodes: Vec<usize> = case
                .iter()
                .enumerate()
                .filter(lives)
                .map(|(n, _)| n + 1)
                .collect();
            let parts: Vec<u32> = (nodes.iter())
                .map(|node| part_of(&all, *node as u8).expect("it lives"))
                .collect();
            let sum: u32 = parts.iter().sum();
            assert!((1_000_000..1_000_010).contains(&sum), "{case:?}: {parts:?}");
            let least = 1_000_000 / (4 * nodes.len() as u32) * 4 / 5;
            assert!(
                parts.iter().all(|part| *part >= least),
                "{case:?}: {parts:?}"
            );
        }
        assert_eq!(part_of(&members(&[(Silent, 0)]), 1), None);
        assert_eq!(part_of(&members(&[]), 1), None);
    }
}
