//! A backend around a backend that remembers whom it has denied.

use std::{
    fmt,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use smallvec::SmallVec;

use super::{Backend, BackendError, LeaseTerms, NotAdmitted, Servers, Stats};
use crate::{
    clock::{Clock, SystemClock, Timestamp},
    decision::{Answer, Outcome, Source, State},
    tiers::Tiers,
    transaction::{Algorithm, Batch, Fingerprint, LeaseShare, Member, Operation},
};

/// Answers for those who are denied anyway, so that an attack costs the store nothing.
///
/// A bucket's theoretical arrival time only ever grows, but by refunds and resets. So whoever was denied is
/// denied until a time that is known, and needs not be asked for before: any cost is judged under the limit that is in
/// force now. What is remembered is told by this process's clock from the moment at which the store was asked, so that
/// the store may be asked a little early, and nobody is denied late.
///
/// Nobody is denied wrongly, except after a refund, a reset, a failover or a flush of the store that **another process**
/// has done, and then for no longer than the [lifetime](Self::lifetime). What goes through this cache is
/// seen at once.
///
/// Of a bucket with [tiers](crate::tiers) it remembers how much was asked for at least, and when so much would be granted: until
/// then, whoever asks for as much is denied. What this cache sees granted from the bucket makes it forget that. If
/// another process is granted something, by a smaller request, that may enter a tier which opens earlier; so a
/// request for more than one unit may be denied wrongly then, for no longer than the lifetime.
///
/// A batch is denied if any member that votes is known to be. Its wait is then a lower bound: the other members are
/// not asked for, and show no figures.
///
/// It answers without waiting, and without allocating for up to four members. Put it directly around the backend that
/// it stands for, inside a `FailurePolicy`.
pub struct DenyCache<B> {
    inner: B,
    clock: SystemClock,
    sets: Box<[Mutex<Set>]>,
    /// Counted up when a bucket is given something back: what was asked before is not remembered.
    epochs: Box<[AtomicU32]>,
    lifetime: Duration,
}

/// The entries among which a bucket may be.
type Set = [DeniedBucket; 8];

/// Enough for one refund not to hinder many buckets from being remembered.
const EPOCHS: usize = 1024;

/// A bucket that was denied.
#[derive(Clone)]
struct DeniedBucket {
    print: Fingerprint,
    /// By our clock, or the client's.
    state: State,
    /// When it was so.
    at: Timestamp,
    /// The least that was asked for, and of which tiers.
    least: u32,
    tiers: Option<Tiers>,
    /// When it is forgotten, by our clock.
    until: Timestamp,
    /// Whether the client's clock decided.
    is_clients: bool,
}

impl DeniedBucket {
    const NOBODY: Self = Self {
        print: Fingerprint { low: 0, high: 0 },
        state: State::MISSING,
        at: Timestamp::from_micros(0),
        least: 0,
        tiers: None,
        until: Timestamp::from_micros(0),
        is_clients: false,
    };

    /// How the bucket stands at `now`, if it denies the member.
    fn denial(&self, member: &Member<'_>, now: Timestamp) -> Option<State> {
        match (member.algorithm, self.state) {
            (Algorithm::Gcra(gcra), State::Gcra(tat)) => {
                let passes = gcra.spend(tat, now.as_micros(), member.cost).is_some();
                (!passes).then_some(self.state)
            }
            (Algorithm::Tiers(tiers), State::Tiers(figures))
                if self.tiers.as_ref() == Some(tiers) =>
            {
                let passed = now.as_micros().saturating_sub(self.at.as_micros());
                let denies = passed < figures.next_after && member.min_cost >= self.least;
                denies.then(|| State::Tiers(figures.later(passed)))
            }
            _ => None,
        }
    }
}

/// When a batch was sent.
struct Sent {
    now: Timestamp,
    epochs: SmallVec<[u32; 4]>,
}

impl<B: Backend> DenyCache<B> {
    /// The default of [`with_capacity`](Self::with_capacity).
    pub const DEFAULT_CAPACITY: usize = 65_536;

    /// The default of [`lifetime`](Self::lifetime).
    pub const DEFAULT_LIFETIME: Duration = Duration::from_secs(5);

    /// A cache of [`DEFAULT_CAPACITY`](Self::DEFAULT_CAPACITY) buckets.
    #[must_use]
    pub fn new(inner: B) -> Self {
        Self::with_capacity(inner, Self::DEFAULT_CAPACITY)
    }

    /// A cache of about so many buckets, at 112 bytes each. When there are more, those go that would be
    /// forgotten soonest.
    #[must_use]
    pub fn with_capacity(inner: B, buckets: usize) -> Self {
        let sets = buckets
            .div_ceil(size_of::<Set>() / size_of::<DeniedBucket>())
            .max(1);
        Self {
            inner,
            clock: SystemClock::new(),
            sets: (0..sets)
                .map(|_| Mutex::new([const { DeniedBucket::NOBODY }; 8]))
                .collect(),
            epochs: (0..EPOCHS).map(|_| AtomicU32::new(0)).collect(),
            lifetime: Self::DEFAULT_LIFETIME,
        }
    }

    /// Sets for how long a denial is remembered at most: the longest that anybody can be denied wrongly.
    #[must_use]
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = lifetime;
        self
    }

    /// The backend that is asked.
    pub fn inner(&self) -> &B {
        &self.inner
    }

    /// The denial of a batch, if a member that votes is known to be denied.
    fn denial(&self, batch: &Batch<'_>) -> Option<Outcome> {
        let ours = self.clock.now();
        let now = batch.now.unwrap_or(ours);
        let mut is_denied = false;
        let answers: SmallVec<[Answer; 4]> = batch
            .members
            .iter()
            .map(|member| {
                let known = member
                    .mode
                    .votes()
                    .then(|| self.known(batch, member, ours))
                    .flatten();
                let Some(state) = known else {
                    return Answer::UNKNOWN;
                };
                is_denied = true;
                Answer::new(state, false)
            })
            .collect();
        is_denied.then(|| Outcome::new(now, answers).by(Source::Cache))
    }

    /// How a member's bucket stands, if it is known to deny the member.
    fn known(&self, batch: &Batch<'_>, member: &Member<'_>, ours: Timestamp) -> Option<State> {
        let print = member.fingerprint;
        let set = self.lock(&print);
        let entry = set.iter().find(|entry| entry.print == print)?;
        let holds = entry.until > ours && entry.is_clients == batch.now.is_some();
        entry
            .denial(member, batch.now.unwrap_or(ours))
            .filter(|_| holds)
    }

    fn sent(&self, batch: &Batch<'_>) -> Sent {
        let prints = batch.members.iter().map(|member| member.fingerprint);
        Sent {
            now: self.clock.now(),
            epochs: prints
                .map(|print| self.epoch(&print).load(Ordering::Acquire))
                .collect(),
        }
    }

    /// Remembers the members that are denied.
    fn remember(&self, batch: &Batch<'_>, outcome: &Outcome, sent: &Sent) {
        let members = batch
            .members
            .iter()
            .zip(outcome.answers())
            .zip(&sent.epochs);
        for ((member, answer), epoch) in members {
            if !answer.known {
                continue;
            }
            if answer.passed {
                // A grant may enter a tier, and open a way that was closed.
                if matches!(member.algorithm, Algorithm::Tiers(_)) && member.mode.spends() {
                    self.forget_one(member);
                }
            } else if member.mode.votes() {
                let at = batch.now.unwrap_or(sent.now);
                let entry = DeniedBucket {
                    print: member.fingerprint,
                    state: answer.state.by_clock(outcome.now, at),
                    at,
                    least: member.min_cost,
                    tiers: match member.algorithm {
                        Algorithm::Tiers(tiers) => Some(tiers.clone()),
                        Algorithm::Gcra(_) => None,
                    },
                    until: after(self.clock.now(), self.lifetime),
                    is_clients: batch.now.is_some(),
                };
                let mut set = self.lock(&entry.print);
                if self.epoch(&entry.print).load(Ordering::Acquire) == *epoch {
                    replace(&mut set, entry);
                }
            }
        }
    }

    fn forget(&self, batch: &Batch<'_>) {
        for member in batch.members {
            self.forget_one(member);
        }
    }

    fn forget_one(&self, member: &Member<'_>) {
        let print = member.fingerprint;
        let mut set = self.lock(&print);
        self.epoch(&print).fetch_add(1, Ordering::AcqRel);
        for entry in set.iter_mut().filter(|entry| entry.print == print) {
            *entry = DeniedBucket::NOBODY;
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "any bits of a hash do")]
    fn lock(&self, print: &Fingerprint) -> std::sync::MutexGuard<'_, Set> {
        let set = &self.sets[print.low as usize % self.sets.len()];
        set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[expect(clippy::cast_possible_truncation, reason = "any bits of a hash do")]
    fn epoch(&self, print: &Fingerprint) -> &AtomicU32 {
        &self.epochs[print.high as usize % EPOCHS]
    }
}

