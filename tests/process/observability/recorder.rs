//! The metrics of single decisions, with a recorder of the test.

use std::collections::BTreeMap;

use bytes::Bytes;
use http_body_util::Full;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tokio::runtime::Builder;
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, Transaction,
    backend::{Backend, FailurePolicy},
    clock::ManualClock,
    decision::Source,
    id::IdFormat,
    key::HeaderId,
    limit::LimitName,
    metrics,
    rule::OnMissing,
    transaction::{Mode, OnFailure},
};
use tower::{Layer, ServiceExt};

use crate::support::{
    Hello,
    store::{Fate, Store},
};

/// The series that are not at 0 after a future has run.
fn counted(run: impl Future) -> BTreeMap<String, u64> {
    let mut recorded = recorded(run);
    recorded.retain(|_, count| *count > 0);
    recorded
}

/// All series after a future has run, by their names and labels: counts, states, and the numbers of samples of histograms.
fn recorded(run: impl Future) -> BTreeMap<String, u64> {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    ::metrics::with_local_recorder(&recorder, || runtime.block_on(run));
    let series = snapshotter.snapshot().into_vec().into_iter();
    let series = series.map(|(key, _, _, value)| {
        let labels: Vec<_> = key.key().labels().map(|label| label.value()).collect();
        let name = key.key().name().trim_start_matches("rate_limiting.");
        let value = match value {
            DebugValue::Counter(count) => count,
            DebugValue::Gauge(value) => format!("{value:.0}").parse().unwrap(),
            DebugValue::Histogram(samples) => samples.len() as u64,
        };
        (
            format!("{name} {}", labels.join(" ")).trim().to_owned(),
            value,
        )
    });
    series.collect()
}

fn limits() -> Limits {
    let refuses = LimitName::from("refuses").on_failure(OnFailure::Refuse);
    let builder = Limits::builder().limit("one", Limit::per_hour(1));
    let builder = builder.limit("ten", Limit::per_hour(10));
    builder.limit(refuses, Limit::per_hour(10)).build().unwrap()
}

fn limiter(backend: impl Backend) -> Limiter {
    Limiter::new(limits(), backend).with_clock(ManualClock::default())
}

#[test]
fn member_without_a_vote_that_does_not_fit_is_skipped() {
    let counted = counted(async {
        let limiter = limiter(MemoryBackend::new());
        let spend_only = Transaction::new("one", "a").mode(Mode::SpendOnly);
        for _ in 0..3 {
            limiter.spend(&spend_only).await.unwrap();
        }
    });
    assert_eq!(counted["requests one acquired"], 1);
    assert_eq!(counted["requests one skipped"], 2);
}

#[test]
fn decision_that_has_to_wait_for_the_store_is_timed_once() {
    let counted = counted(async {
        let limiter = limiter(Store::default());
        let transaction = Transaction::new("ten", "a");
        assert!(limiter.try_spend(&transaction).is_none());
        assert!(limiter.spend(&transaction).await.unwrap().allowed());
    });
    let mut timed = counted.iter();
    let timed = timed.find(|(name, _)| name.starts_with("decision.duration"));
    assert_eq!(timed.map(|(_, samples)| *samples), Some(1), "{counted:?}");
}

#[test]
fn mistakes_of_callers_are_not_counted() {
    let counted = counted(async {
        let limiter = limiter(MemoryBackend::new());
        let unknown = Transaction::new("two", "a");
        limiter.spend(&unknown).await.unwrap_err();
        let dear = Transaction::new("one", "a").cost(2);
        limiter.spend(&dear).await.unwrap_err();
    });
    assert_eq!(counted, BTreeMap::new());
}

#[test]
fn peeks_and_refunds_are_not_counted_as_requests() {
    let one = Transaction::new("ten", "a");
    let counted = counted(async {
        let limiter = limiter(MemoryBackend::new());
        limiter.spend(&one).await.unwrap();
        limiter.check(&one).await.unwrap();
        limiter.refund(&one).await.unwrap();
        limiter.reset(&[one]).await.unwrap();
    });
    let operations = ["check", "refund", "reset", "spend"];
    let durations = operations.map(|name| (format!("decision.duration {name}"), 1));
    let expected = [("requests ten acquired".to_owned(), 1)]
        .into_iter()
        .chain(durations);
    assert_eq!(counted, expected.collect());
}

#[test]
fn fallback_is_counted_with_any_share() {
    for processes in [1, 2] {
        let counted = counted(async {
            let policy = FailurePolicy::new(Store::new(Fate::NoReply)).fleet(processes);
            let limiter = limiter(policy);
            for _ in 0..3 {
                let decided = limiter.spend(&Transaction::new("one", "a")).await.unwrap();
                assert_eq!(decided.source(), Source::Local);
            }
            let refused = Transaction::new("refuses", "a");
            limiter.spend(&refused).await.unwrap_err();
            limiter.refund(&refused).await.unwrap_err();
        });
        let counted = |name: &str| counted.get(name).copied();
        assert_eq!(counted("requests one fallback_acquired"), Some(1));
        assert_eq!(counted("requests one fallback_rejected"), Some(2));
        assert_eq!(counted("requests refuses error"), Some(1));
        assert_eq!(counted("fallback.requests local"), Some(3));
        assert_eq!(counted("fallback.requests refuse"), Some(1));
    }
}

