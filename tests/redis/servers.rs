//! The servers that the tests of Redis run on do what these tests rely on.

use std::{
    env,
    io::{self, BufRead, BufReader, ErrorKind, stdin},
    path::PathBuf,
    process::{Command, Stdio},
    sync::LazyLock,
    time::{Duration, Instant},
};

use tokio::task::{spawn_blocking, yield_now};

use crate::redis_support::{Cluster, Connection, Proxy, Reply, Sentinels, Server, wait_for};

const SOON: Duration = Duration::from_millis(100);
const LATER: Duration = Duration::from_secs(120);

fn is_ok(reply: &Reply) {
    assert!(reply.is_ok(), "{reply}");
}

#[test]
fn server_restarts_on_its_port_without_its_data() {
    let server = Server::start_with(&["--maxmemory", "10mb"]);
    is_ok(&server.command(&["SET", "key", "value"]));
    assert_eq!(server.command(&["GET", "key"]).text(), "value");
    let limit = server.command(&["CONFIG", "GET", "maxmemory"]);
    assert_eq!(limit.to_string(), r#"["maxmemory", "10485760"]"#);
    let error = server.command(&["INCR", "key"]);
    assert!(error.error().is_some_and(|text| text.starts_with("ERR")));
    server.kill();
    assert!(server.connect(LATER).is_err());
    server.restart();
    assert!(server.command(&["GET", "key"]).is_null());
    assert!(server.url().ends_with(&server.port().to_string()));
}

#[test]
fn paused_server_answers_once_it_goes_on() {
    let server = Server::start();
    server.pause();
    let mut connection = server.connect(SOON).unwrap();
    assert!(connection.command(&["PING"]).is_err());
    server.resume();
    assert_eq!(server.command(&["PING"]).text(), "PONG");
    server.pause();
    server.restart();
    assert_eq!(server.command(&["PING"]).text(), "PONG");
}

#[test]
fn password_is_asked_for() {
    let server = Server::start_with(&["--requirepass", "secret"]);
    assert_eq!(server.command(&["INCR", "key"]).integer(), 1);
    let mut stranger = Connection::open_unix(&server.unix_path(), LATER).unwrap();
    let reply = stranger.command(&["INCR", "key"]).unwrap();
    assert!(
        reply
            .error()
            .is_some_and(|error| error.starts_with("NOAUTH"))
    );
    is_ok(&stranger.command(&["AUTH", "secret"]).unwrap());
    assert_eq!(stranger.command(&["INCR", "key"]).unwrap().integer(), 2);
    assert!(server.url().starts_with("redis://:secret@127.0.0.1:"));
}

#[test]
fn server_ends_with_its_value_and_leaves_nothing() {
    let server = Server::start();
    let mut connection = server.connect(LATER).unwrap();
    let home = server.unix_path().parent().unwrap().to_owned();
    assert!(home.exists());
    drop(server);
    assert!(connection.command(&["PING"]).is_err());
    assert!(!home.exists());
}

#[test]
fn server_ends_with_a_killed_test() {
    let mut test = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "--ignored",
            "--nocapture",
            "servers::killed_test",
        ])
        .env(KILLED, "")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(test.stdout.take().unwrap()).lines();
    let mut paths = lines.filter_map(|line| line.unwrap().strip_prefix("at ").map(PathBuf::from));
    let socket = paths.next().unwrap();
    let mut connection = Connection::open_unix(&socket, LATER).unwrap();
    test.kill().unwrap();
    test.wait().unwrap();
    wait_for("the server has ended", || {
        connection.command(&["PING"]).is_err() && !socket.parent().unwrap().exists()
    });
}

/// Set in the test that is killed.
const KILLED: &str = "TOLLGATE_KILLED_TEST";

#[test]
#[ignore = "another test runs and kills it"]
fn killed_test() {
    static SERVER: LazyLock<Server> = LazyLock::new(Server::start);
    if env::var_os(KILLED).is_some() {
        println!("\nat {}", SERVER.unix_path().display());
        let _ = stdin().read_line(&mut String::new());
    }
}

