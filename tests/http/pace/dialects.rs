//! Servers of other makes: how they count, and the fields in which they say what is left.

use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tollgate::pace::PaceLayer;
use tower::{Layer, Service, ServiceExt, service_fn};

use super::{SECOND, ms, request};
use crate::support::scale::{Random, scaled};

/// How a server counts.
#[derive(Clone, Copy, Debug)]
enum Counting {
    /// All units come back at the end of a window, which begins with its first request.
    FixedWindow,
    /// All units come back at the ends of windows that no request begins.
    AlignedWindow,
    /// Each unit comes back a window after it was taken.
    SlidingLog,
    /// Units come back one after the other.
    TokenBucket,
}

/// The fields of a server.
#[derive(Clone, Copy, Debug)]
enum Dialect {
    Draft11,
    /// Without `t`, from a server whose units come back one after the other.
    Draft11WithoutReset,
    Draft7,
    Draft6,
    XSeconds,
    XEpoch,
    XResetAfter,
}

const COUNTINGS: [Counting; 4] = [
    Counting::FixedWindow,
    Counting::AlignedWindow,
    Counting::SlidingLog,
    Counting::TokenBucket,
];

const DIALECTS: [Dialect; 7] = [
    Dialect::Draft11,
    Dialect::Draft7,
    Dialect::Draft6,
    Dialect::XSeconds,
    Dialect::XEpoch,
    Dialect::XResetAfter,
    Dialect::Draft11WithoutReset,
];

/// A limit, and the requests that it has admitted.
#[derive(Debug)]
struct Limit {
    counting: Counting,
    quota: usize,
    window: Duration,
    taken: VecDeque<Duration>,
}

impl Limit {
    /// Decides on a request: whether it passes, how many are left, and the time until there are more.
    fn decide(&mut self, now: Duration) -> (bool, usize, Duration) {
        self.expire(now);
        let passes = self.taken.len() < self.quota;
        if passes {
            let begins = match (self.counting, self.taken.back()) {
                // The time at which the unit begins to come back.
                (Counting::TokenBucket, Some(last)) => now.max(*last + self.interval()),
                (Counting::AlignedWindow, _) => now - self.since_window(now),
                (Counting::FixedWindow, Some(first)) => *first,
                _ => now,
            };
            self.taken.push_back(begins);
        }
        let reset = match (self.counting, self.taken.front()) {
            (Counting::TokenBucket, Some(first)) => *first + self.interval() - now,
            (Counting::AlignedWindow, _) => self.window - self.since_window(now),
            (_, Some(first)) => *first + self.window - now,
            (_, None) => Duration::ZERO,
        };
        (passes, self.quota - self.taken.len(), reset)
    }

    fn expire(&mut self, now: Duration) {
        let back_after = match self.counting {
            Counting::TokenBucket => self.interval(),
            _ => self.window,
        };
        let back = self.taken.iter().filter(|at| **at + back_after <= now);
        self.taken.drain(..back.count());
    }

    fn interval(&self) -> Duration {
        self.window / u32::try_from(self.quota).unwrap()
    }

    fn since_window(&self, now: Duration) -> Duration {
        let window = self.window.as_nanos();
        Duration::from_nanos(u64::try_from(now.as_nanos() % window).unwrap())
    }
}

/// A server, the way to it, and the requests that it has got.
#[derive(Clone)]
struct Server {
    dialect: Dialect,
    limit: Arc<Mutex<Limit>>,
    way: Duration,
    varies: Duration,
    random: Arc<Mutex<Random>>,
    began: Instant,
    /// The server's time at the beginning.
    epoch: Duration,
    log: Arc<Mutex<Vec<(Duration, bool)>>>,
}

impl Server {
    fn new(dialect: Dialect, counting: Counting, quota: usize, window: Duration) -> Self {
        let limit = Limit {
            counting,
            quota,
            window,
            taken: VecDeque::new(),
        };
        Self {
            dialect,
            limit: Arc::new(Mutex::new(limit)),
            way: Duration::ZERO,
            varies: Duration::ZERO,
            random: Arc::new(Mutex::new(Random(7))),
            began: Instant::now(),
            epoch: ms(1_767_225_600_480),
            log: Arc::default(),
        }
    }

    fn answer(&self) -> Response<Full<Bytes>> {
        let now = self.epoch + self.began.elapsed();
        let mut limit = self.limit.lock().unwrap();
        let (passes, left, reset) = limit.decide(now);
        self.log
            .lock()
            .unwrap()
            .push((self.began.elapsed(), passes));
        let status = match passes {
            true => StatusCode::OK,
            false => StatusCode::TOO_MANY_REQUESTS,
        };
        let mut response = Response::builder().status(status);
        for (name, value) in self.dialect.fields(&limit, left, reset, now) {
            response = response.header(name, value);
        }
        if !passes {
            response = response.header("retry-after", ceil(reset));
        }
        let response = response.header("date", floor_date(now));
        response.body(Full::default()).unwrap()
    }

