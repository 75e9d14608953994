//! The way to a server, and servers of this crate with their clients, in simulated time.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header::DATE};
use http_body_util::Full;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, clock::TokioClock, key::Everyone,
    pace::PaceLayer, quota::Per, response::Headers,
};
use tower::{Layer, ServiceExt, service_fn};

use super::{Way, ms, request};
use crate::support::{Hello, scale::Random};

/// The server's time at the beginning, which is not that of the client.
pub(super) const BEGINNING: Duration = Duration::from_secs(1_767_225_600);

/// The way to a server, and what happened on it.
#[derive(Clone)]
pub(super) struct World {
    server: Way,
    pub(super) began: Instant,
    /// By how much the server's time is ahead of [`BEGINNING`] when all begins.
    ahead: Duration,
    way: Duration,
    /// The most by which each way varies.
    varies: Duration,
    random: Arc<Mutex<Random>>,
    log: Arc<Mutex<Vec<(Duration, StatusCode)>>>,
}

/// A layer with rules for these limits and costs, and exact figures.
fn layer(limits: &[(&'static str, Limit, u32)]) -> RateLimitLayer {
    let mut all = Limits::builder();
    for (name, limit, _) in limits {
        all = all.limit(*name, limit.clone());
    }
    let limiter = Limiter::new(all.build().unwrap(), MemoryBackend::new());
    let layer = RateLimitLayer::with_limiter(limiter.with_clock(TokioClock::default()));
    let layer = layer.headers(Headers::Exact);
    limits.iter().fold(layer, |layer, (name, _, cost)| {
        layer.rule(Rule::new(*name, Everyone).cost(*cost))
    })
}

impl World {
    pub(super) fn new(server: Way, ahead: Duration) -> Self {
        Self {
            server,
            began: Instant::now(),
            ahead,
            way: Duration::ZERO,
            varies: Duration::ZERO,
            random: Arc::new(Mutex::new(Random(7))),
            log: Arc::default(),
        }
    }

    /// A server of this crate.
    fn behind(layer: &RateLimitLayer) -> Self {
        let server = service_fn({
            let server = layer.layer(Hello);
            move |request: Request<Full<Bytes>>| {
                let answer = server.clone().oneshot(request);
                async { Ok(answer.await?.map(|_| Full::default())) }
            }
        });
        Self::new(Way::new(server), Duration::ZERO)
    }

    /// A server with one limit, and exact figures.
    fn of(limit: Limit) -> Self {
        Self::behind(&layer(&[("requests", limit, 1)]))
    }

    /// Sets the time that requests and responses take each, and by how much it varies.
    pub(super) fn way(mut self, way: Duration, varies: Duration) -> Self {
        (self.way, self.varies) = (way, varies);
        self
    }

    fn one_way(&self) -> Duration {
        let most = u64::try_from(self.varies.as_millis()).unwrap();
        self.way + ms(self.random.lock().unwrap().below(most + 1))
    }

    fn date(&self) -> HeaderValue {
        let now = SystemTime::UNIX_EPOCH + BEGINNING + self.ahead + self.began.elapsed();
        httpdate::fmt_http_date(now).parse().unwrap()
    }

    /// Answers a request, after its way to the server and back.
    async fn answer(&self, request: Request<Full<Bytes>>) -> Response<Full<Bytes>> {
        sleep(self.one_way()).await;
        let mut response = self.server.clone().oneshot(request).await.unwrap();
        response.headers_mut().insert(DATE, self.date());
        let entry = (self.began.elapsed(), response.status());
        self.log.lock().unwrap().push(entry);
        sleep(self.one_way()).await;
        response
    }

    /// The way of a client to the server.
    pub(super) fn service(&self) -> Way {
        let world = self.clone();
        Way::new(service_fn(move |request| {
            let world = world.clone();
            async move { Ok(world.answer(request).await) }
        }))
    }

    /// Adds a client that asks without a pause until then.
    fn client(&self, pace: &PaceLayer, until: Duration) -> JoinSet<()> {
        let (pace, until) = (pace.layer(self.service()), self.began + until);
        let mut tasks = JoinSet::new();
        for _ in 0..32 {
            let pace = pace.clone();
            tasks.spawn(async move {
                while Instant::now() < until {
                    pace.clone().oneshot(request("a")).await.unwrap();
                }
            });
        }
        tasks
    }

    /// Lets so many clients ask for a time, and returns the instants of the requests and whether they passed.
    async fn run(&self, clients: usize, time: Duration) -> Outcome {
        let all: Vec<_> = (0..clients)
            .map(|_| self.client(&PaceLayer::new(), time))
            .collect();
        for tasks in all {
            tasks.join_all().await;
        }
        self.outcome(time)
    }

    pub(super) fn outcome(&self, time: Duration) -> Outcome {
        let log = self.log.lock().unwrap();
        let log = log.iter().filter(|(at, _)| *at <= time);
        Outcome(log.map(|(at, status)| (*at, *status == 200)).collect())
    }
}

/// The requests that reached a server, and whether they passed.
#[derive(Debug)]
pub(super) struct Outcome(pub(super) Vec<(Duration, bool)>);

impl Outcome {
    fn passed(&self) -> usize {
        self.0.iter().filter(|(_, passed)| *passed).count()
    }

    pub(super) fn refused(&self) -> usize {
        self.0.len() - self.passed()
    }

    /// Asserts that at least so many thousandths of the possible requests have passed.
    #[track_caller]
    fn assert_share(&self, possible: u128, thousandths: u128, what: &dyn std::fmt::Debug) {
        let passed = self.passed() as u128;
        assert!(
            passed * 1000 >= possible * thousandths,
            "{what:?}: {passed} of {possible}, {} refused",
            self.refused()
        );
    }
}

/// What a limit admits in a time at most.
fn possible(burst: u32, per_second: u32, time: Duration) -> u128 {
    u128::from(burst) + time.as_millis() * u128::from(per_second) / 1000
}

const TIME: Duration = Duration::from_secs(20);

#[tokio::test(start_paused = true)]
async fn client_gets_nearly_all_of_any_rate_and_is_never_refused() {
    for (per_second, burst) in [(1, 1), (3, 1), (3, 3), (7, 2), (20, 1), (20, 5), (20, 100)] {
        for way in [0, 1, 10, 80] {
            let limit = Limit::per_second(per_second).burst(burst);
            let time = 5 * TIME / per_second;
            let world = World::of(limit).way(ms(way), ms(0));
            let outcome = world.run(1, time).await;
            let what = (per_second, burst, way);
            assert_eq!(outcome.refused(), 0, "{what:?}: {:?}", outcome.0);
            // The first request goes alone, there and back.
            let possible = possible(burst, per_second, time - ms(3 * way).min(time / 10));
            outcome.assert_share(possible, 970, &what);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn windows_and_quotas_are_used_to_the_end() {
    let cases = [
        (Limit::window(5, ms(700)), 5 * 28),
        (Limit::window(1, ms(300)), 66),
        (Limit::window(40, ms(2500)), 40 * 8),
        (Limit::quota(5, Per::first_use(ms(700))), 5 * 28),
        (Limit::quota(30, Per::first_use(ms(2500))), 30 * 8),
    ];
    for (limit, possible) in cases {
        let world = World::of(limit.clone()).way(ms(4), ms(0));
        let outcome = world.run(1, TIME).await;
        assert_eq!(outcome.refused(), 0, "{limit:?}");
        outcome.assert_share(possible, 960, &limit);
    }
}

#[tokio::test(start_paused = true)]
async fn client_is_never_refused_and_gets_the_burst_of_each_second() {
    for (per_second, burst) in [(1, 1), (3, 1), (3, 3), (4, 2), (20, 5), (20, 20), (5, 20)] {
        for headers in [
            Headers::Draft11,
            Headers::XRateLimitDelta,
            Headers::XRateLimitEpoch,
        ] {
            for (way, varies) in [(0, 0), (3, 0), (10, 20)] {
                let limit = Limit::per_second(per_second).burst(burst);
                let layer = layer(&[("requests", limit, 1)]).headers(headers);
                let world = World::behind(&layer).way(ms(way), ms(varies));
                let outcome = world.run(1, TIME).await;
                let what = (per_second, burst, headers, way, varies);
                assert_eq!(outcome.refused(), 0, "{what:?}");
                // The epoch is compared with a `Date` in whole seconds, so it can be another second.
                let fills = burst.div_ceil(per_second) + 1;
                let each = u64::from(burst.min(per_second));
                let least = match headers {
                    Headers::Draft11 => possible(burst, u32::try_from(each).unwrap(), TIME),
                    _ => u128::from(burst * 20 / fills),
                };
                outcome.assert_share(least, 880, &what);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn clients_that_share_a_limit_use_it_and_are_rarely_refused() {
    for clients in [2, 4] {
        for (burst, way) in [(5, 1), (5, 40), (20, 10)] {
            let world = World::of(Limit::per_second(20).burst(burst)).way(ms(way), ms(way / 2));
            let outcome = world.run(clients, TIME).await;
            let (sent, refused) = (outcome.0.len(), outcome.refused());
            let what = (clients, burst, way);
            assert!(refused * 7 <= sent, "{what:?}: {refused} of {sent}");
            outcome.assert_share(possible(burst, 20, TIME), 900, &what);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn client_gets_all_of_its_rate_from_a_limit_with_a_line() {
    for (burst, wait) in [(1, 500), (1, 2000), (3, 1000)] {
        let limit = Limit::per_second(3).burst(burst).max_wait(ms(wait));
        let outcome = World::of(limit).run(1, TIME).await;
        assert_eq!(outcome.refused(), 0, "{burst} {wait}");
        outcome.assert_share(possible(burst, 3, TIME), 950, &(burst, wait));
    }
}
