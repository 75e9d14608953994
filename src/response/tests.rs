//! Every reason in every format, including reasons that no layer gives yet.

mod waits;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, Version, header, request::Parts};
use serde_json::{Value, json};

use super::*;
use crate::{
    MemoryBackend,
    clock::ManualClock,
    decision::Decision,
    id::Id,
    key::MissingId,
    limit::{Limit, LimitName, Limits},
    limiter::{Limiter, LimiterError},
    transaction::Transaction,
};

const DOCS: &str = "https://example.com/limits";

fn http() -> Parts {
    let request = Request::builder().header(header::CONTENT_TYPE, "text/html");
    request.body(()).unwrap().into_parts().0
}

fn grpc() -> Parts {
    let request = Request::post("/").version(Version::HTTP_2);
    let request = request.header(header::TE, "trailers");
    let request = request.header(header::CONTENT_TYPE, "application/grpc");
    request.body(()).unwrap().into_parts().0
}

/// The limit `orders` with a description and a link. The client `blocked` is blocked.
fn limits(limit: Limit) -> Limits {
    let name = LimitName::from("orders")
        .description("new orders")
        .docs(DOCS);
    let limits = Limits::builder().limit(name, limit);
    let limits = limits.override_for("orders", "blocked", Limit::BLOCKED);
    limits.build().unwrap()
}

/// The decision on the second of two requests.
fn second(limits: &Limits, id: &str, cost: u32) -> Decision {
    let limiter = Limiter::new(limits.clone(), MemoryBackend::new());
    let limiter = limiter.with_clock(ManualClock::default());
    let transaction = match id {
        Id::MISSING => Transaction::missing("orders"),
        id => Transaction::new("orders", id),
    };
    let spend = |cost| limiter.try_spend(&transaction.cost(cost));
    let _ = spend(1);
    spend(cost).unwrap().unwrap()
}

/// The response to a denied client.
fn denied(
    responder: &Responder,
    limit: Limit,
    id: &str,
    cost: u32,
    parts: &Parts,
) -> Response<Bytes> {
    let limits = limits(limit);
    let decision = second(&limits, id, cost);
    let id = Id::from(id);
    let denial = Denial::new(limits.get("orders"), "orders", &id, cost, &decision);
    responder.denied(parts, denial, &[denial], None)
}

fn hourly() -> Limit {
    Limit::per_hour(1)
}

/// Each reason, as the layer would refuse it.
fn all(responder: &Responder, parts: &Parts) -> [Response<Bytes>; 8] {
    let too_costly = LimiterError::CostAboveBurst {
        limit: "orders".into(),
        id: None,
        cost: 5,
        burst: 1,
        configured: 1,
        measure: "burst",
    };
    let limits = limits(hourly());
    let backend = crate::backend::BackendError::unavailable("away");
    let missing = [
        MissingId::client("send a token"),
        MissingId::server("secret"),
    ];
    [
        denied(responder, hourly(), "alice", 1, parts),
        denied(responder, hourly(), "blocked", 1, parts),
        responder.failed(parts, &too_costly, &limits, &[]),
        responder.refused(parts, Reason::Listed { list: "bots" }),
        responder.missing(parts, &missing[0]),
        responder.missing(parts, &missing[1]),
        responder.failed(parts, &LimiterError::Backend(backend), &limits, &[]),
        responder.failed(
            parts,
            &LimiterError::unknown_limit("x", &limits),
            &limits,
            &[],
        ),
    ]
}

const STATUSES: [u16; 8] = [429, 429, 413, 403, 400, 500, 503, 500];

const MESSAGES: [&str; 8] = [
    "too many new orders (1 per 1h0m0s, 1 at once) from alice: retry in 60 minutes, see https://example.com/limits",
    "new orders are blocked for blocked, see https://example.com/limits",
    "too many new orders at once: the request costs 5, and at most 1 can pass, see https://example.com/limits",
    "access is denied by the list `bots`",
    "send a token",
    "the server cannot identify the client",
    "the rate limit cannot be checked right now",
    "the rate limit is misconfigured",
];

fn responder(format: impl ResponseFormat) -> Responder {
    Responder {
        format: Arc::new(format),
        ..Responder::default()
    }
}

