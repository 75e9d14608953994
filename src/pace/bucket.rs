//! A model of a bucket of the server: how many units it has left, according to its responses and to what was sent since.
//!
//! The model lives on the client's clock, and takes each request at the instant at which it was sent. So if all requests take
//! equally long to the server, the model differs from the server's bucket by nothing but that time.

use std::time::Duration;

use super::{
    estimate::Estimate,
    figures::{Figure, Remaining, ShownRefill},
    sent::{Margin, Nanos, SentRequest, nanos},
    share::WHOLE,
    steady::Steady,
    windowed::Windowed,
};

/// The longest time that is held back for other clients, so that they are not locked out.
const LONGEST_RESERVE: Nanos = 1_000_000_000;

/// The server's clock is read in microseconds.
const MICROSECOND: Nanos = 1000;

/// A policy of a server.
#[derive(Debug)]
pub(super) struct Bucket {
    pub(super) name: String,
    quota: u32,
    refill: ShownRefill,
    cost: u32,
    /// The number of the newest request whose response was read.
    newest: Option<u64>,
    /// The part of the quota that was left, according to the newest response, in millionths.
    level: u64,
    model: BucketModel,
}

#[derive(Debug)]
enum BucketModel {
    Steady(Steady),
    Windowed(Windowed),
    Estimated(Steady, Estimate),
}

/// What a charge has led to.
#[derive(Clone, Debug)]
pub(super) struct PacedCharge {
    pub(super) policy: String,
    /// Where the bucket was after it.
    pub(super) tat: Nanos,
}

impl Bucket {
    /// Begins with the response to a request, while `others` are on their way.
    pub(super) fn new(figure: &Figure, sent: SentRequest, others: u32) -> Self {
        let Figure { quota, refill, .. } = *figure;
        let left = figure.left.unwrap_or(Remaining {
            units: quota,
            next: None,
        });
        let steady = |interval: Duration| {
            let mut steady = Steady::new(nanos(interval), quota);
            steady.begin(sent.at, left, others.saturating_mul(figure.cost));
            steady
        };
        Self {
            name: figure.name.clone(),
            quota,
            refill,
            cost: figure.cost,
            newest: Some(sent.number),
            level: part(left.units, quota),
            model: match refill {
                ShownRefill::Steady(interval) => BucketModel::Steady(steady(interval)),
                ShownRefill::Windowed(window) => {
                    let mut windowed = Windowed::new(nanos(window), quota);
                    windowed.begin(sent, left, others.saturating_mul(figure.cost));
                    BucketModel::Windowed(windowed)
                }
                ShownRefill::WholeSeconds(longest) => {
                    let estimate = Estimate::new(nanos(longest), quota, sent, left.units);
                    let steady = steady(Duration::from_nanos(estimate.interval().unsigned_abs()));
                    BucketModel::Estimated(steady, estimate)
                }
            },
        }
    }

    /// Returns whether the server still describes the policy in this way.
    pub(super) fn is_of(&self, figure: &Figure) -> bool {
        self.quota == figure.quota && self.refill.is_like(figure.refill)
    }

    /// Returns the instant from which a request passes.
    pub(super) fn ready_at(&self, margin: Margin) -> Nanos {
        match &self.model {
            BucketModel::Steady(steady) => {
                let reserve = match margin.is_throttled {
                    true => margin.spread + MICROSECOND + self.reserve(steady.interval()),
                    false => 0,
                };
                steady.ready_at(self.cost, reserve)
            }
            BucketModel::Windowed(windowed) => {
                let spread = if margin.is_throttled {
                    margin.spread
                } else {
                    0
                };
                windowed.ready_at(self.cost, spread + MICROSECOND)
            }
            BucketModel::Estimated(steady, estimate) => {
                // A quota of four has room for one request in reserve, and a larger one also for uneven times.
                let interval = steady.interval();
                let most = interval.saturating_mul(i64::from(self.quota) - 3) / 2;
                let reserve = interval.saturating_add(margin.spread.min(most.max(0)));
                let ready = steady.ready_at(self.cost, reserve);
                ready.max(estimate.held_until())
            }
        }
    }

