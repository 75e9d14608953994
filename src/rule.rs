//! Which limits a request meets: rules, and what they make of one.
//!
#![cfg_attr(feature = "axum", doc = include_str!("../docs/rules.md"))]

mod charge;
mod charging;
mod evaluation;
mod path;
mod predicate;
mod rules;
mod source;

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, atomic::AtomicBool},
};

use http::request::Parts;

pub(crate) use self::{
    charge::{Charge, Charges, charged},
    charging::{Outcome, Refused},
    path::undisguised,
    predicate::Predicates,
    rules::Rules,
};
use self::{charging::Charging, predicate::Not, source::Sources};
pub use self::{
    charging::Ending,
    path::{Paths, paths},
    predicate::{Methods, methods},
    rules::RuleError,
};
use crate::{
    key::{KeyExtractor, Predicate},
    transaction::{Mode, OnFailure},
};

/// One limit that requests meet: its name, who is asking, and what it costs.
///
/// ```
/// use tollgate::{ClientIp, Rule, key::HeaderId};
///
/// let per_ip = Rule::new("requests", ClientIp::peer());
/// let per_account = Rule::new("NewOrdersPerAccount", HeaderId::new("x-account-id")).cost(5);
/// # let _ = (per_ip, per_account);
/// ```
#[derive(Clone)]
#[must_use = "a rule does nothing until it is given to a layer"]
pub struct Rule {
    limit: Arc<str>,
    choice: Option<Choice>,
    sources: Sources,
    cost: Cost,
    mode: Mode,
    charging: Charging,
    on_missing: OnMissing,
    on_failure: Option<OnFailure>,
    no_wait: bool,
    skips: Predicates,
    logged: Arc<AtomicBool>,
    /// The rules for requests for which this one finds no id, in the order in which they are asked.
    others: Vec<Rule>,
}

/// Limits instead of the rule's own.
#[derive(Clone)]
struct Choice {
    others: Arc<[Arc<str>]>,
    choose: Arc<Choose>,
}

type Choose = dyn Fn(&Parts) -> Option<&str> + Send + Sync;

/// What a request costs.
#[derive(Clone)]
enum Cost {
    Fixed(u32),
    By(Arc<dyn Fn(&Parts) -> u32 + Send + Sync>),
}

/// What happens to a request that should have an id and has none, or none in the limit's format. If
/// that is the server's fault, it is logged once with what to change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnMissing {
    /// It is refused: with 400 if the client left the id out, with 500 if the server is not set up
    /// to know it. The layer's other rules charge it all the same.
    #[default]
    Refuse,
    /// The rule is skipped. Whoever leaves the id out, or sends one that is not valid, escapes the limit: where such requests
    /// are to be counted in another way, use [`Rule::or_else`].
    Skip,
    /// All such requests share one bucket.
    Shared,
}

impl Rule {
    /// A rule that charges 1 to the limit `limit` for each request, in the bucket of the id that
    /// `extractor` finds.
    ///
    /// The limit is given by its name, or by a [handle](crate::limiter::LimitHandle). Cost and mode are the rule's, not the
    /// handle's.
    pub fn new(limit: impl Into<Arc<str>>, extractor: impl KeyExtractor) -> Self {
        Self {
            limit: limit.into(),
            choice: None,
            sources: Sources::new(extractor),
            cost: Cost::Fixed(1),
            mode: Mode::default(),
            charging: Charging::default(),
            on_missing: OnMissing::default(),
            on_failure: None,
            no_wait: false,
            skips: Predicates::default(),
            logged: Arc::default(),
            others: Vec::new(),
        }
    }

    /// Chooses the limit for each request: one of `others`, given by their names or [handles](crate::limiter::LimitHandle), or
    /// the rule's own where there is `None`.
    ///
    /// A name that is not among them is a mistake of the server, and does what
    /// [`on_missing`](Self::on_missing) says.
    ///
    /// ```
    /// use tollgate::{Rule, key::ExtensionId};
    ///
    /// #[derive(Clone)]
    /// struct Account { id: String, is_paying: bool }
    ///
    /// let account = ExtensionId::new(|account: &Account| account.id.clone());
    /// let rule = Rule::new("free", account).limit_by(["pro"], |parts| {
    ///     let account = parts.extensions.get::<Account>()?;
    ///     account.is_paying.then_some("pro")
    /// });
    /// # let _ = rule;
    /// ```
    pub fn limit_by<T: Into<Arc<str>>>(
        self,
        others: impl IntoIterator<Item = T>,
        choose: impl Fn(&Parts) -> Option<&str> + Send + Sync + 'static,
    ) -> Self {
        let choice = Choice {
            others: others.into_iter().map(Into::into).collect(),
            choose: Arc::new(choose),
        };
        self.set(|rule| rule.choice = Some(choice.clone()))
    }

    /// Sets what a request costs, in tokens.
    pub fn cost(self, cost: u32) -> Self {
        self.set(|rule| rule.cost = Cost::Fixed(cost))
    }

