//! Windows and quotas on real servers: what is stored, and for how long.

use std::{sync::Arc, time::Duration};

use jiff::{
    ToSpan,
    civil::{DateTime, Weekday},
    tz::Offset,
};
use tokio::task::JoinSet;
use tollgate::{
    Decision, Limit, Limiter, Limits, MemoryBackend, Transaction,
    backend::Backend,
    clock::{Clock, ManualClock, Timestamp},
    id::IdFormat,
    limit::LimitName,
    limiter::LimiterError,
    quota::{CalendarUnit, Per, UtcOffset},
    testing::cases::history::Random,
    tiers::Tier,
    transaction::Mode,
};

use crate::{CLUSTER, SERVER, connect, redis_support::Server, spread::pair};

const SECOND: Duration = Duration::from_secs(1);

fn limits() -> Limits {
    let windows = [("five", 5, 3), ("wide", 40, 5), ("large", 300, 6)];
    let offset = UtcOffset::minutes(-(5 * 60 + 30));
    let quotas = [
        ("hour", 7, Per::Hour.at_offset(offset)),
        ("day", 9, Per::Day.at_offset(offset)),
        ("week", 9, Per::Week.at_offset(offset)),
        ("month", 11, Per::Month.at_offset(offset)),
        ("use", 6, Per::first_use(7 * SECOND)),
    ];
    let name = |name, number| LimitName::new(name, number, IdFormat::RegIdDomain);
    let mut limits = Limits::builder()
        .limit(name("gcra", 8), Limit::per_second(2).burst(7))
        .limit(
            name("tiers", 9),
            Limit::tiers([Tier::new(6, SECOND)]).unwrap(),
        );
    for (number, (of, limit, seconds)) in (10..).zip(windows) {
        limits = limits.limit(name(of, number), Limit::window(limit, seconds * SECOND));
    }
    for (number, (of, quota, per)) in (20..).zip(quotas) {
        limits = limits.limit(name(of, number), Limit::quota(quota, per));
    }
    limits.build().unwrap()
}

/// When the calendar period starts that contains an instant, and when the next one does, by the library.
fn bounds(unit: CalendarUnit, minutes: i16, at: u64) -> [i64; 2] {
    let offset = Offset::from_seconds(i32::from(minutes) * 60).unwrap();
    let at = jiff::Timestamp::from_microsecond(at.cast_signed()).unwrap();
    let local = offset.to_datetime(at);
    let date = local.date();
    let midnight = date.at(0, 0, 0, 0);
    let (start, length): (DateTime, _) = match unit {
        CalendarUnit::Hour => (date.at(local.hour(), 0, 0, 0), 1.hour()),
        CalendarUnit::Day => (midnight, 1.day()),
        CalendarUnit::Week => {
            let since = date.weekday().since(Weekday::Monday);
            (midnight - i64::from(since).days(), 1.week())
        }
        _ => (date.first_of_month().at(0, 0, 0, 0), 1.month()),
    };
    [start, start + length].map(|local| offset.to_timestamp(local).unwrap().as_microsecond())
}

/// All that a caller can see.
type Seen = (bool, Option<u32>, [Duration; 3], u32);

fn seen(decision: &Decision) -> Seen {
    let waits = [
        decision.retry_after(),
        decision.next_after(),
        decision.reset_after(),
    ];
    (
        decision.allowed(),
        decision.remaining(),
        waits,
        decision.granted(),
    )
}

