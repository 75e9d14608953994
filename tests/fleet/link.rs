//! What connects a process to the store.

use std::{
    cell::Cell,
    collections::BTreeMap,
    fmt, mem,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use tokio::{sync::oneshot, time};
use tollgate::{
    backend::{Backend, BackendError, ServerId, Servers, async_trait},
    decision::{Answer as MemberAnswer, Outcome},
    transaction::{Batch, Member, Operation, OwnedBatch},
};

use crate::{
    clock::ProcessClock,
    ledger::bucket_of,
    network::{Delivered, SharedNetwork, lock},
};

/// The longest that a call takes without a deadline.
const PATIENCE: Duration = Duration::from_millis(400);

/// The store, as a process reaches it.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) network: SharedNetwork,
    pub(crate) process: usize,
    pub(crate) clock: Arc<ProcessClock>,
    /// Whether the store is a cluster.
    pub(crate) is_cluster: bool,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

tokio::task_local! {
    /// Whether the store may have charged the call of this task although no answer said so.
    static IS_UNSURE: Cell<bool>;
}

/// Makes a call, and returns whether the store may have charged it although no answer said so.
pub(crate) async fn watched<T>(call: impl Future<Output = T>) -> (T, bool) {
    let call = async {
        let answer = call.await;
        (answer, IS_UNSURE.with(Cell::get))
    };
    IS_UNSURE.scope(Cell::new(false), call).await
}

/// A call, until it has been answered or dropped.
struct Asked<'a> {
    network: &'a SharedNetwork,
    batch: &'a Batch<'a>,
    /// Whether the store may have charged it although no answer said so.
    is_unsure: bool,
    /// Whether no client has asked for it, and the store may have charged it.
    is_own: bool,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let mut network = lock(self.network);
        if self.is_unsure {
            let _ = IS_UNSURE.try_with(|is_unsure| is_unsure.set(true));
            network.ledger.unsure(self.batch);
        }
        if self.is_own {
            network.ledger.paid(self.batch);
        }
    }
}

/// An answer that has not been read yet.
struct Awaited {
    answer: oneshot::Receiver<Delivered>,
    network: SharedNetwork,
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.answer.close();
        if let Ok((_, charges)) = self.answer.try_recv() {
            lock(&self.network).ledger.unheard(charges);
        }
    }
}

/// The places of the members that one server has.
type Groups = BTreeMap<usize, Vec<usize>>;

impl Link {
    fn send(&self, server: usize, batch: &Batch<'_>) -> Awaited {
        let now = self.clock.world();
        Awaited {
            answer: lock(&self.network).send(now, self.process, server, batch),
            network: Arc::clone(&self.network),
        }
    }

    async fn call(&self, server: usize, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        answered(self.send(server, batch)).await
    }

    fn groups(&self, batch: &Batch<'_>) -> Groups {
        let network = lock(&self.network);
        let mut groups = Groups::new();
        for (place, member) in batch.members.iter().enumerate() {
            let server = network.server_of(member.key.id);
            groups.entry(server).or_default().push(place);
        }
        groups
    }

    async fn calls(
        &self,
        operation: Operation,
        batch: &Batch<'_>,
        groups: &Groups,
    ) -> Vec<Result<Outcome, BackendError>> {
        let sent = groups.iter().map(|(server, places)| {
            let members: Vec<_> = places.iter().map(|place| batch.members[*place]).collect();
            self.send(*server, &Batch::new(operation, &members).at(batch.now))
        });
        let sent: Vec<_> = sent.collect();
        join_all(sent.into_iter().map(answered)).await
    }

    /// Spends over several servers: checks all of them, spends the votes, and then the others. A vote that was spent is
    /// refunded if another one is denied.
    async fn spend_apart(
        &self,
        batch: &Batch<'_>,
        groups: &Groups,
    ) -> Result<Outcome, BackendError> {
        let checked = self.calls(Operation::Check, batch, groups).await;
        let checked = merge(batch, groups, checked)?;
        if !passes(batch, &checked) {
            return Ok(checked);
        }
        let (link, owned) = (self.clone(), OwnedBatch::from(batch));
        let (sender, receiver) = oneshot::channel();
        tokio::spawn(async move {
            let spent = link.spend_checked(&owned).await;
            if let Err(Ok(spent)) = sender.send(spent) {
                link.abandoned(&owned, spent);
            }
        });
        match receiver.await {
            Ok(Ok(spent)) => Ok(with_checks(batch, &checked, spent)),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(BackendError::unavailable("the runtime has ended")),
        }
    }

