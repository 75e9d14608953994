//! Stored values: buckets of a deployed version are read, and writes stay small.

use std::time::Duration;

use tollgate::{
    Limit, Limiter, Limits, Transaction,
    clock::{ManualClock, Timestamp},
    quota::Per,
    tiers::Tier,
};

use crate::{connect, redis_support::Server};

/// The first of January 2026, a Thursday.
const NOW: u64 = 1_767_225_600_000_000;

/// For each limit: the algorithm's part of the key; a value that an earlier version has written, as an expression in Lua; the units
/// left after another one is taken; and the time until the bucket is full.
#[expect(clippy::too_many_lines, reason = "a table")]
fn deployed() -> Vec<(Limit, &'static str, &'static str, Option<u32>, u64)> {
    let secs = Duration::from_secs;
    let tier = |limit| {
        Tier::new(limit, secs(10))
            .active(secs(60))
            .cooldown(secs(30))
    };
    let two_tiers = || Limit::tiers([tier(5), tier(9)]).unwrap();
    let (day, hour) = (
        Limit::quota(10, Per::Day),
        Limit::quota(10, Per::first_use(secs(3600))),
    );
    vec![
        // The TAT, with a remainder in parts of the count.
        (Limit::per_second(10), "", "us(300000)", Some(6), 400_000),
        (
            Limit::per_minute(7),
            "",
            "us(25714285) .. ':5'",
            Some(3),
            34_285_715,
        ),
        // The instants of units, the expired ones first.
        (
            Limit::window(5, secs(1)),
            "~w",
            "'W' .. at(-900000, -500000, -500000)",
            Some(1),
            1_000_000,
        ),
        (
            Limit::window(5, secs(1)),
            "~w",
            "'W' .. at(-2000000, -1000000, -500000)",
            Some(3),
            1_000_000,
        ),
        (
            Limit::window(100, secs(1)),
            "~w",
            "'W' .. string.rep(at(-500000), 99)",
            Some(0),
            1_000_000,
        ),
        (
            Limit::concurrent(4),
            "~c",
            "'W' .. at(-29000000, -1000000)",
            Some(1),
            0,
        ),
        // The start of the period, and the amount.
        (
            day.clone(),
            "~q",
            "'Q' .. us(0) .. ':4'",
            Some(5),
            86_400_000_000,
        ),
        (
            day,
            "~q",
            "'Q' .. us(-86400000000) .. ':10'",
            Some(9),
            86_400_000_000,
        ),
        (
            hour.clone(),
            "~q",
            "'Q' .. us(-600000000) .. ':4'",
            Some(5),
            3_000_000_000,
        ),
        (
            hour,
            "~q",
            "'Q' .. us(-3600000000) .. ':4'",
            Some(9),
            3_600_000_000,
        ),
        // The last microsecond of the period, and the amount.
        (
            Limit::quota(10, Per::Day),
            "~q",
            "'Q0' .. us(86399999999) .. ':4'",
            Some(5),
            86_400_000_000,
        ),
        // The last grant; the entry, the number of units, the place of the oldest one and that of places; and a ring of units.
        (
            two_tiers(),
            "~t",
            "'T' .. string.char(2) .. at(-1000000) .. tier(-4000000, 3, 3, 4) .. tier(-1, 0, 0, 0) \
             .. at(-2000000, -1000000, 0, -4000000)",
            Some(10),
            0,
        ),
        (
            two_tiers(),
            "~t",
            "'T' .. string.char(2) .. at(-1000000) .. tier(-4000000, 4, 0, 0) .. tier(-1, 0, 0, 0)",
            Some(9),
            0,
        ),
    ]
}

