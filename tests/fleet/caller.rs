//! The callers of a process.

use std::{convert::Infallible, sync::Arc, time::Duration};

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
    clock::SECOND,
    network::Network,
    plan::{Bucket, Call, Event, Fault, Work},
    process::NAMES,
    record::{AskRecord, Worker},
    terms::Kind,
};

/// The deadline of a policy, and what the timers round up.
const DEADLINE: u64 = 53;

/// A caller, and the process that it calls.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) process: usize,
    pub(crate) limiter: Limiter,
    pub(crate) layer: RateLimitLayer,
    pub(crate) network: Arc<Network>,
}

impl Caller {
    fn problem(&self, problem: &str) {
        let process = self.process;
        let now = self.network.now();
        let problem = format!("process {process} at {now}: {problem}");
        self.network.record().problems.push(problem);
    }

    /// Makes a call, and refunds it if the plan says so.
    pub(crate) async fn call(self, call: Call) {
        let begun = self.network.now();
        let answered = self.answered(&call).await;
        let took = self.network.now() - begun;
        if answered.is_some() && self.network.plan.setup.policy && took > DEADLINE {
            self.problem(&format!("a call has taken {took} ms"));
        }
        let decided = answered.and_then(|answer| match answer {
            Ok(decided) => Some(decided),
            Err(error) => {
                self.failed(&call, &error);
                None
            }
        });
        let receipts = self.record(&call, begun, decided.as_ref());
        if let Some(after) = call.refund {
            sleep(Duration::from_millis(after)).await;
            for (index, bucket, receipt) in receipts {
                self.refund(index, bucket, receipt).await;
            }
        }
    }

    /// Returns the answer to a call, unless the caller leaves before.
    async fn answered(&self, call: &Call) -> Option<Result<BatchDecision, LimiterError>> {
        let transactions = call.asks.iter().map(|ask| {
            let transaction = Transaction::new(NAMES[ask.bucket.0], ask.bucket.1);
            transaction.cost(ask.cost).mode(ask.mode)
        });
        let transactions: Vec<_> = transactions.collect();
        let deciding = async {
            if call.is_check {
                self.limiter.check_batch(&transactions).await
            } else {
                self.limiter.spend_batch(&transactions).await
            }
        };
        let leaves = call.leaves.map_or(Duration::MAX, Duration::from_millis);
        timeout(leaves, deciding).await.ok()
    }

    fn failed(&self, call: &Call, error: &LimiterError) {
        let setup = &self.network.plan.setup;
        let may_fail = !setup.calm && (!setup.policy || setup.on_failure == OnFailure::Refuse);
        let is_debit = call.asks.iter().any(|ask| ask.mode == Mode::Debit);
        match error {
            LimiterError::Backend(_) if may_fail => {}
            // A debit does not fit into a window that is full of debits.
            LimiterError::InvalidCost { .. } if is_debit => {}
            error => self.problem(&format!("{call:?} fails: {error:?}")),
        }
    }

    /// Records what a call has asked, and returns the receipts of its charges, each with its index in the record.
    fn record(
        &self,
        call: &Call,
        begun: u64,
        decided: Option<&BatchDecision>,
    ) -> Vec<(usize, Bucket, Receipt)> {
        let setup = &self.network.plan.setup;
        let ended = self.network.now();
        let number = self.network.record().number();
        let is_by_store = decided.is_some_and(|decided| {
            let mut members = decided.members().iter();
            decided.allowed() && members.all(|member| member.source() != Source::Local)
        });
        let is_tried = setup.has_several_slots(call) && !is_by_store;
        // After a fault, it is given back in the background.
        let tried_until = ended + if setup.calm { 0 } else { 2 * SECOND };
        let mut receipts = Vec::new();
        for (member, ask) in call.asks.iter().enumerate() {
            let decision = decided.map(|decided| &decided.members()[member]);
            let limited = decision.filter(|decision| decision.limited());
            let is_local = decision.is_some_and(|decision| decision.source() == Source::Local);
            if setup.calm && is_local {
                self.problem(&format!(
                    "{ask:?} is decided locally, and nothing has failed"
                ));
            }
            let may_charge = !call.is_check && ask.mode != Mode::CheckOnly;
            let is_made = may_charge && decided.is_some_and(BatchDecision::allowed);
            let granted = limited.filter(|decision| is_made && decision.allowed());
            let mut record = self.network.record();
            let receipt = granted.and_then(|decision| decision.receipt());
            receipts.extend(receipt.map(|receipt| (record.asks.len(), ask.bucket, receipt)));
            record.asks.push(AskRecord {
                call: number,
                process: self.process,
                ask: *ask,
                begun,
                ended,
                granted_by: granted.map(|decision| decision.source()),
                is_denied: ask.mode.votes() && limited.is_some_and(|decision| !decision.allowed()),
                refunded: None,
                tried_until: (is_tried && may_charge).then_some(tried_until),
            });
        }
        receipts
    }

