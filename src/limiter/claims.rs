//! Transactions that are decided in memory: what each asks of its bucket, and the answers.

use super::{
    limiter_error::LimiterError,
    prepare::{Lookups, WithoutBucket, duplicate},
    transactions::Transactions,
};
use crate::{
    backend::BackendError,
    clock::InvalidNow,
    decision::{Decisions, Judgement},
    few::Count,
    transaction::Operation,
};

/// The claims of transactions, in their order.
pub(crate) struct Claims<'a, C: Count> {
    operation: Operation,
    pub(super) judged: Judgement<'a, C>,
    /// The results of transactions without a claim.
    without: C::Of<WithoutBucket>,
    has_claims: bool,
    /// Whether a transaction without a claim denies the batch.
    is_refused: bool,
}

impl<'a, C: Count> Claims<'a, C> {
    #[inline(always)]
    pub(crate) fn new(operation: Operation, len: usize) -> Self {
        Self {
            operation,
            judged: Judgement::new(len),
            without: C::fill(len, WithoutBucket::Off),
            has_claims: false,
            is_refused: false,
        }
    }

    /// Looks the transactions up.
    #[inline(always)]
    pub(super) fn look_up(
        &mut self,
        lookups: &Lookups<'a>,
        transactions: &(impl Transactions<'a> + ?Sized),
    ) -> Result<(), LimiterError> {
        let places = self.judged.claims_mut().iter_mut();
        let places = places.zip(self.without.as_mut()).enumerate();
        for (place, (claim, without)) in places {
            let looked = transactions.read(place, |transaction| {
                lookups.claim(transaction, claim, without)
            });
            if let Err(error) = looked {
                return Err(*error);
            }
            match claim {
                Some(_) => self.has_claims = true,
                None => self.is_refused |= without.refuses(self.operation),
            }
        }
        let claims = self.judged.claims();
        let bucket = |place: usize| claims[place].as_ref().map(|claim| &claim.fingerprint);
        match duplicate(claims.len(), bucket) {
            None => Ok(()),
            Some(place) => Err(lookups.duplicate(place, transactions)),
        }
    }

    /// Returns the error of a batch that memory could not decide.
    #[inline(always)]
    pub(super) fn check(
        &self,
        applied: Result<(), InvalidNow>,
        transactions: &(impl Transactions<'a> + ?Sized),
    ) -> Result<(), LimiterError> {
        match (applied, self.judged.no_room()) {
            (Ok(()), None) => Ok(()),
            (Ok(()), Some(place)) => Err(transactions.read(place, LimiterError::no_room)),
            (Err(error), _) => Err(BackendError::from(error).into()),
        }
    }

    /// Returns whether a backend has to decide.
    #[inline(always)]
    pub(super) fn are_needed(&self) -> bool {
        self.has_claims && !self.is_refused
    }

    /// Returns whether the request may proceed.
    #[inline(always)]
    pub(super) fn pass(&self) -> bool {
        self.judged.passes() && !self.is_refused
    }

    /// Writes the decisions. They are large, so they are written where they stay.
    #[inline(always)]
    pub(super) fn show(&self, decided: &mut impl Decisions) {
        for (place, without) in self.without.as_ref().iter().enumerate() {
            let decision = decided.next();
            let is_shown = !self.is_refused && self.judged.show(place, decision);
            if !is_shown && self.judged.claims()[place].is_none() {
                *decision = without.decision(self.operation);
            }
        }
    }
}
