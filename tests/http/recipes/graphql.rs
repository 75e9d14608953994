include!("pages/graphql.rs");

fn query(ip: &str, query: &str) -> Request {
    let body = serde_json::json!({ "query": query }).to_string();
    let request = super::from_ip(ip).method("POST").uri("/graphql");
    request.body(Body::from(body)).unwrap()
}

#[tokio::test]
async fn query_costs_what_it_selects() {
    let (limiter, _) = super::limiter(limits());
    let app = app(limiter);
    let five = || query("203.0.113.7", "{ a { b { c { d { e } } } } }");
    assert_eq!(super::count(&app, 11, five, [200, 429]).await, [10, 1]);
    let one = || query("203.0.113.8", "{ a b c }");
    assert_eq!(super::count(&app, 20, one, [200]).await, [20]);
}

#[tokio::test]
async fn query_beyond_the_burst_is_too_large_and_an_empty_one_is_not_free() {
    let (limiter, _) = super::limiter(limits());
    let app = app(limiter);
    let huge = query("203.0.113.7", &"{ a ".repeat(51));
    assert_eq!(super::send(&app, huge).await.status(), 413);
    assert_eq!(cost_of(""), 1);
}

#[tokio::test]
async fn bodies_that_are_not_queries_are_refused_and_limited_by_address() {
    let (limiter, _) = super::limiter(limits());
    let app = app(limiter);
    let of = |body: Vec<u8>| {
        let request = super::from_ip("203.0.113.7").method("POST");
        request.uri("/graphql").body(Body::from(body)).unwrap()
    };
    let garbage = || of(b"{".to_vec());
    assert_eq!(super::count(&app, 10, garbage, [400]).await, [10]);
    let large = || of(vec![b' '; MAX_BODY + 1]);
    assert_eq!(super::count(&app, 12, large, [413, 429]).await, [10, 2]);
}
