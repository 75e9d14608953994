//! Ways to a server: TLS, PgBouncer in each of its modes, and the messages of a decision.

use std::{fs, path::Path};

use tollgate::{Limit, Limiter, Limits, Transaction, testing::block_on};
use tollgate_postgres::{PostgresBackend, PostgresError};

use crate::{
    eventually::{PATIENCE, eventually},
    process::{Port, Process},
    server::{Server, as_user, home, url},
};

/// Two requests within a span that is longer than any test.
fn limiter(backend: PostgresBackend) -> Limiter {
    let limits = Limits::builder().limit("window", Limit::window(2, PATIENCE * 60));
    Limiter::new(limits.build().unwrap(), backend)
}

async fn admits_two_of_three(backend: PostgresBackend) {
    let limiter = limiter(backend);
    let one = Transaction::new("window", "a");
    for allowed in [true, true, false] {
        assert_eq!(limiter.spend(&one).await.unwrap().allowed(), allowed);
    }
    limiter.reset(&[one]).await.unwrap();
}

#[test]
fn connections_by_tls_are_verified() {
    block_on(async {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/tls");
        let server = Server::with_tls(&data);
        server
            .sql("CREATE ROLE remote LOGIN; GRANT CREATE ON SCHEMA public TO remote")
            .await;
        let address = format!("postgres://remote@127.0.0.1:{}/postgres", server.port());
        let ca = data.join("ca.pem");
        let verified = format!("{address}?sslmode=verify-full&sslrootcert={}", ca.display());
        let backend = PostgresBackend::connect(&verified)
            .unwrap()
            .deadline(PATIENCE);
        backend.create_table().await.unwrap();
        admits_two_of_three(backend).await;
        let encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE ssl AND usename = 'remote'";
        assert!(server.number(encrypted).await > 0);
        let other = format!(
            "{address}?sslmode=verify-full&sslrootcert={}",
            data.join("client.pem").display()
        );
        let error = PostgresBackend::connect(&other)
            .unwrap()
            .connected(PATIENCE)
            .await;
        assert!(
            matches!(error, Err(PostgresError::Unreachable { .. })),
            "{error:?}"
        );
    });
}

/// Starts PgBouncer in a mode, on a port.
fn pooler(server: &Server, mode: &str, port: u16) -> Process {
    let home = home();
    let config = home.join("pgbouncer.ini");
    let text = format!(
        "[databases]\npostgres = host=127.0.0.1 port={} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
         listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = {mode}\n\
         ignore_startup_parameters = extra_float_digits\n",
        server.port(),
    );
    fs::write(&config, text).unwrap();
    let mut command = as_user(Path::new("/usr/sbin/pgbouncer"));
    let process = Process::new(home, command.arg(config));
    process.start();
    let is_there = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    eventually("the pooler accepts connections", is_there);
    process
}

#[test]
fn pooler_serves_in_transaction_and_session_mode_and_not_in_statement_mode() {
    block_on(async {
        let server = Server::shared();
        for (mode, serves) in [
            ("transaction", true),
            ("session", true),
            ("statement", false),
        ] {
            let port = Port::claim();
            let process = pooler(server, mode, port.number());
            let backend = || {
                let backend = PostgresBackend::connect(&url(port.number())).unwrap();
                backend.table("pooled").deadline(PATIENCE)
            };
            let first = backend();
            first.create_table().await.unwrap();
            first.connected(PATIENCE).await.unwrap();
            if serves {
                admits_two_of_three(first).await;
                admits_two_of_three(backend()).await;
            } else {
                let one = Transaction::new("window", "a");
                let error = limiter(first).spend(&one).await.unwrap_err();
                assert!(
                    format!("{error:?}").contains("statement pooling"),
                    "{error:?}"
                );
            }
            drop(process);
        }
    });
}

#[test]
fn decision_is_a_transaction_of_two_messages() {
    block_on(async {
        let server = Server::shared();
        server.backend("messages").await;
        let url = format!("{}?options=-c%20log_statement%3Dall", server.url());
        let backend = PostgresBackend::connect(&url).unwrap();
        let limiter = limiter(backend.table("messages").deadline(PATIENCE));
        for _ in 0..3 {
            let one = Transaction::new("window", "b");
            limiter.spend(&one).await.unwrap();
        }
        let words = || {
            let mut words = Vec::new();
            for line in server.log().lines() {
                let statement = line.split_once("statement: ");
                let word = statement.and_then(|(_, text)| text.split([' ', ';']).next());
                // The backend also deletes expired rows, and a pool checks its connections.
                words.extend(
                    word.filter(|word| !["DELETE", "/*"].contains(word))
                        .map(str::to_owned),
                );
            }
            words
        };
        eventually("the log has them", || words().len() >= 6);
        // The third decision denies, and stores nothing.
        let expected = ["BEGIN", "INSERT", "BEGIN", "INSERT", "BEGIN", "COMMIT"];
        assert_eq!(words()[..6], expected);
    });
}
