//! A fleet that runs through a plan, on one thread and on simulated time.

use std::{
    rc::Rc,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::{runtime::Builder, time::sleep, time::sleep_until};
use tollgate::testing::simulate;

use crate::{
    check,
    clock::SimulatedClock,
    log::Log,
    network::Network,
    plan::{Event, Fault, MILLI, Plan, Setup},
    process::Process,
    record::Record,
};

pub(crate) struct Fleet {
    pub(crate) plan: Arc<Plan>,
    /// The clock of all processes. That of the store is the network's.
    pub(crate) clock: Arc<SimulatedClock>,
    pub(crate) network: Arc<Network>,
    pub(crate) record: Arc<Mutex<Record>>,
    pub(crate) log: Log,
    pub(crate) processes: Vec<Process>,
    /// When a process that was killed starts again.
    starts: Vec<(u64, usize)>,
}

/// Runs a plan, and returns its problems and all questions to the store.
pub(crate) fn run(plan: &Plan) -> (Vec<String>, Vec<String>) {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("there is memory for it");
    let clock = runtime.block_on(async { Arc::new(SimulatedClock::new()) });
    let shown = Arc::clone(&clock);
    let log = Log::default();
    let writer = log.clone();
    // The log, as an operator would see it.
    let subscriber = tracing_subscriber::fmt().with_ansi(false);
    let subscriber = subscriber.with_writer(move || writer.clone());
    let _logged = tracing::subscriber::set_default(subscriber.finish());
    simulate(Rc::new(move || shown.now()), plan.seed, || {
        runtime.block_on(async {
            let mut fleet = Fleet::new(plan, clock, log);
            fleet.play().await;
            check::check(&mut fleet).await;
            let problems = std::mem::take(&mut fleet.record().problems);
            (problems, fleet.network.take_trace())
        })
    })
}

impl Fleet {
    fn new(plan: &Plan, clock: Arc<SimulatedClock>, log: Log) -> Self {
        let setup = &plan.setup;
        let store_clock = Arc::new(SimulatedClock::new());
        let network = Network::new(store_clock, plan.seed, setup);
        let (plan, network, record) = (Arc::new(plan.clone()), Arc::new(network), Arc::default());
        let processes = 0..plan.setup.processes;
        let processes = processes.map(|place| Process::start(place, &plan, &network, &record));
        Self {
            processes: processes.collect(),
            plan,
            clock,
            log,
            network,
            record,
            starts: Vec::new(),
        }
    }

    pub(crate) fn setup(&self) -> &Setup {
        &self.plan.setup
    }

    pub(crate) fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap()
    }

    async fn play(&mut self) {
        let plan = Arc::clone(&self.plan);
        for (at, event) in &plan.events {
            self.run_until(*at).await;
            self.happen(event);
        }
        self.run_until(plan.setup.end).await;
        // Killed processes have started again by then.
        self.run_until(plan.setup.end + 3_000 * MILLI).await;
    }

    async fn run_until(&mut self, at: u64) {
        while let Some(next) = self.starts.iter().min().copied()
            && next.0 <= at
        {
            sleep_until(self.clock.instant(next.0)).await;
            self.starts.retain(|start| *start != next);
            self.start(next.1);
        }
        sleep_until(self.clock.instant(at)).await;
    }

    fn happen(&mut self, event: &Event) {
        let now = self.clock.world();
        match event.clone() {
            Event::Call(process, call) => self.spawn(process, |caller| caller.call(call)),
            Event::Work(process, work) => self.spawn(process, |caller| caller.work(work)),
            Event::Clients(process, place) => {
                for _ in 0..self.setup().limits[place].terms.most {
                    self.spawn(process, |caller| caller.visit(place, now));
                }
            }
            Event::Refund(process, place) => {
                self.spawn(process, |caller| caller.refunds(place, now));
            }
            Event::Reset(process, bucket) => self.spawn(process, |caller| caller.reset(bucket)),
            Event::Crowd(process, bucket) => {
                self.fault(now);
                self.spawn(process, |caller| caller.crowd(bucket));
            }
            Event::Close(process) => self.spawn(process, |caller| async move {
                let _ = caller.limiter.close().await;
            }),
            Event::Kill(process, away) => self.kill(process, now + away),
            Event::Clock(by) => {
                self.fault(now);
                self.clock.step(i64::try_from(by).unwrap());
            }
            Event::Fault(lasts, fault) => {
                self.fault(now);
                if let Fault::Down { loses_data: true } = fault {
                    self.record().data_losses.push(now);
                }
                self.network.fail(fault, lasts);
            }
        }
    }

    fn fault(&self, now: u64) {
        self.record().first_fault.get_or_insert(now);
    }

    /// Runs a task as a caller of a process, unless the process is down.
    fn spawn<F>(&mut self, process: usize, task: impl FnOnce(crate::caller::Caller) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if self.starts.iter().all(|(_, away)| *away != process) {
            self.processes[process].spawn(task);
        }
    }

    /// Kills a process. Its messages under way never arrive.
    fn kill(&mut self, process: usize, until: u64) {
        if self.starts.iter().any(|(_, away)| *away == process) {
            return;
        }
        self.fault(self.clock.world());
        self.network.kill(process);
        self.starts.push((until, process));
        self.processes[process].abort();
        let permits = &mut self.record().permits;
        permits.retain(|_, held| held.process != process);
    }

    fn start(&mut self, process: usize) {
        let now = self.clock.world();
        self.processes[process] = Process::start(process, &self.plan, &self.network, &self.record);
        self.record().restarts.push((now, process));
    }

    pub(crate) async fn rest(&self, millis: u64) {
        sleep(Duration::from_millis(millis)).await;
    }
}
