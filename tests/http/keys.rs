//! Who is asking: each extractor, with what it makes of requests good and bad.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use http::{Request, StatusCode, request::Parts};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    clock::ManualClock,
    id::{Id, IdFormat},
    key::{
        Everyone, ExtensionId, Extracted, HeaderId, IdProperties, IdSource, Ipv6Range, KeyExtractor,
    },
    limit::LimitName,
    rule::OnMissing,
};
use tower::{Layer, ServiceExt};

use crate::support::{Hello, Log, from_ip, limiter};

fn parts() -> Parts {
    Request::new(()).into_parts().0
}

fn parts_from(ip: &str) -> Parts {
    from_ip(ip).into_parts().0
}

fn id(extracted: Extracted) -> String {
    match extracted {
        Extracted::Id(id) => id.to_string(),
        other => format!("{other:?}"),
    }
}

#[test]
fn ipv6_clients_count_by_their_64() {
    let cases = [
        ("203.0.113.7", "203.0.113.7", "203.0.113.7"),
        (
            "2001:db8:1:2:3:4:5:6",
            "2001:db8:1:2::",
            "2001:db8:1:2:3:4:5:6",
        ),
        (
            "2001:db8:1:2:ffff::",
            "2001:db8:1:2::",
            "2001:db8:1:2:ffff::",
        ),
        ("::ffff:203.0.113.7", "203.0.113.7", "203.0.113.7"),
        ("::ffff:cb00:7107", "203.0.113.7", "203.0.113.7"),
        // IPv4-compatible, not mapped: an ordinary IPv6 address.
        ("::203.0.113.7", "::", "::cb00:7107"),
        ("2001:db8::1.2.3.4", "2001:db8::", "2001:db8::102:304"),
        ("::1", "::", "::1"),
    ];
    for (ip, subscriber, exact) in cases {
        assert_eq!(
            id(ClientIp::peer().extract(&parts_from(ip))),
            subscriber,
            "{ip}"
        );
        assert_eq!(
            id(ClientIp::peer().exact().extract(&parts_from(ip))),
            exact,
            "{ip}"
        );
    }
}

#[test]
fn ipv4_clients_count_by_a_prefix_if_told_so() {
    for (bits, ip, expected) in [
        (24, "203.0.113.7", "203.0.113.0"),
        (24, "::ffff:203.0.113.255", "203.0.113.0"),
        (31, "203.0.113.7", "203.0.113.6"),
        (32, "203.0.113.7", "203.0.113.7"),
        (1, "203.0.113.7", "128.0.0.0"),
        (1, "127.255.255.255", "0.0.0.0"),
        (24, "2001:db8:1:2:3::", "2001:db8:1:2::"),
    ] {
        let client = ClientIp::peer().v4_prefix(bits);
        assert_eq!(id(client.extract(&parts_from(ip))), expected, "{ip}");
        let description = client.describe();
        assert_eq!(description.id_source(), IdSource::Peer);
    }
    let exact = ClientIp::peer().exact().v4_prefix(8);
    assert_eq!(id(exact.extract(&parts_from("10.1.2.3"))), "10.0.0.0");
    assert_eq!(id(exact.extract(&parts_from("2001:db8::7"))), "2001:db8::7");
}

#[test]
fn prefixes_that_are_none_panic() {
    for bits in [0, 33, 255] {
        let set = || ClientIp::peer().v4_prefix(bits);
        let panic = std::panic::catch_unwind(set).unwrap_err();
        let text = panic.downcast_ref::<String>().unwrap();
        assert!(text.starts_with(&format!("an IPv4 prefix of {bits} bits: use 1 to 32")));
    }
}

#[test]
fn override_of_an_address_that_a_prefix_never_finds_is_told() {
    let (log, _guard) = Log::capture();
    let name = LimitName::new("l", 1, IdFormat::IpAddress);
    let limits = Limits::builder()
        .limit(name, Limit::per_minute(9))
        .override_for("l", "203.0.113.0", Limit::per_minute(1))
        .override_for("l", "203.0.113.7", Limit::per_minute(1));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let rule = Rule::new("l", ClientIp::peer().v4_prefix(24));
    let _layer = RateLimitLayer::with_limiter(limiter).rule(rule);
    assert_eq!(log.count("an override is for an id that a rule"), 1);
    assert_eq!(log.count("id=\"203.0.113.7\" more=0"), 1, "{log:?}");
}

