//! From the head of a request to the decision on it.

use std::sync::Arc;

use http::request::Parts;

use super::{
    additions::ResponseAdditions,
    assessment::OwnDecisions,
    charged_decisions::{ChargedDecisions, KeptDecisions},
    conclusion::Conclusion,
    config::{DenyList, LayerConfig},
    pending_settlement::{PendingSettlement, Spent, Start, undecided},
    store_wait::StoreWait,
    waiting::{Progress, Waiting},
    waiting_room::Seat,
};
use crate::{
    backend::MemoryBackend,
    decision::{BatchDecision, Decision, Decisions},
    few::{Count, Exactly, counted},
    key::MissingId,
    limit::Limits,
    limiter::{LimiterError, PlainCharges, Transactions},
    response::Reason,
    rule::{Chain, Charge, ChargeList, ChargeTerms, Charges, ClientId, Rules, undisguised},
    transaction::{Operation, Transaction},
};

/// The charges of a request to decide.
struct RequestSpend<'a> {
    memory: &'a MemoryBackend,
    limits: &'a Limits,
    spent: &'a mut Spent,
    /// The seat of a request that may have to wait in line.
    seat: Option<Seat>,
    missing: Option<&'a MissingId>,
}

/// The transactions of a request's charges.
struct RequestTransactions<'a> {
    rules: &'a Rules,
    charges: ChargeList<'a>,
    can_wait: bool,
}

impl<'a> RequestTransactions<'a> {
    #[inline(always)]
    fn at(&self, place: usize) -> Transaction<'a> {
        let Charge { id, terms } = self.charges.at(place);
        self.rules.transaction(id, terms, self.can_wait)
    }
}

impl<'a> Transactions<'a> for RequestTransactions<'a> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.charges.len()
    }

    #[inline(always)]
    fn read<R>(&self, place: usize, read: impl FnOnce(&Transaction<'a>) -> R) -> R {
        read(&self.at(place))
    }
}

impl LayerConfig {
    /// Decides a request, or begins to if the backend has to wait.
    ///
    /// In each case, `additions` receives the additions to the response.
    pub(super) fn assess(
        self: &Arc<Self>,
        request: &mut Parts,
        additions: &mut ResponseAdditions,
    ) -> Progress {
        if self.exempt.any(request) {
            return Progress::Decided(Conclusion::Proceed);
        }
        if !self.listed.is_empty()
            && let Some(list) = self.listing(request)
        {
            let reason = Reason::Listed { list: &list.name };
            return Progress::Decided(Conclusion::refuse(self.responder.refused(request, reason)));
        }
        match self.rules.only().zip(self.limiter.memory()) {
            Some((chain, memory)) => self.assess_one(chain, memory, request, additions),
            None => self.assess_many(request, additions),
        }
    }

    /// Decides a request by the only rule. Charges and decisions are large, so they are assembled only if they are
    /// needed.
    #[inline(always)]
    fn assess_one(
        self: &Arc<Self>,
        chain: Chain,
        memory: &MemoryBackend,
        request: &mut Parts,
        additions: &mut ResponseAdditions,
    ) -> Progress {
        let mut id = ClientId::empty();
        let terms =
            match self
                .rules
                .charge_by(chain, request, &self.limiter, &Charges::new(), &mut id)
            {
                Ok(Some(terms)) => terms,
                Ok(None) => return self.conclude_uncharged(request, None),
                Err(missing) => return self.conclude_uncharged(request, Some(&missing)),
            };
        if self.traffic.inspects() {
            self.inspect_one(request, &id, terms);
        }
        let limits = self.limiter.in_force();
        let transaction = self.rules.transaction(&id, &terms, true);
        let limiter = &self.limiter;
        let plain = limiter.spend_plain::<Exactly<1>, Decision>(memory, &limits, &transaction);
        let Some(plain) = plain else {
            return self.assess_any(memory, request, &limits, (id, terms), additions);
        };
        if plain.are_allowed() && self.is_quiet() {
            return Progress::Decided(Conclusion::Proceed);
        }
        let charge = (id, terms);
        Progress::Decided(self.conclude_one(request, &limits, charge, &plain, additions))
    }