/// Takes the place of the same bucket's entry, or of the one that would be forgotten soonest.
fn replace(set: &mut Set, entry: DeniedBucket) {
    let same = set.iter().position(|old| old.print == entry.print);
    let place = same.unwrap_or_else(|| {
        let soonest = set.iter().enumerate().min_by_key(|(_, old)| old.until);
        soonest.map_or(0, |(place, _)| place)
    });
    set[place] = entry;
}

fn after(now: Timestamp, duration: Duration) -> Timestamp {
    let duration = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    Timestamp::from_micros(now.as_micros().saturating_add(duration))
}

/// Forgets a batch's buckets at last, whether the store has answered or nobody waits for it any more.
struct Forget<'a, B: Backend>(&'a DenyCache<B>, &'a Batch<'a>);

impl<B: Backend> Drop for Forget<'_, B> {
    fn drop(&mut self) {
        self.0.forget(self.1);
    }
}

#[async_trait]
impl<B: Backend> Backend for DenyCache<B> {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        if matches!(batch.operation, Operation::Refund | Operation::Reset) {
            self.forget(batch);
            let _forget = Forget(self, batch);
            return self.inner.apply(batch).await;
        }
        if let Some(denial) = self.denial(batch) {
            return Ok(denial);
        }
        let sent = self.sent(batch);
        let outcome = self.inner.apply(batch).await?;
        self.remember(batch, &outcome, &sent);
        Ok(outcome)
    }

    fn try_apply(&self, batch: &Batch<'_>) -> Option<Result<Outcome, BackendError>> {
        match batch.operation {
            Operation::Check | Operation::Spend => match self.denial(batch) {
                Some(denial) => Some(Ok(denial)),
                None => self.inner.try_apply(batch),
            },
            // A backend that answers at once has no need of a cache, and this one keeps none of it.
            Operation::Refund | Operation::Reset => {
                let answer = self.inner.try_apply(batch)?;
                self.forget(batch);
                Some(answer)
            }
        }
    }

    fn admits(&self, algorithm: &Algorithm) -> Result<(), NotAdmitted> {
        self.inner.admits(algorithm)
    }

    fn lease(
        &self,
        algorithm: &Algorithm,
        share: LeaseShare,
    ) -> Result<Option<LeaseTerms>, NotAdmitted> {
        self.inner.lease(algorithm, share)
    }

    async fn close(&self) -> Result<(), BackendError> {
        self.inner.close().await
    }

    fn servers(&self) -> Option<&dyn Servers> {
        self.inner.servers()
    }

    fn stats(&self) -> Stats {
        self.inner.stats()
    }
}

impl<B: fmt::Debug> fmt::Debug for DenyCache<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DenyCache")
            .field("inner", &self.inner)
            .field("lifetime", &self.lifetime)
            .finish_non_exhaustive()
    }
}
