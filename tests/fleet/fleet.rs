//! A fleet that runs through a plan, on one thread and on simulated time.

use std::{rc::Rc, sync::Arc};

use tokio::{runtime::Builder, time::sleep_until};
use tollgate::testing::simulate;

use crate::{
    caller::Caller,
    check,
    clock::{SECOND, SimulatedClock},
    log::Log,
    network::Network,
    plan::{Event, Fault, Plan},
    process::Process,
};

pub(crate) struct Fleet {
    /// The clock of all processes. That of the store is the network's.
    pub(crate) clock: Rc<SimulatedClock>,
    pub(crate) network: Arc<Network>,
    pub(crate) log: Log,
    pub(crate) processes: Vec<Process>,
}

/// Runs a plan, and returns its problems and all questions to the store.
pub(crate) fn run(plan: &Plan) -> (Vec<String>, Vec<String>) {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("there is memory for it");
    let clock = runtime.block_on(async { Rc::new(SimulatedClock::new()) });
    let shown = Rc::clone(&clock);
    // The log, as an operator would see it.
    let (log, _logged) = Log::capture();
    simulate(Rc::new(move || shown.now()), plan.seed, || {
        runtime.block_on(async {
            let network = Arc::new(Network::new(plan));
            let processes = 0..plan.setup.processes as usize;
            let mut fleet = Fleet {
                processes: processes
                    .map(|index| Process::start(index, &network))
                    .collect(),
                clock,
                network,
                log,
            };
            fleet.play(plan).await;
            check::check(&mut fleet).await;
            let problems = std::mem::take(&mut fleet.network.record().problems);
            (problems, fleet.network.take_trace())
        })
    })
}

impl Fleet {
    async fn play(&mut self, plan: &Plan) {
        for (at, event) in &plan.events {
            self.pass(*at).await;
            self.happen(event.clone());
        }
        self.pass(plan.setup.end + 3 * SECOND).await;
    }

    /// Lets time pass. Processes that were killed start again in between.
    async fn pass(&mut self, until: u64) {
        while let Some((at, process)) = self.next_start()
            && at <= until
        {
            sleep_until(self.clock.instant(at)).await;
            self.processes[process] = Process::start(process, &self.network);
            self.network.record().restarts.push((at, process));
        }
        sleep_until(self.clock.instant(until)).await;
    }

    /// Returns when a process starts again next, and which one.
    fn next_start(&self) -> Option<(u64, usize)> {
        let processes = self.processes.iter().enumerate();
        let starts = processes.filter_map(|(index, process)| Some((process.down_until?, index)));
        starts.min()
    }

    fn happen(&mut self, event: Event) {
        let now = self.network.now();
        match event {
            Event::Call(process, call) => self.spawn(process, |caller| caller.call(call)),
            Event::Work(process, work) => self.spawn(process, |caller| caller.work(work)),
            Event::Clients(process, limit) => {
                for _ in 0..self.network.plan.setup.limits[limit].most {
                    self.spawn(process, |caller| caller.visit(limit, now));
                }
            }
            Event::Refund(process, limit) => {
                self.spawn(process, |caller| caller.refunds(limit, now));
            }
            Event::Reset(process, bucket) => self.spawn(process, |caller| caller.reset(bucket)),
            Event::Crowd(process, bucket) => self.spawn(process, |caller| caller.crowd(bucket)),
            Event::Close(process) => self.spawn(process, |caller| async move {
                let _ = caller.limiter.close().await;
            }),
            Event::Fault(_, fault) => match fault {
                Fault::Kill(process, away) => self.kill(process, now + away),
                Fault::Clock(by) => self.clock.step(by),
                Fault::StoreClock(by) => self.network.clock.step(by),
                Fault::Down { loses_data: true } => self.network.lose_data(),
                // The network looks for the others when it has a message.
                _ => {}
            },
        }
    }

    /// Runs a task as a caller of a process, unless the process is down.
    fn spawn<F>(&mut self, process: usize, task: impl FnOnce(Caller) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let process = &mut self.processes[process];
        if process.down_until.is_none() {
            process.tasks.spawn(task(process.caller.clone()));
        }
    }

    fn kill(&mut self, process: usize, until: u64) {
        if self.processes[process].down_until.is_some() {
            return;
        }
        self.processes[process].kill(until);
        let workers = &mut self.network.record().workers;
        workers.retain(|_, worker| worker.process != process);
    }
}