    /// Returns the time in which one and a half requests come back. A client that always used all of its bucket would leave
    /// nothing to another one, and would not notice it.
    fn reserve(&self, interval: Nanos) -> Nanos {
        let reserve = interval.saturating_mul(i64::from(self.cost)) / 2 * 3;
        reserve.min(LONGEST_RESERVE)
    }

    /// Returns the time in which the units of a request come back, on average.
    pub(super) fn pace(&self) -> Nanos {
        let interval = match &self.model {
            BucketModel::Steady(steady) | BucketModel::Estimated(steady, _) => steady.interval(),
            BucketModel::Windowed(windowed) => windowed.window() / i64::from(self.quota),
        };
        interval.saturating_mul(i64::from(self.cost))
    }

    /// Returns the part of the quota that was left, in millionths.
    pub(super) fn level(&self) -> u64 {
        self.level
    }

    pub(super) fn quota(&self) -> u32 {
        self.quota / self.cost
    }

    /// Returns whether nothing is missing, so that a new bucket would be the same.
    pub(super) fn is_full(&self, now: Nanos) -> bool {
        match &self.model {
            BucketModel::Steady(steady) => steady.is_full(now),
            BucketModel::Estimated(steady, estimate) => {
                steady.is_full(now) && estimate.held_until() <= now
            }
            BucketModel::Windowed(windowed) => windowed.is_full(now),
        }
    }

    /// Takes the units of a request.
    pub(super) fn charge(&mut self, sent: SentRequest) -> PacedCharge {
        let tat = match &mut self.model {
            BucketModel::Steady(steady) | BucketModel::Estimated(steady, _) => {
                steady.charge(sent.at, self.cost)
            }
            BucketModel::Windowed(windowed) => {
                windowed.charge(sent, self.cost);
                0
            }
        };
        PacedCharge {
            policy: self.name.clone(),
            tat,
        }
    }

    /// Returns the units of a request that was not charged.
    pub(super) fn give_back(&mut self, sent: SentRequest) {
        match &mut self.model {
            BucketModel::Steady(steady) | BucketModel::Estimated(steady, _) => {
                steady.give_back(self.cost);
            }
            BucketModel::Windowed(windowed) => windowed.give_back(sent, self.cost),
        }
    }

    /// Learns from the response to a request that passed, while `others` are on their way. Returns whether others than
    /// this client have taken a unit meanwhile.
    pub(super) fn passed(
        &mut self,
        figure: &Figure,
        sent: SentRequest,
        charged: &PacedCharge,
        margin: Margin,
        others: u32,
    ) -> bool {
        self.cost = figure.cost;
        let Some(left) = figure.left else {
            return false;
        };
        if self.newest.is_some_and(|newest| newest > sent.number) {
            return false;
        }
        self.newest = Some(sent.number);
        self.level = part(left.units, self.quota);
        match &mut self.model {
            BucketModel::Steady(steady) => {
                steady.learn(left, sent.at, charged.tat, margin, others == 0)
            }
            BucketModel::Windowed(windowed) => windowed.learn(left, sent),
            BucketModel::Estimated(steady, estimate) => {
                if let ShownRefill::WholeSeconds(longest) = figure.refill {
                    estimate.bound(nanos(longest));
                }
                estimate.passed(sent, left.units, margin.spread);
                steady.set_interval(estimate.interval());
                steady.begin(sent.at, left, others.saturating_mul(self.cost));
                false
            }
        }
    }

    /// Learns from the response to a request that was refused, and has charged nothing.
    pub(super) fn refused(&mut self, figure: &Figure, sent: SentRequest) {
        self.cost = figure.cost;
        let Some(left) = figure.left else {
            return;
        };
        self.level = 0;
        match &mut self.model {
            BucketModel::Steady(steady) => steady.refused(left, sent.at),
            BucketModel::Windowed(windowed) => {
                windowed.learn(left, sent);
            }
            BucketModel::Estimated(steady, estimate) => {
                estimate.refused(sent.at);
                steady.set_interval(estimate.interval());
                steady.refused(left, sent.at);
            }
        }
    }
}

/// Returns `units` as a part of `quota`, in millionths.
fn part(units: u32, quota: u32) -> u64 {
    u64::from(units) * WHOLE / u64::from(quota)
}
