//! The message and the wait of a refusal.

use std::{collections::HashSet, time::Duration};

use http::{Response, StatusCode, header};

use super::{
    super::{Denial, Extras, PlainText, Refusal, Responder},
    denied, hourly, http, limits, responder, second, text,
};
use crate::{
    MemoryBackend,
    clock::ManualClock,
    id::Id,
    limit::Limit,
    limiter::Limiter,
    tiers::Tier,
    transaction::{Mode, Transaction},
};

fn tiers() -> Limit {
    Limit::tiers([Tier::new(3, Duration::from_secs(10))]).unwrap()
}

#[test]
fn cost_above_all_tiers_is_too_costly() {
    let response = denied(&responder(PlainText), tiers(), "alice", 4, &http());
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(response.headers().get(header::RETRY_AFTER), None);
    let message = "too many new orders at once: the request costs 4, and at most 3 can pass, see \
                   https://example.com/limits\n";
    assert_eq!(response.body(), message);
    // A cost that can fit later is not too high.
    let response = denied(&responder(PlainText), tiers(), "alice", 3, &http());
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    let message = "too many new orders (3 per 10s for infinite) from alice: retry in 11 s, see \
                   https://example.com/limits\n";
    assert_eq!(response.body(), message);
}

#[test]
fn message_is_whole_whatever_the_id() {
    let message = |id| {
        let response = denied(&responder(PlainText), hourly(), id, 1, &http());
        String::from_utf8(response.body().to_vec()).unwrap()
    };
    assert!(message("2001:db8:1:2::").contains(" from 2001:db8:1:2::: retry in 60 minutes"));
    let shared = "too many new orders (1 per 1h0m0s, 1 at once): retry in 60 minutes, see https://example.com/limits\n";
    assert_eq!(message(Id::MISSING), shared);
    let never = Limit::tiers([Tier::new(1, Tier::FOREVER)]).unwrap();
    let response = denied(&responder(PlainText), never, "alice", 1, &http());
    let text = str::from_utf8(response.body()).unwrap();
    assert!(
        text.contains(" from alice: this limit admits no more requests, see "),
        "{text}"
    );
}

#[test]
fn all_places_agree_on_a_wait_that_varies() {
    let format = |refusal: &Refusal<'_>| {
        let secs = [(); 3].map(|()| refusal.retry_after_secs().unwrap());
        Response::new(format!("{secs:?} {}", refusal.message()).into())
    };
    let responder = Responder {
        extras: Some(Box::new(Extras {
            jitter: Duration::from_secs(1000),
            ..Extras::default()
        })),
        ..responder(format)
    };
    let mut all = HashSet::new();
    for _ in 0..50 {
        let response = denied(&responder, hourly(), "alice", 1, &http());
        let secs: u64 = text(response.headers(), "retry-after")
            .unwrap()
            .parse()
            .unwrap();
        assert!((3600..=4600).contains(&secs), "{secs}");
        let body = str::from_utf8(response.body()).unwrap();
        assert!(
            body.starts_with(&format!("[{secs}, {secs}, {secs}] ")),
            "{body}"
        );
        let words = format!("retry in {} minutes", secs.div_ceil(60));
        assert!(body.contains(&words), "{body}");
        all.insert(secs);
    }
    assert!(all.len() > 5, "{all:?}");
}

#[test]
fn wait_is_the_longest_of_all_that_deny() {
    let parts = http();
    let (limits, hourly) = (limits(Limit::per_minute(1)), limits(hourly()));
    let decisions = [second(&limits, "alice", 1), second(&hourly, "alice", 1)];
    let alice = Id::from("alice");
    let denials: Vec<_> = decisions
        .iter()
        .map(|decision| Denial::new(limits.get("orders"), "orders", &alice, 1, decision))
        .collect();
    let refusal = Refusal::denied(denials[0], &denials, &parts, Duration::from_secs(1));
    assert_eq!(refusal.retry_after_secs(), Some(3600));
}

#[test]
fn client_in_debt_waits_for_the_next_token_whatever_its_cost() {
    let limits = limits(hourly());
    let limiter = Limiter::new(limits.clone(), MemoryBackend::new());
    let limiter = limiter.with_clock(ManualClock::default());
    let spend = |cost, mode| {
        let transaction = Transaction::new("orders", "alice").cost(cost).mode(mode);
        limiter.try_spend(&transaction).unwrap().unwrap()
    };
    spend(3, Mode::Debit);
    for cost in [0, 1] {
        let decision = spend(cost, Mode::CheckAndSpend);
        let named = limits.get("orders");
        let alice = Id::from("alice");
        let denials = [Denial::new(named, "orders", &alice, cost, &decision)];
        let parts = http();
        let refusal = Refusal::denied(denials[0], &denials, &parts, Duration::from_secs(1));
        assert_eq!(refusal.retry_after_secs(), Some(3 * 3600), "cost {cost}");
    }
}