fn json(response: &Response<Bytes>) -> Value {
    serde_json::from_slice(response.body()).unwrap()
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}

#[test]
fn all_formats_have_the_same_statuses_and_common_headers() {
    let formats = [
        responder(Registry),
        responder(Problem::new()),
        responder(Problem::acme()),
        responder(PlainText),
    ];
    let waits = [Some("3600"), None, None, None, None, None, Some("1"), None];
    for format in formats {
        for (i, response) in all(&format, &http()).iter().enumerate() {
            let headers = response.headers();
            assert_eq!(response.status(), STATUSES[i]);
            assert_eq!(text(headers, "retry-after"), waits[i], "{i}");
            assert_eq!(text(headers, "cache-control"), Some("no-store"));
            let link = Some("<https://example.com/limits>;rel=\"help\"").filter(|_| i < 3);
            assert_eq!(text(headers, "link"), link, "{i}");
        }
    }
}

#[test]
fn registry_has_a_code_for_each_reason() {
    let too_many = |entity| {
        let detail = json!({"limiter": "orders", "entity": entity});
        json!({"code": "TOOMANYREQUESTS", "message": "too many requests", "detail": detail})
    };
    let other = |code, i: usize| json!({"code": code, "message": MESSAGES[i]});
    let errors = [
        too_many("alice"),
        too_many("blocked"),
        other("TOOCOSTLY", 2),
        other("DENIED", 3),
        other("BADREQUEST", 4),
        other("INTERNAL", 5),
        other("UNAVAILABLE", 6),
        other("INTERNAL", 7),
    ];
    for (response, error) in all(&responder(Registry), &http()).iter().zip(errors) {
        assert_eq!(json(response), json!({"errors": [error]}));
        assert_eq!(
            text(response.headers(), "content-type"),
            Some("application/json")
        );
    }
}

#[test]
fn plain_text_is_the_message() {
    for (response, message) in all(&responder(PlainText), &http()).iter().zip(MESSAGES) {
        assert_eq!(*response.body(), format!("{message}\n"));
        let content_type = text(response.headers(), "content-type");
        assert_eq!(content_type, Some("text/plain; charset=utf-8"));
    }
}

#[test]
fn problems_are_of_the_registered_types() {
    let iana = |name: &str| format!("https://iana.org/assignments/http-problem-types#{name}");
    let blank = || "about:blank".to_owned();
    let types = [
        (iana("quota-exceeded"), "Quota Exceeded"),
        (iana("abnormal-usage-detected"), "Abnormal Usage Detected"),
        (blank(), "Payload Too Large"),
        (blank(), "Forbidden"),
        (blank(), "Bad Request"),
        (blank(), "Internal Server Error"),
        (
            iana("temporary-reduced-capacity"),
            "Temporary Reduced Capacity",
        ),
        (blank(), "Internal Server Error"),
    ];
    for (i, response) in all(&responder(Problem::new()), &http()).iter().enumerate() {
        let (uri, title) = &types[i];
        let mut problem = json!(
            {"type": uri, "title": title, "status": STATUSES[i], "detail": MESSAGES[i]}
        );
        if i < 2 {
            problem["violated-policies"] = json!(["orders"]);
        }
        assert_eq!(json(response), problem);
        let content_type = text(response.headers(), "content-type");
        assert_eq!(content_type, Some("application/problem+json"));
    }
}

#[test]
fn problems_of_acme_have_its_types() {
    let types = [
        "rateLimited",
        "rateLimited",
        "malformed",
        "unauthorized",
        "malformed",
        "serverInternal",
        "serverInternal",
        "serverInternal",
    ];
    for (i, response) in all(&responder(Problem::acme()), &http()).iter().enumerate() {
        let problem = json(response);
        assert_eq!(
            problem["type"],
            format!("urn:ietf:params:acme:error:{}", types[i])
        );
        assert_eq!(problem["detail"], MESSAGES[i]);
        assert_eq!(problem["status"], STATUSES[i]);
    }
}

