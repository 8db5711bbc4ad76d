//! The queue under several real processes with random kills, without httpd. Processes of several threads each
//! drive accesses over one segment by the code that httpd runs (`room::access`), while their parent kills them, also under the lock or a
//! stripe's latch and midway through a change. It sweeps as the child_status hook does.
//!
//! What must hold is counted independently of the module, in a mapping of the test's own: never more inside
//! than the limit, one at a time at a stripe of debts, first come first served, presented tickets let in,
//! everything free at the end. The test program runs itself again for each process. `NAP_SEED` repeats a
//! run's choices; how the threads meet depends on the machine.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use memmap2::MmapOptions;
use mod_nap::latch;
use mod_nap::layout::Dims;
use mod_nap::shm::debts::Debts;
use mod_nap::shm::futex;
use mod_nap::shm::segment::Segment;
use nap_core::bwshare::till::Books as _;
use nap_core::micros::Micros;
use nap_core::nap::ticket::Ticket;
use nap_core::room::Tables;
use nap_core::room::access::{self, Access, Look, Waiting};
use nap_core::room::arrival::Arrival;
use nap_core::room::children::{self, Parking};
use nap_core::room::owner::{Life, Owner};
use nap_core::room::part::Part;
use nap_core::room::permits::Permits;
use nap_core::room::places::wake;
use nap_core::room::stay::{Asks, Membership};
use nap_core::room::terms::{Choice, Terms, how};
use nap_core::room::verdict::{Reason, Verdict};
use nap_rng::Rng;
use nap_sim::house;
use nap_testkit::long;

const THE_LOCK: u32 = 1;
const A_LATCH: u32 = 2;

const LIMIT: u32 = 3;
const PROCESSES: usize = 4;
const THREADS: u64 = 6;
const DIMS: Dims = Dims {
    children: 8,
    rooms: 1,
    gates: 1,
    places: 64,
    stripes: 2,
    trace_sets: 1,
    untold: 0,
    executors: 0,
    flights: 0,
    session_sets: 2,
    guest_sets: 2,
};

/// The test's own counts, shared by all its processes. All zero at first.
#[repr(C)]
struct Witness {
    /// Number inside: a byte for each process, so that one atomic step enters, leaves, or forgets the dead.
    inside: AtomicU64,
    /// Most inside at once.
    most: AtomicU32,
    /// 1: everything has to end.
    stop: AtomicU32,
    /// Accesses that have run to their end.
    served: AtomicU64,
    /// Of these, after waiting.
    waited: AtomicU64,
    /// Tickets presented in their prime window and let in.
    kept: AtomicU64,
    /// Waiters who left.
    gone: AtomicU64,
    /// What the next to take it has to die under: [`THE_LOCK`] or [`A_LATCH`]; 0: none has to.
    die: AtomicU32,
    /// The process at each stripe of debts: its number + 1; 0: none.
    at_stripe: [AtomicU32; DIMS.stripes as usize],
    /// Processes that have started to die.
    doomed: AtomicU64,
    /// Turns given to accesses that began to wait, under the lock.
    turns: AtomicU64,
    /// The turn at each place.
    turn_of: [AtomicU64; DIMS.places as usize],
}

