//! What a rule makes of a request: whether it is for it, whose bucket it is, which limit, what it costs.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::net::SocketAddr;

use http::{Method, Request, StatusCode, request::Parts};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    clock::ManualClock,
    id::IdFormat,
    key::{Everyone, ExtensionId, HeaderId, Predicate, RangeError, Within},
    limit::{LimitName, LimitsBuilder},
    rule::{Methods, OnMissing, Paths, RuleError, methods, paths},
    transaction::Mode,
};
use tower::{Layer, ServiceExt};

use crate::support::{Hello, Log, bucket, charged, text};

type Body = http_body_util::Full<bytes::Bytes>;

fn limiter(limits: &LimitsBuilder) -> Limiter {
    let limits = limits.build().unwrap();
    Limiter::new(limits, MemoryBackend::new()).with_clock(ManualClock::default())
}

fn plans() -> LimitsBuilder {
    Limits::builder()
        .limit("free", Limit::per_hour(2))
        .limit("pro", Limit::per_hour(5))
}

fn request(method: Method, path: &str, headers: &[(&str, &str)]) -> Request<Body> {
    let request = Request::builder().method(method).uri(path);
    let request = headers.iter().fold(request, |request, (name, value)| {
        request.header(*name, *value)
    });
    request.body(Body::default()).unwrap()
}

async fn answer(layer: &RateLimitLayer, request: Request<Body>) -> StatusCode {
    layer.layer(Hello).oneshot(request).await.unwrap().status()
}

fn is_for(rule: Rule) -> RateLimitLayer {
    let limits = Limits::builder().limit("free", Limit::per_hour(100));
    RateLimitLayer::with_limiter(limiter(&limits)).rule(rule)
}

#[tokio::test]
async fn rule_is_for_the_methods_and_paths_that_it_says() {
    let rule = Rule::new("free", Everyone)
        .only_if(methods([Method::POST, Method::PUT]))
        .skip_if(paths(["/health", "/static/*"]));
    let layer = is_for(rule);
    for (method, path, counts) in [
        (Method::POST, "/", true),
        (Method::PUT, "/healthy", true),
        (Method::GET, "/", false),
        (Method::POST, "/health", false),
        (Method::POST, "/static/a/b", false),
        (Method::POST, "/static", true),
        (Method::POST, "/health?x=/", false),
    ] {
        let charged = charged(&layer, request(method.clone(), path, &[])).await;
        assert_eq!(!charged.is_empty(), counts, "{method} {path}");
    }
}

/// Ways to write `/login` that a router may resolve, and that lead out of `/static/`.
const DISGUISED: [&str; 14] = [
    "/static/../login",
    "/static/%2e%2e/login",
    "/static/%2E./login",
    "/static/.%2e/login",
    "/static/a/../../login",
    "/static/..%2flogin",
    "/static/..%5Clogin",
    "/static/%252e%252e/login",
    "/static/..;/login",
    "/static/..;x=y/login",
    "/static//../../login",
    "/static/./../login",
    "/static/../%6cogin",
    "/static/../login?next=/static/a",
];

#[tokio::test]
async fn path_with_dot_segments_is_never_exempt() {
    let rule = Rule::new("free", Everyone).skip_if(paths(["/static/*", "/login"]));
    let by_rule = is_for(rule);
    let by_layer = is_for(Rule::new("free", Everyone)).skip_if(paths(["/static/*"]));
    let harmless = [
        "/static/./a",
        "/static/b/../a",
        "/static/%2e/a",
        "/static//a",
        "/x/../static/a",
        "/static/..",
        "/static/.",
        "/static/.%2E",
    ];
    for path in DISGUISED.into_iter().chain(harmless) {
        for layer in [&by_rule, &by_layer] {
            let charged = charged(layer, request(Method::GET, path, &[])).await;
            assert!(!charged.is_empty(), "{path}");
        }
    }
    // Dots within a name and escapes that have to be are as good as any other letter.
    for path in [
        "/static/.a",
        "/static/..a",
        "/static/a..b",
        "/static/%C3%A9%20b",
    ] {
        for layer in [&by_rule, &by_layer] {
            let charged = charged(layer, request(Method::GET, path, &[])).await;
            assert!(charged.is_empty(), "{path}");
        }
    }
}

