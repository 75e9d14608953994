//! When a server has room, according to the figures of its policies.

use super::{
    bucket::{Bucket, PacedCharge},
    figures::{Figure, MOST_POLICIES},
    reading::Reading,
    sent::{Margin, Nanos, SentRequest},
    share::SharedPace,
};

/// The policies of a server that are followed one by one.
#[derive(Debug, Default)]
pub(super) struct Forecast {
    buckets: Vec<Bucket>,
    share: SharedPace,
    times: ResponseTimes,
    is_throttled: bool,
    /// The requests that have been sent.
    sent: u64,
    last_sent: Nanos,
    /// The requests that have passed, fewer after a refusal. As many are sent at once, and one more: a client that sent all at
    /// once would find others only after it was refused often.
    passed: u64,
}

/// A request that has been sent.
#[derive(Debug)]
pub(super) struct Request {
    sent: SentRequest,
    charged: Vec<PacedCharge>,
    /// Whether it was sent because it had waited for the maximum.
    is_forced: bool,
}

/// The shortest and the longest time that responses take.
#[derive(Debug, Default)]
struct ResponseTimes(Option<(Nanos, Nanos)>);

impl ResponseTimes {
    /// Records a response. Old extremes are forgotten over some hundred responses.
    fn add(&mut self, took: Nanos) {
        let (least, most) = self.0.unwrap_or((took, took));
        let least = least.min(took) + (took - least).max(0) / 256;
        let most = most.max(took) - (most - took).max(0) / 64;
        self.0 = Some((least, most));
    }

    fn spread(&self) -> Nanos {
        self.0.map_or(0, |(least, most)| (most - least).max(0))
    }
}

impl Forecast {
    /// Returns the instant from which a request can be sent, if that is later than `now`.
    pub(super) fn wait_until(&mut self, now: Nanos, in_flight: u64) -> Option<Nanos> {
        if self.buckets.is_empty() {
            return None;
        }
        if self.buckets.iter().all(|bucket| bucket.is_full(now)) {
            self.is_throttled = false;
        }
        let mut ready = self.ready_at();
        if ready > now {
            // Those who wait leave a reserve.
            self.is_throttled = true;
            ready = self.ready_at();
        }
        if in_flight > self.passed {
            ready = ready.max(self.last_sent.saturating_add(self.pace()));
        }
        (ready > now).then_some(ready)
    }

    /// Returns whether the figures of a policy count.
    pub(super) fn follows(&self, figure: &Figure) -> bool {
        let mut buckets = self.buckets.iter();
        figure.is_certain || buckets.any(|bucket| bucket.name == figure.name)
    }

    /// Returns the instant from which the figures leave room.
    pub(super) fn ready_at(&self) -> Nanos {
        let margin = self.margin();
        let buckets = self.buckets.iter().map(|bucket| bucket.ready_at(margin));
        buckets.fold(self.share.ready_at(), Nanos::max)
    }

    /// Records that a request is sent.
    pub(super) fn send(&mut self, now: Nanos, is_forced: bool) -> Request {
        self.sent += 1;
        self.last_sent = now;
        let sent = SentRequest {
            number: self.sent,
            at: now,
        };
        let buckets = self.buckets.iter_mut();
        let charged = buckets.map(|bucket| bucket.charge(sent)).collect();
        self.share.sent(now, self.pace());
        Request {
            sent,
            charged,
            is_forced,
        }
    }

    /// Learns from the response to a request.
    pub(super) fn hear(
        &mut self,
        request: &Request,
        reading: &Reading,
        now: Nanos,
        in_flight: u64,
    ) {
        let policies = &reading.policies;
        if policies.is_empty() && self.buckets.is_empty() {
            return;
        }
        let (sent, is_refused) = (request.sent, reading.is_refused());
        self.times.add(now.saturating_sub(sent.at));
        // Of those on their way, some may have overtaken this one.
        let others = u32::try_from(in_flight).unwrap_or(u32::MAX);
        let is_crowded = self.compare(request, reading, others);
        self.follow(policies, sent, others, now);
        match (is_refused, is_crowded) {
            (true, true) => self.share.refused(sent.at, now, self.pace()),
            (false, true) => self.share.noticed(now),
            (_, false) => {}
        }
        if is_refused {
            self.passed /= 2;
            return;
        }
        self.passed += 1;
        let scarcest = self.buckets.iter().min_by_key(|bucket| bucket.level());
        if let Some(bucket) = scarcest {
            self.share.passed(bucket.level(), bucket.quota());
        }
    }

    /// Compares the figures of a response with the buckets that its request was charged to. Returns whether others have taken
    /// units: they are missing, or the request was refused without need.
    fn compare(&mut self, request: &Request, reading: &Reading, others: u32) -> bool {
        let (sent, margin) = (request.sent, self.margin());
        let mut is_crowded = false;
        for charged in &request.charged {
            let mut buckets = self.buckets.iter_mut();
            let Some(bucket) = buckets.find(|bucket| bucket.name == charged.policy) else {
                continue;
            };
            let mut figures = reading.policies.iter();
            let figure = figures.find(|figure| figure.name == charged.policy);
            match figure.filter(|figure| bucket.is_of(figure)) {
                Some(figure) if reading.is_refused() => {
                    bucket.give_back(sent);
                    bucket.refused(figure, sent);
                    is_crowded |= figure.denies() && !request.is_forced;
                }
                Some(figure) => is_crowded |= bucket.passed(figure, sent, charged, margin, others),
                None => bucket.give_back(sent),
            }
        }
        is_crowded
    }

    /// Begins to follow new and changed policies, and forgets full ones that the server has stopped to name.
    fn follow(&mut self, policies: &[Figure], sent: SentRequest, others: u32, now: Nanos) {
        let is_named = |name: &str| policies.iter().any(|figure| figure.name == name);
        self.buckets
            .retain(|bucket| is_named(&bucket.name) || !bucket.is_full(now));
        for figure in policies {
            let has_room = self.buckets.len() < MOST_POLICIES;
            let mut buckets = self.buckets.iter_mut();
            match buckets.find(|bucket| bucket.name == figure.name) {
                Some(bucket) if bucket.is_of(figure) => {}
                Some(bucket) => *bucket = Bucket::new(figure, sent, others),
                None if has_room => {
                    self.buckets.push(Bucket::new(figure, sent, others));
                }
                None => {}
            }
        }
    }

    /// Returns the time in which the units of a request come back, of the slowest policy.
    fn pace(&self) -> Nanos {
        let paces = self.buckets.iter().map(Bucket::pace);
        paces.max().unwrap_or_default()
    }

    fn margin(&self) -> Margin {
        Margin {
            spread: self.times.spread(),
            is_throttled: self.is_throttled,
        }
    }
}
