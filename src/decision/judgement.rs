//! Judges a batch: each claim on its bucket, then all changes or none.

use super::{answer::Answer, context::DecisionContext, decision::Decision, source::Source};
use crate::{
    algorithm::{Action, State},
    clock::Timestamp,
    few::Count,
    transaction::{Batch, Claim, Fingerprint},
};

/// The buckets of a batch that nobody else can change meanwhile, each at the place of its claim.
pub(crate) trait Buckets<'a> {
    /// Fills in what a claim leads to, if the batch passes.
    fn judge(&self, place: usize, claim: &Claim<'a>, now: Timestamp, answer: &mut Answer);

    /// Returns the state of a bucket if nothing is taken from it.
    fn untouched(&self, place: usize, claim: &Claim<'a>, now: Timestamp) -> State;

    /// Stores the answer to a claim.
    fn write(&mut self, place: usize, claim: &Claim<'a>, answer: &Answer, now: Timestamp);
}

/// The claims of a batch and the answers to them, each at the place of its transaction. A place can be without a claim.
pub(crate) struct Judgement<'a, C: Count> {
    now: Timestamp,
    claims: C::Of<Option<Claim<'a>>>,
    answers: C::Of<Answer>,
    passes: bool,
    /// The place of a claim whose debit does not fit into its window, in a batch that would pass otherwise.
    no_room: Option<usize>,
}

impl<'a, C: Count> Judgement<'a, C> {
    /// Begins with so many places, each without a claim.
    #[inline(always)]
    pub(crate) fn new(len: usize) -> Self {
        Self {
            now: Timestamp::default(),
            claims: C::fill(len, None),
            answers: C::fill(len, Answer::UNKNOWN),
            passes: true,
            no_room: None,
        }
    }

    /// Begins with a claim for each member of a batch.
    pub(crate) fn of(batch: &Batch<'a>) -> Self {
        let mut judged = Self::new(batch.members.len());
        for (claim, member) in judged.claims.as_mut().iter_mut().zip(batch.members) {
            *claim = Some(batch.claim(member));
        }
        judged
    }

    #[inline(always)]
    pub(crate) fn claims(&self) -> &[Option<Claim<'a>>] {
        self.claims.as_ref()
    }

    #[inline(always)]
    pub(crate) fn claims_mut(&mut self) -> &mut [Option<Claim<'a>>] {
        self.claims.as_mut()
    }

    /// Judges all claims, and stores all changes or none.
    #[inline(always)]
    pub(crate) fn judge(&mut self, buckets: &mut impl Buckets<'a>, now: Timestamp) {
        self.now = now;
        let (mut passes, mut no_room) = (true, None);
        let claims = self.claims.as_ref().iter();
        let answers = self.answers.as_mut().iter_mut();
        for (place, (claim, answer)) in claims.zip(answers).enumerate() {
            let Some(claim) = claim else { continue };
            buckets.judge(place, claim, now, answer);
            if !answer.passed {
                passes &= !claim.decides();
                if matches!(claim.ask.action, Action::Debit | Action::ProbeDebit) {
                    no_room.get_or_insert(place);
                }
            }
        }
        self.passes = passes && no_room.is_none();
        self.no_room = no_room.filter(|_| passes);
        // A denial writes nothing, and an attack is mostly denials.
        match self.passes {
            true => self.write(buckets),
            false => self.take_nothing(buckets),
        }
    }

    #[inline(always)]
    fn write(&self, buckets: &mut impl Buckets<'a>) {
        let answers = self.claims.as_ref().iter().zip(self.answers.as_ref());
        for (place, (claim, answer)) in answers.enumerate() {
            if let Some(claim) = claim.as_ref().filter(|claim| claim.writes(answer.passed)) {
                buckets.write(place, claim, answer, self.now);
            }
        }
    }

    /// Shows each bucket as it is, because the batch is denied.
    #[inline(never)]
    fn take_nothing(&mut self, buckets: &impl Buckets<'a>) {
        let answers = self.claims.as_ref().iter().zip(self.answers.as_mut());
        for (place, (claim, answer)) in answers.enumerate() {
            if let Some(claim) = claim {
                answer.take_nothing(buckets.untouched(place, claim, self.now), claim.votes);
            }
        }
    }

    /// Returns whether the batch passes.
    #[inline(always)]
    pub(crate) fn passes(&self) -> bool {
        self.passes
    }

    /// Returns the place of a claim whose debit has no room.
    #[inline(always)]
    pub(crate) fn no_room(&self) -> Option<usize> {
        self.no_room
    }

    #[inline(always)]
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    #[inline(always)]
    pub(crate) fn answers(&self) -> &[Answer] {
        self.answers.as_ref()
    }

    /// Returns the fingerprints of the buckets.
    pub(crate) fn fingerprints(&self) -> impl Iterator<Item = &Fingerprint> + Clone {
        let claims = self.claims.as_ref().iter().flatten();
        claims.map(|claim| &claim.fingerprint)
    }

    /// Returns whether the batch gives something back.
    #[cfg(feature = "tokio")]
    #[inline(always)]
    pub(crate) fn gives_back(&self) -> bool {
        let mut claims = self.claims.as_ref().iter().flatten();
        claims.any(|claim| matches!(claim.ask.action, Action::Refund | Action::Reset))
    }

    /// Writes the decision on the claim at a place. Returns whether there is one.
    #[inline(always)]
    pub(crate) fn show(&self, place: usize, decision: &mut Decision) -> bool {
        let context = DecisionContext {
            now: self.now,
            passes: self.passes,
            source: Source::Store,
        };
        let Some(claim) = &self.claims.as_ref()[place] else {
            return false;
        };
        let answer = &self.answers.as_ref()[place];
        decision.show(claim.algorithm, claim, answer, context);
        true
    }
}
