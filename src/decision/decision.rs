use std::{cmp::Ordering, fmt, time::Duration};

use super::{
    answer::Answer, ceil_secs, context::DecisionContext, figures::BucketFigures,
    lease_figures::LeaseFigures, source::Source, verdict::Verdict,
};
use crate::{
    algorithm::{Action, Algorithm, ClientFigures, FOREVER, ShownBucket},
    clock::Timestamp,
    tiers::{Grant, Tiers},
    transaction::{Claim, Fingerprint, Operation, Receipt},
};

/// The decision on one transaction. [`Limiter::spend`](crate::Limiter::spend) returns one. Two decisions are equal if
/// they report the same, regardless of their source.
#[derive(Clone, Eq)]
pub struct Decision {
    pub(super) verdict: Verdict,
    pub(super) source: Source,
    /// Whether the limit is in shadow mode, which clients do not see.
    pub(super) shadow: bool,
    /// Whether the cost is charged.
    pub(super) is_charged: bool,
    /// Whether a denial denies the whole batch.
    pub(super) votes: bool,
    pub(super) fingerprint: Fingerprint,
    /// What leases add, if the limit has them.
    pub(super) leased: Option<LeaseFigures>,
    pub(super) bucket: BucketFigures,
}

impl Decision {
    /// A wait that never ends, or one that is not known: that for a permit of a [concurrency
    /// limit](crate::Limit::concurrent).
    pub const NEVER: Duration = FOREVER;

    /// The decision if no limit is configured.
    pub const NOT_LIMITED: Self = Self::not_limited();

    /// [`NOT_LIMITED`](Self::NOT_LIMITED), written by its parts, which is shorter than a copy of the constant.
    #[inline(always)]
    pub(crate) const fn not_limited() -> Self {
        Self {
            verdict: Verdict::Allowed,
            source: Source::Store,
            shadow: false,
            is_charged: false,
            votes: false,
            fingerprint: Fingerprint { low: 0, high: 0 },
            leased: None,
            bucket: BucketFigures::None,
        }
    }

    /// Writes the decision on a claim whose bucket the backend has read. Returns whether the answer has figures for the
    /// algorithm, so that it is one to this claim. A reset has no figures.
    #[inline(always)]
    pub(crate) fn show(
        &mut self,
        algorithm: &Algorithm,
        claim: &Claim<'_>,
        answer: &Answer,
        context: DecisionContext,
    ) -> bool {
        let (ask, takes) = (&claim.ask, answer.passed && context.passes);
        let action = ask.action;
        self.verdict = Verdict::of(action, answer.passed, claim.shadow && context.passes);
        self.source = context.source;
        self.shadow = claim.shadow;
        self.is_charged = takes && matches!(action, Action::Spend | Action::Debit | Action::Renew);
        self.votes = claim.votes;
        self.fingerprint = claim.fingerprint;
        let (passes, bucket) = ((context.passes, takes), &mut self.bucket);
        let (state, part) = (&answer.state, answer.taken);
        let write = |known| bucket.fill(known);
        let is_shown = ShownBucket::show(algorithm, ask, state, part, passes, context.now, write);
        is_shown || action == Action::Reset
    }

    /// Returns whether the request may proceed, which is always true for a limit in shadow mode. For a member of a batch
    /// without a vote, whether it was charged. For a refund or a renewal on a limit with values, whether it did anything.
    #[must_use]
    pub fn allowed(&self) -> bool {
        use Verdict::{Denied, NotRefunded, NotRenewed};
        !matches!(self.verdict, Denied | NotRefunded | NotRenewed)
    }

    /// Returns whether a limit in shadow mode would have denied the request.
    #[must_use]
    pub fn would_be_denied(&self) -> bool {
        self.verdict == Verdict::WouldDeny
    }

    /// Returns the source of the decision.
    #[must_use]
    pub fn source(&self) -> Source {
        self.source
    }

    /// A receipt, which refunds exactly this charge; `None` if nothing was charged, or if tiers granted it, which
    /// cannot be undone.
    ///
    /// Every call returns a receipt for the same charge: refund only one of them.
    #[must_use]
    pub fn receipt(&self) -> Option<Receipt> {
        let (charge, cost) = self.bucket.known()?.charge()?;
        let is_local = self.source == Source::Local;
        let receipt = Receipt::new(self.fingerprint, charge, cost, is_local);
        self.is_charged.then_some(receipt)
    }

    /// Returns whether the client is [`BLOCKED`](crate::Limit::BLOCKED), so that waiting is pointless.
    #[must_use]
    pub fn blocked(&self) -> bool {
        self.bucket.is_blocked()
    }