#[test]
fn ranges_are_of_ipv6_alone() {
    let ip = "2001:db8:abcd:ef12:3456::1";
    let cases = [
        (32, "2001:db8::/32"),
        (48, "2001:db8:abcd::/48"),
        (56, "2001:db8:abcd:ef00::/56"),
        (64, "2001:db8:abcd:ef12::/64"),
    ];
    for (bits, range) in cases {
        assert_eq!(
            id(Ipv6Range::peer().prefix(bits).extract(&parts_from(ip))),
            range
        );
    }
    assert_eq!(
        id(Ipv6Range::peer().extract(&parts_from(ip))),
        "2001:db8:abcd::/48"
    );
    for ip in ["203.0.113.7", "::ffff:203.0.113.7"] {
        assert_eq!(
            Ipv6Range::peer().extract(&parts_from(ip)),
            Extracted::Skip,
            "{ip}"
        );
    }
}

#[test]
#[should_panic(expected = "an IPv6 prefix of /65: use one from /32 to /64")]
fn ranges_are_bounded() {
    let _ = Ipv6Range::peer().prefix(65);
}

#[test]
fn peer_without_an_address_is_nobody() {
    for ip in ["0.0.0.0", "::", "::ffff:0.0.0.0"] {
        for extractor in [
            ClientIp::peer(),
            ClientIp::from_fn(move |_| Some(ip.parse().unwrap())),
        ] {
            let found = extractor.extract(&parts_from(ip));
            assert!(matches!(found, Extracted::Missing(_)), "{ip}: {found:?}");
        }
        let range = Ipv6Range::peer().extract(&parts_from(ip));
        assert!(matches!(range, Extracted::Missing(_)), "{ip}: {range:?}");
    }
}

#[cfg(feature = "axum")]
#[test]
fn axums_peer_is_found() {
    use std::net::SocketAddr;

    use axum::extract::ConnectInfo;

    let mut parts = parts();
    parts
        .extensions
        .insert(ConnectInfo(SocketAddr::from(([203, 0, 113, 7], 80))));
    assert_eq!(id(ClientIp::peer().extract(&parts)), "203.0.113.7");
}

#[test]
fn peer_of_a_function_is_unmapped_too() {
    let find = |_: &Parts| "::ffff:203.0.113.7".parse::<IpAddr>().ok();
    assert_eq!(id(ClientIp::from_fn(find).extract(&parts())), "203.0.113.7");
    assert_eq!(Ipv6Range::from_fn(find).extract(&parts()), Extracted::Skip);
}

#[test]
fn header_is_an_id_only_if_it_is_one_clear_value() {
    let header = HeaderId::new("x-account-id");
    let with = |values: &[&[u8]]| {
        let mut parts = parts();
        for value in values {
            let value = http::HeaderValue::from_bytes(value).unwrap();
            parts.headers.append("x-account-id", value);
        }
        id(header.extract(&parts))
    };
    let long = vec![b'x'; HeaderId::MAX_LEN];
    let too_long = vec![b'x'; HeaderId::MAX_LEN + 1];
    assert_eq!(with(&[b"12345678"]), "12345678");
    assert_eq!(with(&[b" 12345678\t"]), "12345678");
    assert_eq!(with(&[&long]).len(), HeaderId::MAX_LEN);
    let refused: [(&[&[u8]], &str); 6] = [
        (&[], "is missing"),
        (&[b""], "is empty"),
        (&[b"  "], "is empty"),
        (&[b"1", b"2"], "more than once"),
        (&["é".as_bytes()], "not visible ASCII"),
        (&[&too_long], "is longer than 1024 bytes"),
    ];
    for (values, reason) in refused {
        let answer = with(values);
        assert!(
            answer.starts_with("Missing") && answer.contains(reason),
            "{answer}"
        );
    }
}

#[test]
fn extension_is_an_id_once_its_layer_has_run() {
    #[derive(Clone)]
    struct User(u64);

    let user = ExtensionId::new(|user: &User| Id::display(user.0));
    let mut parts = parts();
    let missing = format!("{:?}", user.extract(&parts));
    assert!(
        missing.contains("no extension") && missing.contains("User"),
        "{missing}"
    );
    parts.extensions.insert(User(7));
    assert_eq!(id(user.extract(&parts)), "7");
}

#[test]
fn closures_are_extractors() {
    let by_path = |parts: &Parts| parts.uri.path().to_owned();
    assert_eq!(id(by_path.extract(&parts())), "/");
    let never = |_: &Parts| None::<Id>;
    assert_eq!(never.extract(&parts()), Extracted::Skip);
    let boxed: Box<dyn KeyExtractor> = Box::new(Everyone);
    assert_eq!(id(boxed.extract(&parts())), "everyone");
}

