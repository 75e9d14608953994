//! Servers of other kinds: the ways in which they count, and the fields with which they show how much is left.

use std::{
    collections::VecDeque,
    future::ready,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tollgate::{pace::PaceLayer, testing::random::Random};
use tower::{Layer, ServiceExt, service_fn};

use super::{
    SECOND, Way, ms, request,
    simulated::{BEGINNING, World},
};
use crate::support::scale::scaled;

/// By how much a server's seconds begin earlier than those of the client.
const AHEAD: Duration = ms(480);

/// The way in which a server counts.
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

/// A server of another make.
fn world(dialect: Dialect, counting: Counting, quota: usize, window: Duration) -> World {
    let began = Instant::now();
    let limit = Arc::new(Mutex::new(Limit {
        counting,
        quota,
        window,
        taken: VecDeque::new(),
    }));
    let server = service_fn(move |_| {
        let now = BEGINNING + AHEAD + began.elapsed();
        ready(Ok(dialect.answer(&mut limit.lock().unwrap(), now)))
    });
    World::new(Way::new(server), AHEAD)
}

impl Dialect {
    /// Returns the way in which a server with these fields counts, where `usual` is that of most servers.
    fn counting(self, usual: Counting) -> Counting {
        match self {
            Self::Draft11WithoutReset => Counting::TokenBucket,
            _ => usual,
        }
    }

    fn answer(self, limit: &mut Limit, now: Duration) -> Response<Full<Bytes>> {
        let (passes, left, reset) = limit.decide(now);
        let mut response = Response::builder();
        for (name, value) in self.fields(limit, left, reset, now) {
            response = response.header(name, value);
        }
        if !passes {
            response = response
                .status(StatusCode::TOO_MANY_REQUESTS)
                .header("retry-after", ceil(reset));
        }
        response.body(Full::default()).unwrap()
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

#[tokio::test(start_paused = true)]
async fn client_that_is_alone_is_never_refused() {
    let mut random = Random(11);
    for case in 0..scaled(112_usize) {
        let dialect = DIALECTS[case % DIALECTS.len()];
        let counting = dialect.counting(COUNTINGS[case / DIALECTS.len() % COUNTINGS.len()]);
        let quota = usize::try_from(1 + random.below(20)).unwrap();
        let world = world(dialect, counting, quota, ms(200 + random.below(9800)));
        let world = world.way(ms(random.below(60)), ms(random.below(80)));
        let until = world.began + 30 * SECOND;
        let pace = PaceLayer::new().max_wait(3600 * SECOND);
        let pace = pace.layer(world.service());
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
        let outcome = world.outcome(Duration::MAX);
        assert!(outcome.passed > 2, "case {case}");
        assert_eq!(outcome.refused, 0, "case {case}: {dialect:?} {counting:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn calls_somewhat_above_the_rate_of_a_window_see_no_refusal_in_a_minute() {
    for dialect in DIALECTS {
        let counting = dialect.counting(Counting::FixedWindow);
        let world = world(dialect, counting, 20, 10 * SECOND);
        let pace = PaceLayer::new().layer(world.service());
        let mut tasks = JoinSet::new();
        while world.began.elapsed() < 60 * SECOND {
            tasks.spawn(pace.clone().oneshot(request("a")));
            sleep(ms(440)).await;
        }
        let outcome = world.outcome(Duration::MAX);
        assert_eq!(outcome.refused, 0, "{dialect:?}");
        // The server admits twenty in ten seconds.
        assert!(outcome.passed >= 100, "{dialect:?}: {}", outcome.passed);
    }
}
