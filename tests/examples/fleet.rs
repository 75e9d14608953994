//! The example `fleet`: servers that share a Redis share their clients' budgets.

use crate::{
    programs::{self, Program},
    redis_support::Server,
};

const BURST: usize = 20;

/// How many of the next `times` requests to one server pass.
fn passed(server: &programs::Server, times: usize) -> usize {
    let responses = server.get_often(times, "/", &[]);
    let passed = responses.iter().filter(|response| response.status == 200);
    let denied = responses.iter().filter(|response| response.status == 429);
    let passed = passed.count();
    assert_eq!(passed + denied.count(), times);
    passed
}

fn start(redis: &Server, servers: &[&str]) -> Program {
    let url = redis.url();
    Program::start("fleet", &[&["--redis", &*url], servers].concat())
}

#[test]
fn two_servers_admit_what_one_would() {
    let redis = Server::start();
    let any = "127.0.0.1:0";
    let fleet = start(&redis, &["--listen", any, "--listen", any]);
    let servers = [fleet.next_server(), fleet.next_server()];

    let mut admitted = 0;
    for _ in 0..4 {
        admitted += servers
            .iter()
            .map(|server| passed(server, 3))
            .sum::<usize>();
    }
    assert_eq!(admitted, BURST);
    for server in &servers {
        assert_eq!(passed(server, 1), 0);
    }

    // The budget is Redis's to remember.
    let restarted = start(&redis, &["--listen", any]);
    assert_eq!(passed(&restarted.next_server(), 1), 0);
    redis.exec(&["FLUSHALL"]);
    assert_eq!(passed(&servers[1], BURST + 1), BURST);
    assert_eq!(passed(&servers[0], 1), 0);
}
