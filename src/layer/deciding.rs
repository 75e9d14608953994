//! From the head of a request to the decision on it.

use std::{borrow::Borrow, sync::Arc};

use http::request::Parts;

use super::{
    additions::ResponseAdditions,
    assessment::OwnDecisions,
    charged_decisions::ChargedDecisions,
    conclusion::Conclusion,
    config::{DenyList, LayerConfig},
    pending_settlement::{PendingSettlement, Start},
    store_wait::StoreWait,
    waiting::{Progress, Waiting},
};
use crate::{
    backend::MemoryBackend,
    decision::{FewDecisions, Judgement},
    few::{Count, counted},
    key::MissingId,
    limit::Limits,
    limiter::{LimiterError, LookedUp, Transactions, Undecided},
    response::Reason,
    rule::{Charge, ChargeList, Charges, KeptCharges, Rules, undisguised},
    transaction::{Claim, Operation, RowCharge, Transaction},
};

/// A request whose charges are decided.
struct ChargedRequest<'r> {
    head: &'r mut Parts,
    /// The reason for which it is refused in any case: a rule has found no id.
    missing: Option<&'r MissingId>,
    additions: &'r mut ResponseAdditions,
}

/// A request whose charges have been decided.
enum Decided {
    Concluded(Conclusion),
    /// The decisions are kept for handlers or for its settlement.
    Kept(Arc<OwnDecisions>),
}

/// The transactions of a request's charges.
struct RequestTransactions<'a> {
    rules: &'a Rules,
    charges: ChargeList<'a>,
    /// Whether the request may have to wait in line.
    can_wait: bool,
}

