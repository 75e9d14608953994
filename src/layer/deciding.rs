//! From the head of a request to the decision on it.

use std::sync::Arc;

use http::{Extensions, request::Parts};

use super::{
    additions::ResponseAdditions,
    assessment::{Assessment, OwnDecisions},
    charged_decisions::ChargedDecisions,
    conclusion::Conclusion,
    config::{DenyList, LayerConfig},
    pending_settlement::{PendingSettlement, QueuedCharges, Spent, Start},
    settlement::Settlement,
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
    limiter::{Claims, JudgedCharges, StartTime, Transactions},
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
        if let Some(plain) = plain {
            let charge = (id, terms);
            return self.conclude_one(request, &limits, charge, &plain, additions);
        }
        if limits.has_lines() || limits.has_permits() {
            let mut spent = Spent::new(self, self.assesses(true));
            spent.place().charges.push(id, terms);
            return self.assess_charges(&mut spent, None, request, additions);
        }
        let mut claims = Claims::<Exactly<1>>::new(Operation::Spend, 1);
        let judged = limiter.judge::<_, Decision>(memory, &limits, &transaction, &mut claims);
        if let Err(error) = judged {
            let charges = ChargeList::of(&id, &terms);
            return Progress::Decided(self.fail(request, &limits, charges, &error, None));
        }
        let charge = (id.clone(), terms);
        self.conclude_one(request, &limits, charge, &claims, additions)
    }

    /// Concludes a request with one charge, which is only stored for an assessment.
    #[inline(always)]
    fn conclude_one(
        self: &Arc<Self>,
        request: &mut Parts,
        limits: &Limits,
        (id, terms): (ClientId, ChargeTerms),
        judged: &impl JudgedCharges,
        additions: &mut ResponseAdditions,
    ) -> Progress {
        if judged.are_allowed() && self.is_quiet() {
            return Progress::Decided(Conclusion::Proceed);
        }
        if !self.assesses(judged.are_allowed()) {
            let mut decision = Decision::nothing();
            judged.show(&mut decision);
            let spent = ChargedDecisions::of(ChargeList::of(&id, &terms), &decision);
            let taken = PendingSettlement::default();
            let conclusion = self.conclude(request, limits, spent, taken, None, additions);
            return Progress::Decided(conclusion);
        }
        let mut spent = Spent::new(self, true);
        let place = spent.place();
        place.charges.push(id, terms);
        judged.show(&mut place.decisions);
        place.judge();
        let taken = self.taken(&request.extensions, &spent);
        let conclusion = self.conclude(request, limits, spent.view(), taken, None, additions);
        Progress::Decided(conclusion)
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
        let charges = &mut spent.place().charges;
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
        let limiter = &self.limiter;
        let place = spent.place();
        let (charges, decisions) = (place.charges.list(), &mut place.decisions);
        let transactions = RequestTransactions {
            rules: &self.rules,
            charges,
            can_wait: seat.is_some(),
        };
        // Only charges that are not plain may have to wait.
        let waits = seat.is_some() || limits.has_permits();
        let is_quiet = || missing.is_none() && !waits && self.is_quiet();
        let plain = limiter.spend_plain::<C, BatchDecision>(memory, limits, &transactions);
        if let Some(plain) = plain {
            if plain.are_allowed() && is_quiet() {
                return Progress::Decided(Conclusion::Proceed);
            }
            decisions.reserve(charges.len());
            plain.show(decisions);
        } else {
            let mut claims = Claims::<C>::new(Operation::Spend, charges.len());
            let judged =
                limiter.judge::<C, BatchDecision>(memory, limits, &transactions, &mut claims);
            if let Err(error) = judged {
                return Progress::Decided(self.fail(request, limits, charges, &error, missing));
            }
            if claims.are_allowed() && is_quiet() {
                return Progress::Decided(Conclusion::Proceed);
            }
            decisions.reserve(charges.len());
            claims.show(decisions);
        }
        place.judge();
        let start = self.start(&request.extensions, spent, seat);
        self.proceed(request, limits, spent.view(), start, missing, additions)
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

    /// Returns when a request starts. If it has to wait, all of its charges are needed later. One without a seat does not
    /// have to wait.
    #[inline(always)]
    pub(super) fn start(
        self: &Arc<Self>,
        request: &Extensions,
        spent: &mut Spent,
        seat: Option<Seat>,
    ) -> Start {
        match spent.view().delay().zip(seat) {
            None => Start::Now(self.taken(request, spent)),
            Some((delay, seat)) => {
                let turn = StartTime::after(&self.limiter, delay);
                let ours = spent.assessed(self);
                let taken = self.assessed(request, &ours);
                Start::InLine(Box::new(QueuedCharges::new(taken, delay, turn, seat)))
            }
        }
    }

    /// Returns the part of a request's charges that is needed later if the request does not have to wait.
    #[inline(always)]
    fn taken(self: &Arc<Self>, request: &Extensions, spent: &Spent) -> PendingSettlement {
        match spent {
            Spent::Assessed(ours) => self.assessed(request, ours),
            Spent::Unassessed(spent) => PendingSettlement {
                permits: self.permits(spent.view()),
                ..PendingSettlement::default()
            },
        }
    }

    fn assessed(
        self: &Arc<Self>,
        request: &Extensions,
        ours: &Arc<OwnDecisions>,
    ) -> PendingSettlement {
        let mut assessment = Assessment::new(ours);
        let spent = ours.spent.view();
        let permits = self.permits(spent);
        if let Some(permits) = &permits {
            assessment.lend(permits);
        }
        let settlement = match self.settles && spent.denied.is_none() {
            true => self.settlement(request, &assessment, spent),
            false => None,
        };
        PendingSettlement {
            assessment: Some(assessment),
            settlement,
            permits,
        }
    }

    fn settlement(
        self: &Arc<Self>,
        request: &Extensions,
        assessment: &Assessment,
        spent: ChargedDecisions<'_>,
    ) -> Option<Box<Settlement>> {
        let open = spent.iter().enumerate();
        let open =
            open.filter(|(_, (charge, decision))| self.rules.waits_for_ending(*charge, decision));
        let open = open.map(|(place, (charge, _))| (place, charge.terms.rule));
        Settlement::new(self, assessment, request, open).map(Box::new)
    }
}
