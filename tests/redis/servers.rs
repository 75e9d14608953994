//! Servers end with their tests. The other tests rely on this without checking it.

use std::{
    env,
    io::{BufRead, BufReader, stdin},
    path::PathBuf,
    process::{Command, Stdio},
    sync::LazyLock,
};

use crate::{eventually::eventually, redis_support::Server};

#[test]
fn server_ends_with_its_value_and_leaves_nothing() {
    let server = Server::start();
    let mut connection = server.connect().unwrap();
    let home = server.unix_path().parent().unwrap().to_owned();
    assert!(home.exists());
    drop(server);
    assert!(redis::cmd("PING").exec(&mut connection).is_err());
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
    let url = format!("redis+unix://{}", socket.display());
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_connection().unwrap();
    test.kill().unwrap();
    test.wait().unwrap();
    eventually("the server has ended", || {
        redis::cmd("PING").exec(&mut connection).is_err() && !socket.parent().unwrap().exists()
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