    async fn refund(&self, index: usize, bucket: Bucket, receipt: Receipt) {
        // It is not known whether one that is under way was made.
        self.network.record().asks[index].refunded = Some(u64::MAX);
        let limit = self.limiter.limit(NAMES[bucket.0]).unwrap();
        match limit.refund_receipt(bucket.1, receipt).await {
            Ok(decision) => {
                let now = self.network.now();
                let refunded = decision.refunded().then_some(now);
                self.network.record().asks[index].refunded = refunded;
            }
            Err(LimiterError::Backend(_)) if !self.network.plan.setup.calm => {}
            Err(error) => self.problem(&format!("a refund fails: {error:?}")),
        }
    }

    pub(crate) async fn reset(self, bucket: Bucket) {
        let begun = self.network.now();
        let index = self.network.record().resets.len();
        let reset = (bucket, (begun, u64::MAX));
        self.network.record().resets.push(reset);
        let transaction = Transaction::new(NAMES[bucket.0], bucket.1);
        if self.limiter.reset(&[transaction]).await.is_ok() {
            let now = self.network.now();
            self.network.record().resets[index].1.1 = now;
        }
    }

    /// Does some work with a permit.
    pub(crate) async fn work(self, work: Work) {
        let begun = self.network.now();
        let number = self.network.record().number();
        let bucket = work.bucket;
        let worker = |permit| Worker {
            bucket,
            process: self.process,
            permit,
            left_at: None,
        };
        self.network.record().workers.insert(number, worker(None));
        let limit = self.limiter.limit(NAMES[bucket.0]).unwrap();
        let leaves = work.leaves.map_or(Duration::MAX, Duration::from_millis);
        let Ok(entered) = timeout(leaves, limit.enter(bucket.1)).await else {
            return;
        };
        self.network.record().workers.remove(&number);
        let permit = match entered {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) => return self.turned_away(bucket, begun),
            Err(error) => return self.failed(&Call::one(bucket), &error),
        };
        let holder = worker(Some(permit));
        self.network.record().workers.insert(number, holder);
        self.check_permits(bucket);
        sleep(Duration::from_millis(work.lasts)).await;
        let now = self.network.now();
        let left = Worker {
            left_at: Some(now),
            ..worker(None)
        };
        let worker = self.network.record().workers.insert(number, left);
        let permit = worker.and_then(|worker| worker.permit).unwrap();
        let may_be_lost =
            self.network.plan.disturbs_permits(begun, now) || !self.outlives_faults(bucket);
        if !may_be_lost && !permit.is_held() {
            self.problem(&format!(
                "a permit of {bucket:?} is lost, and its process was not cut off"
            ));
        }
        if work.releases {
            let _ = permit.release().await;
        }
    }

    /// Whether a permit outlives a short fault: its renewals are tried again in time.
    fn outlives_faults(&self, bucket: Bucket) -> bool {
        let setup = &self.network.plan.setup;
        let kind = setup.limits[bucket.0].kind;
        setup.calm || matches!(kind, Kind::AtOnce { hold } if hold >= 2_500)
    }

    /// Work is only turned away if there can be as many others.
    fn turned_away(&self, bucket: Bucket, begun: u64) {
        let setup = &self.network.plan.setup;
        if !setup.calm {
            return;
        }
        let record = self.network.record();
        let others = record.workers.values().filter(|worker| {
            // The permits of work that has ended can be on their way back.
            let may_have_permit = match (worker.left_at, &worker.permit) {
                (Some(left_at), _) => left_at + 60 >= begun,
                (None, Some(permit)) => permit.is_held(),
                (None, None) => true,
            };
            worker.bucket == bucket && may_have_permit
        });
        let others = others.count();
        drop(record);
        if others < setup.limits[bucket.0].most as usize {
            self.problem(&format!(
                "work of {bucket:?} is turned away with {others} others"
            ));
        }
    }

    /// At most twice as many permits as the limit has count at once, rounded up for each process.
    fn check_permits(&self, bucket: Bucket) {
        let now = self.network.now();
        let plan = &self.network.plan;
        let terms = plan.setup.limits[bucket.0];
        let Kind::AtOnce { hold } = terms.kind else {
            return;
        };
        if plan.setup.on_failure == OnFailure::Allow {
            return;
        }
        let share = terms.share(plan.setup.processes).most;
        let mut most = terms.most;
        let mut past = plan.events.iter().filter(|(at, _)| *at <= now);
        let has_failed =
            past.any(|(_, event)| matches!(event, Event::Crowd(..) | Event::Fault(..)));
        if has_failed && plan.setup.on_failure == OnFailure::Local {
            most += share * plan.setup.processes;
        }
        // Whoever held a permit finds out when it is renewed.
        let is_recent = |at: u64| (at..at + hold).contains(&now);
        let faults = plan.faults().filter(|(time, _)| is_recent(time.start));
        let faults: Vec<_> = faults.map(|(_, fault)| fault).collect();
        let losses = faults.iter().filter(|fault| fault.loses_data()).count();
        most += terms.most * u32::try_from(losses).unwrap();
        // Local permits expire when the clocks of the processes are put forward.
        if faults.iter().any(|fault| matches!(fault, Fault::Clock(_))) {
            most += share * plan.setup.processes;
        }
        if self.network.clock.was_set(now.saturating_sub(hold), now) {
            most += terms.most;
        }
        let record = self.network.record();
        let restarts = record.restarts.iter().filter(|(at, _)| is_recent(*at));
        most += share * u32::try_from(restarts.count()).unwrap();
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
    pub(crate) async fn visit(self, limit: usize, group: u64) {
        let id = format!("client{group}");
        let answer = service_fn(|_: Request<()>| async {
            sleep(Duration::from_millis(7)).await;
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"hello"))))
        });
        let setup = &self.network.plan.setup;
        let mut sent = Vec::new();
        for _ in 0..6 {
            let request = Request::builder().header(NAMES[limit], &id);
            let service = self.layer.layer(answer);
            let response = service.oneshot(request.body(()).unwrap()).await.unwrap();
            let status = response.status();
            // A server does not poll a body again whose length is sent, and may drop it later.
            let mut body = response.into_body();
            while !body.is_end_stream() {
                let _ = body.frame().await;
            }
            sent.push(body);
            let is_in_order = setup.calm && setup.connections == 1;
            if is_in_order && status != StatusCode::OK {
                self.problem(&format!(
                    "{id} is answered with {status} for its own last permit"
                ));
            }
        }
    }

    /// A client spends all, and gets it back while it keeps asking. Then it can spend it again.
    pub(crate) async fn refunds(self, limit: usize, group: u64) {
        let id = format!("refund{group}");
        let all = self.network.plan.setup.limits[limit].most;
        let handle = self.limiter.limit(NAMES[limit]).unwrap().cost(all);
        let spent = handle.spend(&id).await.unwrap();
        let Some(receipt) = spent.receipt() else {
            return;
        };
        let mut asking = JoinSet::new();
        for turn in 0..3 {
            let handle = handle.clone();
            let id = id.clone();
            asking.spawn(async move {
                sleep(Duration::from_millis(turn)).await;
                handle.spend(&id).await.unwrap().allowed()
            });
        }
        sleep(Duration::from_millis(2)).await;
        handle.refund_receipt(&id, receipt).await.unwrap();
        let meanwhile = asking.join_all().await;
        let afterwards = handle.spend(&id).await.unwrap().allowed();
        if !afterwards && !meanwhile.contains(&true) {
            self.problem(&format!("{id} of limit {limit} is denied after a refund"));
        }
    }

    /// Asks more often at once than the policy lets through.
    pub(crate) async fn crowd(self, bucket: Bucket) {
        let mut callers = JoinSet::new();
        for _ in 0..4_200 {
            callers.spawn(self.clone().call(Call::one(bucket)));
        }
        callers.join_all().await;
    }
}