#[tokio::test]
async fn path_that_is_limited_or_denied_is_so_in_any_disguise() {
    let limited = is_for(Rule::new("free", Everyone).only_if(paths(["/login"])));
    let denied = is_for(Rule::new("free", Everyone)).deny_if("login", paths(["/login"]));
    for path in DISGUISED
        .into_iter()
        .chain(["/login", "//login", "/%6Cogin", "/./login"])
    {
        let charged = charged(&limited, request(Method::GET, path, &[])).await;
        assert!(!charged.is_empty(), "{path}");
        assert_eq!(
            answer(&denied, request(Method::GET, path, &[])).await,
            403,
            "{path}"
        );
    }
    for path in ["/logins", "/login/../x", "/static/login"] {
        let charged = charged(&limited, request(Method::GET, path, &[])).await;
        assert!(charged.is_empty(), "{path}");
        assert_eq!(
            answer(&denied, request(Method::GET, path, &[])).await,
            200,
            "{path}"
        );
    }
}

#[tokio::test]
async fn closure_exempts_a_disguised_path_only_if_it_exempts_what_that_leads_to() {
    let is_static = |parts: &Parts| parts.uri.path().starts_with("/static/");
    let layer = is_for(Rule::new("free", Everyone).skip_if(is_static));
    for (path, counts) in [
        ("/static/a", false),
        ("/static/./a", false),
        ("/static/../login", true),
        ("/static/%2e%2e/login", true),
        ("/x/../static/a", true),
    ] {
        let charged = charged(&layer, request(Method::GET, path, &[])).await;
        assert_eq!(!charged.is_empty(), counts, "{path}");
    }
}

#[test]
#[should_panic(expected = "the path `health` matches no request: begin it with `/`")]
fn path_without_a_slash_panics() {
    let _ = paths(["health"]);
}

#[test]
fn route_in_place_of_a_path_panics() {
    for route in [
        "/users/{id}",
        "/*/x",
        "/a*",
        "/a/../b",
        "/a/./*",
        "/a//b",
        "/a\\b",
    ] {
        assert!(
            std::panic::catch_unwind(|| paths([route])).is_err(),
            "{route}"
        );
    }
}

fn from(ip: &str) -> Request<Body> {
    let mut request = request(Method::GET, "/", &[]);
    let peer = SocketAddr::new(ip.parse().unwrap(), 1);
    request.extensions_mut().insert(peer);
    request
}

#[tokio::test]
async fn addresses_within_a_list_are_not_limited() {
    let list = ["192.0.2.0/24", "2001:db8:77::/48", "203.0.113.7"];
    let within = || ClientIp::peer().within(list).unwrap();
    let limits = || limiter(&Limits::builder().limit("free", Limit::per_hour(100)));
    let rule = || Rule::new("free", ClientIp::peer());
    let by_rule = RateLimitLayer::with_limiter(limits()).rule(rule().skip_if(within()));
    let by_layer = RateLimitLayer::with_limiter(limits())
        .rule(rule())
        .skip_if(within());
    for (ip, counts) in [
        ("192.0.2.9", false),
        ("::ffff:192.0.2.9", false),
        ("192.0.3.9", true),
        ("2001:db8:77::9", false),
        // The exact address counts, not the /64 that it is counted by.
        ("2001:db8:78::9", true),
        ("203.0.113.7", false),
        ("203.0.113.8", true),
    ] {
        for layer in [&by_rule, &by_layer] {
            assert_eq!(!charged(layer, from(ip)).await.is_empty(), counts, "{ip}");
        }
    }
    // Who cannot be told is not on the list.
    let unknown = request(Method::GET, "/", &[]);
    assert_eq!(answer(&by_layer, unknown).await, 500);
}

#[tokio::test]
async fn addresses_on_a_deny_list_are_not_let_in() {
    let limiter = limiter(&Limits::builder().limit("free", Limit::per_hour(100)));
    let layer = RateLimitLayer::with_limiter(limiter.clone())
        .rule(Rule::new("free", ClientIp::peer()))
        .deny_if(
            "abusers",
            ClientIp::peer().within(["192.0.2.0/24"]).unwrap(),
        )
        .skip_if(ClientIp::peer().within(["192.0.2.7"]).unwrap());
    for (ip, status) in [
        ("192.0.2.6", 403),
        // An exempt client passes, whatever the lists say.
        ("192.0.2.7", 200),
        ("::ffff:192.0.2.8", 403),
        ("192.0.3.8", 200),
    ] {
        assert_eq!(answer(&layer, from(ip)).await, status, "{ip}");
    }
    let response = layer.layer(Hello).oneshot(from("192.0.2.6")).await.unwrap();
    assert_eq!(response.headers().get("retry-after"), None);
    assert!(text(response).await.contains("abusers"));
    let left = bucket(&limiter, "free", "192.0.2.6").await.remaining();
    assert_eq!(left, Some(100));
}