#[test]
fn cluster_moves_a_slot_with_its_keys() {
    let cluster = Cluster::start();
    assert_eq!((cluster.masters().len(), cluster.replicas().len()), (3, 3));
    assert_eq!(cluster.url().matches("127.0.0.1:").count(), 6);
    let slot = cluster.slot_of("{tag}a");
    assert_eq!(slot, cluster.slot_of("{tag}b"));
    let from = cluster.owner(slot);
    let to = *cluster
        .masters()
        .iter()
        .find(|node| node.id() != from.id())
        .unwrap();
    is_ok(&from.command(&["MSET", "{tag}a", "1", "{tag}b", "2"]));

    cluster.begin_migration(slot, to);
    cluster.move_key("{tag}a", to);
    assert_eq!(from.command(&["GET", "{tag}b"]).text(), "2");
    let ask = from.command(&["GET", "{tag}a"]);
    assert_eq!(ask.error(), Some(&*format!("ASK {slot} {}", to.addr())));
    cluster.move_keys(slot, to);
    cluster.finish_migration(slot, to);
    assert_eq!(
        to.command(&["MGET", "{tag}a", "{tag}b"]).to_string(),
        r#"["1", "2"]"#
    );
    let moved = from.command(&["GET", "{tag}a"]);
    assert_eq!(moved.error(), Some(&*format!("MOVED {slot} {}", to.addr())));
}

#[test]
fn cluster_replaces_masters() {
    let cluster = Cluster::start();
    let first = cluster.owner(0);
    let elected = cluster.fail_over(first);
    assert_eq!(cluster.owner(0).id(), elected.id());
    cluster.restart(first);
    assert_eq!(cluster.replica_of(elected).id(), first.id());
    assert_eq!(cluster.switch_over(elected).id(), first.id());
    assert_eq!(cluster.take_over(first).id(), elected.id());
    assert_eq!((cluster.masters().len(), cluster.replicas().len()), (3, 2));
    cluster.restart(first);
    assert_eq!(cluster.replica_of(elected).id(), first.id());
}

#[test]
fn sentinels_replace_the_master() {
    let sentinels = Sentinels::start();
    assert_eq!(sentinels.url().matches("127.0.0.1:").count(), 3);
    let old = sentinels.master();
    // The writes of one connection are what `WAIT` waits for.
    let mut connection = old.connect(LATER).unwrap();
    is_ok(&connection.command(&["SET", "key", "value"]).unwrap());
    let replicas = connection.command(&["WAIT", "2", "5000"]).unwrap();
    assert_eq!(replicas.integer(), 2);
    let new = sentinels.fail_over();
    assert_ne!(old.port(), new.port());
    assert_eq!(new.command(&["GET", "key"]).text(), "value");
    sentinels.restart(old);
    assert_eq!(sentinels.master().port(), new.port());
    assert_eq!(old.info("role"), "slave");
}

/// Sends a command through a proxy.
async fn through(proxy: &Proxy, command: &'static [&'static str]) -> io::Result<Reply> {
    let address = proxy.addr();
    let sent = spawn_blocking(move || Connection::open(address, LATER)?.command(command));
    sent.await.expect("it does not panic")
}

#[tokio::test]
async fn proxy_cuts_the_reply_of_what_has_been_done() {
    let server = Server::start();
    let proxy = Proxy::start(server.addr()).await;
    assert_eq!(
        through(&proxy, &["INCR", "key"]).await.unwrap().integer(),
        1
    );
    proxy.cut_next_reply();
    let cut = through(&proxy, &["INCR", "key"]).await;
    assert_eq!(cut.unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(proxy.replies_cut(), 1);
    assert_eq!(
        through(&proxy, &["INCR", "key"]).await.unwrap().integer(),
        3
    );
}

#[tokio::test]
async fn proxy_delays_refuses_and_closes() {
    let server = Server::start();
    let proxy = Proxy::start(server.addr()).await;
    proxy.delay(SOON);
    let start = Instant::now();
    through(&proxy, &["PING"]).await.unwrap();
    assert!(start.elapsed() >= SOON);
    proxy.refuse(true);
    assert!(through(&proxy, &["PING"]).await.is_err());
    proxy.refuse(false);
    let address = proxy.addr();
    let mut connection = spawn_blocking(move || {
        let mut connection = Connection::open(address, LATER).unwrap();
        connection.command(&["PING"]).unwrap();
        connection
    })
    .await
    .unwrap();
    proxy.close_all().await;
    assert!(connection.command(&["PING"]).is_err());
    drop(proxy);
    yield_now().await;
    assert!(Connection::open(address, LATER).is_err());
}
