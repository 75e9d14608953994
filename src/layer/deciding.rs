//! From the head of a request to the decision on it.

use std::{slice, sync::Arc};

use http::{Extensions, request::Parts};

use super::{
    additions::ResponseAdditions,
    assessment::Assessment,
    charged_decisions::ChargedDecisions,
    conclusion::Conclusion,
    config::{DenyList, LayerConfig},
    pending_settlement::{PendingSettlement, QueuedCharges, Start},
    settlement::Settlement,
    store_wait::StoreWait,
    waiting::{Progress, Waiting},
    waiting_room::Seat,
};
use crate::{
    key::MissingId,
    limit::Limits,
    limiter::{Capacity, Many, One},
    response::Reason,
    rule::{Chain, Charge, ChargeTerms, Charges, ClientId, undisguised},
    transaction::Operation,
};

/// The charges of a request to decide.
struct RequestSpend<'a> {
    limits: &'a Limits,
    charges: &'a [Charge],
    /// The seat of a request that may have to wait in line.
    seat: Option<Seat>,
    missing: Option<&'a MissingId>,
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
        match self.rules.only() {
            Some(chain) => self.assess_one(chain, request, additions),
            None => self.assess_many(request, additions),
        }
    }

    /// Decides a request by the only rule. Charges and decisions are large, so they are assembled only if they are
    /// needed.
    #[inline(always)]
    fn assess_one(
        self: &Arc<Self>,
        chain: Chain,
        request: &mut Parts,
        additions: &mut ResponseAdditions,
    ) -> Progress {
        let mut id = ClientId::empty();
        let terms = match self.rules.charge_by(chain, request, &self.limiter, &mut id) {
            Ok(Some(terms)) => terms,
            Ok(None) => return self.conclude_uncharged(request, None),
            Err(missing) => return self.conclude_uncharged(request, Some(&missing)),
        };
        if self.traffic.inspects() {
            self.inspect_one(request, &id, terms);
        }
        let limits = self.limiter.in_force();
        let transaction = self.rules.transaction(&id, &terms, true);
        let Some(spent) = self.limiter.spend_plain(&limits, &transaction) else {
            let charges = Charges::from_iter([Charge { id, terms }]);
            return self.assess_charges(charges, None, request, additions);
        };
        if spent.is_allowed() && self.is_quiet() {
            return Progress::Decided(Conclusion::Proceed);
        }
        let (charge, decision) = (Charge { id, terms }, spent.decision());
        let spent = ChargedDecisions::of(slice::from_ref(&charge), &decision);
        let taken = self.taken(&request.extensions, spent);
        Progress::Decided(self.conclude(request, &limits, spent, taken, None, additions))
    }

    #[inline(never)]
    fn assess_many(
        self: &Arc<Self>,
        request: &mut Parts,
        additions: &mut ResponseAdditions,
    ) -> Progress {
        let mut missing = None;
        let charges = self.rules.charge(request, &self.limiter, &mut missing);
        if charges.is_empty() {
            return self.conclude_uncharged(request, missing.as_ref());
        }
        self.inspect(request, &charges);
        self.assess_charges(charges, missing, request, additions)
    }

    /// Concludes a request that no limit is charged for, because no rule applies or one has found no id.
    #[inline(never)]
    fn conclude_uncharged(&self, request: &Parts, missing: Option<&MissingId>) -> Progress {
        self.inspect(request, &[]);
        Progress::Decided(self.without_charge(request, missing))
    }

    /// Decides the charges of a request. If a rule has found no id, that is `missing`.
    #[inline(never)]
    fn assess_charges(
        self: &Arc<Self>,
        charges: Charges,
        missing: Option<MissingId>,
        request: &mut Parts,
        additions: &mut ResponseAdditions,
    ) -> Progress {
        let (rules, missed) = (&self.rules, missing.as_ref());
        let limits = self.limiter.in_force();
        let seat = self.seat(&limits, &charges, missed);
        let waits = seat.is_some();
        let spend = RequestSpend {
            limits: &limits,
            charges: &charges,
            seat,
            missing: missed,
        };
        let progress = match &*charges {
            [Charge { id, terms }] => {
                let transaction = rules.transaction(id, terms, waits);
                self.try_spend::<One>(request, spend, &transaction, additions)
            }
            _ => {
                let transactions = rules.transactions(&charges, waits);
                self.try_spend::<Many>(request, spend, &transactions, additions)
            }
        };
        progress.unwrap_or_else(|| self.wait_for_store(request, charges, missing))
    }

    #[cold]
    fn inspect_one(&self, request: &Parts, id: &ClientId, terms: ChargeTerms) {
        let id = id.clone();
        self.inspect(request, &[Charge { id, terms }]);
    }

    #[inline(never)]
    fn inspect(&self, request: &Parts, charges: &[Charge]) {
        self.traffic
            .inspect(request, &self.limiter, &self.rules, charges);
    }

    /// Begins a decision for which the backend has to wait.
    #[inline(never)]
    fn wait_for_store(
        self: &Arc<Self>,
        request: &Parts,
        charges: Charges,
        missing: Option<MissingId>,
    ) -> Progress {
        let waiting = StoreWait::new(self, request, charges, missing);
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

    /// Decides at once, if the backend does not have to wait.
    #[inline(always)]
    fn try_spend<C: Capacity>(
        self: &Arc<Self>,
        request: &mut Parts,
        spend: RequestSpend<'_>,
        transactions: C::Transactions<'_>,
        additions: &mut ResponseAdditions,
    ) -> Option<Progress> {
        let RequestSpend {
            limits,
            charges,
            seat,
            missing,
        } = spend;
        let spend = Operation::Spend;
        let progress = match self.limiter.try_decide::<C>(limits, spend, transactions) {
            None => return None,
            // Decisions are large, so they are borrowed here and not moved.
            Some(Ok(ref decided)) => {
                let spent = ChargedDecisions::of(charges, decided);
                if seat.is_some() {
                    let start = self.start(&request.extensions, spent, seat);
                    return Some(self.proceed(request, limits, spent, start, missing, additions));
                }
                let taken = self.taken(&request.extensions, spent);
                Progress::Decided(self.conclude(request, limits, spent, taken, missing, additions))
            }
            Some(Err(error)) => {
                Progress::Decided(self.fail(request, limits, charges, &error, missing))
            }
        };
        Some(progress)
    }

    /// Concludes a request, unless it has to wait for its turn first.
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
    pub(super) fn start(
        self: &Arc<Self>,
        request: &Extensions,
        spent: ChargedDecisions<'_>,
        seat: Option<Seat>,
    ) -> Start {
        match spent.delay().zip(seat) {
            None => Start::Now(self.taken(request, spent)),
            Some((delay, seat)) => {
                let queued = QueuedCharges::new(self.assessed(request, spent), delay, seat);
                Start::InLine(Box::new(queued))
            }
        }
    }

    /// Returns the part of a request's charges that is needed later if the request does not have to wait.
    #[inline(always)]
    pub(super) fn taken(
        self: &Arc<Self>,
        request: &Extensions,
        spent: ChargedDecisions<'_>,
    ) -> PendingSettlement {
        match self.extends(spent) || self.settles {
            true => self.assessed(request, spent),
            false => PendingSettlement::default(),
        }
    }

    #[inline(never)]
    fn assessed(
        self: &Arc<Self>,
        request: &Extensions,
        spent: ChargedDecisions<'_>,
    ) -> PendingSettlement {
        let allowed = spent.denied.is_none();
        let assessment = Assessment::new(&self.limiter, &self.rules, spent.iter(), allowed);
        let settlement = match self.settles && allowed {
            true => self.settlement(request, &assessment, spent),
            false => None,
        };
        PendingSettlement {
            assessment: Some(assessment),
            settlement,
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
            open.filter(|(_, (charge, decision))| self.rules.waits_for_ending(charge, decision));
        let open = open.map(|(place, (charge, _))| (place, charge.terms.rule));
        Settlement::new(self, assessment, request, open).map(Box::new)
    }
}
