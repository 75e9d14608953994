use std::{cmp::Reverse, time::Duration};

use super::outcome::{Answer, Source};
use crate::{
    algorithm::{Algorithm, AlgorithmKey, Charge, Wait, tiers::Grant},
    batch::{DecisionBasis, Member},
    limit::Limit,
    transaction::{Mode, Operation, Receipt, ResultLabel},
};

/// The decision on one transaction. [`Limiter::spend`](crate::Limiter::spend) returns one.
///
/// Durations are whole microseconds, rounded up. `None` is a wait that never ends, or one that is not known, such as that for a
/// permit of a [concurrency limit](crate::Limit::concurrent).
// The order of the fields makes moves out of an `Option` or a `Result` fast. Those keep their variant in the niche of `is_stored`.
// With this order, the other fields are moved as whole words. Otherwise, they would be moved in overlapping parts, which wait for
// each other.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Decision {
    /// The units that were taken, given back or renewed. For a check, those that would be.
    charge: Charge,
    next_after: Wait,
    more_after: Wait,
    reset_after: Wait,
    delay: Wait,
    remaining: u32,
    /// A part of the fingerprint of the bucket.
    bucket: u32,
    is_stored: bool,
    verdict: Verdict,
    source: Source,
    kind: BucketKind,
    vote: Vote,
}

/// The algorithm of the bucket, or the reason why there is no bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BucketKind {
    Algorithm(AlgorithmKey),
    /// No limit is configured.
    NoLimit,
    /// The client is blocked.
    Block,
}

/// Whether a denial denies the whole batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Vote {
    Counts,
    Silent,
    /// The limit is in shadow mode, so that it has no vote. Clients do not see it.
    Shadow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allowed,
    Denied,
    /// Shadow mode has prevented a denial.
    WouldDeny,
    Refunded,
    NotRefunded,
    Renewed,
    NotRenewed,
}

impl Vote {
    #[inline]
    const fn of(votes: bool, is_shadow: bool) -> Self {
        if is_shadow {
            Self::Shadow
        } else if votes {
            Self::Counts
        } else {
            Self::Silent
        }
    }
}

impl Verdict {
    #[inline]
    const fn of(operation: Operation, passed: bool, is_shadow: bool) -> Self {
        match (operation, passed) {
            (Operation::Refund, true) => Self::Refunded,
            (Operation::Refund, false) => Self::NotRefunded,
            (Operation::Renew, true) => Self::Renewed,
            (Operation::Renew, false) => Self::NotRenewed,
            (_, true) => Self::Allowed,
            (_, false) if is_shadow => Self::WouldDeny,
            (_, false) => Self::Denied,
        }
    }
}

impl Decision {
    /// The decision if no limit is configured.
    pub(crate) const NOT_LIMITED: Self = Self {
        charge: Charge {
            at: 0,
            frac: 0,
            units: 0,
        },
        next_after: Wait::ZERO,
        more_after: Wait::ZERO,
        reset_after: Wait::ZERO,
        delay: Wait::ZERO,
        remaining: u32::MAX,
        bucket: 0,
        verdict: Verdict::Allowed,
        source: Source::Store,
        kind: BucketKind::NoLimit,
        vote: Vote::Silent,
        is_stored: false,
    };

    /// Creates the decision on a member. `passes` says whether its batch does.
    #[inline]
    pub(crate) fn new(
        operation: Operation,
        member: &Member<'_>,
        answer: &Answer,
        source: Source,
        passes: bool,
    ) -> Self {
        let Some(figures) = &answer.figures else {
            return Self::NOT_LIMITED;
        };
        let is_shadow = member.limit.is_shadow();
        // A peek shows whether the cost would pass now.
        let passed = match operation {
            Operation::Peek => figures.next_after.is_zero(),
            _ => answer.passed,
        };
        // In a batch of refunds or renewals, the source of each decision is the one that has made the charge.
        let source = if member.role.is_local {
            Source::Local
        } else {
            source
        };
        Self {
            charge: answer.charge,
            next_after: figures.next_after,
            more_after: figures.more_after,
            reset_after: figures.reset_after,
            delay: figures.delay,
            remaining: figures.remaining,
            bucket: member.print.short(),
            verdict: Verdict::of(operation, passed, is_shadow && passes),
            source,
            kind: BucketKind::Algorithm(member.algorithm().key()),
            vote: Vote::of(member.role.mode.votes(), is_shadow),
            is_stored: member.writes(operation),
        }
    }

    /// Creates the decision on a member if it does not depend on a bucket.
    #[inline]
    pub(crate) fn without_bucket(operation: Operation, member: &Member<'_>) -> Option<Self> {
        match member.role.basis {
            DecisionBasis::Bucket => None,
            DecisionBasis::NoLimit => Some(Self::NOT_LIMITED),
            DecisionBasis::Block => {
                let votes = member.mode().votes();
                Some(Self::refused(operation, votes, member.limit.is_shadow()))
            }
        }
    }