    /// Returns whether a refund returned anything.
    #[must_use]
    pub fn refunded(&self) -> bool {
        self.verdict == Verdict::Refunded
    }

    /// Returns whether a renewal has found the permits of its receipt. If so, [`receipt`](Self::receipt) is the new one.
    #[must_use]
    pub fn renewed(&self) -> bool {
        self.verdict == Verdict::Renewed
    }

    /// Returns how many of `cost` tokens a refund has given back.
    pub(crate) fn given_back(&self, cost: u32) -> u32 {
        match self.bucket.known() {
            Some(bucket) if self.refunded() => bucket.given_back(cost),
            _ => 0,
        }
    }

    /// Returns whether a limit is configured. If not, nothing is counted and there is no wait.
    #[must_use]
    pub fn limited(&self) -> bool {
        !self.bucket.is_none()
    }

    /// The algorithm, or `None` if no limit is configured or the client is blocked.
    #[must_use]
    pub fn algorithm(&self) -> Option<Algorithm> {
        let bucket = self.bucket.known()?;
        Some(bucket.algorithm_with(self.reserved()))
    }

    /// The number of whole tokens left in the bucket, or of units that its tiers would grant; `None` if no limit is
    /// configured. In a decision by [`Source::Lease`], the number of tokens that this process holds; the headers of a
    /// [layer](crate::layer) add what the store had left.
    #[must_use]
    pub fn remaining(&self) -> Option<u32> {
        match self.leased {
            Some(leased) if leased.decides => Some(leased.held),
            _ => self.bucket.remaining(),
        }
    }

    /// The number of tokens or units charged: the cost, what a group request was granted, or what a debit took from a
    /// bucket that could not hold all of it; 0 if the request or its batch was denied.
    #[must_use]
    pub fn granted(&self) -> u32 {
        match self.bucket.known() {
            Some(bucket) if self.verdict == Verdict::Allowed => bucket.granted(),
            _ => 0,
        }
    }

    /// The time for which the permits of a [concurrency limit](crate::Limit::concurrent) count, after they were taken or
    /// renewed; `None` on other limits. On such a limit, a wait of [`NEVER`](Self::NEVER) means that it is not known.
    #[must_use]
    pub fn hold(&self) -> Option<Duration> {
        self.bucket.known()?.hold()
    }

    /// Returns whether the request may wait until permits come back.
    #[cfg(feature = "tokio")]
    pub(crate) fn waits_for_permits(&self) -> bool {
        self.hold().is_some() && self.may_wait()
    }

    /// Returns whether it denies its batch.
    #[cfg(feature = "tokio")]
    pub(crate) fn denies(&self) -> bool {
        self.votes && self.denied()
    }

    /// Returns the time until enough permits have expired, if none is renewed.
    #[cfg(feature = "tokio")]
    pub(crate) fn permits_expire_after(&self) -> Option<Duration> {
        let bucket = self
            .bucket
            .known()
            .filter(|bucket| bucket.hold().is_some())?;
        Some(bucket.expires_after())
    }

    /// The highest tier that granted units, with 0 for the lowest; `None` if no tier did, or if the limit has no
    /// tiers.
    #[must_use]
    pub fn tier(&self) -> Option<usize> {
        self.tiers()?.1.tier()
    }

    /// Returns the number of units that each tier granted, lowest first; empty if [`tier`](Self::tier) is `None`.
    pub fn split(&self) -> impl Iterator<Item = (usize, u32)> {
        let tiers = self.tiers().into_iter();
        tiers.flat_map(|(tiers, grant)| grant.split(tiers))
    }

    /// Returns the decision with the figures of a later instant, if there were no other requests.
    pub(crate) fn later(&self, by: Duration) -> Self {
        let us = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        let mut later = self.clone();
        later.bucket = later.bucket.later(us);
        later
    }

    /// Returns whether the cost can wait in line.
    #[inline]
    pub(crate) fn may_wait(&self) -> bool {
        self.bucket.known().is_some_and(ShownBucket::may_wait)
    }

    /// Returns whether the limit has tiers.
    pub(crate) fn has_tiers(&self) -> bool {
        self.tiers().is_some()
    }

    fn tiers(&self) -> Option<(&Tiers, Grant)> {
        self.bucket.known()?.tiers()
    }

    /// The time of the decision, by the clock that was used; `None` if no limit is configured or the client is
    /// blocked.
    #[must_use]
    pub fn decided_at(&self) -> Option<Timestamp> {
        self.bucket.known().map(ShownBucket::now)
    }

