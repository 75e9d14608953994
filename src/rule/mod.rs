//! Rules: which limits a request meets, what it costs, and when that is charged.
//!
//! ```
//! use http::Method;
//! use tollgate::{ClientIp, Rule, rule::{methods, paths}};
//!
//! // Every request of a client, except health checks.
//! let requests = Rule::new("requests", ClientIp::peer()).skip_if(paths(["/health"]));
//! // Writes cost 5.
//! let writes = Rule::new("writes", ClientIp::peer())
//!     .skip_if(methods([Method::GET, Method::HEAD, Method::OPTIONS]))
//!     .cost(5);
//! // Failed requests of the server do not count.
//! let answers = Rule::new("answers", ClientIp::peer())
//!     .refund_if(|ending| ending.status().is_some_and(|status| status.is_server_error()));
//! # let _ = (requests, writes, answers);
//! ```
//!
//! The [guide](crate::guide::rules) explains exemptions, fallbacks, plans and charging.

mod charge;
mod check;
mod conditions;
mod end;
mod path;

use std::{
    any::TypeId,
    fmt,
    sync::{Arc, atomic::AtomicBool},
};

use http::request::Parts;

pub use self::{
    charge::OnMissing,
    conditions::{methods, paths},
    end::RequestEnd,
};
pub(crate) use self::{
    charge::{FoundClient, LayerRule, Rules},
    conditions::{Condition, Conditions},
    end::{OutcomeCharge, RefusalStatus, RequestResult},
};
use crate::{
    key::KeyExtractor,
    limit::Limit,
    transaction::{Mode, OnFailure},
};

/// A limit for requests: its name, the client, the cost, and when it is charged. The [guide](crate::guide::rules)
/// explains each.
///
/// ```
/// use tollgate::{ClientIp, Rule, key::HeaderId};
///
/// let per_ip = Rule::new("requests", ClientIp::peer());
/// let per_account = Rule::new("NewOrdersPerAccount", HeaderId::new("x-account-id").shown()).cost(5);
/// # let _ = (per_ip, per_account);
/// ```
#[derive(Clone)]
#[must_use = "a rule does nothing until it is given to a layer"]
pub struct Rule {
    pub(crate) limit: Arc<str>,
    choice: Option<Choice>,
    values: Option<Arc<LimitFrom>>,
    extractor: Arc<dyn KeyExtractor>,
    /// The type of the extractor.
    extracts: TypeId,
    /// The cost of a request. If it is computed, the least cost.
    cost: u32,
    cost_by: Option<Arc<CostBy>>,
    pub(crate) by_outcome: Option<OutcomeCharge>,
    on_missing: OnMissing,
    on_failure: Option<OnFailure>,
    no_wait: bool,
    skips: Conditions,
    /// Whether a mistake of the server was logged.
    logged: Arc<AtomicBool>,
    /// The alternatives for requests without an id for this rule, in order.
    others: Vec<Rule>,
}

type LimitFrom = dyn Fn(&Parts) -> Option<Limit> + Send + Sync;
type CostBy = dyn Fn(&Parts) -> u32 + Send + Sync;
type LimitBy = dyn Fn(&Parts) -> Option<&str> + Send + Sync;

/// How a request chooses its limit.
#[derive(Clone)]
struct Choice {
    /// The names that are checked at startup.
    others: Arc<[Arc<str>]>,
    choose: Arc<LimitBy>,
}

impl Rule {
    /// Creates a rule that charges 1 to the limit of this name for each request, in the bucket of the client that `extractor`
    /// finds.
    pub fn new<E: KeyExtractor>(limit: impl Into<Arc<str>>, extractor: E) -> Self {
        Self {
            limit: limit.into(),
            choice: None,
            values: None,
            extractor: Arc::new(extractor),
            extracts: TypeId::of::<E>(),
            cost: 1,
            cost_by: None,
            by_outcome: None,
            on_missing: OnMissing::default(),
            on_failure: None,
            no_wait: false,
            skips: Conditions::default(),
            logged: Arc::default(),
            others: Vec::new(),
        }
    }

    /// Selects the limit for each request: one of `others` or, for `None`, the rule's own limit.
    ///
    /// The names in `others` are checked when the rule is added to a layer. The closure can also return the name of any other
    /// limit that the limiter has at that moment, such as a plan that a reload has brought. If it returns a name that is not
    /// known, the request is refused with 500, whatever the rule does without an id, and the mistake is logged once.
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