impl Witness {
    fn map(path: &Path) -> &'static Witness {
        let file = open(path, size_of::<Witness>());
        let map = MmapOptions::new()
            .len(size_of::<Witness>())
            .map_raw(&file)
            .expect("a mapping");
        let start = map.as_mut_ptr().cast::<Witness>();
        std::mem::forget(map);
        // SAFETY: the mapping is shared, page-aligned, as long as a Witness and never unmapped;
        // atomics have no invalid bytes.
        unsafe { &*start }
    }

    fn comes_in(&self, process: usize) {
        let before = self.inside.fetch_add(1 << (8 * process), SeqCst);
        let inside: u32 = before.to_ne_bytes().map(u32::from).iter().sum::<u32>() + 1;
        self.most.fetch_max(inside, SeqCst);
        require(inside <= LIMIT, || {
            format!("{inside} inside, limit {LIMIT}")
        });
    }

    fn goes_out(&self, process: usize) {
        self.inside.fetch_sub(1 << (8 * process), SeqCst);
        self.served.fetch_add(1, SeqCst);
    }

    fn forget(&self, process: usize) {
        self.inside.fetch_and(!(0xff << (8 * process)), SeqCst);
        for at in &self.at_stripe {
            at.compare_exchange(process as u32 + 1, 0, SeqCst, SeqCst)
                .ok();
        }
    }

    /// Whether the caller, which has just taken this, has to die.
    fn dies_under(&self, what: u32) -> bool {
        self.die.load(SeqCst) == what && self.die.compare_exchange(what, 0, SeqCst, SeqCst).is_ok()
    }

    fn ends(&self) -> bool {
        self.stop.load(SeqCst) != 0
    }
}

/// Ends the process, other threads included, if something does not hold.
fn require(holds: bool, what: impl FnOnce() -> String) {
    if !holds {
        eprintln!("{}", what());
        std::process::exit(3);
    }
}

fn open(path: &Path, size: usize) -> File {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path);
    let file = file.expect("a file of our own");
    file.set_len(size as u64).expect("room for it");
    file
}

fn map_segment(dir: &Path) -> Segment {
    let file = open(&dir.join("segment"), DIMS.bytes());
    Segment::map(&file.into(), DIMS.bytes()).expect("a mapping")
}

fn terms() -> Terms {
    let fixed = |n| Choice { how: how::FIXED, n };
    Terms {
        bound: Micros::from_millis(600),
        run_ready: LIMIT,
        history: 100,
        wait_limit: fixed(12),
        slot_period: Micros::from_secs(1),
        slot_tickets: fixed(8),
        lifetime: Micros::from_secs(20),
        prime: Micros::from_secs(2),
        horizon: Micros::from_secs(60),
        per_client: fixed(1000),
        parked: 20,
        ..Terms::default()
    }
}

/// One process: threads that come, wait, run and leave until they are told to end.
struct Process {
    number: usize,
    segment: Segment,
    permits: &'static Permits,
    debts: Debts,
    witness: &'static Witness,
    life: Life,
    serial: AtomicU32,
}

impl Process {
    fn begin(dir: &Path, number: usize) -> Process {
        let segment = map_segment(dir);
        segment.check(Some(DIMS)).expect("the parent's segment");
        let life = segment.child_starts(std::process::id());
        let life = life.expect("fewer children than entries");
        latch::this_is_child(life.child.into());
        Process {
            number,
            segment,
            permits: segment.permits(0).expect("a gate"),
            debts: segment.debts().expect("stripes"),
            witness: Witness::map(&dir.join("witness")),
            life,
            serial: AtomicU32::new(0),
        }
    }

    fn live(&self, buys: bool, mut rng: Rng) {
        let mut ticket = None;
        while !self.witness.ends() {
            let now = self.segment.now();
            ticket = ticket.filter(|ticket: &Ticket| now < ticket.prime_end);
            self.charge(&mut rng);
            self.visit(buys, &mut ticket, &mut rng);
        }
    }

    /// Charges a request of some client.
    fn charge(&self, rng: &mut Rng) {
        let (at, own) = (
            rng.below(DIMS.stripes.into()) as usize,
            self.number as u32 + 1,
        );
        let witness = &self.witness.at_stripe[at];
        let charged = self.debts.at(at, |stripe, _| {
            let other = witness.swap(own, SeqCst);
            require(other == 0, || format!("{own} and {other} at one stripe"));
            if self.witness.dies_under(A_LATCH) {
                self.die_soon(rng);
                // Others want it meanwhile.
                std::thread::sleep(Duration::from_millis(1));
            }
            stripe.counts.requests += 1;
            let other = witness.swap(0, SeqCst);
            require(other == own, || format!("{other} came to {own}'s stripe"));
        });
        require(charged.is_some(), || "a latch that nobody can have".into());
    }

