//! A fleet that runs through a plan, on one thread and on simulated time.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tollgate::{RateLimitLayer, Transaction};

use crate::{
    caller::Caller,
    check, limits,
    network::{Network, SharedNetwork, Way, lock},
    plan::{Event, MILLI, Patience, Plan, Setup, Stack},
    process::Process,
    random::Random,
    record::{Record, SharedRecord},
    server::Health,
};

/// The longest step while something happens, and while nothing does.
pub(crate) const STEPS: (u64, u64) = (5 * MILLI, 20 * MILLI);

/// A caller that is not polled for so long may miss its deadline.
const STALL: u64 = 20 * MILLI;

/// How long the fleet has after its recovery, to give back and to pay what it owes.
const REST: u64 = 6_000 * MILLI;

pub(crate) struct Fleet {
    pub(crate) setup: Arc<Setup>,
    pub(crate) now: u64,
    pub(crate) processes: Vec<Process>,
    pub(crate) network: SharedNetwork,
    pub(crate) record: SharedRecord,
    pub(crate) random: Random,
    /// For each process, the version of its limits, when it began.
    pub(crate) versions: Vec<Vec<(u64, usize)>>,
    /// When faults began that are published to let too much pass: to which process and to which server.
    pub(crate) incidents: Vec<(u64, Incident)>,
    /// Servers that have not always answered, and processes that have stood still or were closed.
    pub(crate) troubled_servers: BTreeSet<usize>,
    pub(crate) troubled_processes: BTreeSet<usize>,
    /// Processes whose runtimes end with the next answer, after so many polls.
    pub(crate) ends: BTreeMap<usize, usize>,
    /// Processes that start again, and when.
    pub(crate) starts: BTreeMap<(u64, usize), usize>,
}

/// A fault that the bounds name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Incident {
    /// A server has lost data.
    Loss(usize),
    /// A clock was set, of a process or of a server.
    Clock,
    /// A process was killed.
    Kill(usize),
    /// The runtime of a process ended.
    Runtime(usize),
    /// Many clients of a limit that never come again.
    Flood(usize),
    /// Anything else that can make a process decide without the store.
    Outage,
}

/// Runs a plan, and returns what went wrong.
pub(crate) fn run(plan: &Plan) -> Vec<String> {
    Fleet::new(plan).run(plan)
}

/// Runs a plan, and returns what went wrong and what the store has decided.
pub(crate) fn trace(plan: &Plan) -> (Vec<String>, Vec<String>) {
    let fleet = Fleet::new(plan);
    let network = Arc::clone(&fleet.network);
    lock(&network).ledger.trace = Some(Vec::new());
    let problems = fleet.run(plan);
    let trace = lock(&network).ledger.trace.take();
    (problems, trace.unwrap_or_default())
}

impl Fleet {
    fn new(plan: &Plan) -> Self {
        let setup = Arc::new(plan.setup.clone());
        let mut random = Random::new(plan.seed ^ 0x5eed);
        let limits = setup.limits.iter().enumerate();
        let lines = limits.filter(|(_, named)| named.versions.iter().any(|terms| terms.has_line()));
        let lines = lines.map(|(place, _)| limits::number(place)).collect();
        let random_network = Random::new(random.bits());
        let network = Network::new(setup.processes, setup.servers, lines, random_network);
        let network = Arc::new(Mutex::new(network));
        let mut processes = Vec::new();
        for place in 0..setup.processes {
            let mut process = Process::new(place, Random::new(random.bits()));
            process.clock.set_ahead(setup.ahead[place]);
            process.start(0, &setup, &network, 0);
            processes.push(process);
        }
        Self {
            now: 0,
            versions: vec![vec![(0, 0)]; setup.processes],
            setup,
            processes,
            network,
            record: SharedRecord::default(),
            random,
            incidents: Vec::new(),
            troubled_servers: BTreeSet::new(),
            troubled_processes: BTreeSet::new(),
            ends: BTreeMap::new(),
            starts: BTreeMap::new(),
        }
    }