impl<'a> Transactions<'a> for RequestTransactions<'a> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.charges.len()
    }

    #[inline(always)]
    fn at(&self, place: usize) -> impl Borrow<Transaction<'a>> {
        let Charge { id, terms } = self.charges.at(place);
        self.rules.transaction(id, terms, self.can_wait)
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
        match self.exempt.is_empty() && self.listed.is_empty() {
            true => self.assess_by_rules(request, additions),
            false => self.assess_by_lists(request, additions),
        }
    }

    /// Decides a request by the lists of exempt and denied requests, and then by the rules.
    #[inline(never)]
    fn assess_by_lists(
        self: &Arc<Self>,
        request: &mut Parts,
        additions: &mut ResponseAdditions,
    ) -> Progress {
        if self.exempt.any(request) {
            return Progress::Decided(self.pass(request));
        }
        if let Some(list) = self.listing(request) {
            let reason = Reason::Listed { list: &list.name };
            return Progress::Decided(Conclusion::refuse(self.responder.refused(request, reason)));
        }
        self.assess_by_rules(request, additions)
    }

    #[inline(always)]
    fn assess_by_rules(
        self: &Arc<Self>,
        request: &mut Parts,
        additions: &mut ResponseAdditions,
    ) -> Progress {
        counted!(self.rules.most(), R => self.assess_by::<R>(request, additions))
    }

    /// Decides a request by this number of rules.
    #[inline(never)]
    fn assess_by<R: Count>(
        self: &Arc<Self>,
        request: &mut Parts,
        additions: &mut ResponseAdditions,
    ) -> Progress {
        let mut charges = Charges::<R>::new(self.rules.most());
        let mut missing = None;
        let limiter = &self.limiter;
        self.rules
            .charge(request, limiter, &mut charges, &mut missing);
        if charges.is_empty() {
            return self.conclude_uncharged(request, missing.as_deref());
        }
        if self.traffic.inspects() {
            self.inspect(request, charges.list());
        }
        match limiter.memory() {
            Some(memory) => self.spend(memory, request, &mut charges, missing, additions),
            None => self.wait_for_store(request, &mut charges, missing),
        }
    }

    /// Decides the charges of a request in memory.
    #[inline(always)]
    fn spend<R: Count>(
        self: &Arc<Self>,
        memory: &MemoryBackend,
        request: &mut Parts,
        charges: &mut Charges<R>,
        missing: Option<Box<MissingId>>,
        additions: &mut ResponseAdditions,
    ) -> Progress {
        let list = charges.list();
        let (in_force, missed) = (self.limiter.in_force(), missing.as_deref());
        let limits: &Limits = &in_force;
        let seat = self.seat(limits, list, missed);
        if seat.is_some() && limits.has_permits() {
            // Permits may have to be waited for, even if the backend never has to.
            drop(seat);
            return self.wait_for_store(request, charges, missing);
        }
        let transactions = RequestTransactions {
            rules: &self.rules,
            charges: list,
            can_wait: seat.is_some(),
        };
        let mut asked = ChargedRequest {
            head: request,
            missing: missed,
            additions,
        };
        let decided = match list.len() == R::len(self.rules.most()) {
            true => self.decide::<R>(memory, limits, &transactions, &mut asked),
            false => self.decide_fewer(memory, limits, &transactions, &mut asked),
        };
        match decided {
            Ok(Decided::Concluded(conclusion)) => Progress::Decided(conclusion),
            Ok(Decided::Kept(mut ours)) => {
                let place = OwnDecisions::undecided(&mut ours);
                charges.keep(&mut place.charges);
                place.judge();
                let start = self.start(&request.extensions, &ours, seat);
                self.proceed(request, limits, ours.view(), start, missed, additions)
            }
            Err(error) => Progress::Decided(self.fail(request, limits, list, &error, missed)),
        }
    }

    /// Concludes a request that no limit is charged for, because no rule applies or one has found no id.
    #[inline(never)]
    fn conclude_uncharged(&self, request: &mut Parts, missing: Option<&MissingId>) -> Progress {
        self.inspect(request, ChargeList::NONE);
        Progress::Decided(self.without_charge(request, missing))
    }

    #[inline(never)]
    fn inspect(&self, request: &mut Parts, charges: ChargeList<'_>) {
        self.traffic
            .inspect(request, &self.limiter, &self.rules, charges);
    }

    /// Begins a decision for which the backend has to wait.
    #[inline(never)]
    fn wait_for_store<R: Count>(
        self: &Arc<Self>,
        request: &Parts,
        charges: &mut Charges<R>,
        missing: Option<Box<MissingId>>,
    ) -> Progress {
        let mut kept = KeptCharges::default();
        charges.keep(&mut kept);
        let waiting = StoreWait::new(self, request, kept, missing);
        Progress::Waiting(Waiting::ForStore(Box::new(waiting)))
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

    /// Decides charges.
    #[inline(always)]
    fn decide<C: Count>(
        self: &Arc<Self>,
        memory: &MemoryBackend,
        limits: &Limits,
        transactions: &RequestTransactions<'_>,
        request: &mut ChargedRequest<'_>,
    ) -> Result<Decided, Box<LimiterError>> {
        if limits.has_rows() {
            match self.decide_as::<RowCharge<'_>, C>(memory, limits, transactions, request) {
                Err(Undecided::NeedsFullClaim) => {}
                decided => return decided.map_err(Undecided::into_error),
            }
        }
        self.decide_in_full::<C>(memory, limits, transactions, request)
    }

    #[inline(never)]
    fn decide_in_full<C: Count>(
        self: &Arc<Self>,
        memory: &MemoryBackend,
        limits: &Limits,
        transactions: &RequestTransactions<'_>,
        request: &mut ChargedRequest<'_>,
    ) -> Result<Decided, Box<LimiterError>> {
        let decided = self.decide_as::<Claim<'_>, C>(memory, limits, transactions, request);
        decided.map_err(Undecided::into_error)
    }

    /// Decides the charges of a request for which some rules have none.
    #[inline(never)]
    fn decide_fewer(
        self: &Arc<Self>,
        memory: &MemoryBackend,
        limits: &Limits,
        transactions: &RequestTransactions<'_>,
        request: &mut ChargedRequest<'_>,
    ) -> Result<Decided, Box<LimiterError>> {
        counted!(transactions.len(), C => self.decide::<C>(memory, limits, transactions, request))
    }

    /// Decides charges whose claims have this size.
    #[inline(always)]
    fn decide_as<'a, K: LookedUp<'a>, C: Count>(
        self: &'a Arc<Self>,
        memory: &MemoryBackend,
        limits: &'a Limits,
        transactions: &RequestTransactions<'a>,
        request: &mut ChargedRequest<'_>,
    ) -> Result<Decided, Undecided> {
        let RequestTransactions {
            charges, can_wait, ..
        } = *transactions;
        let recorder = self.limiter.recorder(limits, Operation::Spend);
        let takes_permits = K::CAN_HAVE_HISTORY && limits.has_permits();
        let ends_otherwise = can_wait || takes_permits || request.missing.is_some();
        // A quiet layer has no subscriber that the recorder could write to.
        let is_shown = ends_otherwise || !self.is_quiet() || cfg!(feature = "metrics");
        let mut claims = Judgement::<K, C>::new(Operation::Spend, charges.len());
        claims.decide(&self.limiter, memory, limits, transactions, is_shown)?;
        let passes = claims.passes();
        if passes && !is_shown {
            return Ok(Decided::Concluded(Conclusion::Proceed));
        }
        if can_wait || self.assesses(passes) {
            let mut ours = OwnDecisions::new(self);
            let decisions = &mut OwnDecisions::undecided(&mut ours).decisions;
            claims.show(decisions);
            recorder.record(transactions, decisions);
            return Ok(Decided::Kept(ours));
        }
        let mut decisions = FewDecisions::<C>::new(charges.len());
        claims.show(&mut decisions);
        recorder.record(transactions, &decisions);
        let spent = ChargedDecisions::of(charges, &decisions);
        let taken = PendingSettlement {
            permits: self.permits(spent),
            ..PendingSettlement::default()
        };
        let ChargedRequest {
            head,
            missing,
            additions,
        } = request;
        let conclusion = self.conclude(head, limits, spent, taken, *missing, additions);
        Ok(Decided::Concluded(conclusion))
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
