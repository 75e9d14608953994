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
    pace::PaceLayer, response::Headers, testing::random::Random,
};
use tower::{Layer, ServiceExt, service_fn};

use super::{Way, ms, request};
use crate::support::Hello;

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

/// A layer with a limit in simulated time.
fn layer(limit: Limit, headers: Headers) -> RateLimitLayer {
    let limits = Limits::builder().limit("requests", limit).build().unwrap();
    let limiter = Limiter::new(limits, MemoryBackend::new());
    RateLimitLayer::with_limiter(limiter.with_clock(TokioClock::default()))
        .rule(Rule::new("requests", Everyone))
        .headers(headers)
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

    /// Lets a client ask without a pause for a time, and counts its requests.
    async fn run(&self) -> Outcome {
        let pace = PaceLayer::new().layer(self.service());
        let until = self.began + TIME;
        let mut tasks = JoinSet::new();
        for _ in 0..32 {
            let pace = pace.clone();
            tasks.spawn(async move {
                while Instant::now() < until {
                    pace.clone().oneshot(request("a")).await.unwrap();
                }
            });
        }
        tasks.join_all().await;
        self.outcome(TIME)
    }

    /// Counts the requests that reached the server in a time.
    pub(super) fn outcome(&self, time: Duration) -> Outcome {
        let log = self.log.lock().unwrap();
        let in_time = log.iter().filter(|(at, _)| *at <= time);
        let passed = in_time.clone().filter(|(_, status)| *status == 200).count();
        Outcome {
            passed,
            refused: in_time.count() - passed,
        }
    }
}

/// The numbers of requests that reached a server.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) passed: usize,
    pub(super) refused: usize,
}

const SECONDS: u32 = 20;

const TIME: Duration = Duration::from_secs(SECONDS as u64);

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
                let world = World::behind(&layer(limit, headers)).way(ms(way), ms(varies));
                let Outcome { passed, refused } = world.run().await;
                let what = (per_second, burst, headers, way, varies);
                assert_eq!(refused, 0, "{what:?}");
                // The epoch is compared with a `Date` in whole seconds, so it can be another second.
                let fills = burst.div_ceil(per_second) + 1;
                let least = match headers {
                    Headers::Draft11 => burst + burst.min(per_second) * SECONDS,
                    _ => burst * SECONDS / fills,
                };
                let least = usize::try_from(least).unwrap();
                assert!(passed * 100 >= least * 88, "{what:?}: {passed} of {least}");
            }
        }
    }
}