    /// Creates the decision for a transaction that cannot pass, in any state.
    #[cold]
    fn refused(operation: Operation, votes: bool, is_shadow: bool) -> Self {
        Self {
            verdict: Verdict::of(operation, false, is_shadow),
            kind: BucketKind::Block,
            vote: Vote::of(votes, is_shadow),
            remaining: 0,
            next_after: Wait::UNKNOWN,
            more_after: Wait::UNKNOWN,
            reset_after: Wait::UNKNOWN,
            ..Self::NOT_LIMITED
        }
    }

    /// Returns the result of a member with this mode; `None` if it is not limited. `passes` says whether its batch does.
    pub(crate) fn label(&self, mode: Mode, passes: bool) -> Option<ResultLabel> {
        if !self.limited() {
            return None;
        }
        Some(match (self.verdict, self.source()) {
            (Verdict::WouldDeny, _) => ResultLabel::ShadowRejected,
            (Verdict::Denied, _) if !passes && (self.in_shadow() || !mode.votes()) => {
                ResultLabel::Withheld
            }
            (Verdict::Denied, _) if !mode.votes() => ResultLabel::Skipped,
            (Verdict::Denied, _) if self.blocked() => ResultLabel::Blocked,
            (Verdict::Denied, Source::Store | Source::Lease) => ResultLabel::Rejected,
            (Verdict::Denied, Source::Cache) => ResultLabel::CacheRejected,
            (Verdict::Denied, Source::Local) => ResultLabel::FallbackRejected,
            _ if !passes => ResultLabel::Withheld,
            (_, Source::Local) => ResultLabel::FallbackAcquired,
            _ => ResultLabel::Acquired,
        })
    }

    /// Returns whether the request may proceed, which is always true for a limit in shadow mode. For a member without a vote, it
    /// says whether the member was charged. For a refund or a renewal on a limit with values, it says whether anything was given
    /// back or renewed.
    #[must_use]
    pub const fn allowed(&self) -> bool {
        use Verdict::{Denied, NotRefunded, NotRenewed};
        !matches!(self.verdict, Denied | NotRefunded | NotRenewed)
    }

    /// Returns whether a limit in shadow mode would have denied the request.
    #[must_use]
    pub fn would_be_denied(&self) -> bool {
        self.verdict == Verdict::WouldDeny
    }

    /// Returns whether a refund returned anything.
    #[must_use]
    pub fn refunded(&self) -> bool {
        self.verdict == Verdict::Refunded
    }

    /// Returns whether a renewal has found the permits of its receipt. If it has, [`receipt`](Self::receipt) is the new receipt.
    #[must_use]
    pub fn renewed(&self) -> bool {
        self.verdict == Verdict::Renewed
    }

    /// Returns whether a limit is configured. If not, nothing is counted and there is no wait.
    #[must_use]
    pub fn limited(&self) -> bool {
        self.kind != BucketKind::NoLimit
    }

    /// Returns whether the client is [`BLOCKED`](crate::Limit::BLOCKED), so that waiting does not help.
    #[must_use]
    pub fn blocked(&self) -> bool {
        self.kind == BucketKind::Block
    }

    /// The algorithm, or `None` if no limit is configured or the client is blocked.
    #[must_use]
    pub const fn algorithm(&self) -> Option<AlgorithmKey> {
        match self.kind {
            BucketKind::Algorithm(algorithm) => Some(algorithm),
            BucketKind::NoLimit | BucketKind::Block => None,
        }
    }

    /// Returns the source of the decision.
    #[must_use]
    pub const fn source(&self) -> Source {
        self.source
    }

    /// The number of whole tokens left in the bucket, or of units that its tiers would grant; `None` if no limit is
    /// configured. In a decision by [`Source::Lease`], the number of tokens that this process holds.
    #[must_use]
    pub fn remaining(&self) -> Option<u32> {
        self.limited().then_some(self.remaining)
    }

    /// The number of tokens or units charged: the cost, what a group request was granted, or what a debit took from a
    /// bucket that could not hold all of it; 0 if the request or its batch was denied. For a check, it is what a spend would be
    /// charged.
    #[must_use]
    pub fn granted(&self) -> u32 {
        match self.verdict {
            Verdict::Allowed => self.charge.units,
            _ => 0,
        }
    }

    /// The number of units that are charged.
    pub(crate) fn charged(&self) -> u32 {
        if self.is_stored { self.granted() } else { 0 }
    }

    /// The number of units of a refund that were given back.
    pub(crate) fn given_back(&self) -> u32 {
        if self.refunded() {
            self.charge.units
        } else {
            0
        }
    }

