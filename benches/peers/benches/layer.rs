//! The overhead of a layer around a service that answers immediately: the time minus that of `bare`.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    hint::black_box,
    net::SocketAddr,
    time::{Duration, Instant},
};

use axum::{body::Body, extract::ConnectInfo};
use criterion::Criterion;
use governor::middleware::StateInformationMiddleware;
use http::{Request, Response, StatusCode};
use tollgate::{ClientIp, Limiter, MemoryBackend, RateLimitLayer, Rule, response::Headers};
use tollgate_peers::{LIMIT, Rate, poll_once};
use tower::{Layer, Service, service_fn};
use tower_governor::{
    GovernorLayer, governor::GovernorConfigBuilder, key_extractor::PeerIpKeyExtractor,
};

/// The number of requests that are created at a time, outside of the timing. They are few enough to stay in the cache.
const REQUESTS: usize = 64;

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    let ok = StatusCode::OK;
    bench(&mut criterion, "bare", service_fn(answer), ok);
    both(&mut criterion, "allowed", Rate::ENDLESS, ok);
    both(
        &mut criterion,
        "denied",
        Rate::ONCE,
        StatusCode::TOO_MANY_REQUESTS,
    );
    criterion.final_summary();
}

/// Both layers with their defaults, and tollgate's without headers.
fn both(criterion: &mut Criterion, name: &str, rate: Rate, status: StatusCode) {
    let bare = || service_fn(answer);
    let ours = tollgate(rate).layer(bare());
    bench(criterion, &format!("{name}/tollgate"), ours, status);
    let plain = tollgate(rate).headers(Headers::None).layer(bare());
    bench(criterion, &format!("{name}/tollgate-plain"), plain, status);
    let theirs = tower_governor(rate).layer(bare());
    bench(criterion, &format!("{name}/tower_governor"), theirs, status);
}

fn answer(_: Request<Body>) -> Ready<Result<Response<Body>, Infallible>> {
    ready(Ok(Response::new(Body::empty())))
}

fn tollgate(rate: Rate) -> RateLimitLayer {
    let limiter = Limiter::new(rate.limits(), MemoryBackend::new());
    RateLimitLayer::with_limiter(limiter).rule(Rule::new(LIMIT, ClientIp::peer()))
}

fn tower_governor(
    rate: Rate,
) -> GovernorLayer<PeerIpKeyExtractor, StateInformationMiddleware, Body> {
    let config = GovernorConfigBuilder::default()
        .period(rate.interval)
        .burst_size(rate.burst)
        .use_headers()
        .finish();
    GovernorLayer::new(config.expect("no rate has a zero in it"))
}

/// Times the calls, the first poll of each, and the end of the responses. All of these services answer at the first
/// poll. The requests are created before.
fn bench<S, B>(criterion: &mut Criterion, name: &str, mut service: S, status: StatusCode)
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible>,
{
    let mut call = |request| {
        let Ok(response) = poll_once(service.call(request));
        response
    };
    call(request());
    assert_eq!(call(request()).status(), status);
    criterion
        .benchmark_group("layer")
        .bench_function(name, |b| {
            b.iter_custom(|iterations| {
                let mut requests = Vec::with_capacity(REQUESTS);
                let mut elapsed = Duration::ZERO;
                for begin in (0..iterations).step_by(REQUESTS) {
                    let count = (iterations - begin).min(REQUESTS as u64);
                    requests.extend((0..count).map(|_| request()));
                    let begun = Instant::now();
                    for request in requests.drain(..) {
                        black_box(&call(request));
                    }
                    elapsed += begun.elapsed();
                }
                elapsed
            });
        });
}

/// A request as axum passes it on when it serves with connect info.
fn request() -> Request<Body> {
    let mut request = Request::new(Body::empty());
    let peer = SocketAddr::from(([203, 0, 113, 7], 50_000));
    request.extensions_mut().insert(ConnectInfo(peer));
    request
}