    /// A visitor comes, with their ticket if they have one.
    fn visit(&self, buys: bool, ticket: &mut Option<Ticket>, rng: &mut Rng) {
        let mut house = House::new(self, rng.clone());
        let mut access = Access::new(house.owner);
        access.entered = self.segment.now();
        let prime = ticket.is_some_and(|ticket| self.segment.now() >= ticket.start);
        if !prime && rng.chance(0.5) && access.try_enter(&house) {
            return self.run(access, &mut house, rng);
        }
        // Before it is time, others come most often.
        let carried = Vec::from_iter(ticket.filter(|_| prime || rng.chance(0.001)));
        let mut arrival = Arrival {
            // Few tickets: the claims of many would leave no place to newcomers.
            part: match !carried.is_empty() || (buys && ticket.is_none()) {
                true => Part::Call,
                false => Part::Beside,
            },
            ..self.arrival(house.owner, &carried, rng)
        };
        house.may_die = true;
        let asks = Asks {
            keys: &[],
            starts: false,
        };
        let (verdict, _) = access.enter(&mut house, asks, &mut arrival);
        let verdict = verdict.expect("nobody stops a process here");
        if prime && !matches!(verdict, Verdict::Refuse(_)) {
            self.witness.kept.fetch_add(1, SeqCst);
        }
        match verdict {
            Verdict::Run(_) => {
                ticket.take_if(|_| !carried.is_empty());
                self.run(access, &mut house, rng);
            }
            Verdict::Wait(_) => {
                ticket.take_if(|_| !carried.is_empty());
                house.may_die = false;
                self.wait(access, &mut house, &arrival, ticket, rng);
            }
            Verdict::Refuse(refusal) => {
                let late = carried.iter().any(|t| self.segment.now() >= t.prime_end);
                require(!prime || late, || {
                    format!("a ticket in its prime window met {:?}", refusal.reason)
                });
                if ticket.is_none() || !carried.is_empty() {
                    *ticket = refusal.ticket;
                }
                // A refused visitor reads their page.
                std::thread::sleep(Duration::from_micros(rng.below(3000)));
            }
            Verdict::Ask(name) => require(false, || format!("no fleet, and asks for {name:?}")),
        }
    }

