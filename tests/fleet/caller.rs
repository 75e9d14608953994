//! The callers of a process.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::{BodyExt, Full};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};
use tollgate::{
    Limiter, RateLimitLayer, Transaction,
    decision::{BatchDecision, Source},
    limiter::LimiterError,
    transaction::{Mode, OnFailure, Receipt},
};
use tower::{Layer, ServiceExt, service_fn};

use crate::{
    network::Network,
    plan::{Bucket, Call, Event, Plan, Work},
    process::name,
    record::{Charge, Denial, Held, Record, Trial},
    terms::{Kind, SECOND},
};

/// The deadline of a policy, in microseconds, and what the timers round up.
const DEADLINE: u64 = 53_000;

/// A caller, and the process that it calls.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) plan: Arc<Plan>,
    pub(crate) process: usize,
    pub(crate) limiter: Limiter,
    pub(crate) layer: RateLimitLayer,
    pub(crate) network: Arc<Network>,
    pub(crate) record: Arc<Mutex<Record>>,
}

impl Caller {
    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap()
    }

    fn now(&self) -> u64 {
        self.network.clock.world()
    }

    fn problem(&self, problem: &str) {
        let (process, now) = (self.process, self.now());
        self.record()
            .problem(format!("process {process} at {now}: {problem}"));
    }

    /// Makes a call, and refunds it if the plan says so.
    pub(crate) async fn call(self, call: Call) {
        let begun = self.now();
        for ask in &call.asks {
            self.record().asked(&ask.bucket, begun);
        }
        self.record().calls += 1;
        let number = self.record().calls;
        let answered = self.answered(&call).await;
        let ended = self.now();
        let is_by_store = |decided: &BatchDecision| {
            let mut members = decided.members().iter();
            decided.allowed() && members.all(|member| member.source() != Source::Local)
        };
        if !matches!(&answered, Some(Ok(decided)) if is_by_store(decided)) {
            self.tries(&call, number, (begun, ended));
        }
        let Some(answered) = answered else {
            return;
        };
        if self.plan.setup.stack.policy && ended - begun > DEADLINE {
            self.problem(&format!("a call has taken {} us", ended - begun));
        }
        match answered {
            Ok(decided) => {
                let charges = self.decided(&call, number, &decided, (begun, ended));
                if let Some(after) = call.refund {
                    sleep(Duration::from_micros(after)).await;
                    for (bucket, place, receipt) in charges {
                        self.refund(&bucket, place, receipt).await;
                    }
                }
            }
            Err(error) => self.failed(&call, &error),
        }
    }

    async fn answered(&self, call: &Call) -> Option<Result<BatchDecision, LimiterError>> {
        let names: Vec<_> = call.asks.iter().map(|ask| name(ask.bucket.0)).collect();
        let asked = call.asks.iter().zip(&names);
        let transactions: Vec<_> = asked
            .map(|(ask, name)| {
                let transaction = Transaction::new(name.as_str(), &ask.bucket.1);
                transaction.cost(ask.cost).mode(ask.mode)
            })
            .collect();
        let deciding = async {
            if call.is_check {
                self.limiter.check_batch(&transactions).await
            } else {
                self.limiter.spend_batch(&transactions).await
            }
        };
        match call.leaves {
            None => Some(deciding.await),
            Some(after) => timeout(Duration::from_micros(after), deciding).await.ok(),
        }
    }

    /// Records what a batch over several slots can have charged although it has not passed.
    fn tries(&self, call: &Call, number: usize, (begun, ended): (u64, u64)) {
        let setup = &self.plan.setup;
        if call.is_check || !setup.has_several_slots(call) {
            return;
        }
        // After a fault, it is given back in the background.
        let until = ended + if setup.calm { 0 } else { 2 * SECOND };
        for ask in call.asks.iter().filter(|ask| ask.mode != Mode::CheckOnly) {
            self.record().trials.push(Trial {
                call: number,
                bucket: ask.bucket.clone(),
                begun,
                until,
                units: ask.cost,
            });
        }
    }

    fn failed(&self, call: &Call, error: &LimiterError) {
        let setup = &self.plan.setup;
        let may_fail =
            !setup.calm && (!setup.stack.policy || setup.on_failure == OnFailure::Refuse);
        match error {
            LimiterError::Backend(_) if may_fail => {}
            // A debit does not fit into a window that is full of debits.
            LimiterError::InvalidCost { .. }
                if call.asks.iter().any(|ask| ask.mode == Mode::Debit) => {}
            error => self.problem(&format!("{call:?} fails: {error:?}")),
        }
    }

    /// Records the decisions, and returns the charges.
    fn decided(
        &self,
        call: &Call,
        number: usize,
        decided: &BatchDecision,
        (begun, ended): (u64, u64),
    ) -> Vec<(Bucket, usize, Receipt)> {
        let mut charges = Vec::new();
        for (ask, decision) in call.asks.iter().zip(decided.members()) {
            let bucket = &ask.bucket;
            if self.plan.setup.calm && decision.source() == Source::Local {
                self.problem(&format!(
                    "{ask:?} is decided locally, and nothing has failed"
                ));
            }
            if ask.mode.votes() && decision.limited() && !decision.allowed() {
                self.record().denials.push(Denial {
                    call: number,
                    bucket: bucket.clone(),
                    begun,
                    ended,
                    cost: ask.cost,
                });
            }
            let passes = decided.allowed() && decision.allowed() && decision.limited();
            if call.is_check || !passes || ask.mode == Mode::CheckOnly {
                continue;
            }
            let charge = Charge {
                begun,
                ended,
                process: self.process,
                source: decision.source(),
                units: ask.cost,
                is_debit: ask.mode == Mode::Debit,
                refunded: None,
            };
            let place = self.record().charged(bucket, charge);
            let receipt = decision.receipt();
            charges.extend(receipt.map(|receipt| (bucket.clone(), place, receipt)));
        }
        charges
    }

    async fn refund(&self, bucket: &Bucket, place: usize, receipt: Receipt) {
        if self.plan.setup.limits[bucket.0].terms.has_tiers() {
            return;
        }
        // It is not known whether one that is under way was made.
        self.record().charge(bucket, place).refunded = Some(u64::MAX);
        let limit = self.limiter.limit(&name(bucket.0)).unwrap();
        let refunded = limit.refund_receipt(&bucket.1, receipt).await;
        let now = self.now();
        match refunded {
            Ok(decision) => {
                let refunded = decision.refunded().then_some(now);
                self.record().charge(bucket, place).refunded = refunded;
            }
            Err(LimiterError::Backend(_)) if !self.plan.setup.calm => {}
            Err(error) => self.problem(&format!("a refund fails: {error:?}")),
        }
    }

    pub(crate) async fn reset(self, bucket: Bucket) {
        let begun = self.now();
        let place = self.record().resets.len();
        let reset = (bucket.clone(), (begun, u64::MAX));
        self.record().resets.push(reset);
        let name = name(bucket.0);
        let transaction = Transaction::new(name.as_str(), &bucket.1);
        if self.limiter.reset(&[transaction]).await.is_ok() {
            let now = self.now();
            self.record().resets[place].1.1 = now;
        }
    }

    /// Does some work with a permit.
    pub(crate) async fn work(self, work: Work) {
        let begun = self.now();
        let bucket = &work.bucket;
        let limit = self.limiter.limit(&name(bucket.0)).unwrap();
        self.record().entering.push(bucket.clone());
        let entering = limit.enter(&bucket.1);
        let entered = match work.leaves {
            None => entering.await,
            Some(after) => match timeout(Duration::from_micros(after), entering).await {
                Ok(entered) => entered,
                Err(_) => return,
            },
        };
        self.record().enters(bucket);
        let permit = match entered {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) => return self.turned_away(bucket, begun),
            Err(error) => return self.failed(&Call::one(bucket.clone()), &error),
        };
        let number = self.record().hold(Held {
            bucket: bucket.clone(),
            process: self.process,
            permit,
        });
        self.check_permits(bucket);
        sleep(Duration::from_micros(work.lasts)).await;
        let Some(held) = self.record().permits.remove(&number) else {
            return;
        };
        let is_cut_off = self.plan.disturbs_permits((begun, self.now()));
        if self.keeps(bucket) && !is_cut_off && !held.permit.is_held() {
            self.problem(&format!(
                "a permit of {bucket:?} is lost, and its process was not cut off"
            ));
        }
        self.record().left.push((bucket.clone(), self.now()));
        if work.releases {
            let _ = held.permit.release().await;
        }
    }

    /// Whether a permit outlives a short fault: its renewals are tried again in time.
    fn keeps(&self, bucket: &Bucket) -> bool {
        let terms = self.plan.setup.limits[bucket.0].terms;
        let is_long = matches!(terms.kind, Kind::AtOnce { hold } if hold >= 2_500_000);
        self.plan.setup.calm || is_long
    }

    /// Work is only turned away if there can be as many others.
    fn turned_away(&self, bucket: &Bucket, begun: u64) {
        if !self.plan.setup.calm {
            return;
        }
        let record = self.record();
        // Permits of those that have left can be on their way back.
        let left = record.left.iter();
        let left = left.filter(|(other, at)| other == bucket && at + 60_000 >= begun);
        let entering = record.entering.iter().filter(|other| *other == bucket);
        let others = record.held(bucket) + entering.count() + left.count();
        drop(record);
        if others < self.plan.setup.limits[bucket.0].terms.most as usize {
            self.problem(&format!(
                "work of {bucket:?} is turned away with {others} others"
            ));
        }
    }

    /// At most twice as many permits as the limit has count at once, rounded up for each process.
    fn check_permits(&self, bucket: &Bucket) {
        let (setup, now) = (&self.plan.setup, self.now());
        let terms = setup.limits[bucket.0].terms;
        let Kind::AtOnce { hold } = terms.kind else {
            return;
        };
        if setup.on_failure == OnFailure::Allow {
            return;
        }
        let processes = u32::try_from(setup.processes).unwrap();
        let share = terms.share(setup.processes).most;
        let record = self.record();
        let mut most = terms.most;
        if record.first_fault.is_some() && setup.on_failure == OnFailure::Local {
            most += share * processes;
        }
        // Whoever held a permit finds out when it is renewed.
        let is_recent = |at: u64| (at..at + hold).contains(&now);
        let losses = record.data_losses.iter().filter(|at| is_recent(**at));
        let was_set = self.network.clock.was_set(now.saturating_sub(hold), now);
        most += terms.most * (u32::try_from(losses.count()).unwrap() + u32::from(was_set));
        let restarts = record.restarts.iter().filter(|(at, _)| is_recent(*at));
        most += share * u32::try_from(restarts.count()).unwrap();
        // When the clocks of the processes are put forward, local permits expire.
        let mut events = self.plan.events.iter();
        let is_put_forward =
            |(at, event): &(u64, Event)| matches!(event, Event::Clock(_)) && is_recent(*at);
        if events.any(is_put_forward) {
            most += share * processes;
        }
        let held = record.held(bucket);
        drop(record);
        if held > most as usize {
            self.problem(&format!(
                "{held} permits of {bucket:?} count, at most {most}"
            ));
        }
    }

    /// A client that reads each response to its end before it sends the next request. As many clients as there are permits
    /// never meet a refusal.
    pub(crate) async fn visit(self, place: usize, group: u64) {
        let id = format!("client{group}");
        let answer = service_fn(|_: Request<()>| async {
            sleep(Duration::from_millis(7)).await;
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"hello"))))
        });
        let mut sent = Vec::new();
        for _ in 0..6 {
            let request = Request::builder().header(name(place), &id);
            let service = self.layer.layer(answer);
            let response = service.oneshot(request.body(()).unwrap()).await.unwrap();
            let status = response.status();
            // A server does not poll a body again whose length is sent, and may drop it later.
            let mut body = response.into_body();
            while !body.is_end_stream() {
                let _ = body.frame().await;
            }
            sent.push(body);
            let is_in_order = self.plan.setup.calm && self.plan.setup.connections() == 1;
            if is_in_order && status != StatusCode::OK {
                self.problem(&format!(
                    "{id} is answered with {status} for its own last permit"
                ));
            }
        }
    }

    /// A client spends all, and gets it back while it keeps asking. Then it can spend it again.
    pub(crate) async fn refunds(self, place: usize, group: u64) {
        let id = format!("refund{group}");
        let limit = self.limiter.limit(&name(place)).unwrap();
        let limit = limit.cost(self.plan.setup.limits[place].terms.most);
        let spent = limit.spend(&id).await.unwrap();
        let Some(receipt) = spent.receipt() else {
            return;
        };
        let mut asking = JoinSet::new();
        for turn in 0..3 {
            let (limit, id) = (limit.clone(), id.clone());
            asking.spawn(async move {
                sleep(Duration::from_millis(turn)).await;
                limit.spend(&id).await.unwrap().allowed()
            });
        }
        sleep(Duration::from_millis(2)).await;
        limit.refund_receipt(&id, receipt).await.unwrap();
        let meanwhile = asking.join_all().await;
        let afterwards = limit.spend(&id).await.unwrap().allowed();
        if !afterwards && !meanwhile.contains(&true) {
            self.problem(&format!("{id} of limit {place} is denied after a refund"));
        }
    }

    /// Asks more often at once than the policy lets through.
    pub(crate) async fn crowd(self, bucket: Bucket) {
        let mut callers = JoinSet::new();
        for _ in 0..4_200 {
            callers.spawn(self.clone().call(Call::one(bucket.clone())));
        }
        callers.join_all().await;
    }
}
