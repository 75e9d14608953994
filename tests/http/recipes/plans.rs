include!("pages/plans.rs");

use axum::{body::Body, extract::Request};

fn from(tenant: &str, user: usize, is_pro: bool) -> Request {
    let caller = Caller {
        tenant: tenant.into(),
        user: format!("user-{user}"),
        is_pro,
    };
    let request = super::from_ip("203.0.113.7").extension(caller);
    request.body(Body::empty()).unwrap()
}

#[tokio::test]
async fn users_of_a_tenant_share_its_plan() {
    let (limiter, _) = super::limiter(limits());
    let app = app(limiter);
    let free = |user| move || from("hooli", user, false);
    assert_eq!(super::count(&app, 41, free(1), [200, 429]).await, [40, 1]);
    assert_eq!(super::count(&app, 11, free(2), [200, 429]).await, [10, 1]);

    for user in 0..12 {
        let request = || from("acme", user, true);
        assert_eq!(super::count(&app, 40, request, [200]).await, [40]);
    }
    let last = || from("acme", 12, true);
    assert_eq!(super::count(&app, 40, last, [200, 429]).await, [20, 20]);
    let response = super::send(&app, from("acme", 13, true)).await;
    let policy = response.headers()["ratelimit-policy"].to_str().unwrap();
    assert!(policy.contains("\"pro\";q=500"), "{policy}");
}

#[tokio::test]
async fn tenants_with_an_override_have_what_it_says() {
    let (limiter, _) = super::limiter(limits());
    let app = app(limiter);
    for user in 0..20 {
        let request = || from("globex", user, true);
        assert_eq!(super::count(&app, 40, request, [200]).await, [40]);
    }
    let blocked = || from("initech", 1, false);
    assert_eq!(super::count(&app, 5, blocked, [429]).await, [5]);
}
