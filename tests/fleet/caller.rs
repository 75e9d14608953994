//! The callers of a process.

use std::{
    collections::BTreeSet,
    future::{Future, poll_fn},
    pin::pin,
    sync::{Arc, MutexGuard, PoisonError},
    task::Poll,
    time::Duration,
};

use futures_util::FutureExt;
use tokio::time;
use tollgate::{
    Decision, Limiter, Transaction,
    backend::BackendError,
    decision::{BatchDecision, Source},
    limiter::LimiterError,
    transaction::{Mode, Receipt},
};

use crate::{
    clock::ProcessClock,
    ledger::Bucket,
    limits::{self, Terms},
    link,
    network::{SharedNetwork, lock},
    plan::{Ask, Call, Patience, Setup, Then},
    record::{Admission, Decided, Owed, Record, SharedRecord},
    server::EPOCH,
};

/// A caller, and the process that it calls.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) setup: Arc<Setup>,
    pub(crate) process: usize,
    pub(crate) version: usize,
    pub(crate) limiter: Limiter,
    pub(crate) clock: Arc<ProcessClock>,
    pub(crate) network: SharedNetwork,
    pub(crate) record: SharedRecord,
}

/// The result of a call that its caller has waited for.
type Answered = Option<Result<BatchDecision, LimiterError>>;

pub(crate) fn bucket(ask: &Ask) -> Bucket {
    (limits::number(ask.place), ask.id.clone())
}

fn micros(us: u64) -> Duration {
    Duration::from_micros(us)
}

impl Caller {
    pub(crate) fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn terms(&self, ask: &Ask) -> Terms {
        self.setup.limits[ask.place].versions[self.version]
    }

    /// Makes a call, and does what follows.
    pub(crate) async fn make(self, call: Call) {
        let begun = self.clock.world();
        let asks = call.asks.iter();
        let units = asks.map(|ask| match call.is_check {
            true => (bucket(ask), 0),
            false => (bucket(ask), ask.cost),
        });
        let key = self.record().begin(units.collect());
        let names = call.asks.iter().map(|ask| limits::name(ask.place));
        let names: Vec<_> = names.collect();
        let asked = call.asks.iter().zip(&names);
        let transactions: Vec<_> = asked
            .map(|(ask, name)| call.transaction(ask, name))
            .collect();
        let (answered, is_unsure) = link::watched(self.ask(&call, &transactions)).await;
        let ended = self.clock.world();
        let is_known = match &answered {
            None | Some(Err(LimiterError::Backend(BackendError::Unavailable(_)))) => false,
            Some(_) => true,
        };
        self.record().end(key, is_known);
        let Some(answered) = answered else { return };
        if matches!(call.patience, Patience::Waits) {
            self.check_deadline(begun, ended);
        }
        match answered {
            Ok(decided) => {
                let owed = match is_unsure {
                    _ if call.asks.len() > 1 && self.setup.servers > 1 => Owed::Perhaps,
                    true => Owed::Never,
                    false => Owed::Certainly,
                };
                self.decided(&call, (begun, ended), &decided, owed).await;
            }
            Err(error) => self.failed(&call, ended, &error),
        }
    }

