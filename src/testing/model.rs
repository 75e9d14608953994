//! Models of the algorithms as they are defined, with exact fractions and lists of instants, and without the crate's arithmetic.

use std::{cmp::Ordering, collections::BTreeMap, iter};

use crate::algorithm::{
    Algorithm, Ask, Charge, Figures, Verb, Wait,
    gcra::Gcra,
    quota::{CalendarUnit, LocalClock, Per},
};

/// The first instant of 2026, in microseconds.
pub const START: u64 = 1_767_225_600_000_000;
/// In microseconds.
pub(super) const HOUR: u64 = 3_600_000_000;
pub(super) const DAY: u64 = 24 * HOUR;

/// The first instant of 2007, a Monday, where the calendar of the models begins.
const CALENDAR_START: u64 = 1_167_609_600_000_000;

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
        let mut a = self.0.abs();
        let mut b = self.1;
        while b != 0 {
            let rest = a % b;
            a = b;
            b = rest;
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

/// The model of a bucket. The limit that reads it may change from one time to the next.
#[derive(Clone, Debug)]
pub(super) enum Model {
    /// Tokens come back one after the other, each after the same time. Fractions of a microsecond are stored as parts of the count.
    Tokens { full_at: Fraction, count: u32 },
    /// Each unit counts for a span.
    Units(Vec<u64>),
    /// Each permit counts for a time after it was taken or renewed. By name, this has that instant and the units.
    Permits(BTreeMap<u64, (u64, u32)>),
    /// Units count until their period ends.
    Quota { end: u64, used: u32 },
    /// The client is denied until an instant.
    Block(u64),
}

/// Returns the next instants at which a period of a calendar ends.
fn calendar_ends(per: Per, unit: CalendarUnit, now: u64) -> impl Iterator<Item = u64> {
    let next = move |now: &u64| match per.clock()? {
        LocalClock::Offset(offset) => {
            let offset = offset.micros();
            let end = local_end(unit, now.saturating_add_signed(offset));
            Some(end.saturating_add_signed(-offset))
        }
        #[cfg(feature = "zones")]
        LocalClock::Zone(zone) => {
            let next = |local| local_end(unit, local);
            Some(super::zone::end(zone.name(), *now, next))
        }
    };
    iter::successors(Some(now), next).skip(1)
}

/// Returns the end of the period of the calendar that contains a local time.
fn local_end(unit: CalendarUnit, local: u64) -> u64 {
    let of_length = |length| local + length - (local - CALENDAR_START) % length;
    match unit {
        CalendarUnit::Hour => of_length(HOUR),
        CalendarUnit::Day => of_length(DAY),
        CalendarUnit::Week => of_length(7 * DAY),
        CalendarUnit::Month => {
            let mut later = month_starts().skip_while(|start| *start <= local);
            later.next().expect("months have no end")
        }
    }
}

/// Returns the instant until which the used amount of a quota counts. If two calendar periods end before the stored instant, that
/// instant is the end of a longer period.
fn counted_until(per: Per, stored: u64, now: u64) -> u64 {
    let Some(unit) = per.calendar_unit() else {
        return stored.min(period_end(per, now));
    };
    let ends: Vec<_> = calendar_ends(per, unit, now).take(2).collect();
    if ends.iter().all(|end| *end < stored) {
        ends[0]
    } else {
        stored
    }
}

fn period_end(per: Per, now: u64) -> u64 {
    let unit = per.calendar_unit();
    let calendar = unit.and_then(|unit| calendar_ends(per, unit, now).next());
    calendar.unwrap_or_else(|| now + per.first_use_length().map_or(0, micros))
}

fn month_starts() -> impl Iterator<Item = u64> {
    let lengths = (2007..).flat_map(|year| {
        let february = if year % 4 == 0 { 29 } else { 28 };
        [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    });
    lengths.scan(CALENDAR_START, |next, days| {
        let start = *next;
        *next += days * DAY;
        Some(start)
    })
}

fn micros(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).expect("limits are below 71 years")
}

/// The values of a token bucket, as fractions.
fn fractions(gcra: &Gcra) -> [Fraction; 2] {
    let each = Fraction(micros(gcra.period()).into(), gcra.count().into());
    [each, Fraction::whole(micros(gcra.max_wait()).into())]
}

/// Reads an instant that was stored in parts of one count with another count.
fn with_parts_of(count: u32, stored: Fraction, count_then: u32) -> Fraction {
    let whole = Fraction::whole(stored.floor());
    let parts = stored.minus(whole).times(count_then).floor();
    let most = i128::from(count) - 1;
    whole.plus(Fraction(parts.min(most), count.into()))
}

impl Model {
    /// Returns a full bucket, or `None` if there is no model of its algorithm here.
    pub(super) fn new(algorithm: &Algorithm) -> Option<Self> {
        Some(match algorithm {
            Algorithm::Gcra(gcra) => Self::Tokens {
                full_at: Fraction::whole(0),
                count: gcra.count(),
            },
            Algorithm::Window(_) => Self::Units(Vec::new()),
            Algorithm::Concurrency(_) => Self::Permits(BTreeMap::new()),
            Algorithm::Block(_) => Self::Block(0),
            Algorithm::Quota(_) => Self::Quota { end: 0, used: 0 },
            Algorithm::Tiers(_) => return None,
        })
    }

    /// Stores the end of a quota's period, which a decision determines even if it is a denial.
    pub(super) fn note(&mut self, algorithm: &Algorithm, now: u64) {
        if let (Self::Quota { end, .. }, Algorithm::Quota(quota)) = (self, algorithm)
            && now < *end
        {
            *end = counted_until(quota.per(), *end, now);
        }
    }

    /// Answers a question, and changes the bucket if it passes.
    #[expect(clippy::too_many_lines, reason = "an arm for each algorithm")]
    pub(super) fn ask(&mut self, algorithm: &Algorithm, ask: &Ask, now: u64) -> bool {
        match (self, algorithm) {
            (Self::Tokens { full_at, count }, Algorithm::Gcra(gcra)) => {
                let [each, max_wait] = fractions(gcra);
                *full_at = with_parts_of(gcra.count(), *full_at, *count);
                *count = gcra.count();
                let start = Fraction::whole(now.into());
                let is_owned = |charge: Charge| {
                    Fraction::whole(charge.at.into())
                        .plus(Fraction(charge.frac.into(), (*count).into()))
                        == *full_at
                };
                let empty = start.plus(each.times(gcra.burst()));
                let charged = start.max(*full_at).plus(each.times(ask.cost));
                let latest = if ask.waits {
                    empty.plus(max_wait)
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
            (Self::Units(taken), Algorithm::Window(window)) => {
                let span = micros(window.window());
                taken.retain(|unit| now < unit + span);
                let used = u32::try_from(taken.len()).expect("few units");
                let is_meant = |unit: &u64| ask.charge.is_none_or(|charge| charge.at == *unit);
                let meant = taken.iter().filter(|unit| is_meant(unit)).count();
                let passes = match ask.verb {
                    Verb::Spend => used + ask.cost <= window.limit(),
                    Verb::Debit => true,
                    Verb::Refund => meant > 0 && ask.cost > 0,
                    Verb::Renew | Verb::Peek => false,
                };
                if passes && ask.verb == Verb::Refund {
                    for _ in 0..meant.min(ask.cost as usize) {
                        let last = taken.iter().rposition(is_meant).expect("it is there");
                        taken.remove(last);
                    }
                } else if passes {
                    taken.extend((0..ask.cost).map(|_| now));
                    taken.sort_unstable();
                }
                passes
            }
            (Self::Permits(held), Algorithm::Concurrency(limit)) => {
                let hold = micros(limit.hold());
                let mut left = held.clone();
                left.retain(|_, (seen, _)| now < *seen + hold);
                let used: u32 = left.values().map(|(_, units)| units).sum();
                let name = ask.charge.map(|charge| charge.at);
                let known = name.and_then(|name| left.get_mut(&name));
                let passes = match ask.verb {
                    Verb::Spend => known.is_some() || used + ask.cost <= limit.limit(),
                    Verb::Refund | Verb::Renew => known.is_some() && ask.cost > 0,
                    Verb::Debit | Verb::Peek => false,
                };
                if !passes || ask.cost == 0 {
                    return passes;
                }
                match (ask.verb, known) {
                    (Verb::Refund, Some((_, units))) => *units -= ask.cost.min(*units),
                    (_, Some((seen, _))) => *seen = now,
                    (_, None) => {
                        let name = name.expect("the charge of a spend has a name");
                        left.insert(name, (now, ask.cost));
                    }
                }
                left.retain(|_, (_, units)| *units > 0);
                *held = left;
                passes
            }
            (Self::Block(end), Algorithm::Block(_)) => {
                let passes = ask.verb == Verb::Debit || ask.verb == Verb::Spend && *end <= now;
                if passes && ask.cost > 0 {
                    let seconds = if ask.verb == Verb::Debit { ask.cost } else { 0 };
                    *end = now + u64::from(seconds) * 1_000_000;
                }
                passes
            }
            (Self::Quota { end, used }, Algorithm::Quota(quota)) => {
                if *end <= now {
                    (*end, *used) = (0, 0);
                }
                let is_meant = ask.charge.is_none_or(|charge| charge.at == *end);
                let back = if is_meant { ask.cost.min(*used) } else { 0 };
                let passes = match ask.verb {
                    Verb::Spend => *used + ask.cost <= quota.quota(),
                    Verb::Debit => true,
                    Verb::Refund => back > 0,
                    Verb::Renew | Verb::Peek => false,
                };
                match ask.verb {
                    _ if !passes || ask.cost == 0 => {}
                    Verb::Refund => *used -= back,
                    _ if *used == 0 => (*end, *used) = (period_end(quota.per(), now), ask.cost),
                    _ => *used += ask.cost,
                }
                if *used == 0 {
                    *end = 0;
                }
                passes
            }
            _ => false,
        }
    }

    #[expect(clippy::too_many_lines, reason = "an arm for each algorithm")]
    pub(super) fn figures(&self, algorithm: &Algorithm, ask: &Ask, now: u64) -> Figures {
        match (self, algorithm) {
            (Self::Tokens { full_at, count }, Algorithm::Gcra(gcra)) => {
                let [each, max_wait] = fractions(gcra);
                let full_at = with_parts_of(gcra.count(), *full_at, *count);
                let burst = gcra.burst();
                let zero = Fraction::whole(0);
                let filling = full_at.minus(Fraction::whole(now.into())).max(zero);
                let missing = filling.over(each);
                let left = Fraction::whole(burst.into()).minus(missing).max(zero);
                let waits = ask.waits && max_wait.0 > 0;
                let patience = if waits { max_wait } else { zero };
                let beyond = filling.minus(each.times(burst));
                let more = filling.minus(each.times(i128::from(burst) - left.floor() - 1));
                Figures {
                    limit: burst,
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
            (Self::Units(taken), Algorithm::Window(window)) => {
                let limit = window.limit();
                let span = micros(window.window());
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
                    first.map_or(Wait::UNKNOWN, |end| Wait::micros(end - now))
                };
                let left = left_at(now);
                let is_unused = used_at(now) == 0;
                Figures {
                    limit,
                    remaining: left,
                    next_after: until(&|at| used_at(at) + ask.cost <= limit),
                    more_after: until(&|at| is_unused || left_at(at) > left),
                    reset_after: until(&|at| used_at(at) == 0),
                    delay: Wait::ZERO,
                }
            }
            (Self::Permits(held), Algorithm::Concurrency(by)) => {
                let hold = micros(by.hold());
                let counting = held.values().filter(|(seen, _)| now < seen + hold);
                let used: u32 = counting.map(|(_, units)| units).sum();
                // It is not known in advance how long permits are held.
                let unless = |is_now: bool| {
                    if is_now { Wait::ZERO } else { Wait::UNKNOWN }
                };
                Figures {
                    limit: by.limit(),
                    remaining: by.limit().saturating_sub(used),
                    next_after: unless(used + ask.cost <= by.limit()),
                    more_after: unless(used == 0),
                    reset_after: unless(used == 0),
                    delay: Wait::ZERO,
                }
            }
            (Self::Block(end), Algorithm::Block(_)) => {
                let rest = Wait::micros(end.saturating_sub(now));
                Figures {
                    limit: 1,
                    remaining: u32::from(*end <= now),
                    next_after: rest,
                    more_after: rest,
                    reset_after: rest,
                    delay: Wait::ZERO,
                }
            }
            (Self::Quota { end, used }, Algorithm::Quota(by)) => {
                let quota = by.quota();
                let used = if now < *end { *used } else { 0 };
                let until_end = match used {
                    0 => Wait::ZERO,
                    _ => Wait::micros(counted_until(by.per(), *end, now) - now),
                };
                Figures {
                    limit: quota,
                    remaining: quota.saturating_sub(used),
                    next_after: if used + ask.cost <= quota {
                        Wait::ZERO
                    } else if used == 0 {
                        Wait::micros(period_end(by.per(), now) - now)
                    } else {
                        until_end
                    },
                    more_after: until_end,
                    reset_after: until_end,
                    delay: Wait::ZERO,
                }
            }
            _ => Figures::default(),
        }
    }
}
