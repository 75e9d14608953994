//! The algorithms as they are defined, in exact fractions and lists of instants, without the arithmetic of the crate.

use std::cmp::Ordering;

use crate::algorithm::{Algorithm, Ask, Charge, Figures, Verb, Wait, quota::Per};

/// In microseconds.
pub(super) const HOUR: u64 = 3_600_000_000;

/// A fraction with a positive denominator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fraction(i128, i128);

impl Fraction {
    const fn whole(number: i128) -> Self {
        Self(number, 1)
    }

    fn plus(self, other: Self) -> Self {
        Self(self.0 * other.1 + other.0 * self.1, self.1 * other.1).reduced()
    }

    fn minus(self, other: Self) -> Self {
        self.plus(Self(-other.0, other.1))
    }

    fn times(self, factor: impl Into<i128>) -> Self {
        Self(self.0 * factor.into(), self.1).reduced()
    }

    fn over(self, other: Self) -> Self {
        Self(self.0 * other.1, self.1 * other.0).reduced()
    }

    fn reduced(self) -> Self {
        let (mut a, mut b) = (self.0.abs(), self.1);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        Self(self.0 / a.max(1), self.1 / a.max(1))
    }

    fn floor(self) -> i128 {
        self.0.div_euclid(self.1)
    }

    fn wait(self) -> Wait {
        let ceiling = -(-self.0).div_euclid(self.1);
        Wait::micros(u64::try_from(ceiling).unwrap_or(0))
    }
}

impl PartialEq for Fraction {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Fraction {}

impl PartialOrd for Fraction {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Fraction {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.0 * other.1).cmp(&(other.0 * self.1))
    }
}

/// A bucket.
#[derive(Clone, Debug)]
pub(super) enum Model {
    /// Tokens come back one after the other, each in the same time.
    Tokens {
        burst: u32,
        count: u32,
        each: Fraction,
        max_wait: Fraction,
        full_at: Fraction,
    },
    /// Each unit counts for a span. How long permits are held is not known ahead.
    Units {
        limit: u32,
        span: u64,
        taken: Vec<u64>,
        are_permits: bool,
    },
    /// Units count until their period ends.
    Quota {
        quota: u32,
        /// From first use, or the hour of the clock.
        length: Option<u64>,
        end: u64,
        used: u32,
    },
}

fn period_end(length: Option<u64>, now: u64) -> u64 {
    length.map_or_else(|| (now / HOUR + 1) * HOUR, |length| now + length)
}

fn micros(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).expect("limits are below 71 years")
}

impl Model {
    /// Returns an unused bucket, or `None` if its algorithm has no model here.
    pub(super) fn new(algorithm: &Algorithm) -> Option<Self> {
        let units = |limit, span, are_permits| Self::Units {
            limit,
            span,
            taken: Vec::new(),
            are_permits,
        };
        Some(match algorithm {
            Algorithm::Gcra(gcra) => Self::Tokens {
                burst: gcra.burst(),
                count: gcra.count(),
                each: Fraction(micros(gcra.period()).into(), gcra.count().into()),
                max_wait: Fraction::whole(micros(gcra.max_wait()).into()),
                full_at: Fraction::whole(0),
            },
            Algorithm::Window(window) => units(window.limit(), micros(window.window()), false),
            Algorithm::Concurrency(limit) => units(limit.limit(), micros(limit.hold()), true),
            Algorithm::Quota(quota) => Self::Quota {
                quota: quota.quota(),
                length: match quota.per() {
                    Per::Hour => None,
                    per => Some(micros(per.first_use_length()?)),
                },
                end: 0,
                used: 0,
            },
            Algorithm::Tiers(_) => return None,
        })
    }