#[test]
fn list_of_addresses_with_a_mistake_is_an_error() {
    let error = |entry: &str| ClientIp::peer().within([entry]).map(drop).unwrap_err();
    let written = error("10.1.0.0/8").to_string();
    assert!(written.contains("`10.0.0.0/8`"), "{written}");
    assert!(matches!(error("ten"), RangeError::Syntax { .. }));
    assert!(matches!(
        error("::ffff:10.0.0.0/104"),
        RangeError::Mapped { .. }
    ));
    assert!(ClientIp::peer().within(Vec::<String>::new()).is_ok());
}

fn plan(parts: &Parts) -> Option<&str> {
    parts.headers.get("x-plan")?.to_str().ok()
}

#[tokio::test]
async fn limit_is_chosen_for_each_request() {
    let limiter = limiter(&plans());
    let rule = Rule::new("free", HeaderId::new("x-account")).limit_by(["pro"], plan);
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    let as_plan = |plan| request(Method::GET, "/", &[("x-account", "a"), ("x-plan", plan)]);
    let without = || request(Method::GET, "/", &[("x-account", "a")]);
    for status in [200, 200, 429] {
        assert_eq!(answer(&layer, without()).await, status);
    }
    for status in [200, 200, 200, 200, 200, 429] {
        assert_eq!(answer(&layer, as_plan("pro")).await, status);
    }
    assert_eq!(answer(&layer, as_plan("free")).await, 429);
    // A plan that the rule does not know is nobody's to choose.
    assert_eq!(answer(&layer, as_plan("gold")).await, 500);
    let left = bucket(&limiter, "pro", "a").await.remaining();
    assert_eq!(left, Some(0));
}

#[test]
fn limits_to_choose_from_are_all_checked_at_start() {
    let layer = || RateLimitLayer::with_limiter(limiter(&plans()));
    let rule = |others: &'static [&'static str]| {
        Rule::new("free", Everyone).limit_by(others.iter().copied(), plan)
    };
    let error = layer().try_rule(rule(&["pro", "gold"])).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("no limit is named `gold`: known are free, pro"),
        "{error}"
    );
    let error = layer().try_rule(rule(&["pro"]).cost(3)).unwrap_err();
    assert!(matches!(error, RuleError::Limiter(_)), "{error}");
}

#[tokio::test]
async fn cost_is_found_in_the_request() {
    let rule = Rule::new("free", Everyone).cost_by(|parts| {
        let cost = parts
            .headers
            .get("x-cost")
            .and_then(|cost| cost.to_str().ok());
        cost.and_then(|cost| cost.parse().ok()).unwrap_or(1)
    });
    let layer = is_for(rule);
    let costs = |cost| request(Method::GET, "/", &[("x-cost", cost)]);
    let free = |cost| vec![("free".to_owned(), "everyone".to_owned(), cost)];
    assert_eq!(charged(&layer, costs("7")).await, free(7));
    // What costs nothing is not asked about.
    assert_eq!(charged(&layer, costs("0")).await, []);
    assert_eq!(answer(&layer, costs("93")).await, 200);
    assert_eq!(answer(&layer, costs("1")).await, 429);
    let huge = answer(&layer, costs("4294967295")).await;
    assert!(huge.is_client_error() && huge != 429, "{huge}");
}

#[tokio::test]
async fn ids_are_joined_so_that_no_client_writes_its_way_into_anothers_bucket() {
    let two = (HeaderId::new("x-a"), HeaderId::new("x-b"));
    let three = (HeaderId::new("x-a"), Everyone, HeaderId::new("x-b"));
    let layer = is_for(Rule::new("free", two));
    let layer_of_three = is_for(Rule::new("free", three));
    for (a, b, joined) in [
        ("1", "2", "1:2"),
        ("1:2", "3", "1%3A2:3"),
        ("1", "2:3", "1:2:3"),
        ("1%3A2", "3", "1%253A2:3"),
    ] {
        let request = || request(Method::GET, "/", &[("x-a", a), ("x-b", b)]);
        assert_eq!(charged(&layer, request()).await[0].1, joined);
        let three = &charged(&layer_of_three, request()).await[0].1;
        assert_eq!(three.matches(":everyone:").count(), 1, "{three}");
    }
    let half = request(Method::GET, "/", &[("x-b", "2")]);
    assert_eq!(answer(&layer, half).await, 400);
}

