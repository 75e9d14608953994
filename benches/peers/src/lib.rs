//! The shared parts of the comparisons: clients, and the same rates for tollgate and for governor.

use std::{
    fs,
    future::Future,
    net::{IpAddr, Ipv4Addr},
    num::NonZeroU32,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use tollgate::{
    Limit, Limits,
    backend::{
        Backend, MemoryBackend,
        custom::{Answer, Batch, Member, Operation},
    },
    limit::NamedLimit,
    transaction::Mode,
};

/// The name of the one limit.
pub const LIMIT: &str = "requests";

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The rate of a client, in the same terms for both sides.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// The time in which one request comes back.
    pub interval: Duration,
    /// The most requests at once.
    pub burst: u32,
}

impl Rate {
    /// A rate that no bench exhausts.
    pub const ENDLESS: Self = Self {
        interval: Duration::from_millis(1),
        burst: u32::MAX,
    };

    /// A rate that a bench with many clients never exhausts. Its buckets do not become full again either.
    pub const LONG: Self = Self {
        interval: DAY,
        burst: 10_000,
    };

    /// A rate that is exhausted for a day after one request.
    pub const ONCE: Self = Self {
        interval: DAY,
        burst: 1,
    };

    /// The rate as a limit of tollgate.
    #[must_use]
    pub fn limit(self) -> Limit {
        Limit::new(self.burst, 1, self.interval).expect("the rates above are limits")
    }

    /// The rate as tollgate's only limit, [`LIMIT`].
    #[must_use]
    pub fn limits(self) -> Limits {
        Limits::builder()
            .limit(LIMIT, self.limit())
            .build()
            .expect("one limit with a good name")
    }

    /// The rate as a quota of governor.
    #[must_use]
    pub fn quota(self) -> Quota {
        let burst = NonZeroU32::new(self.burst).expect("no burst above is zero");
        Quota::with_period(self.interval)
            .expect("no interval above is zero")
            .allow_burst(burst)
    }

    /// The rate as a limiter of governor, by IP address.
    #[must_use]
    pub fn governor(self) -> DefaultKeyedRateLimiter<IpAddr> {
        RateLimiter::dashmap(self.quota())
    }
}

/// Returns client number `n`: as governor takes it, and as text for tollgate.
#[must_use]
pub fn client(n: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0a00_0000 + n).into()
}

/// Spends one token of the bucket that `id` has under [`LIMIT`], and returns whether it was there.
///
/// # Panics
///
/// Never: memory does not wait.
#[inline]
pub fn spend(backend: &MemoryBackend, limit: &NamedLimit, id: &str) -> bool {
    let member = [Member::new(limit, id, 1, Mode::CheckAndSpend)];
    let mut answers = [Answer::default()];
    backend
        .try_apply(&Batch::new(Operation::Spend, &member), &mut answers)
        .and_then(Result::ok)
        .expect("memory does not wait, and its clock is right");
    answers[0].passed
}

/// The output of a future that does not wait.
///
/// # Panics
///
/// If it waits.
#[inline]
pub fn poll_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("nothing that is measured here waits"),
    }
}

/// Returns the resident memory of this process, in KiB.
///
/// # Panics
///
/// If there is no `/proc`.
#[must_use]
pub fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("this is a Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok())
        .expect("proc(5): `VmRSS: 1234 kB`")
}