    /// Answers a question, and changes the bucket if it passes.
    #[expect(clippy::too_many_lines, reason = "an arm for each algorithm")]
    pub(super) fn ask(&mut self, ask: &Ask, now: u64) -> bool {
        match self {
            Self::Tokens {
                burst,
                count,
                each,
                max_wait,
                full_at,
            } => {
                let start = Fraction::whole(now.into());
                let is_owned = |charge: Charge| {
                    Fraction::whole(charge.at.into())
                        .plus(Fraction(charge.frac.into(), (*count).into()))
                        == *full_at
                };
                let empty = start.plus(each.times(*burst));
                let charged = start.max(*full_at).plus(each.times(ask.cost));
                let latest = if ask.waits {
                    empty.plus(*max_wait)
                } else {
                    empty
                };
                let has_line = max_wait.0 > 0 && *full_at > empty;
                let passes = match ask.verb {
                    Verb::Spend => charged <= latest,
                    Verb::Debit => true,
                    Verb::Refund => {
                        let last = !has_line || ask.charge.is_some_and(is_owned);
                        *full_at > start && ask.cost > 0 && last
                    }
                    Verb::Renew | Verb::Peek => false,
                };
                match ask.verb {
                    _ if !passes || ask.cost == 0 => {}
                    Verb::Refund => *full_at = full_at.minus(each.times(ask.cost)).max(start),
                    _ => *full_at = charged,
                }
                passes
            }
            Self::Units {
                limit, span, taken, ..
            } => {
                taken.retain(|unit| now < unit + *span);
                let used = u32::try_from(taken.len()).expect("few units");
                let is_meant = |unit: &u64| ask.charge.is_none_or(|charge| charge.at == *unit);
                let meant = taken.iter().filter(|unit| is_meant(unit)).count();
                let passes = match ask.verb {
                    Verb::Spend => used + ask.cost <= *limit,
                    Verb::Debit => true,
                    Verb::Refund => meant > 0 && ask.cost > 0,
                    Verb::Renew => meant >= ask.cost as usize && ask.cost > 0,
                    Verb::Peek => false,
                };
                if passes && matches!(ask.verb, Verb::Refund | Verb::Renew) {
                    for _ in 0..meant.min(ask.cost as usize) {
                        let place = taken.iter().rposition(is_meant).expect("it is there");
                        taken.remove(place);
                    }
                }
                if passes && ask.verb != Verb::Refund {
                    taken.extend((0..ask.cost).map(|_| now));
                    taken.sort_unstable();
                }
                passes
            }
            Self::Quota {
                quota,
                length,
                end,
                used,
            } => {
                if *end <= now {
                    (*end, *used) = (0, 0);
                }
                let is_meant = ask.charge.is_none_or(|charge| charge.at == *end);
                let back = if is_meant { ask.cost.min(*used) } else { 0 };
                let passes = match ask.verb {
                    Verb::Spend => *used + ask.cost <= *quota,
                    Verb::Debit => true,
                    Verb::Refund => back > 0,
                    Verb::Renew | Verb::Peek => false,
                };
                match ask.verb {
                    _ if !passes || ask.cost == 0 => {}
                    Verb::Refund => *used -= back,
                    _ if *used == 0 => (*end, *used) = (period_end(*length, now), ask.cost),
                    _ => *used += ask.cost,
                }
                if *used == 0 {
                    *end = 0;
                }
                passes
            }
        }
    }

    #[expect(clippy::too_many_lines, reason = "an arm for each algorithm")]
    pub(super) fn figures(&self, ask: &Ask, now: u64) -> Figures {
        match self {
            Self::Tokens {
                burst,
                each,
                max_wait,
                full_at,
                ..
            } => {
                let zero = Fraction::whole(0);
                let filling = full_at.minus(Fraction::whole(now.into())).max(zero);
                let missing = filling.over(*each);
                let left = Fraction::whole((*burst).into()).minus(missing).max(zero);
                let waits = ask.waits && max_wait.0 > 0;
                let patience = if waits { *max_wait } else { zero };
                let beyond = filling.minus(each.times(*burst));
                let more = filling.minus(each.times(i128::from(*burst) - left.floor() - 1));
                Figures {
                    limit: *burst,
                    remaining: u32::try_from(left.floor()).expect("at most the burst"),
                    next_after: beyond.plus(each.times(ask.cost)).minus(patience).wait(),
                    more_after: if missing == zero {
                        Wait::ZERO
                    } else {
                        more.wait()
                    },
                    reset_after: filling.wait(),
                    delay: if waits { beyond.wait() } else { Wait::ZERO },
                }
            }
            Self::Units {
                limit,
                span,
                taken,
                are_permits,
            } => {
                let used_at = |at: u64| {
                    let counts = taken.iter().filter(|unit| at < **unit + span);
                    u32::try_from(counts.count()).expect("few units")
                };
                let left_at = |at| limit.saturating_sub(used_at(at));
                let ends = taken.iter().map(|unit| unit + span);
                let mut instants: Vec<_> = ends.filter(|end| *end > now).collect();
                instants.sort_unstable();
                let until = |holds: &dyn Fn(u64) -> bool| {
                    if holds(now) {
                        return Wait::ZERO;
                    }
                    let first = instants.iter().find(|end| holds(**end));
                    let known = first.filter(|_| !are_permits);
                    known.map_or(Wait::UNKNOWN, |end| Wait::micros(end - now))
                };
                let left = left_at(now);
                let is_unused = used_at(now) == 0;
                Figures {
                    limit: *limit,
                    remaining: left,
                    next_after: until(&|at| used_at(at) + ask.cost <= *limit),
                    more_after: until(&|at| is_unused || left_at(at) > left),
                    reset_after: until(&|at| used_at(at) == 0),
                    delay: Wait::ZERO,
                }
            }
            Self::Quota {
                quota,
                length,
                end,
                used,
            } => {
                let used = if now < *end { *used } else { 0 };
                let until_end = match used {
                    0 => Wait::ZERO,
                    _ => Wait::micros(end - now),
                };
                Figures {
                    limit: *quota,
                    remaining: quota.saturating_sub(used),
                    next_after: match used + ask.cost <= *quota {
                        true => Wait::ZERO,
                        false if used == 0 => Wait::micros(period_end(*length, now) - now),
                        false => until_end,
                    },
                    more_after: until_end,
                    reset_after: until_end,
                    delay: Wait::ZERO,
                }
            }
        }
    }
}
