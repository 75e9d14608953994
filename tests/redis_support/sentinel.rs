//! A master and two replicas, watched by three sentinels.

use std::collections::HashMap;

use super::{
    eventually::eventually,
    server::{Server, is_redis_6, together},
};

/// The name of the master, which sentinels call a service.
const SERVICE: &str = "tollgate";

/// Sets the periods of a sentinel, in milliseconds. The defaults are seconds. Once the master is down, sentinels ask the replicas every
/// second, whatever is set, and may only promote one that was asked within five `PING-PERIOD`s. After a pause of `TILT-TRIGGER`,
/// sentinels do nothing for 30 s, because their clock may have stepped. Here, such a pause only means that the machine is busy.
const PERIODS: &str = "SENTINEL DEBUG INFO-PERIOD 100 PING-PERIOD 300 ASK-PERIOD 100 \
    PUBLISH-PERIOD 100 ELECTION-TIMEOUT 1000 TILT-TRIGGER 120000";

/// The time without an answer after which a master counts as failed, in milliseconds: while it is being replaced, and otherwise.
const HASTY: &str = "500";
const CALM: &str = "120000";

/// Three servers and three sentinels, killed when dropped.
#[derive(Debug)]
pub(crate) struct Sentinels {
    servers: Vec<Server>,
    sentinels: Vec<Server>,
}

impl Sentinels {
    /// Starts all, and waits until the sentinels know each other and the replicas.
    pub(crate) fn start() -> Self {
        let servers = together(3, Server::start);
        let master = servers[0].port().to_string();
        for replica in &servers[1..] {
            replica.exec(&["REPLICAOF", "127.0.0.1", &master]);
        }
        let sentinels = together(3, || start_sentinel(&master));
        let this = Self { servers, sentinels };
        this.wait_until_settled();
        this
    }

    /// `redis-sentinel://127.0.0.1:PORT?sentinelServiceName=…&node=…`, with all sentinels.
    pub(crate) fn url(&self) -> String {
        let [first, others @ ..] = &*self.sentinels else {
            panic!("there are three");
        };
        let others = others.iter().map(|other| format!("&node={}", other.addr()));
        let others: String = others.collect();
        let first = first.addr();
        format!("redis-sentinel://{first}?sentinelServiceName={SERVICE}{others}")
    }

    pub(crate) fn sentinels(&self) -> &[Server] {
        &self.sentinels
    }

    /// The master, according to a sentinel.
    pub(crate) fn master(&self) -> &Server {
        let port = master_of(&self.sentinels[0]);
        let mut servers = self.servers.iter();
        let found = servers.find(|server| server.port() == port);
        found.expect("it is one of ours")
    }

    /// Kills the master, waits until there is another one, and returns that. Writes that have not reached the replicas are lost, as
    /// in production.
    pub(crate) fn fail_over(&self) -> &Server {
        let old = self.kill_master();
        self.replace(old)
    }

    /// Kills the master and returns it. It is not replaced yet.
    pub(crate) fn kill_master(&self) -> &Server {
        let old = self.master();
        old.kill();
        old
    }

    /// Lets the sentinels replace a master that no longer answers, and returns the new one.
    pub(crate) fn replace(&self, old: &Server) -> &Server {
        self.set_patience(HASTY);
        eventually("the sentinels choose another master", || {
            let mut sentinels = self.sentinels.iter();
            sentinels.all(|sentinel| master_of(sentinel) != old.port())
        });
        // From here on, this master stays, however slow the machine is.
        self.set_patience(CALM);
        self.wait_until_settled();
        self.master()
    }

    fn set_patience(&self, millis: &str) {
        for sentinel in &self.sentinels {
            set(sentinel, "down-after-milliseconds", millis);
        }
    }

    /// Waits until all sentinels agree on the master, and all other servers that are up follow it.
    pub(crate) fn wait_until_settled(&self) {
        eventually("the sentinels agree", || {
            let master = self.master();
            let mut sentinels = self.sentinels.iter();
            let agree = sentinels.all(|sentinel| self.is_known_to(sentinel, master));
            agree && self.up().all(|server| has_its_role(server, master))
        });
    }

    /// Whether a sentinel sees the other sentinels, the master and all replicas that are up.
    fn is_known_to(&self, sentinel: &Server, master: &Server) -> bool {
        let seen: HashMap<String, String> = sentinel.query(&["SENTINEL", "MASTER", SERVICE]);
        let others = self.sentinels.len() - 1;
        seen["flags"] == "master"
            && seen["port"] == master.port().to_string()
            && seen["num-other-sentinels"] == others.to_string()
            && self.replicas_known_to(sentinel)
    }

    fn replicas_known_to(&self, sentinel: &Server) -> bool {
        let seen: Vec<HashMap<String, String>> = sentinel.query(&["SENTINEL", "REPLICAS", SERVICE]);
        let healthy = seen
            .iter()
            .filter(|replica| replica["flags"] == "slave" && replica["master-link-status"] == "ok");
        healthy.count() + 1 == self.up().count()
    }

    fn up(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter().filter(|server| server.is_up())
    }
}

fn start_sentinel(master: &str) -> Server {
    let sentinel = Server::start_with(&["--sentinel"]);
    sentinel.exec(&["SENTINEL", "MONITOR", SERVICE, "127.0.0.1", master, "2"]);
    set(&sentinel, "down-after-milliseconds", CALM);
    set(&sentinel, "failover-timeout", "2000");
    // Before Redis 7, there is no such command, and sentinels need some seconds more.
    if !is_redis_6() {
        sentinel.exec(&PERIODS.split(' ').collect::<Vec<_>>());
    }
    sentinel
}

/// Sets an option of a sentinel.
fn set(sentinel: &Server, option: &str, value: &str) {
    sentinel.exec(&["SENTINEL", "SET", SERVICE, option, value]);
}

/// The port of the master.
fn master_of(sentinel: &Server) -> u16 {
    let (_, port): (String, u16) =
        sentinel.query(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE]);
    port
}

fn has_its_role(server: &Server, master: &Server) -> bool {
    if server.port() == master.port() {
        server.is_master()
    } else {
        server.follows(master)
    }
}