    /// Takes the values of the limit from the request, such as those of the customer's plan, which an authentication layer has put
    /// into its extensions. `None` is the named limit, and [`Limit::UNLIMITED`] no limit. An override of the client takes
    /// precedence, because operators write it.
    ///
    /// Clients can have limits of different algorithms, each with its own bucket. If a client's limit changes, the bucket stays: a
    /// window or a quota keeps the units that were used, and a token bucket keeps the time until it is full. If the rule or the
    /// backend cannot use a limit, the request is refused with 500, and the reason is logged once. If the cost is above its burst,
    /// the request is refused with 413. The [recipe](crate::guide::recipes::database) reads plans from a database.
    ///
    /// ```
    /// use tollgate::{Limit, Rule, key::ExtensionId};
    ///
    /// #[derive(Clone)]
    /// struct Customer { id: String, limit: Limit, price: u32 }
    ///
    /// let customer = ExtensionId::new(|customer: &Customer| customer.id.clone());
    /// let rule = Rule::new("requests", customer)
    ///     .limit_from(|parts| Some(parts.extensions.get::<Customer>()?.limit.clone()))
    ///     .cost_by(|parts| parts.extensions.get::<Customer>().map_or(1, |customer| customer.price));
    /// # let _ = rule;
    /// ```
    pub fn limit_from(
        self,
        values: impl Fn(&Parts) -> Option<Limit> + Send + Sync + 'static,
    ) -> Self {
        let values: Arc<LimitFrom> = Arc::new(values);
        self.set(|rule| rule.values = Some(Arc::clone(&values)))
    }

    /// Sets what a request costs, in tokens.
    pub fn cost(self, cost: u32) -> Self {
        self.set(|rule| (rule.cost, rule.cost_by) = (cost, None))
    }