#[tokio::test]
async fn joined_ids_fit_formats_of_pairs() {
    let name = LimitName::new("l", 1, IdFormat::RegIdFqdnSet);
    let limits = Limits::builder().limit(name, Limit::per_hour(5));
    let layer = || RateLimitLayer::with_limiter(limiter(&limits));
    let domain = || HeaderId::new("x-domain");
    let fits = Rule::new("l", (HeaderId::new("x-account"), domain()));
    let layer_of_pair = layer().rule(fits);
    let headers = [("x-account", "7"), ("x-domain", "www.Example.com")];
    let charged = charged(&layer_of_pair, request(Method::GET, "/", &headers)).await;
    assert_eq!(charged[0].1, "7:www.Example.com");
    let by_ip = Rule::new("l", (ClientIp::peer(), domain()));
    assert!(matches!(
        layer().try_rule(by_ip),
        Err(RuleError::Format { .. })
    ));
    let of_three = Rule::new("l", (domain(), domain(), domain()));
    assert!(matches!(
        layer().try_rule(of_three),
        Err(RuleError::Format { .. })
    ));
}

#[tokio::test]
async fn part_that_a_client_sent_wrongly_is_its_own_fault() {
    #[derive(Clone)]
    struct Site(&'static str);

    let name = LimitName::new("l", 1, IdFormat::RegIdFqdnSet);
    let limits = Limits::builder().limit(name, Limit::per_hour(5));
    let site = ExtensionId::new(|site: &Site| site.0);
    let rule = Rule::new("l", (HeaderId::new("x-account"), site));
    let layer = RateLimitLayer::with_limiter(limiter(&limits)).rule(rule);
    for (account, status) in [("7", 200), ("seven", 400)] {
        let mut request = request(Method::GET, "/", &[("x-account", account)]);
        request.extensions_mut().insert(Site("example.com"));
        assert_eq!(answer(&layer, request).await, status, "{account}");
    }
}

#[tokio::test]
async fn rule_without_a_vote_refuses_nobody() {
    let limiter = limiter(&Limits::builder().limit("free", Limit::per_hour(10)));
    for mode in [Mode::SpendOnly, Mode::Observe] {
        let rule = Rule::new("free", Everyone).cost_by(|_| 20).mode(mode);
        let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
        let status = answer(&layer, request(Method::GET, "/", &[])).await;
        assert_eq!(status, 200, "{mode:?}");
    }
}

#[tokio::test]
async fn unknown_limit_is_no_missing_id() {
    let rule = || Rule::new("free", HeaderId::new("x-account")).limit_by(["pro"], plan);
    let everyone = || Rule::new("free", Everyone);
    let rules = [
        rule(),
        rule().on_missing(OnMissing::Shared),
        rule().on_missing(OnMissing::Skip),
        rule().or_else(everyone()),
        everyone().limit_by_index(["pro"], |_| Some(1)),
    ];
    for rule in rules {
        let (log, _guard) = Log::capture();
        let layer = RateLimitLayer::with_limiter(limiter(&plans())).rule(rule);
        for _ in 0..3 {
            let headers = [("x-account", "a"), ("x-plan", "pr")];
            let response = layer
                .layer(Hello)
                .oneshot(request(Method::GET, "/", &headers));
            let response = response.await.unwrap();
            assert_eq!(response.status(), 500);
            let text = text(response).await;
            assert!(
                text.contains("the server has chosen a limit that it does not have"),
                "{text}"
            );
        }
        assert_eq!(log.count("ERROR"), 1, "{log:?}");
        assert_eq!(
            log.count("because they have no limit: the rule has chosen"),
            1,
            "{log:?}"
        );
    }
}

#[tokio::test]
async fn limit_is_chosen_by_its_index() {
    let rule = Rule::new("free", Everyone).limit_by_index(["pro", "free"], |parts| {
        plan(parts).and_then(|plan| plan.parse().ok())
    });
    let layer = RateLimitLayer::with_limiter(limiter(&plans())).rule(rule);
    let by = |index| request(Method::GET, "/", &[("x-plan", index)]);
    for (index, limit) in [("none", "free"), ("0", "pro"), ("1", "free")] {
        assert_eq!(charged(&layer, by(index)).await[0].0, limit, "{index}");
    }
    let error = RateLimitLayer::with_limiter(limiter(&plans()))
        .try_rule(Rule::new("free", Everyone).limit_by_index(["payed"], |_| None));
    assert!(
        error
            .unwrap_err()
            .to_string()
            .starts_with("no limit is named `payed`")
    );
}

/// A store that never answers, around which a policy decides.
#[cfg(feature = "failure-policy")]
mod failing {
    use std::{convert::Infallible, time::Duration};

    use http::Response;
    use tollgate::{
        backend::{Backend, FailurePolicy},
        layer::Assessment,
        tiers::Tier,
        transaction::OnFailure,
    };
    use tower::service_fn;

    use super::*;
    use crate::support::store::{Fate, Store};

    fn layer(backend: impl Backend, rules: impl IntoIterator<Item = Rule>) -> RateLimitLayer {
        let name = LimitName::from("pro").on_failure(OnFailure::Allow);
        let limits = Limits::builder()
            .limit("free", Limit::per_hour(2))
            .limit(name, Limit::per_hour(2));
        let limiter = Limiter::new(limits.build().unwrap(), backend);
        rules
            .into_iter()
            .fold(RateLimitLayer::with_limiter(limiter), RateLimitLayer::rule)
    }

    async fn statuses(rules: impl IntoIterator<Item = Rule>) -> [u16; 3] {
        statuses_of(&layer(FailurePolicy::new(Store::new(Fate::Away)), rules)).await
    }

    async fn statuses_of(layer: &RateLimitLayer) -> [u16; 3] {
        let mut statuses = [0; 3];
        for status in &mut statuses {
            let request = request(Method::GET, "/", &[]);
            *status = answer(layer, request).await.as_u16();
        }
        statuses
    }

    #[tokio::test]
    async fn rule_says_what_is_decided_without_the_store() {
        let rule = |limit: &'static str| Rule::new(limit, Everyone);
        assert_eq!(statuses([rule("free")]).await, [200, 200, 429]);
        assert_eq!(statuses([rule("pro")]).await, [200; 3]);
        for (on_failure, expected) in [
            (OnFailure::Refuse, [503; 3]),
            (OnFailure::Allow, [200; 3]),
            (OnFailure::Local, [200, 200, 429]),
        ] {
            assert_eq!(
                statuses([rule("free").on_failure(on_failure)]).await,
                expected
            );
            assert_eq!(
                statuses([rule("pro").on_failure(on_failure)]).await,
                expected
            );
        }
    }

    #[tokio::test]
    async fn correction_that_is_let_pass_without_the_store_is_not_given_back_there() {
        let store = Store::default();
        let name = LimitName::from("pro").on_failure(OnFailure::Allow);
        let limits = Limits::builder().limit(name, Limit::per_hour(100));
        let policy = FailurePolicy::new(store.clone());
        let limiter = Limiter::new(limits.build().unwrap(), policy);
        let limiter = limiter.with_clock(ManualClock::default());
        let handler = service_fn(|request: Request<Body>| {
            let store = store.clone();
            async move {
                let assessment = request.extensions().get::<Assessment>().unwrap();
                let assessed = assessment.of("pro").unwrap();
                store.becomes(Fate::Away);
                assessed.settle(50).await.unwrap();
                assert_eq!(assessed.charged(), 20, "nothing was taken");
                store.becomes(Fate::Works);
                assessed.settle(30).await.unwrap();
                assert_eq!(assessed.charged(), 30);
                Ok::<_, Infallible>(Response::new(Body::default()))
            }
        });
        let rule = Rule::new("pro", Everyone).cost(20);
        let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
        let layer = layer.extensions(true);
        let request = request(Method::GET, "/", &[]);
        layer.layer(handler).oneshot(request).await.unwrap();
        let left = bucket(&limiter, "pro", "everyone").await.remaining();
        assert_eq!(left, Some(70));
    }

    #[tokio::test]
    async fn share_of_tiers_does_not_make_a_request_too_costly_for_ever() {
        let tier = Tier::new(8, Duration::from_secs(60));
        let limits = Limits::builder().limit("tiers", Limit::tiers([tier]).unwrap());
        let policy = FailurePolicy::new(Store::new(Fate::Away)).share(1, 4);
        let limiter = Limiter::new(limits.build().unwrap(), policy);
        let rule = Rule::new("tiers", Everyone).cost(5);
        let layer = RateLimitLayer::with_limiter(limiter).rule(rule);
        assert_eq!(statuses_of(&layer).await, [429; 3]);
    }

    #[tokio::test]
    async fn of_two_rules_of_one_bucket_the_stricter_decides() {
        let rule = |on_failure| Rule::new("free", Everyone).on_failure(on_failure);
        let both = [rule(OnFailure::Allow), rule(OnFailure::Refuse)];
        assert_eq!(statuses(both).await, [503; 3]);
        // What one says does not take away what the limit says, which the other leaves it to.
        let both = [Rule::new("free", Everyone), rule(OnFailure::Allow)];
        assert_eq!(statuses(both).await, [200, 429, 429]);
    }

    #[tokio::test]
    async fn rule_that_says_nothing_leaves_a_shared_bucket_to_its_limit() {
        // The limit `pro` lets pass what cannot be decided.
        let says = |on_failure| Rule::new("pro", Everyone).on_failure(on_failure);
        let silent = || Rule::new("pro", Everyone);
        for (on_failure, expected) in [
            (OnFailure::Allow, [200; 3]),
            (OnFailure::Local, [200, 429, 429]),
            (OnFailure::Refuse, [503; 3]),
        ] {
            let both = [silent(), says(on_failure)];
            assert_eq!(statuses(both).await, expected, "{on_failure:?}");
            let both = [says(on_failure), silent()];
            assert_eq!(statuses(both).await, expected, "{on_failure:?}");
        }
    }

    #[tokio::test]
    async fn rule_that_says_nothing_leaves_a_shared_bucket_to_the_backend_at_last() {
        use OnFailure::{Allow, Local, Refuse};

        for (backend, rule, expected) in [
            (Allow, Allow, [200; 3]),
            (Allow, Local, [200, 429, 429]),
            (Allow, Refuse, [503; 3]),
            (Local, Allow, [200, 429, 429]),
            (Refuse, Local, [503; 3]),
            (Refuse, Allow, [503; 3]),
        ] {
            let silent = || Rule::new("free", Everyone);
            let said = || silent().on_failure(rule);
            for rules in [[silent(), said()], [said(), silent()]] {
                let policy = FailurePolicy::new(Store::new(Fate::Away)).on_failure(backend);
                let statuses = statuses_of(&layer(policy, rules)).await;
                assert_eq!(statuses, expected, "{backend:?} {rule:?}");
            }
        }
    }

    #[tokio::test]
    async fn rule_without_a_vote_refuses_nobody_while_the_store_is_away() {
        let limits = Limits::builder().limit("free", Limit::per_hour(2));
        let limiter = Limiter::new(limits.build().unwrap(), Store::new(Fate::Away));
        let rule = || Rule::new("free", Everyone).mode(Mode::Observe);
        let careful = rule().on_failure(OnFailure::Refuse);
        for (rule, status) in [(rule(), 200), (careful, 503)] {
            let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
            assert_eq!(answer(&layer, request(Method::GET, "/", &[])).await, status);
        }
    }
}

#[tokio::test]
async fn predicates_have_names_and_can_be_kept() {
    #[derive(Clone, Debug)]
    struct Exempt {
        paths: Paths,
        methods: Methods,
        addresses: Within,
    }
    let exempt = Exempt {
        paths: paths(["/health"]),
        methods: methods([Method::OPTIONS]),
        addresses: ClientIp::peer().within(["192.0.2.0/24"]).unwrap(),
    };
    assert!(format!("{exempt:?}").contains("/health"));
    let layer = is_for(Rule::new("free", Everyone).skip_if(exempt.clone().paths))
        .skip_if(exempt.methods)
        .deny_if("abusers", exempt.addresses);
    let get = |path| request(Method::GET, path, &[]);
    let free = || vec![("free".to_owned(), "everyone".to_owned(), 1)];
    assert_eq!(charged(&layer, get("/health")).await, []);
    assert_eq!(
        charged(&layer, request(Method::OPTIONS, "/", &[])).await,
        []
    );
    assert_eq!(charged(&layer, get("/")).await, free());
    let mut denied = get("/");
    let peer = SocketAddr::from(([192, 0, 2, 7], 1));
    denied.extensions_mut().insert(peer);
    assert_eq!(answer(&layer, denied).await, 403);
    assert!(exempt.paths.holds(&get("/health").into_parts().0));
}