    fn service(
        &self,
    ) -> impl Service<
        Request<Full<Bytes>>,
        Response = Response<Full<Bytes>>,
        Error = Infallible,
        Future: Send,
    > + Clone
    + Send
    + use<> {
        let server = self.clone();
        service_fn(move |_: Request<Full<Bytes>>| {
            let server = server.clone();
            async move {
                sleep(server.one_way()).await;
                let answer = server.answer();
                sleep(server.one_way()).await;
                Ok(answer)
            }
        })
    }

    fn one_way(&self) -> Duration {
        let most = u64::try_from(self.varies.as_millis()).unwrap();
        self.way + ms(self.random.lock().unwrap().below(most + 1))
    }

    fn refused(&self) -> usize {
        let log = self.log.lock().unwrap();
        log.iter().filter(|(_, passed)| !passed).count()
    }
}

impl Dialect {
    /// How a server with these fields counts, if `usual` is how others do.
    fn counting(self, usual: Counting) -> Counting {
        match self {
            Self::Draft11WithoutReset => Counting::TokenBucket,
            _ => usual,
        }
    }

    fn fields(
        self,
        limit: &Limit,
        left: usize,
        reset: Duration,
        now: Duration,
    ) -> Vec<(&'static str, String)> {
        let (quota, secs, at) = (limit.quota, ceil(reset), now + reset);
        let policy = format!("\"all\";q={quota};w={}", ceil(limit.window));
        let three = |prefix: [&'static str; 3], reset: String| {
            let values = [quota.to_string(), left.to_string(), reset];
            prefix.into_iter().zip(values).collect()
        };
        let draft6 = ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"];
        let x = [
            "x-ratelimit-limit",
            "x-ratelimit-remaining",
            "x-ratelimit-reset",
        ];
        match self {
            Self::Draft11 => vec![
                ("ratelimit-policy", policy),
                ("ratelimit", format!("\"all\";r={left};t={secs}")),
            ],
            Self::Draft11WithoutReset => vec![
                ("ratelimit-policy", policy),
                ("ratelimit", format!("\"all\";r={left}")),
            ],
            Self::Draft7 => vec![
                (
                    "ratelimit-policy",
                    format!("{quota};w={}", ceil(limit.window)),
                ),
                (
                    "ratelimit",
                    format!("limit={quota}, remaining={left}, reset={secs}"),
                ),
            ],
            Self::Draft6 => three(draft6, secs.to_string()),
            Self::XSeconds => three(x, secs.to_string()),
            Self::XEpoch => three(x, ceil(at).to_string()),
            Self::XResetAfter => {
                let mut fields: Vec<_> = three(x, ceil(at).to_string());
                fields.push(("x-ratelimit-reset-after", fraction(reset)));
                fields
            }
        }
    }
}

fn ceil(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

fn fraction(time: Duration) -> String {
    let ms = time.as_nanos().div_ceil(1_000_000);
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

fn floor_date(at: Duration) -> String {
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + at)
}

#[tokio::test(start_paused = true)]
async fn client_that_is_alone_is_never_refused() {
    let mut random = Random(11);
    for case in 0..scaled(112_usize) {
        let dialect = DIALECTS[case % DIALECTS.len()];
        let counting = dialect.counting(COUNTINGS[case / DIALECTS.len() % COUNTINGS.len()]);
        let quota = usize::try_from(1 + random.below(20)).unwrap();
        let mut server = Server::new(dialect, counting, quota, ms(200 + random.below(9800)));
        (server.way, server.varies) = (ms(random.below(60)), ms(random.below(80)));
        let until = server.began + 30 * SECOND;
        let pace = PaceLayer::new().max_wait(3600 * SECOND);
        let pace = pace.layer(server.service());
        let (mut tasks, pause) = (JoinSet::new(), 1 + random.below(1000));
        for task in 0..1 + random.below(12) {
            let (pace, mut random) = (pace.clone(), Random(task));
            tasks.spawn(async move {
                while Instant::now() < until {
                    pace.clone().oneshot(request("a")).await.unwrap();
                    sleep(ms(random.below(pause))).await;
                }
            });
        }
        tasks.join_all().await;
        let asked = server.log.lock().unwrap().len();
        assert!(asked > 2, "case {case}");
        assert_eq!(server.refused(), 0, "case {case}: {dialect:?} {counting:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn calls_somewhat_above_the_rate_of_a_window_see_no_refusal_in_a_minute() {
    for dialect in DIALECTS {
        let counting = dialect.counting(Counting::FixedWindow);
        let server = Server::new(dialect, counting, 20, 10 * SECOND);
        let pace = PaceLayer::new().layer(server.service());
        let mut tasks = JoinSet::new();
        while server.began.elapsed() < 60 * SECOND {
            tasks.spawn(pace.clone().oneshot(request("a")));
            sleep(ms(440)).await;
        }
        assert_eq!(server.refused(), 0, "{dialect:?}");
    }
}