    /// Computes the cost of each request, in tokens. If it is 0, the rule is skipped, even for clients over the
    /// limit, so return at least 1 if clients can influence it. If it is above the limit's burst, the request could
    /// never pass, and is refused with 413.
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
        let cost: Arc<CostBy> = Arc::new(cost);
        self.set(|rule| (rule.cost, rule.cost_by) = (1, Some(Arc::clone(&cost))))
    }

    /// Skips requests for which the condition holds. If called several times, any of the conditions is enough.
    ///
    /// For a disguised path (see [`paths`]), such as `/static/../login`, the condition must also hold for the path
    /// that a router may resolve it to, here `/login`.
    pub fn skip_if(self, skip: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        let skip: Arc<Condition> = Arc::new(skip);
        self.set(|rule| rule.skips.push(Arc::clone(&skip)))
    }

    /// Skips requests for which the condition does not hold. For a disguised path (see [`paths`]), it must also not
    /// hold for the path that a router may resolve it to.
    pub fn only_if(self, meets: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.skip_if(move |request: &Parts| !meets(request))
    }

    /// Checks the limit before the request, and charges after the response head if the closure returns `true`.
    ///
    /// Concurrent requests are all checked before the first one is charged, so all of them can pass and be charged, into debt if
    /// necessary. If there must never be more requests in flight than the limit allows, as with guesses of a password, use
    /// [`refund_if`](Self::refund_if). This setter replaces `refund_if` and [`settle_by`](Self::settle_by).
    ///
    /// ```
    /// use http::StatusCode;
    /// use tollgate::{Rule, key::HeaderId};
    ///
    /// let failures = Rule::new("failed-authorizations", HeaderId::new("x-account-id").shown())
    ///     .charge_if(|ending| ending.status() == Some(StatusCode::FORBIDDEN));
    /// # let _ = failures;
    /// ```
    pub fn charge_if(
        self,
        judge: impl Fn(&RequestEnd<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.by_outcome(&OutcomeCharge {
            setter: "charge_if",
            mode: Mode::CheckOnly,
            is_by_end: false,
            final_cost: Arc::new(move |cost, ending| judge(ending).then_some(cost)),
        })
    }

    /// Refunds the charge after the response head if the closure returns `true`. Limits with tiers cannot be
    /// refunded.
    ///
    /// This setter replaces [`charge_if`](Self::charge_if) and [`settle_by`](Self::settle_by).
    ///
    /// ```
    /// use tollgate::{ClientIp, Rule};
    ///
    /// // Requests that the server has failed do not count.
    /// let rule = Rule::new("requests", ClientIp::peer())
    ///     .refund_if(|ending| ending.failed() || ending.status().is_some_and(|s| s.is_server_error()));
    /// # let _ = rule;
    /// ```
    pub fn refund_if(
        self,
        judge: impl Fn(&RequestEnd<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.by_outcome(&OutcomeCharge {
            setter: "refund_if",
            mode: Mode::CheckAndSpend,
            is_by_end: false,
            final_cost: Arc::new(move |_, ending| judge(ending).then_some(0)),
        })
    }

    /// Corrects the charge to the cost that the closure returns, when the response body has ended or was dropped, or
    /// if there is no response. The [`cost`](Self::cost) is then a reservation. The difference is refunded or
    /// charged, into debt if necessary. `None` leaves the charge unchanged, for example if the handler has
    /// [settled](crate::layer::LimitAssessment::settle) it. Limits with tiers cannot be settled.
    ///
    /// **Charge for the handler's work**, not for what the client received. A client that disconnects before the response has been
    /// [sent](RequestEnd::sent) nothing, so a rule that charges sent bytes would give it free work. Let the handler count in an
    /// extension of the *request*, shared through an [`Arc`]. It is available however the request ends. If sent bytes are the cost,
    /// return `None` for requests without a response.
    ///
    /// **An upgraded connection**, such as a WebSocket, continues after its response (101, or 2xx to `CONNECT`). The
    /// closure is not called, and the whole reservation stays charged until the handler
    /// [settles](crate::layer::LimitAssessment::settle) it.
    ///
    /// This setter replaces [`charge_if`](Self::charge_if) and [`refund_if`](Self::refund_if).
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
    /// // Reserves 64 kilobytes, and charges those that were sent. A request without a response costs all of it.
    /// let traffic = Rule::new("traffic", ClientIp::peer()).cost(64).settle_by(|ending| {
    ///     ending.response()?;
    ///     Some(u32::try_from(ending.sent().div_ceil(1024)).unwrap_or(u32::MAX))
    /// });
    /// # let _ = (queries, traffic);
    /// ```
    pub fn settle_by<C: Into<Option<u32>>>(
        self,
        price: impl Fn(&RequestEnd<'_>) -> C + Send + Sync + 'static,
    ) -> Self {
        self.by_outcome(&OutcomeCharge {
            setter: "settle_by",
            mode: Mode::CheckAndSpend,
            is_by_end: true,
            final_cost: Arc::new(move |_, ending| price(ending).into()),
        })
    }

    /// Sets what happens to a request without an id.
    pub fn on_missing(self, on_missing: OnMissing) -> Self {
        self.set(|rule| rule.on_missing = on_missing)
    }

    /// Sets what happens while the store does not answer. It takes precedence over
    /// [`LimitName::on_failure`](crate::limit::LimitName::on_failure).
    ///
    /// A rule without a policy uses that of the limit's name or, if that has none, the backend's.
    pub fn on_failure(self, on_failure: OnFailure) -> Self {
        self.set(|rule| rule.on_failure = Some(on_failure))
    }

    /// Refuses requests that would have to wait in line, on a limit with [`max_wait`](crate::Limit::max_wait).
    pub fn no_wait(self) -> Self {
        self.set(|rule| rule.no_wait = true)
    }

    /// Uses `other` if this rule finds no id that is valid in its limit's format: if the id is absent, empty, sent
    /// twice, too long or malformed. Each request meets exactly one of the two limits.
    ///
    /// For one limit, use [`KeyExtractor::or_else`].
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
    /// The limit, cost, failure policy and charging are those of the rule that finds an id. Setters that are called before
    /// `or_else` change one rule, and setters that are called after it change all rules of the chain.
    ///
    /// - If a rule is [skipped](Self::skip_if), the next rule is tried, unless it is skipped too. To exempt a request
    ///   from all of them, call `skip_if` after `or_else`.
    /// - The [`on_missing`](Self::on_missing) of the last rule decides what happens if no rule finds an id.
    /// - If the [cost](Self::cost_by) of the rule that applies is 0, nothing is charged, and no other rule is tried.
    ///
    /// Do not use ids that clients can invent in the first rule, because each invented id has its own bucket.
    pub fn or_else(mut self, mut other: Self) -> Self {
        let others = std::mem::take(&mut other.others);
        self.others.push(other);
        self.others.extend(others);
        self
    }

    fn by_outcome(self, by_outcome: &OutcomeCharge) -> Self {
        self.set(|rule| rule.by_outcome = Some(by_outcome.clone()))
    }

    /// Returns the same rule for another limit.
    pub(crate) fn of_limit(self, limit: Arc<str>) -> Self {
        Self { limit, ..self }
    }

    /// Returns the limits that are checked at startup, the rule's own first.
    fn limits(&self) -> impl Iterator<Item = &Arc<str>> {
        let others = self.choice.iter().flat_map(|choice| choice.others.iter());
        std::iter::once(&self.limit).chain(others)
    }

    /// Changes this rule and its alternatives.
    fn set(mut self, set: impl Fn(&mut Self)) -> Self {
        self.others.iter_mut().for_each(&set);
        set(&mut self);
        self
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("limits", &self.limits().collect::<Vec<_>>())
            .field("or_else", &self.others)
            .finish_non_exhaustive()
    }
}