    /// Concludes a request with one charge, which is only stored for an assessment.
    #[inline(always)]
    fn conclude_one(
        self: &Arc<Self>,
        request: &mut Parts,
        limits: &Limits,
        (id, terms): (ClientId, ChargeTerms),
        plain: &PlainCharges<'_, Exactly<1>>,
        additions: &mut ResponseAdditions,
    ) -> Conclusion {
        if !self.assesses(plain.are_allowed()) {
            let mut decision = Decision::nothing();
            plain.show(&mut decision);
            let charges = ChargeList::of(&id, &terms);
            return self.conclude_unkept(request, limits, charges, &decision, additions);
        }
        let mut ours = Arc::new(OwnDecisions::new(self));
        let place = undecided(&mut ours);
        place.charges.push(id, terms);
        plain.show(&mut place.decisions);
        place.judge();
        let taken = self.assessed(&request.extensions, &ours);
        self.conclude(request, limits, ours.spent.view(), taken, None, additions)
    }

    /// Decides any charge. It is only stored if it can wait, or is needed afterwards.
    #[inline(never)]
    fn assess_any(
        self: &Arc<Self>,
        memory: &MemoryBackend,
        request: &mut Parts,
        limits: &Limits,
        (id, terms): (ClientId, ChargeTerms),
        additions: &mut ResponseAdditions,
    ) -> Progress {
        if self.assesses(true) || limits.has_lines() || limits.has_permits() {
            let mut spent = Spent::new(self, self.assesses(true));
            spent.charges_mut().push(id, terms);
            return self.assess_charges(&mut spent, None, request, additions);
        }
        let transaction = self.rules.transaction(&id, &terms, false);
        let mut decision = Decision::nothing();
        let is_needed = self.limiter.decide_unless_quiet::<Exactly<1>, Decision>(
            memory,
            limits,
            Operation::Spend,
            &transaction,
            &mut decision,
            self.is_quiet(),
        );
        let charges = ChargeList::of(&id, &terms);
        Progress::Decided(match is_needed {
            Ok(true) => self.conclude_unkept(request, limits, charges, &decision, additions),
            Ok(false) => Conclusion::Proceed,
            Err(error) => self.fail(request, limits, charges, &error, None),
        })
    }

    /// Concludes a request whose only decision nobody needs afterwards.
    #[inline(always)]
    fn conclude_unkept(
        &self,
        request: &mut Parts,
        limits: &Limits,
        charges: ChargeList<'_>,
        decision: &Decision,
        additions: &mut ResponseAdditions,
    ) -> Conclusion {
        let spent = ChargedDecisions::of(charges, decision);
        let taken = PendingSettlement::default();
        self.conclude(request, limits, spent, taken, None, additions)
    }

    #[cold]
    fn inspect_one(&self, request: &Parts, id: &ClientId, terms: ChargeTerms) {
        self.inspect(request, ChargeList::of(id, &terms));
    }

    #[inline(never)]
    fn assess_many(
        self: &Arc<Self>,
        request: &mut Parts,
        additions: &mut ResponseAdditions,
    ) -> Progress {
        let mut spent = Spent::new(self, self.assesses(true));
        let charges = spent.charges_mut();
        let missing = self.rules.charge(request, &self.limiter, charges);
        if charges.is_empty() {
            return self.conclude_uncharged(request, missing.as_ref());
        }
        self.inspect(request, charges.list());
        self.assess_charges(&mut spent, missing, request, additions)
    }

    /// Concludes a request that no limit is charged for, because no rule applies or one has found no id.
    #[inline(never)]
    fn conclude_uncharged(&self, request: &Parts, missing: Option<&MissingId>) -> Progress {
        self.inspect(request, Charges::new().list());
        Progress::Decided(self.without_charge(request, missing))
    }

    /// Decides the charges of a request. If a rule has found no id, that is `missing`.
    #[inline(never)]
    fn assess_charges(
        self: &Arc<Self>,
        spent: &mut Spent,
        missing: Option<MissingId>,
        request: &mut Parts,
        additions: &mut ResponseAdditions,
    ) -> Progress {
        let Some(memory) = self.limiter.memory() else {
            return self.wait_for_store(request, spent.take(), missing);
        };
        let (limits, missed) = (self.limiter.in_force(), missing.as_ref());
        let seat = self.seat(&limits, spent.view().charges, missed);
        if seat.is_some() && limits.has_permits() {
            // Permits may have to be waited for, even if the backend never has to.
            drop(seat);
            return self.wait_for_store(request, spent.take(), missing);
        }
        let spend = RequestSpend {
            memory,
            limits: &limits,
            spent,
            seat,
            missing: missed,
        };
        counted!(spend.spent.view().charges.len(), C => self.spend::<C>(request, spend, additions))
    }

    #[inline(never)]
    fn inspect(&self, request: &Parts, charges: ChargeList<'_>) {
        self.traffic
            .inspect(request, &self.limiter, &self.rules, charges);
    }