    /// Records what was charged for a caller that has left.
    fn abandoned(&self, owned: &OwnedBatch, spent: Vec<Spent>) {
        owned.as_batch(|batch| {
            for (places, outcome) in spent {
                let charged = places.iter().zip(outcome.answers());
                let charged = charged.filter(|(_, answer)| answer.passed());
                let charges = charged.map(|(place, _)| {
                    let member = &batch.members[*place];
                    (bucket_of(member), member.cost.into())
                });
                lock(&self.network).ledger.unheard(charges.collect());
            }
        });
    }

    async fn spend_checked(&self, owned: &OwnedBatch) -> Result<Vec<Spent>, BackendError> {
        let votes = self.spending(owned, true);
        let voted = self.call_all(Operation::Spend, owned, &votes).await;
        let mut confirmed = Confirmed::new(self, owned);
        confirmed.add(&votes, &voted);
        let took = |decided: &Result<Outcome, BackendError>| {
            let answers = decided.as_ref().map(Outcome::answers);
            answers.is_ok_and(|answers| answers.iter().all(|answer| answer.passed()))
        };
        if !voted.iter().all(took) {
            let back = votes
                .iter()
                .zip(&voted)
                .filter(|(_, decided)| took(decided));
            let back: Groups = back
                .map(|((server, places), _)| (*server, places.clone()))
                .collect();
            self.call_all(Operation::Refund, owned, &back).await;
            confirmed.spent.clear();
            return collect(votes, voted);
        }
        let mut spent = collect(votes, voted)?;
        let others = self.spending(owned, false);
        let offered = self.call_all(Operation::Spend, owned, &others).await;
        confirmed.add(&others, &offered);
        spent.extend(collect(others, offered)?);
        confirmed.spent.clear();
        Ok(spent)
    }

    /// The members that spend, with a vote or without one.
    fn spending(&self, owned: &OwnedBatch, votes: bool) -> Groups {
        owned.as_batch(|batch| {
            let mut groups = self.groups(batch);
            for places in groups.values_mut() {
                places.retain(|place| {
                    let member: &Member<'_> = &batch.members[*place];
                    member.mode.votes() == votes && member.mode.spends() && member.cost > 0
                });
            }
            groups.retain(|_, places| !places.is_empty());
            groups
        })
    }

    async fn call_all(
        &self,
        operation: Operation,
        owned: &OwnedBatch,
        groups: &Groups,
    ) -> Vec<Result<Outcome, BackendError>> {
        let sent = owned.as_batch(|batch| {
            let sent = groups.iter().map(|(server, places)| {
                let members: Vec<_> = places.iter().map(|place| batch.members[*place]).collect();
                self.send(*server, &Batch::new(operation, &members).at(batch.now))
            });
            sent.collect::<Vec<_>>()
        });
        join_all(sent.into_iter().map(answered)).await
    }
}

/// The answer of a server for the members at some places.
type Spent = (Vec<usize>, Outcome);

/// What has been charged for a caller that has heard nothing yet, and may never do: another part fails, or its runtime ends.
struct Confirmed<'a> {
    link: &'a Link,
    owned: &'a OwnedBatch,
    spent: Vec<Spent>,
}

impl<'a> Confirmed<'a> {
    fn new(link: &'a Link, owned: &'a OwnedBatch) -> Self {
        let spent = Vec::new();
        Self { link, owned, spent }
    }

    fn add(&mut self, groups: &Groups, decided: &[Result<Outcome, BackendError>]) {
        let spent = groups.values().zip(decided);
        let spent = spent
            .filter_map(|(places, decided)| Some((places.clone(), decided.as_ref().ok()?.clone())));
        self.spent.extend(spent);
    }
}