    fn arrival<'t>(&self, owner: Owner, tickets: &'t [Ticket], rng: &mut Rng) -> Arrival<'t> {
        Arrival {
            client: [7; 16],
            client_hash: [rng.below(1 << 20), 1 << 40 | rng.below(1 << 20)],
            secret: [5; 16],
            random: rng.bits(),
            ..house::arrival(owner, tickets)
        }
    }

    fn wait(
        &self,
        mut access: Access,
        house: &mut House<'_>,
        arrival: &Arrival<'_>,
        ticket: &mut Option<Ticket>,
        rng: &mut Rng,
    ) {
        let word = self.segment.wake_word(access.place).expect("its place");
        let impatient = rng.chance(0.05);
        loop {
            let left = (access.until - self.segment.now()).min(Micros::from_millis(100));
            if word.load(SeqCst) == wake::WAITING && left > Micros::ZERO {
                futex::wait(word, wake::WAITING, Duration::from_micros(left.0));
            }
            self.segment.tick_if_due();
            if impatient || self.witness.ends() {
                access.gone(house);
                self.witness.gone.fetch_add(1, SeqCst);
                return;
            }
            if word.load(SeqCst) == wake::WAITING && self.segment.now() < access.until {
                continue;
            }
            match access.look_up(house, arrival) {
                Look::Waits => {}
                Look::Decided(Some(Verdict::Run(_))) => {
                    self.witness.waited.fetch_add(1, SeqCst);
                    return self.run(access, house, rng);
                }
                Look::Decided(Some(Verdict::Refuse(refusal))) => {
                    require(refusal.reason != Reason::Broken, || {
                        "a broken promise".into()
                    });
                    *ticket = ticket.or(refusal.ticket);
                    return;
                }
                look => unreachable!("it waits already, and the lock can be had: {look:?}"),
            }
        }
    }

    /// Waiters in the same line came later; equal deadlines may have been mended either way.
    fn nobody_was_passed(&self, tables: &Tables<'_>, turn: u64, due: Micros) {
        for (at, place) in tables.places.entries.iter().enumerate() {
            let word = tables.places.wake_word(at as u32);
            let waits = place.owner.is_some() && word == wake::WAITING;
            let other = self.witness.turn_of[at].load(SeqCst);
            require(!waits || other >= turn || place.deadline >= due, || {
                format!("turn {turn} runs before {other}, whose deadline is earlier")
            });
        }
    }

    fn run(&self, mut access: Access, house: &mut House<'_>, rng: &mut Rng) {
        self.witness.comes_in(self.number);
        std::thread::sleep(Duration::from_micros(rng.below(600)));
        self.witness.goes_out(self.number);
        require(self.permits.holds(access.permit, access.owner), || {
            "not its own permit".into()
        });
        house.may_die = true;
        if access.leave_at_once(house).is_none() {
            access.leave(house);
        }
    }

    /// Under the lock: the whole process is killed within 40 us: before, while or just after the tables
    /// change.
    fn die_soon(&self, rng: &mut Rng) {
        self.witness.doomed.fetch_add(1, SeqCst);
        // SAFETY: all zero is a sigevent; timer and specification live for the calls; SIGKILL runs
        // no code of ours.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_SIGNAL;
            event.sigev_signo = libc::SIGKILL;
            let mut timer = std::mem::zeroed();
            let mut soon: libc::itimerspec = std::mem::zeroed();
            soon.it_value.tv_nsec = 1 + rng.below(40_000) as libc::c_long;
            let made = libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer);
            let set = libc::timer_settime(timer, 0, &raw const soon, std::ptr::null_mut());
            require((made, set) == (0, 0), || "no timer".into());
        }
    }
}

/// What an access finds around it in a process of this test; the witness looks on under the lock.
struct House<'p> {
    process: &'p Process,
    owner: Owner,
    /// The process may be told to die the next time this access has the lock.
    may_die: bool,
    rng: Rng,
}

impl House<'_> {
    fn new(process: &Process, rng: Rng) -> House<'_> {
        let serial = process.serial.fetch_add(1, SeqCst);
        House {
            process,
            owner: Owner::new(process.life, serial),
            may_die: false,
            rng,
        }
    }

    /// The place that this access has, and its deadline.
    fn place(&self, tables: &Tables<'_>) -> Option<(usize, Micros)> {
        let mut places = tables.places.entries.iter().enumerate();
        let (at, place) = places.find(|(_, place)| place.owner == self.owner)?;
        Some((at, place.deadline))
    }

    fn runs(&self) -> bool {
        (0..LIMIT).any(|permit| self.process.permits.holds(permit, self.owner))
    }
}

