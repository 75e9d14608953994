use std::time::Duration;

use tollgate::{ClientIp, Limit, RateLimitLayer, key::Everyone, quota::Per};

/// tower_governor: `GovernorConfigBuilder::default().per_second(2).burst_size(5)`.
fn tower_governor() -> RateLimitLayer {
    RateLimitLayer::new(
        Limit::every(Duration::from_secs(2)).burst(5),
        ClientIp::peer(),
    )
}

/// governor: `Quota::per_second(nonzero!(50u32)).allow_burst(nonzero!(10u32))`.
fn governor() -> Limit {
    Limit::per_second(50).burst(10)
}

/// tower: `RateLimitLayer::new(5, Duration::from_secs(1))`.
fn tower() -> RateLimitLayer {
    RateLimitLayer::new(Limit::per_second(5), Everyone)
}

/// express-rate-limit: `rateLimit({ windowMs: 15 * 60 * 1000, limit: 100 })`.
fn express_rate_limit() -> Limit {
    Limit::quota(100, Per::first_use(Duration::from_secs(15 * 60)))
}

/// nginx: `limit_req_zone $binary_remote_addr zone=ip:10m rate=10r/s;` and
/// `limit_req zone=ip burst=20 nodelay;`.
fn nginx() -> Limit {
    // nginx admits one request more than `burst` at once.
    Limit::per_second(10).burst(21)
}
