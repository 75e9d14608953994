//! Names of limits, right and wrong, in each place that takes one.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use http::request::Parts;
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, Transaction,
    key::{Everyone, HeaderId},
    layer::Assessment,
    limit::{Language, LimitsBuilder},
    rule::OnMissing,
};
use tower::{Layer, ServiceExt};

use crate::support::{Hello, Log, from_ip};

fn plans() -> LimitsBuilder {
    Limits::builder()
        .limit("free", Limit::per_hour(2))
        .limit("pro", Limit::per_hour(5))
}

fn limiter() -> Limiter {
    Limiter::new(plans().build().unwrap(), MemoryBackend::new())
}

fn plan(parts: &Parts) -> Option<&str> {
    parts.headers.get("x-plan")?.to_str().ok()
}

/// Each place that takes a name of a limit, with one that is misspelt.
#[test]
fn wrong_name_is_an_error_that_suggests_the_right_one() {
    let free = || Rule::new("free", Everyone);
    let error = |rule: Rule| {
        let limiter = limiter();
        let tried = RateLimitLayer::with_limiter(limiter).try_rule(rule);
        tried.unwrap_err().to_string()
    };
    let build = |limits: LimitsBuilder| limits.build().unwrap_err().to_string();
    let declared = || Limits::builder().name("free").name("pro");
    let limiter = limiter();
    for (error, expected) in [
        (error(Rule::new("fre", Everyone)), "free"),
        (error(free().limit_by(["prp"], plan)), "pro"),
        (error(free().limit_by(["pro", "Free"], plan)), "free"),
        (error(free().or_else(Rule::new("prop", Everyone))), "pro"),
        (limiter.limit("fred").unwrap_err().to_string(), "free"),
        (
            build(plans().override_for("frei", "a", Limit::UNLIMITED)),
            "free",
        ),
        (
            build(plans().overrides_text(
                Language::Json,
                r#"[{"pr": {"burst": 1, "count": 1, "period": "1s", "ids": ["a"]}}]"#,
            )),
            "pro",
        ),
        (
            build(declared().defaults_text(
                Language::Json,
                r#"{"fee": {"burst": 1, "count": 1, "period": "1s"}}"#,
            )),
            "free",
        ),
    ] {
        assert!(
            error.contains(&format!("did you mean `{expected}`?")),
            "{error}"
        );
    }
}

#[tokio::test]
async fn wrong_name_suggests_the_right_one_while_requests_run() {
    let limiter = limiter();
    let wrong = [Transaction::new("pro", "a"), Transaction::new("prro", "a")];
    let errors = [
        limiter.spend(&wrong[1]).await.unwrap_err(),
        limiter.check(&wrong[1]).await.unwrap_err(),
        limiter.refund(&wrong[1]).await.unwrap_err(),
        limiter.reset(&wrong[1..]).await.unwrap_err(),
        limiter.spend_batch(&wrong).await.unwrap_err(),
        limiter.try_spend(&wrong[1]).unwrap().unwrap_err(),
    ];
    for error in errors {
        assert!(error.to_string().contains("did you mean `pro`?"), "{error}");
    }
    let (log, _guard) = Log::capture();
    let rule = Rule::new("free", Everyone).limit_by(["pro"], |_| Some("prro"));
    let layer = RateLimitLayer::with_limiter(limiter).rule(rule);
    let response = layer
        .layer(Hello)
        .oneshot(from_ip("192.0.2.1"))
        .await
        .unwrap();
    assert_eq!(response.status(), 500);
    assert_eq!(log.count("did you mean `pro`?"), 1, "{log:?}");
}

#[tokio::test]
async fn rules_and_handlers_name_limits_by_handles() {
    let limiter = limiter();
    let (free, pro) = (
        limiter.limit("free").unwrap(),
        limiter.limit("pro").unwrap(),
    );
    let rule = Rule::new(&free, Everyone).limit_by([&pro], plan);
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    let layer =
        layer.rule(Rule::new(free.clone(), HeaderId::new("x-a")).on_missing(OnMissing::Skip));
    let service = layer.response_extension(true).layer(Hello);
    let request = from_ip("192.0.2.1");
    let response = service.oneshot(request).await.unwrap();
    let assessment = response.extensions().get::<Assessment>().unwrap();
    assert_eq!(&*assessment.of(&free).unwrap().limit, "free");
    assert!(assessment.of(&pro).is_none() && assessment.of("pro").is_none());
    assert!(assessment.of(&String::from("free")).is_some());
}
