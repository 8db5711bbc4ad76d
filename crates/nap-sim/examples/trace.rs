use nap_sim::fleet::{Fleet, check};
fn main() {
    let seed: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let most: u64 = std::env::args()
        .nth(2)
        .unwrap_or("60000".into())
        .parse()
        .unwrap();
    let setup = check::random(
        seed,
        std::env::args()
            .nth(3)
            .unwrap_or("20".into())
            .parse()
            .unwrap(),
    );
    println!(
        "nodes {} bound {:?} c {} cores {} mean {} workers {:?} load {:?} clients {} posts {} returns {:?} balancer {:?} delay {:?} apart {:?} manners {:?}",
        setup.nodes,
        setup.terms.bound,
        setup.terms.run_ready,
        setup.cores,
        setup.service.mean_s,
        setup.workers,
        setup.arrivals,
        setup.clients,
        setup.posts,
        setup.returns,
        setup.balancer,
        setup.delay,
        setup.apart,
        setup.manners
    );
    println!(
        "X a node {:.1} L {:.0}",
        setup.cores / setup.service.mean_s,
        setup.cores / setup.service.mean_s * setup.terms.bound.as_secs_f64()
    );
    println!("faults {:?}", setup.faults);
    let mut f = Fleet::new(setup);
    let mut last = 0;
    while f.happened < most && f.step() {
        let s = f.elapsed().0 / 1_000_000;
        if s != last {
            last = s;
            let c = &f.counts;
            print!(
                "{s:4} served {} pres {} kept {} slow {} def {} brok {} stood {} tk {}",
                c.served, c.presented, c.kept, c.slow, c.deferred, c.broken, c.stood, c.tickets
            );
            for n in f.nodes() {
                let g = &n.state.gate();
                let p = n.state.permits();
                let st = &n.state;
                let mut k = [0; 5];
                for (i, pl) in st.places().iter().enumerate() {
                    if pl.owner.is_some() && st.wake_word(i as u32) == 1 {
                        let l = pl.line as usize;
                        k[if l == 0 && pl.prime != 0 { 3 } else { l.min(2) }] += 1;
                        if pl.entered
                            < n.inside(nap_core::micros::Micros(100_000_000_000) + f.elapsed())
                        {
                        }
                    }
                }
                print!(
                    " {k:?} x {:.1} bk {} df {} ga {} ra {} late {}",
                    g.rate(p),
                    g.counts.broken,
                    g.counts.deferred,
                    g.counts.deferred_twice,
                    g.counts.re_access,
                    g.counts.late
                );
                print!(
                    " | {}{} run {} wait {} out {} back {} bears {} borne {} F {} prime {:.1}",
                    n.number,
                    if n.lives { "" } else { "x" },
                    p.running(),
                    p.waiting(),
                    p.outstanding(),
                    n.backlog.len(),
                    n.agent.gate.rights,
                    g.borne,
                    n.state.stakes[0].nodes,
                    0.0
                );
            }
            println!();
        }
    }
    f.ends();
    println!("{:?}", f.oracle.failure);
    println!(
        "broken {} deferred {} presented {}",
        f.counts.broken, f.counts.deferred, f.counts.presented
    );
}