    /// Returns the time to wait before proceeding, when allowed: the place in the line of a limit with
    /// [`max_wait`](crate::Limit::max_wait). Zero on other limits, when denied, and if there is no need to wait.
    ///
    /// Rounded up to a microsecond. For a check it is what a spend would get. In a batch, all members wait for the
    /// [longest delay](super::BatchDecision::delay).
    #[must_use]
    pub fn delay(&self) -> Duration {
        match (self.bucket.known(), self.verdict) {
            (Some(bucket), Verdict::Allowed) => bucket.delay(),
            _ => Duration::ZERO,
        }
    }

    /// Returns the time until the same cost would pass, if denied, or [`NEVER`](Self::NEVER) if it cannot pass. Zero
    /// if allowed.
    #[must_use]
    pub fn retry_after(&self) -> Duration {
        if self.denied() {
            self.next_after()
        } else {
            Duration::ZERO
        }
    }

    /// Returns [`retry_after`](Self::retry_after) in whole seconds, rounded up, as in `Retry-After`; `None` if waiting
    /// is pointless.
    #[must_use]
    pub fn retry_after_secs(&self) -> Option<u64> {
        let wait = self.retry_after();
        (wait != Self::NEVER).then(|| ceil_secs(wait))
    }

    /// Returns the time until the same cost would pass, whether denied or allowed; zero if it would pass now, and
    /// [`NEVER`](Self::NEVER) where it cannot pass. On a limit with a line it is the time until the cost would be admitted
    /// to the line, if it may wait.
    #[must_use]
    pub fn next_after(&self) -> Duration {
        self.bucket.wait(ShownBucket::next_after)
    }

    /// Returns the time until the bucket is full, or like an unused one; [`NEVER`](Self::NEVER) if the client has
    /// entered a tier that never ends.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.bucket.wait(ShownBucket::reset_after)
    }

    /// Returns the figures of the bucket for its client, if there is one.
    #[inline(always)]
    pub(crate) fn figures(&self) -> Option<ClientFigures<'_>> {
        self.bucket.for_client(self.reserved())
    }

    /// Returns the time until there is one more token to spend, or until the tier in force has more room or ends; `None`
    /// if the bucket is full or no limit is configured.
    #[must_use]
    pub fn next_token_after(&self) -> Option<Duration> {
        match &self.bucket {
            BucketFigures::Blocked => Some(Self::NEVER),
            bucket => bucket.known()?.next_unit(),
        }
    }

    /// Turns figures that were shown without a cost into those of a look at the bucket: whether the cost would pass now.
    pub(super) fn of_peek(mut self) -> Self {
        self.verdict = match self.next_after().is_zero() {
            true => Verdict::Allowed,
            false if self.shadow => Verdict::WouldDeny,
            false => Verdict::Denied,
        };
        self
    }

    /// Creates the decision for a blocked client.
    #[cold]
    pub(crate) fn refused(operation: Operation, votes: bool, shadow: bool) -> Self {
        Self {
            verdict: match operation {
                Operation::Refund => Verdict::NotRefunded,
                Operation::Renew => Verdict::NotRenewed,
                _ => Verdict::of(Action::Spend, false, shadow),
            },
            source: Source::Store,
            shadow,
            votes,
            bucket: BucketFigures::Blocked,
            ..Self::NOT_LIMITED
        }
    }

    /// Returns whether the limit is in shadow mode.
    #[inline]
    pub(crate) fn in_shadow(&self) -> bool {
        self.shadow
    }

    pub(super) fn denied(&self) -> bool {
        self.verdict == Verdict::Denied
    }

    /// Orders by strictness: denied before allowed, then the longer wait, then fewer tokens.
    pub(crate) fn strictness(&self, other: &Self) -> Ordering {
        self.strictness_by(other, ShownBucket::remaining)
    }

    /// Orders by strictness, and counts the room in a line as remaining.
    pub(crate) fn strictness_to_client(&self, other: &Self) -> Ordering {
        self.strictness_by(other, ShownBucket::room)
    }

    #[inline]
    fn strictness_by(&self, other: &Self, remaining: impl Fn(&ShownBucket) -> u32) -> Ordering {
        if !self.limited() || !other.limited() {
            return self.limited().cmp(&other.limited());
        }
        let by_verdict = self.denied().cmp(&other.denied());
        by_verdict.then_with(|| self.bucket.strictness(&other.bucket, remaining))
    }
}

impl PartialEq for Decision {
    fn eq(&self, other: &Self) -> bool {
        let told = |decision: &Self| (decision.verdict, decision.shadow, decision.reserved());
        told(self) == told(other) && self.bucket == other.bucket
    }
}

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decision")
            .field("verdict", &self.verdict)
            .field("remaining", &self.remaining())
            .field("delay", &self.delay())
            .field("retry_after", &self.retry_after())
            .field("next_after", &self.next_after())
            .field("reset_after", &self.reset_after())
            .finish()
    }
}
