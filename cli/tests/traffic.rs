//! Generates traffic, and the logs that servers write of it.

use std::{
    fmt::Write,
    net::{IpAddr, Ipv6Addr},
};

use jiff::{Timestamp, tz::TimeZone};
use tollgate::testing::random::Random;

/// The second in which all traffic starts: 2026-11-01T00:00:00Z.
pub(crate) const START: i64 = 1_793_491_200;

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Seconds since [`START`].
    pub(crate) at: i64,
    pub(crate) ip: IpAddr,
    pub(crate) method: &'static str,
    pub(crate) path: String,
}

impl Request {
    /// The id of the client, as `ClientIp` would find it, computed independently.
    pub(crate) fn id(&self) -> String {
        match self.ip {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => {
                let [a, b, c, d, ..] = ip.segments();
                Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).to_string()
            }
        }
    }
}

pub(crate) fn request(at: i64, ip: &str, path: &str) -> Request {
    Request {
        at,
        ip: ip.parse().expect(ip),
        method: "GET",
        path: path.to_owned(),
    }
}

/// The line of a request in Combined Log Format.
pub(crate) fn combined(request: &Request) -> String {
    let at = Timestamp::from_second(START + request.at).unwrap();
    let at = at.to_zoned_datetime(TimeZone::UTC);
    let at = at.strftime("%d/%b/%Y:%H:%M:%S +0000");
    let Request {
        ip, method, path, ..
    } = request;
    format!("{ip} - - [{at}] \"{method} {path}?q=1 HTTP/1.1\" 200 512 \"-\" \"Mozilla/5.0\"")
}

/// A log in Combined Log Format.
pub(crate) fn log(requests: &[Request]) -> String {
    let mut log = String::new();
    for request in requests {
        writeln!(log, "{}", combined(request)).unwrap();
    }
    log
}

/// A day of people who look at pages, two crawlers, and a client that repeats failed requests, sorted by time.
pub(crate) fn day(people: u64, seed: u64) -> Vec<Request> {
    let mut numbers = Random(seed);
    let mut requests = Vec::new();
    for person in 0..people {
        let ip = format!("10.1.{}.{}", person / 250, person % 250);
        for _ in 0..1 + numbers.below(4) {
            let mut at = numbers.below(80_000).cast_signed();
            for _ in 0..1 + numbers.below(6) {
                for part in 0..1 + numbers.below(18) {
                    requests.push(request(at + (part / 9).cast_signed(), &ip, "/page"));
                }
                at += 5 + numbers.below(90).cast_signed();
            }
        }
    }
    // The crawlers: one is fast, and the other changes its address and never stops.
    for i in 0..4_000 {
        requests.push(request(10_000 + i / 4, "198.51.100.7", "/products"));
    }
    for i in 0..2_500 {
        let ip = format!("2001:db8:5:6::{:x}", 1 + numbers.below(60_000));
        requests.push(request(5_000 + i * 2, &ip, "/articles"));
    }
    for round in 0..20 {
        for i in 0..150 {
            requests.push(request(
                30_000 + round * 120 + i / 50,
                "203.0.113.99",
                "/api",
            ));
        }
    }
    requests.sort_by_key(|request| request.at);
    requests
}

/// The ids of the three clients of [`day`] that are not people, sorted.
pub(crate) const OFFENDERS: [&str; 3] = ["198.51.100.7", "2001:db8:5:6::", "203.0.113.99"];