    fn run(mut self, plan: &Plan) -> Vec<String> {
        self.play(&plan.events);
        self.recover();
        self.rest(REST);
        check::check(&mut self);
        let problems = std::mem::take(&mut self.record().problems);
        for process in &mut self.processes {
            process.kill();
        }
        problems
    }

    pub(crate) fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn play(&mut self, events: &[(u64, Event)]) {
        let end = self.setup.end;
        // A fault can be drawn to last beyond the end. It is over then as well.
        for (at, event) in events.iter().take_while(|(at, _)| *at < end) {
            self.run_until(*at, STEPS.0);
            self.happen(event);
        }
        self.run_until(end, STEPS.0);
    }

    /// Runs all processes and the network until an instant.
    pub(crate) fn run_until(&mut self, until: u64, longest: u64) {
        while self.now < until {
            let arrival = lock(&self.network).next_arrival();
            let start = self.starts.keys().next().map(|(at, _)| *at);
            let next = [arrival, start, Some(until)].into_iter().flatten().min();
            let next = next.unwrap_or(until).min(self.now + longest);
            // The timers of the runtimes count milliseconds.
            let next = next.div_ceil(MILLI).max(self.now / MILLI + 1) * MILLI;
            self.step(next);
        }
    }

    fn step(&mut self, until: u64) {
        self.now = until;
        self.start_due();
        let first = self.random.index(self.processes.len());
        for turn in 0..self.processes.len() {
            let place = (first + turn) % self.processes.len();
            let process = &mut self.processes[place];
            if process.is_paused && process.away_until <= until {
                process.go_on(until);
            }
            process.run(until);
        }
        let answered = lock(&self.network).deliver(until);
        for process in answered {
            if let Some(polls) = self.ends.remove(&process) {
                self.end_runtime(process, polls);
            }
        }
    }

    fn start_due(&mut self) {
        while let Some(((at, place), version)) = self.starts.pop_first() {
            if at > self.now {
                self.starts.insert((at, place), version);
                return;
            }
            let now = self.now;
            self.processes[place].start(now, &self.setup, &self.network, version);
            self.versions[place].push((now, version));
        }
    }

    pub(crate) fn caller(&self, process: usize) -> Option<Caller> {
        let place = process;
        let process = &self.processes[place];
        let limiter = process.limiter.clone().filter(|_| process.runs())?;
        Some(Caller {
            setup: Arc::clone(&self.setup),
            process: place,
            version: process.version,
            limiter,
            clock: Arc::clone(&process.clock),
            network: Arc::clone(&self.network),
            record: Arc::clone(&self.record),
        })
    }

    fn happen(&mut self, event: &Event) {
        match event {
            Event::Call(process, call) => {
                let call = call.clone();
                // A caller that is not polled until its deadline is answered without the store.
                if matches!(call.patience, Patience::Stalls(STALL..)) {
                    self.incident(Incident::Outage);
                }
                self.spawn(*process, |caller, _| caller.make(call));
            }
            Event::Visit(process, visit) => {
                let visit = visit.clone();
                self.spawn(*process, |caller, layer| caller.visit(layer, visit));
            }
            Event::Work(process, work) => {
                let work = work.clone();
                self.spawn(*process, |caller, _| caller.work(work));
            }
            Event::Flood(process, place, clients) => {
                self.incident(Incident::Flood(*place));
                self.spawn(*process, |caller, _| caller.flood(*place, *clients));
            }
            Event::Reset(process, place, id) => self.reset(*process, *place, id),
            Event::Close(process) => {
                self.processes[*process].is_closed = true;
                self.troubled_processes.insert(*process);
                self.spawn(*process, |caller, _| async move {
                    let _ = caller.limiter.close().await;
                });
            }
            Event::Look(process) => check::look(self, *process),
            Event::Reload(process, version) => self.reload(*process, *version),
            Event::Kill(process, version, away) => self.kill(*process, *version, *away),
            Event::Pause(process, lasts) => self.pause(*process, *lasts),
            Event::RuntimeEnds(process, polls) => self.end_runtime(*process, *polls),
            Event::RuntimeEndsThen(process, polls) => drop(self.ends.insert(*process, *polls)),
            Event::ClockLeaps(process, us) => {
                self.incident(Incident::Clock);
                self.processes[*process].clock.leap(*us);
            }
            event => self.happen_at_store(event),
        }
    }

