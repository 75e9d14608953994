//! A layer whose limits are in shadow mode changes no response's status, whatever is wrong with a request or a store.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use http::{Request, StatusCode};
use proptest::{collection::vec, option, prelude::*, sample::select};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    backend::Backend,
    clock::ManualClock,
    key::{Everyone, HeaderId},
    layer::Assessment,
    limit::{LimitName, LimitsBuilder},
    transaction::Mode,
};
use tower::{Layer, ServiceExt};

use crate::support::{
    self, Hello,
    store::{Fate, Store},
};

fn limits(closed: Limit) -> LimitsBuilder {
    Limits::builder()
        .limit("requests", Limit::per_hour(3))
        .limit("accounts", Limit::per_hour(2))
        .limit("closed", closed)
        .override_for("accounts", "666", Limit::BLOCKED)
}

fn layer(limits: &LimitsBuilder, backend: impl Backend) -> RateLimitLayer {
    let limiter = Limiter::new(limits.build().unwrap(), backend);
    let limiter = limiter.with_clock(ManualClock::default());
    let account = || HeaderId::new("x-account");
    RateLimitLayer::with_limiter(limiter)
        .rule(Rule::new("requests", Everyone).cost_by(|parts| {
            let cost = parts
                .headers
                .get("x-cost")
                .and_then(|cost| cost.to_str().ok());
            cost.and_then(|cost| cost.parse().ok()).unwrap_or(1)
        }))
        .rule(Rule::new("accounts", account()).charge_if(|_| true))
        .rule(Rule::new("closed", ClientIp::peer()).mode(Mode::CheckOnly))
}

fn request(
    account: Option<&str>,
    cost: Option<u32>,
) -> Request<http_body_util::Full<bytes::Bytes>> {
    let mut request = support::from_ip("203.0.113.7");
    if let Some(account) = account {
        request
            .headers_mut()
            .insert("x-account", account.parse().unwrap());
    }
    if let Some(cost) = cost {
        request.headers_mut().insert("x-cost", cost.into());
    }
    if account == Some("nowhere") {
        request.extensions_mut().clear();
    }
    request
}

proptest! {
    #[test]
    fn shadow_changes_no_status(
        requests in vec(
            (option::of(select(vec!["1", "2", "666", "nowhere"])), option::of(0_u32..6)),
            1..40,
        ),
        is_broken: bool,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let limits = limits(Limit::BLOCKED).shadow(true);
            let layer = match is_broken {
                true => layer(&limits, Store::new(Fate::Away)),
                false => layer(&limits, MemoryBackend::new()),
            };
            for (account, cost) in requests {
                let response = layer.layer(Hello).oneshot(request(account, cost)).await.unwrap();
                assert_eq!(response.status(), StatusCode::OK);
                assert!(!response.headers().contains_key("retry-after"));
            }
        });
    }
}

#[tokio::test]
async fn without_shadow_the_same_rules_refuse() {
    let statuses = async |layer: RateLimitLayer, account, cost| {
        let request = request(account, cost);
        layer.layer(Hello).oneshot(request).await.unwrap().status()
    };
    let (open, closed) = (limits(Limit::per_hour(1)), limits(Limit::BLOCKED));
    let memory = |limits| layer(limits, MemoryBackend::new());
    assert_eq!(statuses(memory(&open), Some("1"), None).await, 200);
    assert_eq!(statuses(memory(&open), None, None).await, 400);
    assert_eq!(statuses(memory(&open), Some("666"), None).await, 429);
    assert_eq!(statuses(memory(&closed), Some("1"), None).await, 429);
    assert_eq!(
        statuses(layer(&open, Store::new(Fate::Away)), Some("1"), None).await,
        503
    );
    // Whom the limits block is denied without asking the store.
    assert_eq!(
        statuses(layer(&closed, Store::new(Fate::Away)), Some("1"), None).await,
        429
    );
}

#[tokio::test]
async fn handler_and_operator_see_what_would_have_been_denied() {
    let limits =
        Limits::builder().limit(LimitName::from("requests").shadow(true), Limit::per_hour(2));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let layer = support::layer(&limiter.with_clock(ManualClock::default()));
    let layer = layer.response_extension(true);
    for would_be_denied in [false, false, true] {
        let response = support::send(&layer, "203.0.113.7").await;
        let assessment = response.extensions().get::<Assessment>().unwrap();
        let assessed = assessment.of("requests").unwrap();
        assert_eq!(assessed.decision.would_be_denied(), would_be_denied);
        assert_eq!(assessed.charged(), u32::from(!would_be_denied));
    }
}

#[tokio::test]
async fn plan_in_shadow_mode_refuses_nobody() {
    let limits = Limits::builder()
        .limit("free", Limit::per_hour(2))
        .limit(LimitName::from("pro").shadow(true), Limit::per_hour(2));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let rule = Rule::new("free", HeaderId::new("x-account")).limit_by(["pro"], |parts| {
        let plan = parts.headers.get("x-plan")?;
        plan.to_str().ok()
    });
    let layer = RateLimitLayer::with_limiter(limiter).rule(rule);
    for (plan, status) in [("pro", 200), ("free", 400), ("gold", 500)] {
        let mut request = request(None, None);
        request
            .headers_mut()
            .insert("x-plan", plan.parse().unwrap());
        let response = layer.layer(Hello).oneshot(request).await.unwrap();
        assert_eq!(response.status(), status, "{plan}");
    }
}