async fn statuses(rule: Rule, requests: usize) -> Vec<StatusCode> {
    let layer = RateLimitLayer::with_limiter(limiter(&ManualClock::default())).rule(rule);
    let mut statuses = Vec::new();
    for _ in 0..requests {
        let request = Request::new(http_body_util::Full::<bytes::Bytes>::default());
        statuses.push(layer.layer(Hello).oneshot(request).await.unwrap().status());
    }
    statuses
}

#[tokio::test]
async fn rule_decides_what_a_missing_id_means() {
    let rule = || Rule::new("requests", ClientIp::peer());
    let refused = statuses(rule(), 1).await;
    assert_eq!(refused, [StatusCode::INTERNAL_SERVER_ERROR]);
    let skipped = statuses(rule().on_missing(OnMissing::Skip), 30).await;
    assert_eq!(skipped, [StatusCode::OK; 30]);
    let shared = statuses(rule().on_missing(OnMissing::Shared), 21).await;
    assert_eq!(shared[..20], [StatusCode::OK; 20]);
    assert_eq!(shared[20], StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn each_rule_decides_what_the_id_means_that_two_rules_miss() {
    use OnMissing::{Refuse, Shared, Skip};
    for first in [Refuse, Shared, Skip] {
        for second in [Refuse, Shared, Skip] {
            let limits = Limits::builder()
                .limit("first", Limit::per_hour(1))
                .limit("second", Limit::per_hour(1));
            let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
            let rule = |limit| Rule::new(limit, HeaderId::new("x-key"));
            let layer = RateLimitLayer::with_limiter(limiter)
                .rule(rule("first").on_missing(first))
                .rule(rule("second").on_missing(second));
            let mut statuses = Vec::new();
            for _ in 0..2 {
                let response = layer.layer(Hello).oneshot(from_ip("203.0.113.7")).await;
                statuses.push(response.unwrap().status().as_u16());
            }
            let of = |on_missing| [first, second].contains(&on_missing);
            let expected = match (of(Refuse), of(Shared)) {
                (true, _) => [400, 400],
                (false, true) => [200, 429],
                (false, false) => [200, 200],
            };
            assert_eq!(statuses, expected, "{first:?}, {second:?}");
        }
    }
}

#[tokio::test]
async fn empty_id_is_a_missing_one() {
    let rule = || Rule::new("requests", |_: &Parts| Some(String::new()));
    assert_eq!(statuses(rule(), 1).await, [StatusCode::BAD_REQUEST]);
    let skipped = statuses(rule().on_missing(OnMissing::Skip), 30).await;
    assert_eq!(skipped, [StatusCode::OK; 30]);
    let shared = statuses(rule().on_missing(OnMissing::Shared), 21).await;
    assert_eq!(shared[20], StatusCode::TOO_MANY_REQUESTS);
}

/// Counts how often it is asked.
struct Counting {
    asked: Arc<AtomicUsize>,
    same_if: &'static str,
}

impl KeyExtractor for Counting {
    fn extract(&self, _: &Parts) -> Extracted {
        self.asked.fetch_add(1, Ordering::Relaxed);
        "alice".into()
    }

    fn describe(&self) -> IdProperties {
        let properties = IdProperties::new(IdSource::Peer);
        match self.same_if {
            "" => properties,
            text => properties.same_if(text),
        }
    }
}

#[tokio::test]
async fn rules_with_the_same_extractor_and_format_extract_the_id_once() {
    // The text of each rule's extractor, and how often they are asked together.
    let cases = [
        (["one", "one", "one"], 1),
        (["one", "other", "one"], 2),
        (["", "", ""], 3),
    ];
    for (texts, most) in cases {
        let builder = Limits::builder()
            .limit("first", Limit::per_second(1))
            .limit("second", Limit::per_hour(9))
            .limit("third", Limit::per_day(90));
        let limiter = Limiter::new(builder.build().unwrap(), MemoryBackend::new());
        let asked = Arc::new(AtomicUsize::new(0));
        let mut layer = RateLimitLayer::with_limiter(limiter.clone());
        for (limit, same_if) in ["first", "second", "third"].into_iter().zip(texts) {
            let asked = Arc::clone(&asked);
            layer = layer.rule(Rule::new(limit, Counting { asked, same_if }));
        }
        let response = layer.layer(Hello).oneshot(from_ip("203.0.113.7")).await;
        assert_eq!(response.unwrap().status(), StatusCode::OK);
        assert_eq!(asked.load(Ordering::Relaxed), most, "{texts:?}");
        for (limit, left) in [("first", 0), ("second", 8), ("third", 89)] {
            let limit = limiter.limit(limit).unwrap();
            let bucket = limit.peek("alice").await.unwrap();
            assert_eq!(bucket.remaining(), Some(left), "{texts:?}: {limit:?}");
        }
    }
}
