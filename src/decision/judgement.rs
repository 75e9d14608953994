//! Judges a batch: each claim on its bucket, then all changes or none.

use super::{
    answer::Answer, batch_decision::Decisions, context::DecisionContext, decision::Decision,
    row_decision::RowAnswer, source::Source, without_bucket::WithoutBucket,
};
use crate::{
    algorithm::{Action, RowValue},
    clock::Timestamp,
    few::Count,
    transaction::{Batch, Claim, Fingerprint, Member, Operation, RowCharge},
};

/// A claim of a batch on one bucket. There are two sizes: a [`Claim`] can be anything, while the compiler knows that a
/// [`RowCharge`] is nothing else, which saves a fifth to a third of the instructions.
pub(crate) trait AnyClaim<'a>: Copy {
    /// A claim, or what a batch has in its stead.
    type Place: Copy;

    /// The answer of a backend to the claim.
    type Answer: Copy;

    /// A place before its claim is known.
    const EMPTY: Self::Place;

    /// An answer before there is one.
    const UNKNOWN: Self::Answer;

    /// Returns the claim of a member, if it can be one of this size.
    fn of(batch: &Batch<'a>, member: &Member<'a>) -> Option<Self::Place>;

    /// Returns the claim at a place.
    fn at(place: &Self::Place) -> Option<&Self>;

    /// Returns whether a place without a claim denies the batch.
    fn is_refusal(place: &Self::Place, operation: Operation) -> bool;

    /// Returns the fingerprint of the bucket.
    fn fingerprint(&self) -> &Fingerprint;

    /// Returns whether the batch is denied if the cost does not fit.
    fn decides(&self) -> bool;

    /// Returns whether the batch has to fail if the cost does not fit.
    fn is_debit(&self) -> bool;

    /// Returns whether it can give something back to its bucket.
    #[cfg(feature = "tokio")]
    fn gives_back(&self) -> bool;

    /// Returns whether the answer changes the bucket, if the batch passes.
    fn writes(&self, answer: &Self::Answer) -> bool;

    /// Returns whether the cost fits.
    fn passed(answer: &Self::Answer) -> bool;

    /// Returns the answer as stores give it.
    fn answer(&self, answer: &Self::Answer, now: Timestamp) -> Answer;

    /// Writes the decision on a place. Decisions are large, so they are written where they stay.
    fn show(
        place: &Self::Place,
        operation: Operation,
        answer: &Self::Answer,
        context: DecisionContext,
        decision: &mut Decision,
    );
}

/// The buckets of a batch that nobody else can change meanwhile, each at the place of its claim.
pub(crate) trait Buckets<'a, K: AnyClaim<'a>> {
    /// Fills in what a claim leads to, if the batch passes.
    fn judge(&mut self, place: usize, claim: &K, now: Timestamp, answer: &mut K::Answer);

    /// Fills in the bucket as it is, because the batch is denied.
    fn take_nothing(&self, place: usize, claim: &K, now: Timestamp, answer: &mut K::Answer);

    /// Stores the answer to a claim.
    fn write(&mut self, place: usize, claim: &K, answer: &K::Answer, now: Timestamp);
}

/// The claims of a batch and the answers to them, each at the place of its transaction.
pub(crate) struct Judgement<'a, K: AnyClaim<'a>, C: Count> {
    operation: Operation,
    now: Timestamp,
    places: C::Of<K::Place>,
    answers: C::Of<K::Answer>,
    passes: bool,
    /// The place of a claim whose debit does not fit into its window, in a batch that would pass otherwise.
    no_room: Option<usize>,
}

