//! A server of this crate and its clients, in simulated time.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header::DATE};
use http_body_util::Full;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    clock::TokioClock,
    key::Everyone,
    pace::{PaceLayer, Resend},
    response::Headers,
    testing::cases::history::Random,
};
use tower::{Layer, Service, ServiceExt, service_fn, util::BoxCloneSyncService};

pub(super) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The way to a server, and what happened on it.
#[derive(Clone)]
pub(super) struct World {
    server: BoxCloneSyncService<Request<Full<Bytes>>, Response<()>, Infallible>,
    began: Instant,
    way: Duration,
    /// The most by which each way varies.
    varies: Duration,
    random: Arc<Mutex<Random>>,
    log: Arc<Mutex<Vec<(Duration, StatusCode)>>>,
}

/// A layer with rules for these limits and costs, and exact figures.
pub(super) fn layer(limits: &[(&'static str, Limit, u32)]) -> RateLimitLayer {
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
    pub(super) fn new(layer: &RateLimitLayer) -> Self {
        let hello = service_fn(async |_: Request<Full<Bytes>>| {
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
        });
        let server = layer.layer(hello);
        let server = server.map_response(|response: Response<_>| response.map(|_| ()));
        Self {
            server: BoxCloneSyncService::new(server),
            began: Instant::now(),
            way: Duration::ZERO,
            varies: Duration::ZERO,
            random: Arc::new(Mutex::new(Random(7))),
            log: Arc::default(),
        }
    }

    /// A server with one limit, and exact figures.
    pub(super) fn of(limit: Limit) -> Self {
        Self::new(&layer(&[("requests", limit, 1)]))
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

    /// The server's time, which is not that of the client.
    fn date(&self) -> HeaderValue {
        let secs = self.began.elapsed().as_secs();
        let (minutes, secs) = (secs / 60, secs % 60);
        let date = format!("Thu, 01 Jan 2026 00:{minutes:02}:{secs:02} GMT");
        date.parse().unwrap()
    }

    /// Answers a request, after its way to the server and back.
    pub(super) async fn answer(&self, request: Request<Full<Bytes>>) -> Response<()> {
        sleep(self.one_way()).await;
        let mut response = self.server.clone().oneshot(request).await.unwrap();
        response.headers_mut().insert(DATE, self.date());
        let entry = (self.began.elapsed(), response.status());
        self.log.lock().unwrap().push(entry);
        sleep(self.one_way()).await;
        response
    }

    /// The way of a client to the server.
    pub(super) fn service(
        &self,
    ) -> impl Service<
        Request<Full<Bytes>>,
        Response = Response<()>,
        Error = Infallible,
        Future: Send,
    > + Clone
    + Send
    + use<> {
        let world = self.clone();
        service_fn(move |request| {
            let world = world.clone();
            async move { Ok(world.answer(request).await) }
        })
    }

    /// Adds a client that asks without a pause until then.
    pub(super) fn client<R>(&self, pace: &PaceLayer<R>, until: Duration) -> JoinSet<()>
    where
        R: Resend<Full<Bytes>> + Clone + 'static,
    {
        let (pace, until) = (pace.layer(self.service()), self.began + until);
        let mut tasks = JoinSet::new();
        for _ in 0..32 {
            let pace = pace.clone();
            tasks.spawn(async move {
                while Instant::now() < until {
                    pace.clone().oneshot(super::request("a")).await.unwrap();
                }
            });
        }
        tasks
    }

    /// Lets so many clients ask for a time, and returns the instants of the requests and whether they passed.
    pub(super) async fn run(&self, clients: usize, time: Duration) -> Outcome {
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
    pub(super) fn passed(&self) -> usize {
        self.0.iter().filter(|(_, passed)| *passed).count()
    }

    pub(super) fn refused(&self) -> usize {
        self.0.len() - self.passed()
    }

    /// The longest row of refusals.
    pub(super) fn refused_in_a_row(&self) -> usize {
        let rows = self.0.split(|(_, passed)| *passed);
        rows.map(<[_]>::len).max().unwrap_or_default()
    }

    /// Asserts that at least so many thousandths of the possible requests have passed.
    #[track_caller]
    pub(super) fn assert_share(
        &self,
        possible: u128,
        thousandths: u128,
        what: &dyn std::fmt::Debug,
    ) {
        let passed = self.passed() as u128;
        assert!(
            passed * 1000 >= possible * thousandths,
            "{what:?}: {passed} of {possible}, {} refused",
            self.refused()
        );
    }
}

/// The limit of the examples: 20 per second, with a burst of 5.
pub(super) fn twenty() -> Limit {
    Limit::per_second(20).burst(5)
}

/// What a limit admits in a time at most.
pub(super) fn possible(burst: u32, per_second: u32, time: Duration) -> u128 {
    u128::from(burst) + time.as_millis() * u128::from(per_second) / 1000
}

/// The dialects that have whole seconds only.
pub(super) const WHOLE: [Headers; 3] = [
    Headers::Draft11,
    Headers::XRateLimitDelta,
    Headers::XRateLimitEpoch,
];
