//! What tests of Redis rely on without noticing its absence: servers end with their tests, slots move, and masters are
//! replaced.

use std::{
    env,
    io::{BufRead, BufReader, stdin},
    path::PathBuf,
    process::{Command, Stdio},
    sync::LazyLock,
    time::Duration,
};

use crate::redis_support::{Cluster, Connection, Reply, Sentinels, Server, wait_for};

const LATER: Duration = Duration::from_secs(120);

fn is_ok(reply: &Reply) {
    assert!(reply.is_ok(), "{reply}");
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