    /// Finds what each request costs, in tokens. Where it is 0, the rule is skipped, also for those who are over the
    /// limit: charge at least 1 if a client can choose it. Where it is above the limit's burst, so that it could never
    /// pass, the request is refused with 413.
    ///
    /// ```
    /// use http::header::CONTENT_LENGTH;
    /// use tollgate::{ClientIp, Rule};
    ///
    /// let kilobytes = Rule::new("upload", ClientIp::peer()).cost_by(|parts| {
    ///     let length = parts.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    ///     let bytes: u64 = length.and_then(|length| length.parse().ok()).unwrap_or(0);
    ///     u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX).max(1)
    /// });
    /// # let _ = kilobytes;
    /// ```
    pub fn cost_by(self, cost: impl Fn(&Parts) -> u32 + Send + Sync + 'static) -> Self {
        let cost = Cost::By(Arc::new(cost));
        self.set(|rule| rule.cost = cost.clone())
    }

    /// Skips requests for which this is true. Any of several is enough.
    ///
    /// A request whose path is in disguise (see [`paths`]), such as `/static/../login`, is skipped only if this is also
    /// true of the request with the path that a router may resolve it to, here `/login`.
    pub fn skip_if(self, skip: impl Predicate) -> Self {
        let skip: Arc<dyn Predicate> = Arc::new(skip);
        self.set(|rule| rule.skips.push(Arc::clone(&skip)))
    }

    /// Skips requests for which this is false. A request whose path is in disguise (see [`paths`]) is skipped only if this
    /// is also false of the request with the path that a router may resolve it to.
    pub fn only_if(self, meets: impl Predicate) -> Self {
        self.skip_if(Not(meets))
    }

