//! Transactions that are decided in memory: what each asks of its bucket, and the answers.
//!
//! There are two sizes of claims. The smaller one serves the most common decisions: charges of rows. The same functions look
//! up, judge and show both. The conformance suite compares the decisions on small claims with those of
//! [`Outcome::decide`](crate::decision::Outcome::decide), which uses full ones.

use std::borrow::Borrow;

use super::{
    Limiter,
    limiter_error::LimiterError,
    prepare::{Lookups, duplicate},
    transactions::Transactions,
};
use crate::{
    backend::{BackendError, MemoryBackend, MemoryClaim},
    decision::Judgement,
    few::Count,
    limit::Limits,
    metrics::Stopwatch,
    transaction::{Claim, RowCharge, Transaction},
};

/// A claim that can be looked up.
pub(crate) trait LookedUp<'a>: MemoryClaim<'a> {
    /// Fills in what a transaction asks of its bucket, or why it has none. Both are large, so they are written where they
    /// stay.
    fn look_up(
        lookups: &Lookups<'a>,
        transaction: &Transaction<'a>,
        place: &mut Self::Place,
    ) -> Result<(), Undecided>;
}

/// Why transactions have not been decided.
pub(crate) enum Undecided {
    /// One of them needs a claim of the other size. Nothing has happened.
    NeedsFullClaim,
    /// Boxed, so that results without errors stay small.
    Failed(Box<LimiterError>),
}

impl Undecided {
    /// Returns the error. Any transaction has a full claim.
    #[cold]
    pub(crate) fn into_error(self) -> Box<LimiterError> {
        match self {
            Self::Failed(error) => error,
            Self::NeedsFullClaim => unreachable!("any transaction has a full claim"),
        }
    }
}

impl From<LimiterError> for Undecided {
    #[cold]
    fn from(error: LimiterError) -> Self {
        Self::Failed(Box::new(error))
    }
}

impl<'a> LookedUp<'a> for Claim<'a> {
    #[inline(always)]
    fn look_up(
        lookups: &Lookups<'a>,
        transaction: &Transaction<'a>,
        place: &mut Self::Place,
    ) -> Result<(), Undecided> {
        let looked = lookups.claim(transaction, place);
        looked.map_err(Undecided::Failed)
    }
}

impl<'a> LookedUp<'a> for RowCharge<'a> {
    #[inline(always)]
    fn look_up(
        lookups: &Lookups<'a>,
        transaction: &Transaction<'a>,
        place: &mut Self,
    ) -> Result<(), Undecided> {
        let charge = lookups.row_charge(transaction);
        *place = charge.ok_or(Undecided::NeedsFullClaim)?;
        Ok(())
    }
}

/// Claims that are looked up, each at the place of its transaction.
impl<'a, K: LookedUp<'a>, C: Count> Judgement<'a, K, C> {
    /// Looks transactions up, and lets memory judge them. `is_shown` says whether anybody needs the figures of a batch that
    /// passes: without them, it may not be shown.
    #[inline(always)]
    pub(crate) fn decide(
        &mut self,
        limiter: &Limiter,
        memory: &MemoryBackend,
        limits: &'a Limits,
        transactions: &(impl Transactions<'a> + ?Sized),
        is_shown: bool,
    ) -> Result<(), Undecided> {
        let lookups = Lookups::in_memory(limits, self.operation(), is_shown);
        self.look_up(&lookups, transactions)?;
        if !self.is_needed() {
            return Ok(());
        }
        let since = Stopwatch::start();
        let judged = memory.judge(self, limiter.now());
        let recorder = limiter.recorder(limits, self.operation());
        recorder.applied(since);
        let error = match (judged, self.no_room()) {
            (Ok(()), None) => return Ok(()),
            (Ok(()), Some(place)) => LimiterError::no_room(transactions.at(place).borrow()),
            (Err(error), _) => BackendError::from(error).into(),
        };
        Err(recorder.failed(transactions, error).into())
    }

    #[inline(always)]
    fn look_up(
        &mut self,
        lookups: &Lookups<'a>,
        transactions: &(impl Transactions<'a> + ?Sized),
    ) -> Result<(), Undecided> {
        for (at, place) in self.places_mut().iter_mut().enumerate() {
            K::look_up(lookups, transactions.at(at).borrow(), place)?;
        }
        let places = self.places();
        let bucket = |at: usize| K::at(&places[at]).map(K::fingerprint);
        match duplicate(places.len(), bucket) {
            None => Ok(()),
            Some(place) => Err(lookups.duplicate(place, transactions).into()),
        }
    }
}
