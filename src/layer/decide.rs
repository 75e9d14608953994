//! Decides requests by the rules of a layer.

use std::sync::Arc;

use http::request::Parts;

use super::{
    charges::RequestCharges,
    conclusion::{RefusalResponse, ResponseAdditions},
    config::Config,
    unsettled::{RequestStart, UnsettledRequest},
    waiting::{WaitFuture, WaitingRequest},
};
use crate::{
    batch::Member,
    decision::Decision,
    limiter::{BoxedLimiterError, Members, check_line, owned},
    response::{LimitsInForce, Reason, Refusal, ResponseFields},
    rule::FoundClient,
    transaction::Operation,
};

/// The initial element of the clients that the rules find.
const NONE: FoundClient = FoundClient::NOTHING;
/// The initial element of the decisions.
const OPEN: Decision = Decision::NOT_LIMITED;

impl Config {
    /// Decides a request, at once if the backend can. Otherwise, returns a future that waits. The additions are written through a
    /// reference, because moving them takes time.
    #[inline]
    pub(super) fn start(
        self: &Arc<Self>,
        request: &mut Parts,
        additions: &mut ResponseAdditions,
    ) -> Result<Option<WaitFuture>, RefusalResponse> {
        if self.exempt.hold(request) {
            self.pass(request);
            return Ok(None);
        }
        let mut listed = self.listed.iter();
        if let Some((list, _)) = listed.find(|(_, conditions)| conditions.may_hold(request)) {
            let refusal = Refusal::new(request, Reason::Listed { list });
            return Err(self.refuse(refusal, &mut ResponseFields::default()));
        }
        let in_force = &*self.active.in_force.load();
        // Layers with few rules use arrays, because vectors take 20 ns for one rule.
        match self.rules().iter().len() {
            0..=1 => self.decide(request, in_force, &mut [NONE; 1], &mut [OPEN; 1], additions),
            2..=4 => self.decide(request, in_force, &mut [NONE; 4], &mut [OPEN; 4], additions),
            rules => {
                let mut found = Vec::new();
                let decisions = &mut vec![OPEN; rules];
                found.resize_with(rules, FoundClient::default);
                self.decide(request, in_force, &mut found, decisions, additions)
            }
        }
    }

    /// Decides a request by the rules. `found` and `decisions` have an element for each rule.
    #[inline(never)]
    fn decide<'a>(
        self: &Arc<Self>,
        request: &mut Parts,
        in_force: &'a Arc<LimitsInForce>,
        found: &'a mut [FoundClient],
        decisions: &mut [Decision],
        additions: &mut ResponseAdditions,
    ) -> Result<Option<WaitFuture>, RefusalResponse> {
        let mut missing = None;
        let mut members = Members::new();
        let rules = self.rules();
        let limits = &in_force.limits;
        let own = &in_force.own;
        rules.charge(request, limits, own, found, &mut members, &mut missing);
        let members = &mut *members;
        let decisions = &mut decisions[..members.len()];
        self.checks.look_at(request, rules, members);
        // A request that is refused in any case does not wait in a line.
        let seat = self.seat_if(|| missing.is_none() && members.iter().any(Member::may_wait));
        for member in &mut *members {
            member.ask.waits &= seat.is_some();
        }
        let is_decided = self.try_decide(members, decisions);
        let asked = RequestCharges {
            config: self,
            in_force,
            members,
        };
        let is_decided = match is_decided {
            Ok(is_decided) => is_decided,
            Err(error) => {
                let failed = self.fail(request, asked, &error, missing.as_ref());
                return failed.map(|()| None);
            }
        };
        let has_to_wait =
            seat.is_some() && decisions.iter().any(|decision| !decision.delay().is_zero());
        if is_decided && !has_to_wait {
            let unsettled =
                UnsettledRequest::of(asked, decisions, || RequestStart::of(request), None);
            let concluded = match unsettled {
                Ok(unsettled) => self.conclude(
                    request,
                    asked.with(decisions),
                    unsettled,
                    missing,
                    additions,
                ),
                Err(error) => self.fail(request, asked, &error, missing.as_ref()),
            };
            return concluded.map(|()| None);
        }
        let decisions = is_decided.then(|| decisions.to_vec());
        let members = owned(members);
        let waiting = WaitingRequest::new(self, request, Arc::clone(in_force), members, missing);
        Ok(Some(waiting.wait(decisions, seat)))
    }

    #[inline]
    fn try_decide(
        &self,
        members: &mut [Member<'_>],
        decisions: &mut [Decision],
    ) -> Result<bool, BoxedLimiterError> {
        for member in &mut *members {
            self.limiter.accept(Operation::Spend, false, member)?;
        }
        check_line(Operation::Spend, members)?;
        match members {
            [member] => {
                let decided = self.limiter.decide_one(Operation::Spend, member)?;
                Ok(decided.map(|decision| decisions[0] = decision).is_some())
            }
            _ => self
                .limiter
                .decide_all(Operation::Spend, members, decisions),
        }
    }
}