    /// A receipt, which refunds exactly this charge; `None` if nothing was charged, or if tiers granted it, which
    /// cannot be undone.
    ///
    /// Every call returns a receipt for the same charge: refund only one of them.
    #[must_use]
    pub fn receipt(&self) -> Option<Receipt> {
        let algorithm = self.algorithm().filter(|_| !self.has_tiers())?;
        let is_local = self.source == Source::Local;
        let is_charge =
            self.charge.units > 0 && matches!(self.verdict, Verdict::Allowed | Verdict::Renewed);
        (is_charge && self.is_stored)
            .then(|| Receipt::new(algorithm, self.charge, is_local, self.bucket))
    }

    /// The highest tier that granted units, with 0 for the lowest; `None` if no tier did, or if the limit has no
    /// tiers.
    #[must_use]
    pub fn tier(&self) -> Option<usize> {
        self.grant()?.tier()
    }

    /// Returns the number of units that each tier granted, lowest first; empty if [`tier`](Self::tier) is `None`. `by` is
    /// the limit that has granted them.
    pub fn split<'a>(&self, by: &'a Limit) -> impl Iterator<Item = (usize, u32)> + use<'a> {
        let tiers = match by.algorithm() {
            Some(Algorithm::Tiers(tiers)) => Some(tiers),
            _ => None,
        };
        let grant = self.grant().zip(tiers);
        grant
            .into_iter()
            .flat_map(|(grant, tiers)| grant.split(tiers))
    }

    fn grant(&self) -> Option<Grant> {
        self.has_tiers().then(|| self.charge.into())
    }

    /// The time to wait before proceeding, when allowed: the wait until its turn in the line of a limit with
    /// [`max_wait`](crate::Limit::max_wait). Zero on other limits, when denied, and if there is no need to wait.
    ///
    /// For a check it is what a spend would get. In a batch, all members wait for the
    /// [longest delay](super::BatchDecision::delay).
    #[must_use]
    pub fn delay(&self) -> Duration {
        match self.verdict {
            Verdict::Allowed => self.delay.duration().unwrap_or_default(),
            _ => Duration::ZERO,
        }
    }

    /// The time until the same cost would pass, if it was denied. Zero if it was allowed.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self.verdict {
            Verdict::Denied => self.next_after(),
            _ => Some(Duration::ZERO),
        }
    }

    /// Returns [`retry_after`](Self::retry_after) in whole seconds, rounded up, as in `Retry-After`.
    #[must_use]
    pub fn retry_after_secs(&self) -> Option<u64> {
        self.retry_after().map(ceil_secs)
    }

    /// The time until the same cost would pass, whether denied or allowed; zero if it would pass now. On a limit with a line,
    /// it is the time until the cost would be admitted to the line, if it may wait.
    #[must_use]
    pub const fn next_after(&self) -> Option<Duration> {
        self.next_after.duration()
    }

    /// The time until more units are left, or until the tier in force has more room or ends; zero if nothing is used.
    #[must_use]
    pub const fn more_after(&self) -> Option<Duration> {
        self.more_after.duration()
    }

    /// The time until the bucket is full.
    #[must_use]
    pub const fn reset_after(&self) -> Option<Duration> {
        self.reset_after.duration()
    }

    /// Changes the figures to those after the caller's wait in line.
    pub(crate) fn has_waited(&mut self, time: Duration) {
        let figures = [
            &mut self.next_after,
            &mut self.more_after,
            &mut self.reset_after,
        ];
        for figure in figures {
            *figure = figure.minus(time);
        }
    }

    pub(crate) fn has_tiers(&self) -> bool {
        self.algorithm() == Some(AlgorithmKey::Tiers)
    }

    /// Returns whether permits were taken, which are given back when the work ends.
    #[inline]
    pub(crate) fn has_permits(&self) -> bool {
        self.algorithm() == Some(AlgorithmKey::Concurrency)
    }

    pub(crate) fn votes(&self) -> bool {
        self.vote == Vote::Counts
    }

    pub(crate) fn in_shadow(&self) -> bool {
        self.vote == Vote::Shadow
    }

    /// Returns whether the decision denies its batch.
    pub(crate) fn denies(&self) -> bool {
        self.votes() && self.denied()
    }

    pub(crate) fn denied(&self) -> bool {
        self.verdict == Verdict::Denied
    }

    /// Orders limited decisions by strictness. A denial is stricter than an admission, then the longer wait, then fewer tokens.
    pub(crate) fn strictness(&self) -> impl Ord + use<> {
        (self.denied(), self.next_after, Reverse(self.remaining))
    }
}

/// Returns a duration in whole seconds, rounded up.
pub(crate) fn ceil_secs(duration: Duration) -> u64 {
    let part = duration.subsec_nanos() > 0;
    duration.as_secs().saturating_add(u64::from(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_small() {
        assert!(size_of::<Decision>() <= 64);
        assert!(size_of::<super::super::BatchDecision>() <= 272);
    }
}