const FUNCTIONS: &str = "
    local now = tonumber(ARGV[1])
    local function us(ahead) return string.format('%.0f', now + ahead) end
    local function at(...)
        local text = ''
        for _, ahead in ipairs({...}) do text = text .. struct.pack('<d', ahead == 0 and 0 or now + ahead) end
        return text
    end
    local function tier(entry, units, oldest, places)
        return struct.pack('<dI4I4I4', entry == -1 and -1 or now + entry, units, oldest, places)
    end
    return redis.call('SET', KEYS[1], ";

#[tokio::test]
async fn buckets_of_a_deployed_version_are_read() {
    let server = Server::start();
    let clock = ManualClock::new(Timestamp::from_micros(NOW));
    let cases = deployed();
    let names: Vec<_> = (0..cases.len()).map(|nth| format!("limit{nth}")).collect();
    let builder = names
        .iter()
        .zip(&cases)
        .fold(Limits::builder(), |limits, (name, case)| {
            limits.limit(name.as_str(), case.0.clone())
        });
    let backend = connect(server.url()).await;
    let limiter = Limiter::new(builder.build().unwrap(), backend).with_clock(clock);
    for (name, (_, letters, value, remaining, reset)) in names.iter().zip(&cases) {
        let key = format!("tollgate:{{29789}}:{name}{letters}:a");
        let set = format!("{FUNCTIONS}{value})");
        server.exec(&["EVAL", &set, "1", &key, &NOW.to_string()]);
        let decision = limiter.spend(&Transaction::new(name, "a")).await.unwrap();
        assert!(decision.allowed(), "{value}");
        assert_eq!(decision.remaining(), *remaining, "{value}");
        if *reset > 0 {
            assert_eq!(
                decision.reset_after(),
                Some(Duration::from_micros(*reset)),
                "{value}"
            );
        }
    }
}

/// A full window is not written anew with each unit.
#[tokio::test]
async fn decision_of_a_full_window_writes_at_most_128_bytes() {
    const UNITS: u32 = 1024;
    let server = Server::start_with(&["--appendonly", "yes", "--appendfsync", "no"]);
    let (clock, second) = (ManualClock::default(), Duration::from_secs(1));
    let limits = Limits::builder().limit("window", Limit::window(UNITS, UNITS * second));
    let limiter = Limiter::new(limits.build().unwrap(), connect(server.url()).await);
    let limiter = limiter.with_clock(clock.clone());
    let written = || server.info("aof_current_size").parse::<u32>().unwrap();
    let spend = async || {
        clock.advance(second);
        let spent = limiter
            .spend(&Transaction::new("window", "a"))
            .await
            .unwrap();
        assert!(spent.allowed());
        spent.remaining()
    };
    while spend().await != Some(0) {}
    let before = written();
    for _ in 0..UNITS {
        assert_eq!(spend().await, Some(0));
    }
    let each = (written() - before) / UNITS;
    assert!((8..=128).contains(&each), "{each} bytes");
}

/// After the clock has stepped back, new units count beside those with later instants, however many they are.
#[tokio::test]
async fn new_units_count_after_the_clock_has_stepped_back() {
    let server = Server::start();
    let clock = ManualClock::new(Timestamp::from_micros(NOW));
    let limits = Limits::builder().limit("window", Limit::window(300, Duration::from_millis(22)));
    let limiter = Limiter::new(limits.build().unwrap(), connect(server.url()).await);
    let limiter = limiter.with_clock(clock.clone());
    let spend = async |cost| {
        let units = Transaction::new("window", "a").cost(cost);
        limiter.spend(&units).await.unwrap().remaining()
    };
    assert_eq!(spend(1).await, Some(299));
    clock.set(Timestamp::from_micros(NOW - 2_000_000));
    assert_eq!(spend(68).await, Some(231));
    assert_eq!(spend(1).await, Some(230));
}

/// A large value keeps expired units, but they do not count, like those that a small value has dropped.
#[tokio::test]
async fn expired_units_do_not_count_again_when_the_window_grows() {
    let server = Server::start();
    let clock = ManualClock::new(Timestamp::from_micros(NOW));
    let limits = |length| {
        let window = Limit::window(300, Duration::from_secs(length));
        Limits::builder().limit("window", window).build().unwrap()
    };
    let limiter = Limiter::new(limits(2), connect(server.url()).await);
    let limiter = limiter.with_clock(clock.clone());
    let spend = async |cost| {
        let units = Transaction::new("window", "a").cost(cost);
        limiter.spend(&units).await.unwrap().remaining()
    };
    assert_eq!(spend(30).await, Some(270));
    clock.advance(Duration::from_secs(1));
    assert_eq!(spend(70).await, Some(200));
    clock.advance(Duration::from_secs(1));
    // The first 30 have expired.
    assert_eq!(spend(1).await, Some(229));
    limiter.reload(limits(1000)).unwrap();
    assert_eq!(spend(1).await, Some(228));
}
