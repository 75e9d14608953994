//! Configuration that is wrong says what to change.

use std::time::Duration;

use tokio::time::timeout;
use tollgate::{
    Limit, Limiter, Limits, RedisBackend, Transaction,
    backend::redis::{RedisBackendBuilder, RedisError},
};

use crate::{
    SERVER, TIMEOUT,
    eventually::{PATIENCE, eventually_async},
    load::{limits, reason},
    redis_support::{Port, Sentinels, Server, is_redis_6},
};

const AUTHORITY: &str = include_str!("../data/tls/ca.pem");
const CLIENT: &str = include_str!("../data/tls/client.pem");
const CLIENT_KEY: &str = include_str!("../data/tls/client.key");

const NOT_VALID: &str =
    "its host, port, path or a parameter is missing or not valid: use `redis://host:6379`";
const RESERVED: &str = "percent-encode it, or use `.password()`";

#[tokio::test]
async fn urls_that_cannot_be_used_are_refused() {
    let cases = [
        ("localhost", "it has no scheme: use"),
        ("http://localhost", "it begins with another scheme: use"),
        ("redis://", NOT_VALID),
        ("redis-sentinel://localhost:26379", NOT_VALID),
        ("redis://localhost:port", NOT_VALID),
        ("redis://localhost:99999", NOT_VALID),
        ("redis://localhost/a/b", NOT_VALID),
        ("redis://localhost/300", NOT_VALID),
        ("redis-cluster://localhost:1?node=other", NOT_VALID),
        ("redis-cluster://localhost:1?node=other:x", NOT_VALID),
        ("redis://[::1", NOT_VALID),
        ("redis://%ff@localhost", NOT_VALID),
        ("redis+unix://", "it has no path to a socket: write"),
        ("redis+unix:///", "it has no path to a socket: write"),
        ("redis://localhost?db=3", "write `/3` after the host"),
        ("redis-cluster://localhost/3", "a cluster has no databases"),
        (
            "redis://localhost?timeout=1s",
            "use a setter of the builder",
        ),
        ("redis://localhost?tls=true", "write `rediss://` for TLS"),
        ("redis://localhost?node=other:1", "remove it"),
        (
            "redis://localhost#there",
            "nothing reads what follows the `#`",
        ),
        ("redis://:pass@word@localhost", RESERVED),
        ("redis://:pass:word@localhost", RESERVED),
        ("redis://:pass/word@localhost", RESERVED),
        ("redis://:pass?word@localhost", RESERVED),
        ("redis://:pass#word@localhost", RESERVED),
        ("redis-cluster://user:pass/word@localhost:1", RESERVED),
        ("redis+unix://user:pass/word@unix/path", RESERVED),
    ];
    for (url, part) in cases {
        let error = RedisBackend::new(url).unwrap_err().to_string();
        assert!(error.contains(part), "{url}: {error}");
        assert!(!error.contains("pass@word"), "{error}");
    }
    for fitting in [
        "valkey://user:pass%40word@localhost:1/3",
        "redis-cluster://[::1]:1?node=a:2",
        "rediss-proxy://localhost",
    ] {
        RedisBackend::new(fitting).unwrap();
    }
}

