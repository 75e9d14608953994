//! From what a backend has stored to what people are told: the one place where batches are judged
//! and figures are computed, for every backend.
//!
//! A backend loads a [`State`] per member, lets [`Outcome::decide`] judge the batch, stores what
//! changed and returns the [`Outcome`]. A [`Decision`] keeps that raw state and computes its figures
//! when asked, rounding once: [`remaining`](Decision::remaining) down, waits up to microseconds.

mod outcome;

use std::{cmp::Ordering, fmt, time::Duration};

use smallvec::SmallVec;

pub use self::outcome::{Answer, Outcome, State};
use self::outcome::{Standing, charged};
use crate::{
    clock::Timestamp,
    gcra::{Gcra, Tat, Ticks},
    transaction::{Algorithm, Member, Mode, Operation},
};

/// What was decided for one transaction.
#[derive(Clone, PartialEq, Eq)]
pub struct Decision {
    verdict: Verdict,
    bucket: Option<Bucket>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Allowed,
    Denied,
    Refunded,
    NotRefunded,
}

/// A bucket as a decision shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bucket {
    algorithm: Algorithm,
    state: State,
    now: Timestamp,
    cost: u32,
}

impl Decision {
    /// The decision where no limit is configured.
    pub const NOT_LIMITED: Self = Self {
        verdict: Verdict::Allowed,
        bucket: None,
    };

    #[inline(always)]
    fn new(operation: Operation, member: &Member<'_>, answer: Answer, standing: Standing) -> Self {
        if !answer.known {
            return Self::NOT_LIMITED;
        }
        let verdict = match (operation, answer.passed) {
            (Operation::Refund, true) => Verdict::Refunded,
            (Operation::Refund, false) => Verdict::NotRefunded,
            (_, true) => Verdict::Allowed,
            (_, false) => Verdict::Denied,
        };
        let taken = answer.passed && standing.passes && is_hypothetical(operation, member);
        let bucket = Bucket {
            algorithm: member.algorithm.clone(),
            state: if taken {
                as_if_charged(member, answer.state, standing.now)
            } else {
                answer.state
            },
            now: standing.now,
            cost: member.cost,
        };
        Self {
            verdict,
            bucket: Some(bucket),
        }
    }

    /// Whether the request may proceed. For a member of a batch that does not vote, whether it was
    /// charged; for a refund of what is limited, whether anything was given back.
    #[must_use]
    pub fn allowed(&self) -> bool {
        matches!(self.verdict, Verdict::Allowed | Verdict::Refunded)
    }

    /// Whether a refund gave anything back.
    #[must_use]
    pub fn refunded(&self) -> bool {
        self.verdict == Verdict::Refunded
    }

    /// Whether a limit is configured. If not, there is nothing to wait for and nothing remains.
    #[must_use]
    pub fn limited(&self) -> bool {
        self.bucket.is_some()
    }

    /// The algorithm by which it was decided, or `None` if no limit is configured.
    #[must_use]
    pub fn algorithm(&self) -> Option<&Algorithm> {
        self.bucket.as_ref().map(|bucket| &bucket.algorithm)
    }

    /// How many whole tokens the bucket holds now, or `None` if no limit is configured.
    #[must_use]
    pub fn remaining(&self) -> Option<u32> {
        self.bucket.as_ref().map(Bucket::remaining)
    }

    /// How long to wait before the same cost would pass, when denied; zero when allowed.
    #[must_use]
    pub fn retry_after(&self) -> Duration {
        if self.denied() {
            self.next_after()
        } else {
            Duration::ZERO
        }
    }

    /// How long to wait before the same cost would pass, whether denied or allowed; zero if at once.
    #[must_use]
    pub fn next_after(&self) -> Duration {
        self.bucket
            .as_ref()
            .map_or(Duration::ZERO, |bucket| bucket.next_after().ceil())
    }