impl<'a, K: AnyClaim<'a>, C: Count> Judgement<'a, K, C> {
    /// Begins with `len` places, whose claims are not known yet.
    #[inline(always)]
    pub(crate) fn new(operation: Operation, len: usize) -> Self {
        Self {
            operation,
            now: Timestamp::default(),
            places: C::fill(len, K::EMPTY),
            answers: C::fill(len, K::UNKNOWN),
            passes: true,
            no_room: None,
        }
    }

    /// Fills in a claim for each member of a batch. Returns whether all of them can be of this size.
    #[inline(always)]
    pub(crate) fn claim(&mut self, batch: &Batch<'a>) -> bool {
        let mut places = self.places.as_mut().iter_mut().zip(batch.members);
        places.all(|(place, member)| match K::of(batch, member) {
            Some(claimed) => {
                *place = claimed;
                true
            }
            None => false,
        })
    }

    #[inline(always)]
    pub(crate) fn places(&self) -> &[K::Place] {
        self.places.as_ref()
    }

    #[inline(always)]
    pub(crate) fn places_mut(&mut self) -> &mut [K::Place] {
        self.places.as_mut()
    }

    /// Returns whether a backend has to decide. A batch that a place without a claim denies does not pass.
    #[inline(always)]
    pub(crate) fn is_needed(&mut self) -> bool {
        let operation = self.operation;
        let mut places = self.places.as_ref().iter();
        self.passes = !places.any(|place| K::is_refusal(place, operation));
        let mut places = self.places.as_ref().iter();
        self.passes && places.any(|place| K::at(place).is_some())
    }

    /// Judges all claims, and stores all changes or none.
    #[inline(always)]
    pub(crate) fn judge(&mut self, buckets: &mut impl Buckets<'a, K>, now: Timestamp) {
        self.now = now;
        let (mut passes, mut no_room) = (true, None);
        let places = self.places.as_ref().iter();
        let answers = self.answers.as_mut().iter_mut();
        for (place, (claim, answer)) in places.zip(answers).enumerate() {
            let Some(claim) = K::at(claim) else { continue };
            buckets.judge(place, claim, now, answer);
            if !K::passed(answer) {
                passes &= !claim.decides();
                if claim.is_debit() {
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
    fn write(&self, buckets: &mut impl Buckets<'a, K>) {
        let answers = self.places.as_ref().iter().zip(self.answers.as_ref());
        for (place, (claim, answer)) in answers.enumerate() {
            if let Some(claim) = K::at(claim).filter(|claim| claim.writes(answer)) {
                buckets.write(place, claim, answer, self.now);
            }
        }
    }

    /// Shows each bucket as it is, because the batch is denied.
    #[inline(never)]
    fn take_nothing(&mut self, buckets: &impl Buckets<'a, K>) {
        let answers = self.places.as_ref().iter().zip(self.answers.as_mut());
        for (place, (claim, answer)) in answers.enumerate() {
            if let Some(claim) = K::at(claim) {
                buckets.take_nothing(place, claim, self.now, answer);
            }
        }
    }

    #[inline(always)]
    pub(crate) fn operation(&self) -> Operation {
        self.operation
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
    fn claims(&self) -> impl Iterator<Item = &K> + Clone {
        self.places.as_ref().iter().filter_map(K::at)
    }

    /// Returns the fingerprints of the buckets.
    #[inline(always)]
    pub(crate) fn fingerprints(&self) -> impl Iterator<Item = &Fingerprint> + Clone {
        self.claims().map(K::fingerprint)
    }

    /// Returns whether the batch gives something back.
    #[cfg(feature = "tokio")]
    #[inline(always)]
    pub(crate) fn gives_back(&self) -> bool {
        self.claims().any(K::gives_back)
    }

    /// Writes the decision on each place.
    #[inline(always)]
    pub(crate) fn show(&self, decided: &mut impl Decisions) {
        let context = DecisionContext {
            now: self.now,
            passes: self.passes,
            source: Source::Store,
        };
        let places = self.places();
        let answers = places.iter().zip(self.answers.as_ref());
        for ((place, answer), decision) in answers.zip(decided.room(places.len())) {
            K::show(place, self.operation, answer, context, decision);
        }
    }

    #[inline(always)]
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns the answer to the claim, if it is the only one.
    #[inline(always)]
    pub(crate) fn only_answer(&self) -> Option<Answer> {
        match (self.places(), self.answers.as_ref()) {
            ([place], [answer]) => Some(K::at(place)?.answer(answer, self.now)),
            _ => None,
        }
    }

    /// Returns the answers to the claims, as stores give them.
    #[inline(always)]
    pub(crate) fn answers(&self) -> impl Iterator<Item = Answer> {
        let answers = self.places.as_ref().iter().zip(self.answers.as_ref());
        answers.filter_map(|(place, answer)| Some(K::at(place)?.answer(answer, self.now)))
    }
}

impl<'a> AnyClaim<'a> for Claim<'a> {
    type Place = Result<Self, WithoutBucket>;
    type Answer = Answer;

    const EMPTY: Self::Place = Err(WithoutBucket::Off);
    const UNKNOWN: Answer = Answer::UNKNOWN;

    #[inline(always)]
    fn of(batch: &Batch<'a>, member: &Member<'a>) -> Option<Self::Place> {
        Some(Ok(batch.claim(member)))
    }

    #[inline(always)]
    fn at(place: &Self::Place) -> Option<&Self> {
        place.as_ref().ok()
    }

    #[inline(always)]
    fn is_refusal(place: &Self::Place, operation: Operation) -> bool {
        place.is_err_and(|without| without.refuses(operation))
    }

    #[inline(always)]
    fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    #[inline(always)]
    fn decides(&self) -> bool {
        self.votes && matches!(self.ask.action, Action::Spend | Action::Probe)
    }

    #[inline(always)]
    fn is_debit(&self) -> bool {
        matches!(self.ask.action, Action::Debit | Action::ProbeDebit)
    }

    #[cfg(feature = "tokio")]
    #[inline(always)]
    fn gives_back(&self) -> bool {
        matches!(self.ask.action, Action::Refund | Action::Reset)
    }

    #[inline(always)]
    fn writes(&self, answer: &Answer) -> bool {
        answer.passed && self.ask.action.writes()
    }

    #[inline(always)]
    fn passed(answer: &Answer) -> bool {
        answer.passed
    }

    fn answer(&self, answer: &Answer, _: Timestamp) -> Answer {
        *answer
    }

    #[inline(always)]
    fn show(
        place: &Self::Place,
        operation: Operation,
        answer: &Answer,
        context: DecisionContext,
        decision: &mut Decision,
    ) {
        match place {
            Err(without) => *decision = without.decision(operation),
            // Nobody has looked at the bucket, because another transaction is refused.
            Ok(_) if !answer.known => {}
            Ok(claim) => {
                decision.show(claim.algorithm, claim, answer, context);
            }
        }
    }
}

impl<'a> AnyClaim<'a> for RowCharge<'a> {
    type Place = Self;
    type Answer = RowAnswer;

    const EMPTY: Self = Self::NONE;
    const UNKNOWN: RowAnswer = RowAnswer {
        value: RowValue::FULL,
        fits: false,
    };

    #[inline(always)]
    fn of(batch: &Batch<'a>, member: &Member<'a>) -> Option<Self> {
        batch.row_charge(member)
    }

    #[inline(always)]
    fn at(place: &Self) -> Option<&Self> {
        Some(place)
    }

    #[inline(always)]
    fn is_refusal(_: &Self, _: Operation) -> bool {
        false
    }

    #[inline(always)]
    fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    #[inline(always)]
    fn decides(&self) -> bool {
        true
    }

    #[inline(always)]
    fn is_debit(&self) -> bool {
        false
    }

    #[cfg(feature = "tokio")]
    #[inline(always)]
    fn gives_back(&self) -> bool {
        false
    }

    #[inline(always)]
    fn writes(&self, _: &RowAnswer) -> bool {
        true
    }

    #[inline(always)]
    fn passed(answer: &RowAnswer) -> bool {
        answer.fits
    }

    #[inline(always)]
    fn answer(&self, answer: &RowAnswer, now: Timestamp) -> Answer {
        match self.algorithm {
            Some(algorithm) => Answer::new(algorithm.state_in_row(answer.value, now), answer.fits),
            None => Answer::UNKNOWN,
        }
    }

    #[inline(always)]
    fn show(
        charge: &Self,
        _: Operation,
        answer: &RowAnswer,
        context: DecisionContext,
        decision: &mut Decision,
    ) {
        decision.show_row(charge, answer, context);
    }
}