    async fn ask(&self, call: &Call, transactions: &[Transaction<'_>]) -> Answered {
        let deciding = async {
            match call.is_check {
                true => self.limiter.check_batch(transactions).await,
                false => self.limiter.spend_batch(transactions).await,
            }
        };
        match call.patience {
            Patience::Waits => Some(deciding.await),
            Patience::Leaves(after) => time::timeout(micros(after), deciding).await.ok(),
            Patience::Stalls(after) => {
                let mut deciding = pin!(deciding);
                let mut polled = poll_fn(|cx| Poll::Ready(deciding.as_mut().poll(cx)));
                if let Poll::Ready(decided) = (&mut polled).await {
                    return Some(decided);
                }
                time::sleep(micros(after)).await;
                Some(deciding.await)
            }
        }
    }

    /// Lets many clients take one unit each.
    pub(crate) async fn flood(self, place: usize, clients: u32) {
        let name = limits::name(place);
        for client in 0..clients {
            let id = format!("flood{client}");
            let _ = self.limiter.spend(&Transaction::new(&*name, &id)).await;
        }
    }

    /// Asks a server about a bucket that no other process uses. When all has been well for a while, the store decides.
    pub(crate) async fn beat(&self, server: usize, is_late: bool) {
        let id = {
            let network = lock(&self.network);
            let mut ids = (0_u32..).map(|n| format!("process{}-{n}", self.process));
            ids.find(|id| network.server_of(id) == server)
                .expect("each server has some")
        };
        let decided = self
            .limiter
            .spend(&Transaction::new("heartbeat", &id))
            .await;
        let by = match &decided {
            Ok(decision) => Decided::By(decision.source()),
            Err(_) => Decided::Nobody,
        };
        let (mut record, now) = (self.record(), self.clock.world());
        record.decided(self.process, &[server], now, by);
        if is_late && by != Decided::By(Source::Store) {
            let process = self.process;
            record.problem(format!(
                "process {process} asks server {server} at {now}, when all is well again: {decided:?}"
            ));
        }
    }

    /// A policy answers within its deadline.
    fn check_deadline(&self, begun: u64, ended: u64) {
        let took = ended - begun;
        if self.setup.stack.has_policy() && took > 55_000 && !self.was_paused(begun) {
            let problem = format!("a call took {took} us, from {begun}");
            self.record().problem(problem);
        }
    }

    fn was_paused(&self, begun: u64) -> bool {
        lock(&self.network)
            .pauses
            .iter()
            .any(|(process, from, until)| {
                *process == self.process && *until >= begun && *from <= self.clock.world()
            })
    }

    /// The servers that have the buckets of a call.
    fn servers(&self, call: &Call) -> Vec<usize> {
        let network = lock(&self.network);
        let servers = call.asks.iter().map(|ask| network.server_of(&ask.id));
        servers.collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn failed(&self, call: &Call, at: u64, error: &LimiterError) {
        let mut record = self.record();
        match error {
            LimiterError::Backend(_) => {
                record.decided(self.process, &self.servers(call), at, Decided::Nobody);
            }
            // A reload can lower a limit below the cost of a call.
            LimiterError::CostAboveBurst { .. } | LimiterError::NoRoomForDebit { .. } => {}
            error => record.problem(format!("{call:?} is an error: {error}")),
        }
    }

    async fn decided(
        &self,
        call: &Call,
        (begun, ended): (u64, u64),
        decided: &BatchDecision,
        owed: Owed,
    ) {
        let members = decided.members();
        if let Some(limited) = members.iter().find(|member| member.limited()) {
            let by = Decided::By(limited.source());
            let servers = self.servers(call);
            self.record().decided(self.process, &servers, ended, by);
        }
        let mut receipts = Vec::new();
        for (ask, decision) in call.asks.iter().zip(members) {
            if decision.source() == Source::Cache && !decision.allowed() {
                self.check_denial(ask, call, begun);
            }
            let passes = decided.allowed() && decision.allowed() && decision.limited();
            if call.is_check || !passes || ask.mode == Mode::CheckOnly {
                continue;
            }
            let at = decided_at(decision, begun, ended);
            let is_apart = members.len() > 1 && self.setup.servers > 1;
            let until = if is_apart { ended } else { at };
            let place = self.admit(ask, decision, (begun, at, until), owed);
            receipts.push((ask, place, decision.receipt()));
        }
        match call.then {
            Then::Nothing => {}
            Then::Receipt(after, is_part) => {
                time::sleep(micros(after)).await;
                for (ask, place, receipt) in receipts {
                    if let Some(receipt) = receipt {
                        self.refund(ask, place, receipt, is_part).await;
                    }
                }
            }
            Then::Plain(after) => {
                time::sleep(micros(after)).await;
                for (ask, ..) in receipts {
                    self.refund_plainly(ask).await;
                }
            }
        }
    }

    fn admit(
        &self,
        ask: &Ask,
        decision: &Decision,
        (begun, at, until): (u64, u64, u64),
        owed: Owed,
    ) -> usize {
        let mut record = self.record();
        let admissions = record.admissions.entry(bucket(ask)).or_default();
        admissions.push(Admission {
            begun,
            at,
            until,
            process: self.process,
            source: decision.source(),
            units: ask.cost,
            refunded: 0,
            refunded_at: 0,
            refunding: 0,
            is_debit: ask.mode == Mode::Debit,
            owed,
        });
        admissions.len() - 1
    }

    async fn refund(&self, ask: &Ask, place: usize, mut receipt: Receipt, is_part: bool) {
        let receipt = match is_part && receipt.cost() > 1 {
            true => receipt.split(receipt.cost() / 2),
            false => receipt,
        };
        let cost = receipt.cost();
        self.record().admission(bucket(ask), place).refunding += cost;
        let key = self.record().begin(vec![(bucket(ask), cost)]);
        let name = limits::name(ask.place);
        let transaction = Transaction::new(name.as_str(), &ask.id).of_receipt(&receipt);
        let refunded = self.limiter.refund(&transaction).await;
        let (mut record, now) = (self.record(), self.clock.world());
        record.end(key, refunded.is_ok());
        let admission = record.admission(bucket(ask), place);
        admission.refunding -= match refunded {
            Err(LimiterError::Backend(_)) => 0,
            _ => cost,
        };
        match refunded {
            Ok(decision) if decision.refunded() => {
                admission.refunded += cost;
                admission.refunded_at = now;
            }
            // Another algorithm may decide the bucket now.
            Ok(_)
            | Err(
                LimiterError::Backend(_)
                | LimiterError::ForeignReceipt { .. }
                | LimiterError::NotWithTiers { .. },
            ) => {}
            Err(error) => record.problem(format!("a refund is an error: {error}")),
        }
    }

    async fn refund_plainly(&self, ask: &Ask) {
        if self.terms(ask).has_tiers() {
            return;
        }
        let key = self.record().begin(vec![(bucket(ask), ask.cost)]);
        let name = limits::name(ask.place);
        let transaction = Transaction::new(name.as_str(), &ask.id).cost(ask.cost);
        // It adds to the bound, whatever becomes of it.
        let refund = (self.clock.world(), ask.cost);
        let bucket = bucket(ask);
        self.record()
            .refunds
            .entry(bucket)
            .or_default()
            .push(refund);
        let refunded = self.limiter.refund(&transaction).await;
        self.record().end(key, refunded.is_ok());
    }

    /// A denial from memory is one of the store, too, unless something happened there a moment ago, or elsewhere not long
    /// ago.
    fn check_denial(&self, ask: &Ask, call: &Call, begun: u64) {
        const ROUND_TRIP: u64 = 200_000;
        const LIFETIME: u64 = 5_200_000;
        let (now, key) = (self.clock.world(), bucket(ask));
        let [first, second] = self.setup.limits[ask.place].versions;
        // Under another version of a limit, a period can begin anew.
        if first != second && first.is_like(second) {
            return;
        }
        let (memory, at) = {
            let network = lock(&self.network);
            let server = network.server_of(&ask.id);
            let given_back = network.given_back.iter().any(|(at, process, bucket)| {
                let since = if *process == Some(self.process) {
                    ROUND_TRIP
                } else {
                    LIFETIME
                };
                (bucket.is_none() || bucket.as_ref() == Some(&key)) && at + since > now
            });
            if given_back {
                return;
            }
            let server = &network.servers[server];
            (Arc::clone(&server.memory), server.clock(begun))
        };
        let limits = limits::of_version(&self.setup.limits, self.version, self.setup.on_failure);
        let direct = Limiter::new(limits, memory).with_clock(at);
        let name = limits::name(ask.place);
        let transaction = call.transaction(ask, &name);
        let direct = direct.check(&transaction).now_or_never();
        if let Some(Ok(direct)) = direct
            && direct.allowed()
            && self.setup.limits[ask.place].lease.is_none()
        {
            let problem = format!("{ask:?} is denied from memory at {now}, but not by the store");
            self.record().problem(problem);
        }
    }
}

impl Call {
    fn transaction<'a>(&self, ask: &'a Ask, name: &'a str) -> Transaction<'a> {
        let transaction = Transaction::new(name, &ask.id);
        let transaction = transaction.cost(ask.cost).mode(ask.mode);
        match self.no_wait {
            true => transaction.no_wait(),
            false => transaction,
        }
    }
}

/// When a decision was made, in the time of the simulation: while its call was under way.
pub(crate) fn decided_at(decision: &Decision, begun: u64, ended: u64) -> u64 {
    let Some(at) = decision.decided_at() else {
        return ended;
    };
    at.as_micros().saturating_sub(EPOCH).clamp(begun, ended)
}
