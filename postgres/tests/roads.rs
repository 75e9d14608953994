//! Ways to a server: TLS, and PgBouncer in transaction mode.

use std::{fs, path::Path};

use tollgate::{Limit, Limiter, Limits, Transaction, testing::block_on};
use tollgate_postgres::{PostgresBackend, PostgresError};

use crate::{
    eventually::{PATIENCE, eventually},
    process::{Port, Process},
    server::{Server, as_user, home, url},
};

async fn admits_two_of_three(backend: PostgresBackend) {
    let limits = Limits::builder().limit("window", Limit::window(2, PATIENCE * 60));
    let limiter = Limiter::new(limits.build().unwrap(), backend);
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

#[test]
fn pooler_in_transaction_mode_serves() {
    block_on(async {
        let server = Server::shared();
        let home = home();
        let port = Port::claim();
        let config = home.join("pgbouncer.ini");
        let text = format!(
            "[databases]\npostgres = host=127.0.0.1 port={} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n\
             ignore_startup_parameters = extra_float_digits\n",
            server.port(),
            port.number()
        );
        fs::write(&config, text).unwrap();
        let mut command = as_user(Path::new("/usr/sbin/pgbouncer"));
        let process = Process::new(home, command.arg(config));
        process.start();
        let is_there = || std::net::TcpStream::connect(("127.0.0.1", port.number())).is_ok();
        eventually("the pooler accepts connections", is_there);
        let first = PostgresBackend::connect(&url(port.number())).unwrap();
        let first = first.table("pooled").deadline(PATIENCE);
        first.create_table().await.unwrap();
        first.connected(PATIENCE).await.unwrap();
        let second = PostgresBackend::connect(&url(port.number())).unwrap();
        let second = second.table("pooled").deadline(PATIENCE);
        admits_two_of_three(first).await;
        admits_two_of_three(second).await;
        drop(process);
    });
}
