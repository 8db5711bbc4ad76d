use nap_rng::Rng;
use nap_sim::fleet::{Fleet, check};
fn main() {
    let arg = |n: usize| -> u64 { std::env::args().nth(n).unwrap().parse().unwrap() };
    let (seed, family, worlds, most) = (arg(1), arg(2), arg(3), arg(4) as u8);
    let mut rng = Rng::new(seed, 0);
    let (mut pres, mut brok, mut def, mut served, mut bad, mut stood) = (0, 0, 0, 0, 0, 0);
    for _ in 0..worlds {
        let w = (rng.bits() >> 18) * 4 + family;
        let mut f = Fleet::new(check::random(w, most));
        while f.happened < 60_000 && f.step() {}
        f.ends();
        pres += f.counts.presented;
        brok += f.counts.broken;
        def += f.counts.deferred;
        served += f.counts.served;
        stood += f.counts.stood;
        if f.counts.broken > 0 || f.oracle.failure.is_some() {
            bad += 1;
            println!(
                "world {w} nodes {} broken {} of {} deferred {} stood {:?} {:?}",
                f.setup().nodes,
                f.counts.broken,
                f.counts.presented,
                f.counts.deferred,
                f.counts.stood_longest,
                f.oracle.failure
            );
        }
    }
    println!(
        "family {family} seed {seed}: worlds {worlds} bad {bad} presented {pres} broken {brok} deferred {def} served {served} stood {stood}"
    );
}