#[tokio::test]
async fn settings_that_do_not_fit_are_refused() {
    let (plain, tls) = (
        || RedisBackend::builder("redis://localhost"),
        || RedisBackend::builder("rediss://localhost").root_certificates(AUTHORITY),
    );
    let cases = [
        (plain().root_certificates("-"), "use `rediss://`"),
        (plain().client_certificate("-", "-"), "use `rediss://`"),
        (plain().sentinel_password("-"), "use `redis-sentinel://`"),
        (plain().timeout(Duration::ZERO), "for example, 250 ms"),
        (
            tls().root_certificates(""),
            "the root certificates must be PEM",
        ),
        (
            tls().root_certificates(CLIENT_KEY),
            "the root certificates must be PEM",
        ),
        (
            tls().client_certificate("x", CLIENT_KEY),
            "the client's certificate must be PEM",
        ),
        (
            tls().client_certificate(CLIENT, CLIENT),
            "not a private key in PEM",
        ),
    ];
    for (builder, part) in cases {
        let error = builder.build().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

/// Starts a server that asks clients for certificates, and returns the port for TLS.
fn start_with_tls() -> (Server, Port) {
    start_tls_with("ca", "server", &[])
}

/// Starts a server with an authority, a certificate and more options.
fn start_tls_with(authority: &str, certificate: &str, more: &[&str]) -> (Server, Port) {
    let file = |name: &str| format!("{}/tests/data/tls/{name}", env!("CARGO_MANIFEST_DIR"));
    let ca = file(&format!("{authority}.pem"));
    let key = file(&format!("{certificate}.key"));
    let certificate = file(&format!("{certificate}.pem"));
    let port = Port::claim();
    let number = port.number().to_string();
    let tls = [
        "--tls-port",
        &number,
        "--tls-ca-cert-file",
        &ca,
        "--tls-cert-file",
        &certificate,
        "--tls-key-file",
        &key,
    ];
    (Server::start_with(&[&tls, more].concat()), port)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permanent_mistakes_are_errors_at_once() {
    let locked = Server::start_with(&["--requirepass", "secret"]);
    let (locked_at, socket) = (locked.addr(), locked.unix_path());
    let (single, socket) = (SERVER.addr(), socket.display());
    let (_tls, port) = start_with_tls();
    let tls_at = format!("127.0.0.1:{}", port.number());
    let of_socket = "write the user and the password as `redis+unix://user:password@";
    for (url, parts) in [
        (
            format!("redis://:wrong@{locked_at}"),
            ["WRONGPASS", "check the user"],
        ),
        (
            format!("redis://{locked_at}"),
            ["NOAUTH", "put the password in the URL"],
        ),
        (
            format!("redis-cluster://:wrong@{locked_at}"),
            ["WRONGPASS", "check the user"],
        ),
        (format!("redis+unix://{socket}"), ["NOAUTH", of_socket]),
        (
            format!("redis+unix://:wrong@unix{socket}"),
            ["WRONGPASS", of_socket],
        ),
        (
            format!("redis-cluster://{single}"),
            ["this is no cluster", "use `redis://`"],
        ),
        (
            format!("redis-sentinel://{single}?sentinelServiceName=name"),
            ["this is no sentinel", "use `redis://`"],
        ),
        (
            format!("rediss://{single}"),
            ["the server is without TLS", "use `redis://`"],
        ),
        (
            format!("redis://{tls_at}"),
            ["the server expects TLS", "use `rediss://`"],
        ),
    ] {
        let mut builder = RedisBackend::builder(&url).timeout(crate::load::TIMEOUT);
        if url.starts_with("rediss") {
            builder = builder.root_certificates(AUTHORITY);
        }
        let backend = builder.build().unwrap();
        // It is said long before this.
        let connected = timeout(PATIENCE, backend.connected(Duration::MAX)).await;
        let error = connected.expect("it is said at once").unwrap_err();
        assert!(error.is_permanent(), "{url}: {error}");
        let says = |text: String| parts.iter().all(|part| text.contains(part));
        assert!(says(error.to_string()), "{url}: {error}");
        let limiter = Limiter::new(limits(), backend);
        eventually_async(parts[0], async || {
            let spent = limiter.spend(&Transaction::new("one", "id")).await;
            says(reason(&spent.unwrap_err()).to_string())
        })
        .await;
    }
}

async fn connect(
    builder: RedisBackendBuilder,
    within: Duration,
) -> Result<RedisBackend, RedisError> {
    let backend = builder.timeout(TIMEOUT).build()?;
    backend.connected(within).await?;
    Ok(backend)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_service_of_sentinels_is_an_error_at_once() {
    let sentinels = Sentinels::start();
    let url = sentinels.url().replace("Name=tollgate", "Name=other");
    let connected = timeout(PATIENCE, connect(RedisBackend::builder(url), Duration::MAX));
    let error = connected.await.expect("it is said at once").unwrap_err();
    assert!(error.is_permanent(), "{error}");
    let text = error.to_string();
    assert!(text.contains("as `sentinelServiceName`"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn password_of_sentinels_is_another_one_than_that_of_the_servers() {
    let sentinels = Sentinels::start();
    for sentinel in sentinels.sentinels() {
        sentinel.exec(&["ACL", "SETUSER", "default", "resetpass", ">secret"]);
    }
    let url = sentinels.url();
    let by_url = RedisBackend::builder(format!("{url}&sentinelPassword=secret"));
    let by_setter = RedisBackend::builder(&url).sentinel_password("secret");
    for builder in [by_url, by_setter] {
        connect(builder, PATIENCE).await.unwrap();
    }
    let builder = || RedisBackend::builder(&url);
    let of_servers = builder()
        .sentinel_password("secret")
        .user("nobody")
        .password("wrong");
    for (builder, part) in [
        (builder(), "NOAUTH"),
        (builder().sentinel_password("wrong"), "WRONGPASS"),
        (of_servers, "WRONGPASS"),
    ] {
        let error = connect(builder, Duration::from_secs(3))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(part), "{error}");
        assert!(error.contains("or `.sentinel_password()`"), "{error}");
    }
}

#[tokio::test]
async fn certificates_are_those_that_were_set() {
    let (_server, port) = start_with_tls();
    let url = format!("rediss://127.0.0.1:{}", port.number());
    let trusting = || RedisBackend::builder(&url).root_certificates(AUTHORITY);
    let known = trusting().client_certificate(CLIENT, CLIENT_KEY);
    let limits = Limits::builder()
        .limit("requests", Limit::per_hour(1))
        .build();
    let limiter = Limiter::new(limits.unwrap(), connect(known, PATIENCE).await.unwrap());
    let spend = async || limiter.spend(&Transaction::new("requests", "tls")).await;
    assert!(spend().await.unwrap().allowed());
    assert!(!spend().await.unwrap().allowed());

    let of_another = RedisBackend::builder(&url).root_certificates(CLIENT);
    for (stranger, reason) in [
        (trusting(), "CertificateRequired"),
        (
            of_another.client_certificate(CLIENT, CLIENT_KEY),
            "UnknownIssuer",
        ),
    ] {
        let backend = stranger.timeout(TIMEOUT).build().unwrap();
        eventually_async(reason, async || {
            let connected = backend.connected(Duration::from_millis(100)).await;
            connected.unwrap_err().to_string().contains(reason)
        })
        .await;
    }
}

/// A certificate for `localhost`, which is its own authority.
const NAMED: &str = include_str!("../data/tls/named.pem");

#[tokio::test]
async fn address_that_a_certificate_does_not_have_is_an_error_with_a_remedy() {
    let options = [
        "--tls-auth-clients",
        "no",
        "--tls-cluster",
        "yes",
        "--cluster-enabled",
        "yes",
        "--cluster-announce-ip",
        "127.0.0.1",
    ];
    let (server, port) = start_tls_with("named", "named", &options);
    let slots: Vec<_> = (0..1 << 14).map(|slot: u32| slot.to_string()).collect();
    let slots = slots.iter().map(String::as_str);
    let add: Vec<_> = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots).collect();
    server.exec(&add);
    let connect = async |scheme: &str, host: &str| {
        let builder = RedisBackend::builder(format!("{scheme}://{host}:{}", port.number()));
        let backend = builder.root_certificates(NAMED).build().unwrap();
        let connected = timeout(PATIENCE, backend.connected(Duration::MAX)).await;
        connected.expect("it is said at once")
    };
    connect("rediss", "localhost").await.unwrap();
    for (scheme, host) in [("rediss", "127.0.0.1"), ("rediss-cluster", "localhost")] {
        let error = connect(scheme, host).await.unwrap_err();
        assert!(error.is_permanent(), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("cluster-preferred-endpoint-type hostname"),
            "{text}"
        );
    }
    // Redis 6.2 has no names.
    if !is_redis_6() {
        server.configure("cluster-announce-hostname", "localhost");
        server.configure("cluster-preferred-endpoint-type", "hostname");
        connect("rediss-cluster", "localhost").await.unwrap();
    }
}

#[tokio::test]
async fn certificate_of_an_unknown_authority_is_an_error_with_a_remedy() {
    let (_server, port) = start_tls_with("named", "named", &["--tls-auth-clients", "no"]);
    let builder = RedisBackend::builder(format!("rediss://localhost:{}", port.number()));
    let error = connect(builder.root_certificates(AUTHORITY), PATIENCE)
        .await
        .unwrap_err();
    assert!(error.is_permanent(), "{error}");
    assert!(
        error.to_string().contains(".root_certificates()"),
        "{error}"
    );
}