impl access::House for House<'_> {
    fn now(&self) -> Micros {
        self.process.segment.now()
    }

    fn next_owner(&self) -> Owner {
        self.owner
    }

    fn page(&self) -> u32 {
        0
    }

    fn permits(&self) -> &Permits {
        self.process.permits
    }

    fn child(&self) -> &children::Child {
        &self.process.segment.children()[usize::from(self.process.life.child)]
    }

    fn waiting(&self) -> Waiting {
        Waiting::Told(Parking::Anybody)
    }

    fn outside(&self, _: Micros) -> Option<u32> {
        None
    }

    fn absent(&self) -> u32 {
        0
    }

    fn locked<R>(&mut self, act: impl FnOnce(&mut Tables<'_>) -> R) -> Option<R> {
        let (process, witness) = (self.process, self.process.witness);
        let dies = self.may_die && witness.dies_under(THE_LOCK);
        process.segment.locked(|tables| {
            if dies {
                process.die_soon(&mut self.rng);
            }
            let before = self.place(tables);
            let result = act(tables);
            match (before, self.place(tables)) {
                (None, Some((at, _))) => {
                    let turn = witness.turns.fetch_add(1, SeqCst) + 1;
                    witness.turn_of[at].store(turn, SeqCst);
                }
                (Some((at, due)), None) if self.runs() => {
                    let turn = witness.turn_of[at].load(SeqCst);
                    process.nobody_was_passed(tables, turn, due);
                }
                _ => {}
            }
            result
        })
    }

    fn members<R>(
        &mut self,
        act: impl FnOnce(&mut Membership<'_>, &dyn Fn() -> Micros) -> R,
    ) -> Option<R> {
        let segment = &self.process.segment;
        segment.locked_sessions(|members| act(members, &|| segment.now()))
    }
}

/// The parent: starts, kills, sweeps.
struct Parent {
    dir: PathBuf,
    segment: Segment,
    witness: &'static Witness,
    children: Vec<Child>,
    rng: Rng,
    deaths: u32,
}

impl Parent {
    fn begin(seed: u64) -> Parent {
        let name = format!("mod_nap-processes-{}-{seed}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&dir).expect("a directory of our own");
        let segment = map_segment(&dir);
        segment.format(DIMS).expect("a fresh file");
        let debts = segment.debts().expect("stripes");
        debts.init().expect("locks");
        segment.locked(|tables| {
            (tables.gates[0].kind, tables.gates[0].terms) = (1, terms());
            tables.permits[0].set_limit(LIMIT);
        });
        let mut parent = Parent {
            segment,
            witness: Witness::map(&dir.join("witness")),
            dir,
            children: Vec::new(),
            rng: Rng::new(seed, 0),
            deaths: 0,
        };
        for number in 0..PROCESSES {
            let child = parent.start(number);
            parent.children.push(child);
        }
        parent
    }

    fn start(&mut self, number: usize) -> Child {
        Command::new(std::env::current_exe().expect("the test program"))
            .args(["one_process_of_several", "--exact", "--nocapture"])
            .env("NAP_PROCESS", number.to_string())
            .env("NAP_PROCESS_DIR", &self.dir)
            .env("NAP_PROCESS_SEED", self.rng.bits().to_string())
            .stdout(Stdio::null())
            .spawn()
            .expect("the test program runs again")
    }

    /// The child_status hook: it sees a death, takes its things back, and starts another process.
    fn reap(&mut self) {
        for number in 0..PROCESSES {
            let Some(status) = self.children[number].try_wait().expect("our own child") else {
                continue;
            };
            assert_eq!(status.code(), None, "a process has found a fault");
            self.deaths += 1;
            self.sweep(number);
            self.children[number] = self.start(number);
        }
    }

    /// The witness forgets the dead first: until the sweep their permits are taken.
    fn sweep(&mut self, number: usize) {
        self.witness.forget(number);
        self.segment.child_ends(self.children[number].id());
    }

    /// Lets `accesses` more be served, reaping meanwhile. Without any progress over thousands of looks, each
    /// of them a chance for every process to run, there is a deadlock.
    fn let_pass(&mut self, accesses: u64) {
        let from = self.witness.served.load(SeqCst);
        let (mut last, mut idle) = (from, 0);
        while last < from + accesses {
            std::thread::sleep(Duration::from_millis(2));
            self.reap();
            let now = self.witness.served.load(SeqCst);
            idle = if now == last { idle + 1 } else { 0 };
            last = now;
            assert!(idle < 10_000, "nobody is served any more");
        }
    }

    fn kill_one(&mut self) {
        if self.rng.chance(0.6) {
            let under = if self.rng.chance(0.5) {
                THE_LOCK
            } else {
                A_LATCH
            };
            return self.witness.die.store(under, SeqCst);
        }
        let number = self.rng.below(PROCESSES as u64) as usize;
        self.children[number].kill().expect("our own child");
    }

    fn end(mut self) {
        self.witness.stop.store(1, SeqCst);
        for number in 0..PROCESSES {
            let status = self.children[number].wait().expect("our own child");
            let fine = status.success() || status.code().is_none();
            assert!(fine, "a process has found a fault: {status}");
            self.sweep(number);
        }
        self.all_is_free();
        std::fs::remove_dir_all(&self.dir).ok();
    }

    fn all_is_free(&self) {
        let permits = self.segment.permits(0).expect("a gate");
        assert_eq!((permits.running(), permits.waiting()), (0, 0));
        self.segment.locked(|tables| {
            let taken = tables.places.entries.iter().filter(|p| p.owner.is_some());
            assert_eq!(taken.count(), 0, "places left over");
            assert!(tables.places.sound(tables.gates.iter().map(|g| &g.queue)));
            assert_eq!(tables.gates[0].counts.broken, 0);
        });
        let debts = self.segment.debts().expect("stripes");
        let charged = (0..debts.stripes()).filter_map(|at| debts.at(at, |s, _| s.counts.requests));
        assert!(charged.clone().count() == debts.stripes() && charged.sum::<u64>() > 100);
        let life = self.segment.child_starts(1).expect("a free entry");
        let free = (1..20).filter(|&serial| permits.claim(Owner::new(life, serial)).is_some());
        assert_eq!(free.count() as u32, LIMIT, "every permit is there");
    }
}

#[test]
fn one_process_of_several() {
    let of = |name: &str| std::env::var(name).ok();
    let (Some(number), Some(dir)) = (of("NAP_PROCESS"), of("NAP_PROCESS_DIR")) else {
        return;
    };
    // SAFETY: prctl reads its arguments only: nobody outlives the parent.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let number = number.parse().expect("the parent's");
    let seed = of("NAP_PROCESS_SEED").and_then(|s| s.parse().ok());
    let process = Process::begin(Path::new(&dir), number);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let rng = Rng::new(seed.expect("the parent's"), thread);
            let process = &process;
            scope.spawn(move || process.live(thread == 0, rng));
        }
    });
}