    /// Spawns a task in a process that runs.
    fn spawn<F>(&self, process: usize, task: impl FnOnce(Caller, RateLimitLayer) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let layer = self.processes[process].layer.clone();
        if let Some((caller, layer)) = self.caller(process).zip(layer) {
            self.processes[process].spawn(task(caller, layer));
        }
    }

    fn reset(&mut self, process: usize, place: usize, id: &str) {
        if self.setup.stack == Stack::Memory {
            let bucket = (limits::number(place), id.to_owned());
            lock(&self.network).ledger.of(bucket).resets += 1;
        }
        let id = id.to_owned();
        self.spawn(process, |caller, _| async move {
            let name = limits::name(place);
            let _ = caller.limiter.reset(&[Transaction::new(&*name, &id)]).await;
        });
    }

    fn happen_at_store(&mut self, event: &Event) {
        let now = self.now;
        self.incident(match event {
            Event::LosesAll(server) | Event::FailsOver(server, ..) => Incident::Loss(*server),
            _ => Incident::Outage,
        });
        self.troubled_servers.extend(event.server());
        let mut network = lock(&self.network);
        match event {
            Event::Health(server, Health::Up) => network.go_on(now, *server),
            Event::Health(server, health) => {
                network.servers[*server].health = *health;
                if *health == Health::Down {
                    network.disconnect(*server);
                }
            }
            Event::LosesAll(server) => {
                network.disconnect(*server);
                network.servers[*server].lose_all();
                network.given_back.push((now, None, None));
            }
            Event::FailsOver(server, lost, ahead) => {
                network.disconnect(*server);
                let number = network.new_number();
                let server = &mut network.servers[*server];
                server.fail_over(number, *lost);
                server.ahead += *ahead;
                network.given_back.push((now, None, None));
            }
            Event::Way(process, server, way) => {
                let cut_until = network.ways[*process][*server].cut_until;
                network.ways[*process][*server] = Way { cut_until, ..*way };
            }
            Event::Cut(process, server, lasts) => {
                network.ways[*process][*server].cut_until = now + lasts;
            }
            _ => {}
        }
    }

    pub(crate) fn incident(&mut self, incident: Incident) {
        self.incidents.push((self.now, incident));
    }

    fn reload(&mut self, place: usize, version: usize) {
        let process = &mut self.processes[place];
        let Some(limiter) = process.limiter.clone() else {
            return;
        };
        let limits = limits::of_version(&self.setup.limits, version, self.setup.on_failure);
        process.version = version;
        limiter.reload(limits).expect("no rule uses them");
        self.versions[place].push((self.now, version));
    }

    fn kill(&mut self, place: usize, version: usize, away: u64) {
        if !self.processes[place].runs() {
            return;
        }
        self.incident(Incident::Kill(place));
        self.processes[place].kill();
        self.starts
            .insert((self.now + away.max(MILLI), place), version);
    }

    fn end_runtime(&mut self, place: usize, polls: usize) {
        self.incident(Incident::Runtime(place));
        self.processes[place].end_runtime(self.now, polls);
    }

    fn pause(&mut self, place: usize, lasts: u64) {
        let process = &mut self.processes[place];
        if !process.runs() {
            return;
        }
        process.is_paused = true;
        self.troubled_processes.insert(place);
        process.away_until = self.now + lasts;
        let pause = (place, self.now, self.now + lasts);
        lock(&self.network).pauses.push(pause);
        self.incident(Incident::Outage);
    }

    /// Lets time pass.
    pub(crate) fn rest(&mut self, us: u64) {
        let step = if us < REST { STEPS.0 } else { STEPS.1 };
        self.run_until(self.now + us, step);
    }
}
