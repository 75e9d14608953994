//! What a response says of each policy: how many units it has, how they come back, and how many are left.

use std::time::Duration;

use http::{HeaderMap, HeaderName};

use super::{
    field::{Left, whole},
    items::{self, PolicyItem},
};

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The most policies of a server that are followed one by one.
pub(super) const MOST_POLICIES: usize = 16;

/// The longest name of a policy that is followed.
const LONGEST_NAME: usize = 128;

/// The least quota of a policy whose interval is estimated. A client needs a reserve for it.
pub(super) const LEAST_ESTIMATED: u32 = 4;

/// The longest time in which a policy that is followed fills, and the longest exact wait: ten years.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// How the units of a policy come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShownRefill {
    /// One after the other, each after this interval.
    Steady(Duration),
    /// Each of them this long after it was taken.
    Windowed(Duration),
    /// In whole seconds only: this interval or a shorter one.
    WholeSeconds(Duration),
}

/// What a response says of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) quota: u32,
    pub(super) refill: ShownRefill,
    /// The units that a request takes.
    pub(super) cost: u32,
    /// What is left, if the response says so. A refusal says it of the policies that deny.
    pub(super) left: Option<Remaining>,
    /// Whether the figures are enough to begin to follow the policy.
    pub(super) is_certain: bool,
}

/// What is left of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Remaining {
    pub(super) units: u32,
    /// The exact time until there is one more unit.
    pub(super) next: Option<Duration>,
}

impl ShownRefill {
    /// Returns whether units come back in the same way. An estimated interval is not a property of the policy.
    pub(super) fn is_like(self, other: Self) -> bool {
        match (self, other) {
            (Self::WholeSeconds(_), Self::WholeSeconds(_)) => true,
            _ => self == other,
        }
    }
}

impl Figure {
    /// Returns whether this policy denies a request.
    pub(super) fn denies(&self) -> bool {
        self.left.is_some_and(|left| left.units < self.cost)
    }

    /// Returns the longest time until the next request passes, if this policy denies one and how units come back is known
    /// exactly.
    pub(super) fn longest_wait(&self) -> Option<Duration> {
        let left = self.left.filter(|left| left.units < self.cost)?;
        let missing = self.cost - left.units;
        match (self.refill, left.next) {
            (ShownRefill::Steady(interval), Some(next)) => {
                Some(next.saturating_add(interval.saturating_mul(missing - 1)))
            }
            (ShownRefill::Windowed(_), Some(next)) if missing == 1 => Some(next),
            (ShownRefill::Steady(interval), None) => Some(interval.saturating_mul(missing)),
            (ShownRefill::Windowed(window), _) => Some(window),
            (ShownRefill::WholeSeconds(_), _) => None,
        }
    }
}

/// What a response says of all policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PolicyFigures {
    /// The policies that can be followed one by one.
    pub(super) policies: Vec<Figure>,
    /// The lowest remaining number of the others and, among exhausted ones, the longest wait.
    pub(super) others: Option<Left>,
    /// Whether both say the same, so that one of them counts.
    pub(super) are_alternatives: bool,
}

/// Reads `RateLimit` and `RateLimit-Policy` of [draft-ietf-httpapi-ratelimit-headers-11]. A malformed field is ignored as a
/// whole.
///
/// [draft-ietf-httpapi-ratelimit-headers-11]:
///     https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-ratelimit-headers-11
pub(super) fn read(headers: &HeaderMap) -> Option<PolicyFigures> {
    let mut policies = policies(headers).unwrap_or_default();
    let mut others: Option<Left> = None;
    let mut is_empty = true;
    items::each(headers, &RATELIMIT, |item| {
        is_empty = false;
        let units = whole(item.get("r")?)?;
        let after = match item.get("t") {
            Some(after) => Some(whole(after)?),
            None => None,
        };
        let exact = item.get("tollgate-t").and_then(micros);
        let policy = policies.iter_mut().find(|policy| policy.name == item.name);
        match policy {
            Some(policy) if policy.left.is_none() => {
                policy.left = Some(Remaining {
                    units: u32::try_from(units).unwrap_or(u32::MAX).min(policy.quota),
                    next: exact,
                });
            }
            _ => {
                let wait = exact.or(after.map(Duration::from_secs));
                let left = Left {
                    remaining: units,
                    wait: wait.filter(|_| units == 0),
                };
                others = Some(others.map_or(left, |all| all.and(left)));
            }
        }
        Some(())
    })?;
    (!is_empty).then_some(PolicyFigures {
        policies,
        others,
        are_alternatives: false,
    })
}

/// Reads the policies that can be followed.
fn policies(headers: &HeaderMap) -> Option<Vec<Figure>> {
    let mut policies: Vec<Figure> = Vec::new();
    items::each(headers, &RATELIMIT_POLICY, |item| {
        let is_new = policies.iter().all(|policy| policy.name != item.name);
        if policies.len() < MOST_POLICIES && is_new {
            policies.extend(figure(&item));
        }
        Some(())
    })?;
    Some(policies)
}

fn figure(item: &PolicyItem<'_>) -> Option<Figure> {
    let number = |key| item.get(key).and_then(whole);
    let quota = u32::try_from(number("q")?)
        .ok()
        .filter(|quota| *quota > 0)?;
    let refill = if let Some(period) = item.get("tollgate-period").and_then(micros) {
        let count = u32::try_from(number("tollgate-count")?).ok();
        let count = count.filter(|count| *count > 0)?;
        let nanos = period.as_nanos().div_ceil(u128::from(count));
        ShownRefill::Steady(Duration::from_nanos(u64::try_from(nanos).ok()?))
    } else if let Some(window) = item.get("tollgate-window").and_then(micros) {
        ShownRefill::Windowed(window)
    } else if number("w") == Some(1) && quota >= LEAST_ESTIMATED {
        ShownRefill::WholeSeconds(Duration::from_secs(1) / quota)
    } else {
        return None;
    };
    let fills = match refill {
        ShownRefill::Steady(interval) => interval.saturating_mul(quota),
        ShownRefill::Windowed(window) => window,
        ShownRefill::WholeSeconds(_) => Duration::from_secs(1),
    };
    let cost = number("tollgate-cost").unwrap_or(1);
    let is_usable = !fills.is_zero() && fills <= LONGEST && item.name.len() <= LONGEST_NAME;
    is_usable.then(|| Figure {
        name: item.name.to_owned(),
        quota,
        refill,
        cost: u32::try_from(cost).unwrap_or(u32::MAX).clamp(1, quota),
        left: None,
        is_certain: true,
    })
}

/// Reads a number of microseconds, which is not more than ten years.
fn micros(text: &str) -> Option<Duration> {
    whole(text)
        .map(Duration::from_micros)
        .filter(|wait| *wait <= LONGEST)
}
