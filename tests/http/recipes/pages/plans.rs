use axum::{Router, routing::get};
use tollgate::{
    Limit, Limiter, Limits, RateLimitLayer, Rule, key::ExtensionId, limit::LimitsError,
};

/// Inserted into the request's extensions by the layer that authenticates.
#[derive(Clone)]
struct Caller {
    tenant: String,
    user: String,
    is_pro: bool,
}

fn limits() -> Result<Limits, LimitsError> {
    Limits::builder()
        .limit("free", Limit::per_hour(1_000).burst(50))
        .limit("pro", Limit::per_hour(20_000).burst(500))
        .limit("per-user", Limit::per_minute(300).burst(40))
        // A tenant with an individual contract, and one that does not pay.
        .override_for("pro", "globex", Limit::per_hour(500_000).burst(5_000))
        .override_for("free", "initech", Limit::BLOCKED)
        .build()
}

fn app(limiter: Limiter) -> Router {
    // All users of a tenant share the tenant's plan.
    let tenant = ExtensionId::new(|caller: &Caller| caller.tenant.clone());
    let plan = Rule::new("free", tenant).limit_by(["pro"], |parts| {
        let caller = parts.extensions.get::<Caller>()?;
        caller.is_pro.then_some("pro")
    });
    // No user can take the whole plan at once.
    let user = ExtensionId::new(|caller: &Caller| format!("{}:{}", caller.tenant, caller.user));
    let layer = RateLimitLayer::with_limiter(limiter)
        .rule(plan)
        .rule(Rule::new("per-user", user));
    Router::new()
        .route("/", get(|| async { "hello" }))
        .layer(layer)
}