    /// Begins a decision for which the backend has to wait.
    #[inline(never)]
    fn wait_for_store(
        self: &Arc<Self>,
        request: &Parts,
        spent: Spent,
        missing: Option<MissingId>,
    ) -> Progress {
        let waiting = StoreWait::new(self, request, spent, missing);
        Progress::Waiting(Box::new(Waiting::ForStore(waiting)))
    }

    /// Returns the deny list that a request is on, by its path as sent, or as a router may resolve it.
    fn listing(&self, request: &Parts) -> Option<&DenyList> {
        let resolved = undisguised(request);
        let holds = |list: &&DenyList| {
            list.predicate.holds(request)
                || resolved
                    .as_ref()
                    .is_some_and(|request| list.predicate.holds(request))
        };
        self.listed.iter().find(holds)
    }

    /// Decides a request in memory.
    #[inline(always)]
    fn spend<C: Count>(
        self: &Arc<Self>,
        request: &mut Parts,
        spend: RequestSpend<'_>,
        additions: &mut ResponseAdditions,
    ) -> Progress {
        let RequestSpend {
            memory,
            limits,
            spent,
            seat,
            missing,
        } = spend;
        let transactions = RequestTransactions {
            rules: &self.rules,
            charges: spent.view().charges,
            can_wait: seat.is_some(),
        };
        let plain = self
            .limiter
            .spend_plain::<C, BatchDecision>(memory, limits, &transactions);
        if let Some(plain) = plain {
            // A seat is only for limits with a line, whose charges are not plain.
            if plain.are_allowed() && missing.is_none() && self.is_quiet() {
                return Progress::Decided(Conclusion::Proceed);
            }
            spent.show(&plain);
        } else {
            match self.decide_in_full::<C>(memory, limits, spent, seat.is_some(), missing) {
                Ok(true) => {}
                Ok(false) => return Progress::Decided(Conclusion::Proceed),
                Err(error) => {
                    let charges = spent.view().charges;
                    return Progress::Decided(self.fail(request, limits, charges, &error, missing));
                }
            }
        }
        let start = self.start(&request.extensions, spent, seat);
        self.proceed(request, limits, spent.view(), start, missing, additions)
    }

    /// Makes decisions that are not on plain charges only. Returns whether the request needs them; one that does not may
    /// proceed.
    fn decide_in_full<C: Count>(
        &self,
        memory: &MemoryBackend,
        limits: &Limits,
        spent: &mut Spent,
        can_wait: bool,
        missing: Option<&MissingId>,
    ) -> Result<bool, LimiterError> {
        match spent {
            Spent::Unassessed(kept) => {
                let may_need_more = can_wait || missing.is_some() || limits.has_permits();
                let can_be_quiet = !may_need_more && self.is_quiet();
                self.decide::<C, _>(memory, limits, kept, can_wait, can_be_quiet)
            }
            Spent::Assessed(ours) => {
                let kept = undecided(ours);
                kept.decisions.reserve(kept.charges.list().len());
                self.decide::<C, _>(memory, limits, kept, can_wait, false)
            }
        }
    }

    fn decide<C: Count, D: Decisions>(
        &self,
        memory: &MemoryBackend,
        limits: &Limits,
        kept: &mut KeptDecisions<D>,
        can_wait: bool,
        can_be_quiet: bool,
    ) -> Result<bool, LimiterError> {
        let transactions = RequestTransactions {
            rules: &self.rules,
            charges: kept.charges.list(),
            can_wait,
        };
        let decisions = &mut kept.decisions;
        let is_needed = self.limiter.decide_unless_quiet::<C, D>(
            memory,
            limits,
            Operation::Spend,
            &transactions,
            decisions,
            can_be_quiet,
        )?;
        if is_needed {
            kept.judge();
        }
        Ok(is_needed)
    }

    /// Concludes a request, unless it has to wait for its turn first.
    #[inline(always)]
    pub(super) fn proceed(
        self: &Arc<Self>,
        request: &mut Parts,
        limits: &Limits,
        spent: ChargedDecisions<'_>,
        start: Start,
        missing: Option<&MissingId>,
        additions: &mut ResponseAdditions,
    ) -> Progress {
        match start {
            Start::Now(taken) => {
                Progress::Decided(self.conclude(request, limits, spent, taken, missing, additions))
            }
            Start::InLine(queued) => self.wait_in_line(request, limits, spent, *queued, additions),
        }
    }
}