#[test]
fn utilization_leaves_out_local_shares() {
    let limits = || {
        let builder = Limits::builder().limit("one", Limit::per_hour(1));
        builder
            .override_for("one", "a", Limit::per_hour(8))
            .build()
            .unwrap()
    };
    let spend = async |limiter: Limiter| {
        for id in ["a", "b"] {
            limiter.spend(&Transaction::new("one", id)).await.unwrap();
        }
    };
    let store = Store::default();
    let asked = counted(spend(Limiter::new(limits(), store)));
    assert_eq!(
        asked["override.utilization one"], 1,
        "only of those with an override"
    );
    let policy = FailurePolicy::new(Store::new(Fate::NoReply)).fleet(4);
    let alone = counted(spend(Limiter::new(limits(), policy)));
    assert_eq!(alone["requests one fallback_acquired"], 2);
    assert!(!alone.contains_key("override.utilization one"));
}

#[test]
fn utilization_covers_sets_of_names_and_shared_buckets() {
    let rule = || Rule::new("one", HeaderId::new("x-id")).on_missing(OnMissing::Shared);
    for (format, id) in [
        (IdFormat::FqdnSet, Some("b.com,a.com")),
        (IdFormat::RegIdFqdnSet, Some("7:b.com,a.com")),
        (IdFormat::FqdnSet, None),
    ] {
        let limits = Limits::builder()
            .limit(LimitName::new("one", 1, format), Limit::per_hour(1))
            .override_for(
                "one",
                id.unwrap_or("\u{ab}missing\u{bb}"),
                Limit::per_hour(8),
            );
        let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
        let layer = RateLimitLayer::with_limiter(limiter).rule(rule());
        let request = id
            .into_iter()
            .fold(http::Request::builder(), |request, id| {
                request.header("x-id", id)
            });
        let request = request.body(Full::<Bytes>::default()).unwrap();
        let asked = counted(layer.layer(Hello).oneshot(request));
        let samples = asked.get("override.utilization one");
        assert_eq!(samples, Some(&1), "{format} {id:?}");
    }
}

#[test]
fn gauges_show_the_buckets_and_evictions_of_the_backend() {
    let recorded = recorded(async {
        let limiter = limiter(MemoryBackend::with_max_buckets(100));
        for id in 0..1000 {
            let id = id.to_string();
            limiter.spend(&Transaction::new("ten", &id)).await.unwrap();
        }
        metrics::publish(&limiter.stats());
        // It is a state, and is the same if it is published twice.
        metrics::publish(&limiter.stats());
    });
    let (buckets, evictions) = (recorded["buckets"], recorded["evictions"]);
    assert!(0 < buckets && buckets <= 100, "{buckets}");
    assert_eq!(buckets + evictions, 1000);
    assert!(
        !recorded.contains_key("circuit.state"),
        "there is no breaker"
    );
}

/// Every series at the start, without those of limits.
const FIRST: [&str; 15] = [
    "circuit.transitions closed",
    "circuit.transitions open",
    "config.reloads applied",
    "config.reloads refused",
    "config.reloads unreadable",
    "fallback.requests allow",
    "fallback.requests local",
    "fallback.requests refuse",
    "refusals blocked",
    "refusals listed",
    "refusals misconfigured",
    "refusals no_id",
    "refusals over_limit",
    "refusals too_costly",
    "refusals unavailable",
];

/// The possible results of a transaction.
const RESULTS: [&str; 10] = [
    "acquired",
    "blocked",
    "cache_rejected",
    "error",
    "fallback_acquired",
    "fallback_rejected",
    "rejected",
    "shadow_rejected",
    "skipped",
    "withheld",
];

#[test]
fn counters_begin_at_zero() {
    let recorded = recorded(async {
        metrics::describe();
        let limiter = limiter(MemoryBackend::new());
        let more = Limits::builder().limit("more", Limit::per_hour(1));
        limiter.reload(more.build().unwrap()).unwrap();
    });
    let of_limits = ["more", "one", "refuses", "ten"]
        .into_iter()
        .flat_map(|limit| RESULTS.map(|result| format!("requests {limit} {result}")));
    let all = FIRST.into_iter().chain(["waiting"]);
    let all = all.map(str::to_owned).chain(of_limits);
    let expected = all.map(|name| {
        let count = u64::from(name == "config.reloads applied");
        (name, count)
    });
    assert_eq!(recorded, expected.collect());
}

#[test]
fn recorder_that_is_installed_after_the_limiter_is_counted_in() {
    let limiter = limiter(MemoryBackend::new());
    let counted = counted(async {
        limiter.spend(&Transaction::new("one", "a")).await.unwrap();
    });
    assert_eq!(counted["requests one acquired"], 1);
}