    /// How long until the bucket is full.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.bucket
            .as_ref()
            .map_or(Duration::ZERO, |bucket| bucket.reset_after().ceil())
    }

    /// What [`remaining`](Self::remaining) and [`next_token_after`](Self::next_token_after) say, with
    /// the algorithm, at the cost of one.
    pub(crate) fn quota(&self) -> Option<(&Algorithm, u32, Option<Duration>)> {
        let bucket = self.bucket.as_ref()?;
        let (gcra, tat, now) = bucket.gcra();
        let (remaining, next) = gcra.quota(tat, now);
        Some((&bucket.algorithm, remaining, next.map(Ticks::ceil)))
    }

    /// How long until one more token can be spent than now, or `None` if the bucket is full or no
    /// limit is configured.
    #[must_use]
    pub fn next_token_after(&self) -> Option<Duration> {
        self.quota()?.2
    }

    fn denied(&self) -> bool {
        self.verdict == Verdict::Denied
    }

    /// Orders by strictness: denied before allowed, then the longer wait, then fewer tokens.
    fn strictness(&self, other: &Self) -> Ordering {
        let (Some(a), Some(b)) = (&self.bucket, &other.bucket) else {
            return self.limited().cmp(&other.limited());
        };
        self.denied()
            .cmp(&other.denied())
            .then_with(|| a.compare_waits(b))
            .then_with(|| b.remaining().cmp(&a.remaining()))
    }
}

/// Whether a member shows what a charge would leave although none was stored.
fn is_hypothetical(operation: Operation, member: &Member<'_>) -> bool {
    match operation {
        Operation::Check => true,
        Operation::Spend => member.mode == Mode::CheckOnly,
        Operation::Refund | Operation::Reset => false,
    }
}

fn as_if_charged(member: &Member<'_>, state: State, now: Timestamp) -> State {
    let (Algorithm::Gcra(gcra), State::Gcra(tat)) = (member.algorithm, state);
    State::Gcra(charged(gcra, tat, now, member).unwrap_or(tat))
}

impl Bucket {
    fn gcra(&self) -> (&Gcra, Tat, u64) {
        let (Algorithm::Gcra(gcra), State::Gcra(tat)) = (&self.algorithm, self.state);
        (gcra, tat, self.now.as_micros())
    }

    fn remaining(&self) -> u32 {
        let (gcra, tat, now) = self.gcra();
        gcra.remaining(tat, now)
    }

    fn next_after(&self) -> Ticks {
        let (gcra, tat, now) = self.gcra();
        gcra.wait(tat, now, self.cost)
    }

    fn reset_after(&self) -> Ticks {
        let (gcra, tat, now) = self.gcra();
        gcra.reset_after(tat, now)
    }

    fn compare_waits(&self, other: &Self) -> Ordering {
        self.gcra()
            .0
            .compare(self.next_after(), other.gcra().0, other.next_after())
    }
}

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decision")
            .field("verdict", &self.verdict)
            .field("remaining", &self.remaining())
            .field("retry_after", &self.retry_after())
            .field("next_after", &self.next_after())
            .field("reset_after", &self.reset_after())
            .finish()
    }
}

/// What was decided for a batch: the strictest voting member's decision, and every member's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchDecision {
    members: SmallVec<[Decision; 4]>,
    strictest: Option<usize>,
}

impl BatchDecision {
    /// Gathers members' decisions, in the order sent, each with whether it votes.
    pub(crate) fn new(members: impl Iterator<Item = (Decision, bool)>) -> Self {
        let mut batch = Self {
            members: SmallVec::new(),
            strictest: None,
        };
        for (decision, votes) in members {
            if votes && decision.limited() && batch.is_outdone_by(&decision) {
                batch.strictest = Some(batch.members.len());
            }
            batch.members.push(decision);
        }
        batch
    }

    fn is_outdone_by(&self, decision: &Decision) -> bool {
        self.strictest
            .is_none_or(|i| decision.strictness(&self.members[i]).is_gt())
    }

    /// The decision on the whole batch: its strictest voting member's, or
    /// [`Decision::NOT_LIMITED`] if no member with a limit votes.
    #[must_use]
    pub fn decision(&self) -> &Decision {
        self.strictest
            .map_or(&Decision::NOT_LIMITED, |i| &self.members[i])
    }

    /// Whether the request may proceed.
    #[must_use]
    pub fn allowed(&self) -> bool {
        !self.decision().denied()
    }

    /// Whether a refund gave anything back to any member.
    #[must_use]
    pub fn refunded(&self) -> bool {
        self.members.iter().any(Decision::refunded)
    }

    /// Which member is the strictest, by its place in the batch.
    #[must_use]
    pub fn strictest(&self) -> Option<usize> {
        self.strictest
    }

    /// Every member's decision, in the order sent.
    #[must_use]
    pub fn members(&self) -> &[Decision] {
        &self.members
    }
}