#[test]
fn grpc_has_a_code_for_each_reason_and_says_when_to_retry() {
    let unused = responder(|_: &Refusal<'_>| panic!("not for gRPC"));
    let codes = ["8", "8", "8", "7", "3", "13", "14", "13"];
    let pushbacks = [
        Some(3_600_000),
        None,
        None,
        None,
        None,
        None,
        Some(1000),
        None,
    ];
    for (i, response) in all(&unused, &grpc()).iter().enumerate() {
        let headers = response.headers();
        assert_eq!(response.status(), StatusCode::OK);
        assert!(response.body().is_empty());
        assert_eq!(text(headers, "grpc-status"), Some(codes[i]));
        assert_eq!(text(headers, "grpc-message"), Some(MESSAGES[i]));
        let pushback: i32 = text(headers, "grpc-retry-pushback-ms")
            .unwrap()
            .parse()
            .unwrap();
        assert_eq!(pushback, pushbacks[i].unwrap_or(-1), "{i}");
    }
}

#[cfg(feature = "tonic")]
#[test]
fn grpc_details_name_whose_quota_failed() {
    use std::time::Duration;

    use tonic::Status;
    use tonic_types::StatusExt;

    let subjects = [
        Some("orders:alice"),
        Some("orders:blocked"),
        Some("orders"),
        None,
        None,
        None,
        None,
        None,
    ];
    let delays = [Some(3600), None, None, None, None, None, Some(1), None];
    for (i, response) in all(&responder(Registry), &grpc()).iter().enumerate() {
        let status = Status::from_header_map(response.headers()).unwrap();
        let delay = status.get_details_retry_info().map(|info| info.retry_delay);
        assert_eq!(
            delay,
            delays[i].map(|secs| Some(Duration::from_secs(secs))),
            "{i}"
        );
        let failure = status.get_details_quota_failure();
        let violations = failure.map_or_else(Vec::new, |failure| failure.violations);
        let found = violations.first().map(|violation| &*violation.subject);
        assert_eq!(found, subjects[i], "{i}");
        assert!(violations.len() < 2);
        assert!(
            violations
                .iter()
                .all(|v| MESSAGES[i].starts_with(&v.description))
        );
    }
}

#[test]
fn head_is_the_same_whoever_writes_it() {
    let limits = Limits::builder().limit("orders", hourly());
    let limits = limits.build().unwrap();
    let decision = second(&limits, "alice", 1);
    let alice = Id::from("alice");
    let denial = Denial::new(limits.get("orders"), "orders", &alice, 1, &decision);
    let refused = |responder: &Responder, headers: Headers| {
        let shown = Shown {
            decision: &decision,
            policy: &Policy::new("orders", true),
        };
        let fields = headers.write(std::iter::once(shown), true);
        let (head, body) = responder
            .denied(&http(), denial, &[denial], fields)
            .into_parts();
        let fields = head.headers.iter();
        let fields: Vec<_> = fields
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        (head.status, fields, body)
    };
    let ours = responder(Problem::new());
    let theirs = responder(|refusal: &Refusal<'_>| Problem::new().respond(refusal));
    let known = [
        "content-type: application/problem+json",
        "retry-after: 3600",
        "cache-control: no-store",
    ];
    let draft11 = [
        "ratelimit-policy: \"orders\";q=1;w=3600",
        "ratelimit: \"orders\";r=0;t=3600",
    ];
    for (headers, added) in [(Headers::Draft11, &draft11[..]), (Headers::None, &[])] {
        let response = refused(&ours, headers);
        assert_eq!(response.1, [&known, added].concat());
        assert_eq!(response, refused(&theirs, headers));
    }
}

#[test]
fn problem_is_whole_however_long_its_texts() {
    for times in [1, 60, 200] {
        let words = "\"new\"\\\n".repeat(times);
        let name = LimitName::from("orders").description(&words);
        let limits = Limits::builder().limit(name, hourly()).build().unwrap();
        let decision = second(&limits, "alice", 1);
        let alice = Id::from("alice");
        let denial = Denial::new(limits.get("orders"), "orders", &alice, 1, &decision);
        let response = responder(Problem::new()).denied(&http(), denial, &[denial], None);
        let message =
            format!("too many {words} (1 per 1h0m0s, 1 at once) from alice: retry in 60 minutes");
        let document = json(&response);
        assert_eq!(document["detail"], message);
        assert_eq!(document["violated-policies"], json!(["orders"]));
    }
}