    /// Charges after the response's head, if the request has ended in this way. Before, it is only checked, so that
    /// those who are over the limit do not get so far.
    ///
    /// Requests that are on their way at the same time have all been checked before one of them is charged, and are
    /// all charged then, into debt if need be. Where they must not be more than the limit, as with
    /// guesses of a password, use [`refund_if`](Self::refund_if), in whose place this stands, and in that of
    /// [`settle_by`](Self::settle_by).
    ///
    /// ```
    /// use http::StatusCode;
    /// use tollgate::{Rule, key::HeaderId};
    ///
    /// let failures = Rule::new("failed-authorizations", HeaderId::new("x-account-id"))
    ///     .charge_if(|ending| ending.status() == Some(StatusCode::FORBIDDEN));
    /// # let _ = failures;
    /// ```
    pub fn charge_if(self, judge: impl Fn(&Ending<'_>) -> bool + Send + Sync + 'static) -> Self {
        let charging = Charging::After(Arc::new(judge));
        self.set(|rule| rule.charging = charging.clone())
    }

    /// Gives back what was charged, if the request has ended in this way. A limit with tiers cannot.
    ///
    /// It stands in place of [`charge_if`](Self::charge_if) and [`settle_by`](Self::settle_by).
    ///
    /// ```
    /// use tollgate::{ClientIp, Rule};
    ///
    /// // Requests that the server has failed do not count.
    /// let rule = Rule::new("requests", ClientIp::peer())
    ///     .refund_if(|ending| ending.failed() || ending.status().is_some_and(|s| s.is_server_error()));
    /// # let _ = rule;
    /// ```
    pub fn refund_if(self, judge: impl Fn(&Ending<'_>) -> bool + Send + Sync + 'static) -> Self {
        let charging = Charging::GivenBack(Arc::new(judge));
        self.set(|rule| rule.charging = charging.clone())
    }

    /// Corrects what was charged to what the request has really cost, once the response's body has ended, or was
    /// dropped, or there is none: the difference is given back, or taken, into debt if need be. What is
    /// [`cost`](Self::cost) is then a reservation. `None` leaves what is charged as it is, as where the handler has
    /// [settled](crate::layer::Assessed::settle) it. A limit with tiers cannot.
    ///
    /// **Charge what the handler has used**, not what the client has received. A client that goes away before there is a
    /// response has been [sent](Ending::sent) nothing, and a rule that charges that lets it keep the server busy for
    /// free. Have the handler count, in an extension of the *request* that it shares by an [`Arc`]: it is found however the
    /// request ends. Where the bytes that were sent are the cost, leave the reservation to requests without a response.
    ///
    /// **An upgraded connection** goes on after its response: a 101, or a 2xx to `CONNECT`, as of WebSockets. The closure is
    /// not asked then, and the whole reservation stays charged until the handler
    /// [settles](crate::layer::Assessed::settle) it, at the end of the connection or as it goes on.
    ///
    /// It stands in place of [`charge_if`](Self::charge_if) and [`refund_if`](Self::refund_if).
    ///
    /// ```
    /// use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
    /// use tollgate::{ClientIp, Rule};
    ///
    /// /// Put into the request's extensions by an outer layer, and counted up by the handler.
    /// #[derive(Clone, Default)]
    /// struct Used(Arc<AtomicU32>);
    ///
    /// let queries = Rule::new("queries", ClientIp::peer()).cost(10).settle_by(|ending| {
    ///     let Used(queries) = ending.request_extensions().get()?;
    ///     Some(queries.load(Ordering::Relaxed))
    /// });
    ///
    /// // Reserves 64 kilobytes, and charges those that were sent. A request that ends without a response costs all of it.
    /// let traffic = Rule::new("traffic", ClientIp::peer()).cost(64).settle_by(|ending| {
    ///     ending.response()?;
    ///     Some(u32::try_from(ending.sent().div_ceil(1024)).unwrap_or(u32::MAX))
    /// });
    /// # let _ = (queries, traffic);
    /// ```
    pub fn settle_by<C: Into<Option<u32>>>(
        self,
        price: impl Fn(&Ending<'_>) -> C + Send + Sync + 'static,
    ) -> Self {
        let charging = Charging::Settled(Arc::new(move |ending| price(ending).into()));
        self.set(|rule| rule.charging = charging.clone())
    }

    /// Sets how the rule takes part in the request's batch.
    pub fn mode(self, mode: Mode) -> Self {
        self.set(|rule| rule.mode = mode)
    }

    /// Sets what happens to a request without an id.
    pub fn on_missing(self, on_missing: OnMissing) -> Self {
        self.set(|rule| rule.on_missing = on_missing)
    }

    /// Sets what is decided while the store does not answer, whatever the limit's name says. See
    /// [`LimitName::on_failure`](crate::limit::LimitName::on_failure).
    ///
    /// If several rules meet in one bucket, the strictest of their policies decides: to refuse is stricter than to decide
    /// locally, and that is stricter than to allow. A rule for which this is not set has the policy of the limit's name or,
    /// if that has none, the backend's.
    pub fn on_failure(self, on_failure: OnFailure) -> Self {
        self.set(|rule| rule.on_failure = Some(on_failure))
    }

    /// Refuses requests that would have to wait in line, on a limit with [`max_wait`](crate::Limit::max_wait).
    ///
    /// If several rules meet in one bucket, one that says this is enough.
    pub fn no_wait(self) -> Self {
        self.set(|rule| rule.no_wait = true)
    }

    /// Asks `other` if this rule finds no id that is in its limit's format: because the request has none, or it is empty,
    /// there twice, too long or malformed. Whether a request has an id is so decided in one place, and each request meets
    /// one of the two limits.
    ///
    /// For one limit, use [`KeyExtractorExt::or_else`](crate::key::KeyExtractorExt::or_else).
    ///
    /// ```
    /// use tollgate::{ClientIp, Rule, key::ExtensionId};
    ///
    /// #[derive(Clone)]
    /// struct Key { account: String }
    ///
    /// // A key that an outer layer has verified, else the address.
    /// let key = ExtensionId::optional(|key: &Key| key.account.clone());
    /// let rule = Rule::new("per-key", key).cost(2)
    ///     .or_else(Rule::new("per-ip", ClientIp::peer()));
    /// # let _ = rule;
    /// ```
    ///
    /// Limit, cost, mode, failure policy and charging are those of the rule that applies. What is set after this is set for
    /// all rules of the chain.
    ///
    /// - A rule that is [skipped](Self::skip_if) for a request finds no id for it: the next one is asked, unless it is skipped
    ///   too. To exempt requests from all of them, call `skip_if` after this.
    /// - The last rule's [`on_missing`](Self::on_missing) says what happens if none of them finds an id. That of the others
    ///   says nothing.
    /// - A [cost](Self::cost_by) of 0, found by the rule that applies, charges nothing, and no other rule is asked.
    ///
    /// Ids that clients can make up do not belong in the first rule: each made-up key has a bucket of its own.
    pub fn or_else(mut self, mut other: Self) -> Self {
        let others = std::mem::take(&mut other.others);
        self.others.push(other);
        self.others.extend(others);
        self
    }

    /// The same rule of another limit.
    pub(crate) fn of_limit(self, limit: &str) -> Self {
        Self {
            limit: limit.into(),
            ..self
        }
    }

    /// Sets something for this rule and those that are asked after it.
    fn set(mut self, set: impl Fn(&mut Self)) -> Self {
        self.others.iter_mut().for_each(&set);
        set(&mut self);
        self
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cost = match self.cost {
            Cost::Fixed(cost) => Cow::Owned(cost.to_string()),
            Cost::By(_) => Cow::Borrowed("by request"),
        };
        f.debug_struct("Rule")
            .field("limits", &self.limits().collect::<Vec<_>>())
            .field("cost", &cost)
            .field("mode", &self.mode)
            .field("charging", &self.charging)
            .field("on_missing", &self.on_missing)
            .field("on_failure", &self.on_failure)
            .field("no_wait", &self.no_wait)
            .field("or_else", &self.others)
            .finish_non_exhaustive()
    }
}
