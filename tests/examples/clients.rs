//! The examples `client` and `grpc_client`, with servers that refuse early requests.

use crate::programs::run;

/// Returns the output of a client, which ends by itself.
fn lines(name: &str, server: &str) -> Vec<String> {
    let output = run(name, &[server]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Returns the texts of lines before the times.
fn without_times(lines: &[String]) -> Vec<&str> {
    let ends = |line: &str| line.find(" after ").unwrap_or(line.len());
    lines.iter().map(|line| &line[..ends(line)]).collect()
}

#[cfg(all(feature = "axum", feature = "pace"))]
mod http {
    use std::{
        future::ready,
        net::SocketAddr,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use axum::{
        Router, extract::Request, http::StatusCode, middleware::Next, response::Response,
        routing::get,
    };
    use tokio::{net::TcpListener, runtime::Runtime};
    use tollgate::{ClientIp, Limit, RateLimitLayer};

    use super::{lines, without_times};

    /// Requests that a server has got, and those that it has refused.
    #[derive(Clone, Default)]
    struct Seen {
        all: Arc<AtomicUsize>,
        refused: Arc<AtomicUsize>,
    }

    impl Seen {
        fn counts(&self) -> (usize, usize) {
            let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
            (count(&self.all), count(&self.refused))
        }
    }

    /// Serves an app while the runtime lasts, and counts its responses.
    fn serve(runtime: &Runtime, app: Router) -> (String, Seen) {
        let seen = Seen::default();
        let counts = seen.clone();
        let count = axum::middleware::from_fn(move |request: Request, next: Next| {
            let counts = counts.clone();
            async move {
                let response: Response = next.run(request).await;
                counts.all.fetch_add(1, Ordering::SeqCst);
                if !response.status().is_success() {
                    counts.refused.fetch_add(1, Ordering::SeqCst);
                }
                response
            }
        });
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let app = app.layer(count);
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        runtime.spawn(async move { axum::serve(listener, app).await });
        (format!("http://{address}/"), seen)
    }

    fn expected() -> Vec<String> {
        (1..=20).map(|i| format!("{i}: 200 OK")).collect()
    }

    #[test]
    fn client_keeps_to_the_rate_of_a_server_that_is_slower_than_its_own() {
        let runtime = Runtime::new().unwrap();
        let layer = RateLimitLayer::new(Limit::per_second(3), ClientIp::peer());
        let app = Router::new().route("/", get(|| async { "hello" }));
        let (url, seen) = serve(&runtime, app.layer(layer));
        let lines = lines("client", &url);
        assert_eq!(without_times(&lines), expected());
        assert_eq!(seen.counts(), (20, 0), "it waits for room beforehand");
    }

    #[test]
    fn client_retries_a_server_that_refuses_without_fields() {
        let runtime = Runtime::new().unwrap();
        let calls = Arc::new(AtomicUsize::new(0));
        let refuse_every_fifth = move || {
            let is_refused = calls.fetch_add(1, Ordering::SeqCst) % 5 == 4;
            ready(if is_refused {
                StatusCode::TOO_MANY_REQUESTS
            } else {
                StatusCode::OK
            })
        };
        let app = Router::new().route("/", get(refuse_every_fifth));
        let (url, seen) = serve(&runtime, app);
        let lines = lines("client", &url);
        assert_eq!(without_times(&lines), expected());
        assert_eq!(seen.counts(), (24, 4));
    }
}

#[cfg(feature = "pace")]
#[test]
fn unreachable_server_is_named() {
    // No server listens on a port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = port.local_addr().unwrap();
    drop(port);
    let output = run("client", &[format!("http://{address}/")]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.starts_with("Error: "), "{error}");
    assert!(error.to_lowercase().contains("refused"), "{error}");
}

#[cfg(all(feature = "pace", feature = "tonic"))]
#[test]
fn grpc_client_gets_its_answers_without_a_refusal() {
    let program = crate::programs::Program::start_anywhere("tonic");
    let server = program.next_server_after("listening on ");
    let lines = lines("grpc_client", &server.url());
    let expected: Vec<_> = (1..=10).map(|i| format!("{i} answers")).collect();
    let found = without_times(&lines);
    assert_eq!(found, expected, "a refusal would repeat a line");
}
