use tollgate::{
    ClientIp, Limit, Limiter, Limits, RateLimitLayer, Rule, limit::LimitsError, rule::paths,
};

fn limits() -> Result<Limits, LimitsError> {
    Limits::builder()
        .limit("calls", Limit::per_second(10).burst(20))
        .limit("checks", Limit::per_minute(6).burst(3))
        .build()
}

/// For `tonic::transport::Server::builder().layer(..)`.
fn layer(limiter: Limiter) -> RateLimitLayer {
    // The path of a gRPC call is `/package.Service/Method`.
    let checks =
        Rule::new("checks", ClientIp::peer()).only_if(paths(["/grpc.health.v1.Health/Check"]));
    RateLimitLayer::with_limiter(limiter)
        .rule(Rule::new("calls", ClientIp::peer()))
        .rule(checks)
}