#[test]
fn random_kills_break_neither_limit_nor_order_nor_promise_and_lose_nothing() {
    let seed = std::env::var("NAP_SEED").ok().and_then(|s| s.parse().ok());
    let seed = seed.unwrap_or(u64::from(std::process::id()));
    eprintln!("NAP_SEED={seed}");
    let kills = if long() { 400 } else { 25 };
    let mut parent = Parent::begin(seed);
    for _ in 0..kills {
        let accesses = 20 + parent.rng.below(200);
        parent.let_pass(accesses);
        parent.kill_one();
    }
    // Tickets become good only after a while.
    let enough = if long() { 200 } else { 8 };
    while parent.witness.kept.load(SeqCst) < enough {
        parent.let_pass(100);
    }
    let (witness, deaths) = (parent.witness, parent.deaths);
    let [served, waited, kept, gone, doomed] = [
        &witness.served,
        &witness.waited,
        &witness.kept,
        &witness.gone,
        &witness.doomed,
    ]
    .map(|count| count.load(SeqCst));
    let mended = parent
        .segment
        .locked(|tables| tables.gates[0].counts.mended);
    eprintln!(
        "{deaths} died, {doomed} of them to die under the lock ({mended:?} mended); {served} \
         served, {waited} after waiting, {gone} left, {kept} tickets kept"
    );
    assert_eq!(witness.most.load(SeqCst), LIMIT, "full, and never over");
    assert!(deaths > kills / 2 && doomed > 0 && waited > 100 && gone > 0);
    parent.end();
}