/// The script's own arithmetic.
const PERIOD: &str = concat!(
    include_str!("../../src/backend/redis/script/clock.lua"),
    include_str!("../../src/backend/redis/script/stored.lua"),
    include_str!("../../src/backend/redis/script/members.lua"),
    "local read = (function()\n",
    include_str!("../../src/algorithm/quota/quota.lua"),
    "end)()
    local found = {}
    for i = 5, #ARGV do
      set_clock(ARGV[i])
      local quota = read(1, 'spend')
      found[#found + 1], found[#found + 2] = quota.fresh, quota.fresh_ends
    end
    return found"
);

#[test]
fn scripts_know_every_month_until_2112() {
    let server = &*SERVER;
    let end = Timestamp::END.as_micros();
    let units = [
        (CalendarUnit::Hour, 3_600_000_000_u64, 0),
        (CalendarUnit::Day, 86_400_000_000, 0),
        (CalendarUnit::Week, 604_800_000_000, 3 * 24 * 60),
        (CalendarUnit::Month, 0, 0),
    ];
    for minutes in [0, 1, 330, -330, 23 * 60 + 59, -(23 * 60 + 59)] {
        let mut instants = vec![0, 1, end - 1];
        let mut at = 86_400_000_000 * 2;
        while at < end {
            let [start, next] =
                bounds(CalendarUnit::Month, minutes, at).map(|us| us.max(0).cast_unsigned());
            instants.extend([next - 1, next, next + 1, start + 3_600_000_000 * 61 + 7]);
            at = next;
        }
        instants.retain(|at| *at < end);
        for (unit, length, ahead) in units {
            let shift = (i64::from(minutes) + ahead) * 60_000_000;
            for some in instants.chunks(500) {
                let mut command = vec!["EVAL".to_owned(), PERIOD.to_owned(), "0".to_owned()];
                let (quota, cost) = ("1".to_owned(), "1".to_owned());
                command.extend([quota, cost, length.to_string(), shift.to_string()]);
                command.extend(some.iter().map(u64::to_string));
                let found = server.command(&command);
                for (at, found) in some.iter().zip(found.array().chunks(2)) {
                    let expected = bounds(unit, minutes, *at).map(|us| us.max(0));
                    let found = [found[0].integer(), found[1].integer()];
                    assert_eq!(found, expected, "{unit} at {minutes}: {at}");
                }
            }
        }
    }
}

/// A server of its own and a limiter on it, by the server's clock.
async fn start() -> (Server, Limiter) {
    let server = Server::start();
    let limiter = Limiter::new(limits(), connect(server.url()).await);
    (server, limiter)
}

const ID: &str = "71:a.com";

/// The key of a bucket, which belongs to its algorithm.
fn key(number: u32) -> String {
    let algorithm = match number {
        9 => "~t",
        10..20 => "~w",
        20.. => "~q",
        _ => "",
    };
    format!("tollgate:{{71}}:{number}{algorithm}:{ID}")
}

/// What is stored, and when that expires.
fn stored(server: &Server, number: u32) -> (Vec<u8>, i64) {
    let key = key(number);
    let value = server.command(&["GET", &key]).bytes().to_vec();
    (value, server.command(&["PEXPIRETIME", &key]).integer())
}

fn now_us(server: &Server) -> i64 {
    let time = server.command(&["TIME"]);
    let [secs, us] = [0, 1].map(|i| time.array()[i].text().parse::<i64>().unwrap());
    secs * 1_000_000 + us
}

#[tokio::test]
async fn window_expires_with_its_newest_unit() {
    let (server, limiter) = start().await;
    let before = now_us(&server);
    for cost in [2, 1] {
        limiter
            .spend(&Transaction::new("five", ID).cost(cost))
            .await
            .unwrap();
    }
    let after = now_us(&server);
    let (value, expires) = stored(&server, 10);
    assert_eq!((value[0], value.len()), (b'W', 1 + 3 * 8));
    #[expect(clippy::cast_possible_truncation, reason = "it is a time")]
    let newest = f64::from_le_bytes(value[17..].try_into().unwrap()) as i64;
    assert!((before..=after).contains(&newest));
    let ends = (newest + 3_000_000 + 999) / 1000;
    assert!(
        (ends..=ends + 100).contains(&expires),
        "{expires} for {ends}"
    );
    limiter
        .refund(&Transaction::new("five", ID).cost(3))
        .await
        .unwrap();
    assert_eq!(server.command(&["DBSIZE"]).integer(), 0);
}

/// A value takes no more than twice its units, however long it stays where it is.
#[tokio::test]
async fn large_window_is_changed_where_it_is_and_cut_off_when_half_of_it_has_expired() {
    const LIMIT: u32 = 100;
    let limits = || {
        let name = LimitName::new("large", 12, IdFormat::RegIdDomain);
        let limits = Limits::builder().limit(name, Limit::window(LIMIT, SECOND));
        limits.build().unwrap()
    };
    let server = Server::start();
    let clock = ManualClock::default();
    let store = Limiter::new(limits(), connect(server.url()).await).with_clock(clock.clone());
    let memory = Limiter::new(limits(), MemoryBackend::new()).with_clock(clock.clone());
    let (mut random, mut longest, mut cuts, mut before) = (Random(4), 0, 0, 0);
    for step in 0..1500 {
        let cost = 1 + random.cost(2);
        clock.advance(Duration::from_millis(u64::from(cost) * 10));
        let spend = Transaction::new("large", ID).cost(cost);
        let [expected, found] = [memory.spend(&spend).await, store.spend(&spend).await];
        let (expected, found) = (expected.unwrap(), found.unwrap());
        assert_eq!(seen(&found), seen(&expected), "{step}");
        let units = (stored(&server, 12).0.len() - 1) / 8;
        longest = longest.max(units);
        cuts += u32::from(units < before);
        before = units;
    }
    assert!(cuts > 3, "{cuts}");
    assert!((150..=201).contains(&longest), "{longest}");
    // In a batch with others, and refunded.
    let refund = Transaction::new("large", ID).cost(60);
    let [expected, found] = [memory.refund(&refund).await, store.refund(&refund).await];
    assert_eq!(seen(&found.unwrap()), seen(&expected.unwrap()));
    let units = (stored(&server, 12).0.len() - 1) / 8;
    assert!(units < 60, "{units}");
}

#[tokio::test]
async fn user_without_new_permissions_keeps_large_windows_as_a_whole() {
    let server = Server::start();
    let user = "user old on >secret ~* resetchannels -@all +eval +evalsha +script|load +get +set +setrange +del \
                +pexpire +persist +time +hello +auth +ping +client +info +config|get";
    let rules: Vec<_> = ["ACL", "SETUSER"]
        .into_iter()
        .chain(user.split_whitespace().skip(1))
        .collect();
    server.command(&rules).expect_success();
    let url = server.url().replace("redis://", "redis://old:secret@");
    let limits = || {
        let limits = Limits::builder().limit("large", Limit::window(200, 3600 * SECOND));
        limits.build().unwrap()
    };
    let [old, new] =
        [url, server.url()].map(|url| async move { Limiter::new(limits(), connect(url).await) });
    let (old, new) = (old.await, new.await);
    let spend = Transaction::new("large", ID).cost(50);
    for (limiter, left) in [(&old, 150), (&old, 100), (&new, 50), (&old, 0)] {
        let spent = limiter.spend(&spend).await.unwrap();
        assert_eq!((spent.allowed(), spent.remaining()), (true, Some(left)));
    }
    assert!(!new.spend(&spend).await.unwrap().allowed());
}

/// It is full from that instant on, and not before.
#[tokio::test]
async fn bucket_that_is_refunded_to_full_is_the_same_everywhere_when_the_clock_steps_back() {
    let backends: [Arc<dyn Backend>; 2] = [
        Arc::new(MemoryBackend::new()),
        Arc::new(connect(SERVER.url()).await),
    ];
    for backend in backends {
        let clock = ManualClock::default();
        let limiter = Limiter::new(limits(), backend).with_clock(clock.clone());
        let bucket = Transaction::new("gcra", "73:back.com").cost(3);
        assert!(limiter.spend(&bucket).await.unwrap().allowed());
        let full = limiter.refund(&bucket).await.unwrap();
        assert_eq!(
            (full.remaining(), full.reset_after()),
            (Some(7), Duration::ZERO)
        );
        let now = clock.now().as_micros();
        clock.set(Timestamp::from_micros(now - 1));
        let before = limiter.check(&bucket.cost(0)).await.unwrap();
        let micro = Duration::from_micros(1);
        assert_eq!((before.remaining(), before.reset_after()), (Some(6), micro));
        clock.set(Timestamp::from_micros(now));
        assert!(limiter.spend(&bucket.cost(7)).await.unwrap().allowed());
    }
}

#[tokio::test]
async fn quota_expires_with_its_period() {
    let (server, limiter) = start().await;
    let offset = -(5 * 60 + 30);
    for (name, number, unit) in [
        ("hour", 20, Some(CalendarUnit::Hour)),
        ("day", 21, Some(CalendarUnit::Day)),
        ("week", 22, Some(CalendarUnit::Week)),
        ("month", 23, Some(CalendarUnit::Month)),
        ("use", 24, None),
    ] {
        let before = now_us(&server);
        for cost in [2, 3] {
            limiter
                .spend(&Transaction::new(name, ID).cost(cost))
                .await
                .unwrap();
        }
        let after = now_us(&server);
        let (value, expires) = stored(&server, number);
        let value = String::from_utf8(value).unwrap();
        let (start, used) = value.strip_prefix('Q').unwrap().split_once(':').unwrap();
        let start: i64 = start.parse().unwrap();
        assert_eq!(used, "5", "{name}");
        let ends = unit.map_or(start + 7_000_000, |unit| {
            let [first, next] = bounds(unit, offset, before.cast_unsigned());
            // Unless a period has just ended.
            assert!(start == first || after >= next, "{name}: {value}");
            bounds(unit, offset, start.cast_unsigned())[1]
        });
        let ends = ends / 1000;
        assert!(
            (ends..=ends + 100).contains(&expires),
            "{name}: {expires} for {ends}"
        );
        limiter
            .refund(&Transaction::new(name, ID).cost(5))
            .await
            .unwrap();
        assert_eq!(server.command(&["DBSIZE"]).integer(), 0, "{name}");
    }
}

#[tokio::test]
async fn debit_without_room_is_an_error_and_charges_nobody() {
    let (server, limiter) = start().await;
    let debit = |cost| Transaction::new("wide", ID).cost(cost).mode(Mode::Debit);
    limiter.spend(&debit(4000)).await.unwrap();
    let other = Transaction::new("day", ID);
    limiter.spend_batch(&[other, debit(97)]).await.unwrap_err();
    assert_eq!(server.command(&["DBSIZE"]).integer(), 1);
    assert_eq!(stored(&server, 11).0.len(), 1 + 8 * 4000);
    limiter.spend_batch(&[other, debit(96)]).await.unwrap();
    assert_eq!(stored(&server, 11).0.len(), 1 + 8 * 4096);
}

/// Only another program, or somebody by hand, puts it there.
#[tokio::test]
async fn value_of_another_algorithm_is_an_error_and_stays_as_it_is() {
    let (server, limiter) = start().await;
    let numbers = [("gcra", 8), ("tiers", 9), ("five", 10), ("day", 21)];
    for (name, number) in numbers {
        let bucket = Transaction::new(name, ID).cost(3);
        limiter.spend(&bucket).await.unwrap();
        let value = stored(&server, number).0;
        server.command(&["DEL", &key(number)]).expect_success();
        for (other, number) in numbers.into_iter().filter(|(other, _)| *other != name) {
            let key = key(number);
            server
                .command(&[b"SET", key.as_bytes(), &value])
                .expect_success();
            let bucket = Transaction::new(other, ID);
            // The scripts for spends, and the one for everything else.
            for answer in [limiter.spend(&bucket).await, limiter.check(&bucket).await] {
                let LimiterError::Backend(error) = answer.unwrap_err() else {
                    panic!("{other} after {name}")
                };
                let reason = std::error::Error::source(&error).unwrap().to_string();
                assert!(
                    reason.contains("not a bucket"),
                    "{other} after {name}: {reason}"
                );
            }
            assert_eq!(stored(&server, number).0, value);
            server.command(&["DEL", &key]).expect_success();
        }
    }
}

#[tokio::test]
async fn batch_of_all_algorithms_is_one_round_trip_and_all_or_nothing() {
    let (server, limiter) = start().await;
    let batch =
        ["gcra", "tiers", "five", "wide", "day", "use"].map(|name| Transaction::new(name, ID));
    limiter.spend_batch(&batch).await.unwrap();
    server.command(&["CONFIG", "RESETSTAT"]).expect_success();
    assert!(limiter.spend_batch(&batch).await.unwrap().allowed());
    assert!(limiter.spend(&batch[2].cost(3)).await.unwrap().allowed());
    let writes = server.info("rdb_changes_since_last_save");
    assert!(!limiter.spend_batch(&batch).await.unwrap().allowed());
    assert_eq!(server.info("rdb_changes_since_last_save"), writes);
    assert!(server.info("cmdstat_evalsha").starts_with("calls=3,"));
}

/// A cluster's limiter with a window, a quota, and a bucket of 50.
async fn spread() -> Limiter {
    let day = Duration::from_secs(24 * 3600);
    let limits = Limits::builder()
        .limit("window", Limit::window(1000, day))
        .limit("quota", Limit::quota(1000, Per::Month))
        .limit("fifty", Limit::per_day(50));
    Limiter::new(limits.build().unwrap(), connect(CLUSTER.url()).await)
}

async fn left(limiter: &Limiter, limit: &str, id: &str) -> u32 {
    let look = Transaction::new(limit, id).cost(0);
    limiter.check(&look).await.unwrap().remaining().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_slot_denies_is_given_back() {
    for limit in ["window", "quota"] {
        let (limiter, [a, b]) = (spread().await, pair(&format!("{limit}-back")));
        let mut tasks = JoinSet::new();
        for _ in 0..200 {
            let (limiter, a, b) = (limiter.clone(), a.clone(), b.clone());
            tasks.spawn(async move {
                let batch = [
                    Transaction::new(limit, &a).cost(2),
                    Transaction::new("fifty", &b),
                ];
                limiter.spend_batch(&batch).await.unwrap().allowed()
            });
        }
        let passed = tasks.join_all().await.into_iter().filter(|passed| *passed);
        let passed = u32::try_from(passed.count()).unwrap();
        assert_eq!(passed, 50, "{limit}");
        assert_eq!(left(&limiter, limit, &a).await, 1000 - 2 * passed);
        assert_eq!(left(&limiter, "fifty", &b).await, 0);
    }
}

#[tokio::test]
async fn receipts_of_a_batch_over_slots_refund_its_charges() {
    let (limiter, [a, b]) = (spread().await, pair("receipts"));
    let batch = [("window", &a), ("window", &b), ("quota", &a), ("quota", &b)];
    let transactions = batch.map(|(limit, id)| Transaction::new(limit, id).cost(3));
    let spent = limiter.spend_batch(&transactions).await.unwrap();
    for ((limit, id), decision) in batch.into_iter().zip(spent.members()) {
        let handle = limiter.limit(limit).unwrap();
        let mut receipt = decision.receipt().unwrap();
        let part = receipt.split(1);
        for (receipt, remaining) in [(part, 998), (receipt, 1000)] {
            let refunded = handle.refund_receipt(id, receipt).await.unwrap();
            assert_eq!(refunded.remaining(), Some(remaining), "{limit} of {id}");
        }
    }
}