impl Drop for Confirmed<'_> {
    fn drop(&mut self) {
        self.link.abandoned(self.owned, mem::take(&mut self.spent));
    }
}

fn collect(
    groups: Groups,
    decided: Vec<Result<Outcome, BackendError>>,
) -> Result<Vec<Spent>, BackendError> {
    // After the first phase, an error is an unknown outcome.
    let unknown = |error: BackendError| match error {
        BackendError::NotDone(error) => BackendError::Unavailable(error),
        error => error,
    };
    let spent = groups.into_values().zip(decided);
    spent
        .map(|(places, decided)| Ok((places, decided.map_err(unknown)?)))
        .collect()
}

async fn answered(mut awaited: Awaited) -> Result<Outcome, BackendError> {
    match time::timeout(PATIENCE, &mut awaited.answer).await {
        Ok(Ok((answer, _))) => answer.map_err(BackendError::from),
        Ok(Err(_)) => Err(BackendError::unavailable("the connection was closed")),
        Err(late) => Err(BackendError::unavailable(late)),
    }
}

fn passes(batch: &Batch<'_>, outcome: &Outcome) -> bool {
    let mut members = batch.members.iter().zip(outcome.answers());
    members.all(|(member, answer)| answer.passed() || !member.mode.votes())
}

fn merge(
    batch: &Batch<'_>,
    groups: &Groups,
    decided: Vec<Result<Outcome, BackendError>>,
) -> Result<Outcome, BackendError> {
    let mut answers = vec![MemberAnswer::UNKNOWN; batch.members.len()];
    let mut now = None;
    for (places, decided) in groups.values().zip(decided) {
        let decided = decided?;
        now = now.or(Some(decided.now));
        for (place, answer) in places.iter().zip(decided.answers()) {
            answers[*place] = *answer;
        }
    }
    Ok(Outcome::new(now.unwrap_or_default(), answers))
}

/// The answers of a batch whose spends have been made.
fn with_checks(batch: &Batch<'_>, checked: &Outcome, spent: Vec<Spent>) -> Outcome {
    let mut answers = checked.answers().to_vec();
    for (places, outcome) in spent {
        for (place, answer) in places.iter().zip(outcome.answers()) {
            answers[*place] = *answer;
        }
    }
    debug_assert_eq!(answers.len(), batch.members.len());
    Outcome::new(checked.now, answers)
}

#[async_trait]
impl Backend for Link {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let mut asked = Asked {
            network: &self.network,
            batch,
            is_unsure: batch.operation == Operation::Spend,
            is_own: IS_UNSURE.try_with(|_| ()).is_err(),
        };
        let decided = self.decide(batch).await;
        asked.is_unsure &= matches!(decided, Err(BackendError::Unavailable(_)));
        asked.is_own &= matches!(decided, Ok(_) | Err(BackendError::Unavailable(_)));
        decided
    }

    fn servers(&self) -> Option<&dyn Servers> {
        self.is_cluster.then_some(self)
    }
}

impl Link {
    async fn decide(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let groups = self.groups(batch);
        match (groups.len(), batch.operation) {
            (0, _) => Ok(Outcome::new(batch.now.unwrap_or_default(), [])),
            (1, _) => {
                let server = *groups.keys().next().expect("there is one");
                self.call(server, batch).await
            }
            (_, Operation::Spend) => self.spend_apart(batch, &groups).await,
            (_, operation) => {
                let decided = self.calls(operation, batch, &groups).await;
                merge(batch, &groups, decided)
            }
        }
    }
}

impl Servers for Link {
    fn server_of(&self, member: &Member<'_>) -> ServerId {
        let network = lock(&self.network);
        let server = network.server_of(member.key.id);
        ServerId::new(network.servers[server].number)
    }

    fn has_decided(&self, server: ServerId, since: Instant) -> bool {
        lock(&self.network).has_decided(self.process, server.number(), since)
    }

    fn is_current(&self, server: ServerId) -> bool {
        let network = lock(&self.network);
        let mut servers = network.servers.iter();
        servers.any(|current| current.number == server.number())
    }

    fn address(&self, server: ServerId) -> Option<String> {
        Some(format!("server{}", server.number()))
    }
}
