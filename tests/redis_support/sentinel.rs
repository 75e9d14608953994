//! A master and two replicas, watched by three sentinels.

use std::{net::SocketAddr, thread};

use super::{
    eventually::eventually,
    server::{Launch, Server, is_redis_6, options},
};

/// The name of the master, which sentinels call a service.
const SERVICE: &str = "tollgate";

/// The periods of sentinels, in milliseconds. The defaults are seconds. Once the master is down, sentinels ask the replicas every
/// second, whatever is set, and may only promote one that was asked within five `PING-PERIOD`s. After a pause of `TILT-TRIGGER`,
/// sentinels do nothing for 30 s, because their clock may have stepped. Here, such a pause only means that the machine is busy.
const PERIODS: [[&str; 2]; 6] = [
    ["INFO-PERIOD", "100"],
    ["PING-PERIOD", "300"],
    ["ASK-PERIOD", "100"],
    ["PUBLISH-PERIOD", "100"],
    ["ELECTION-TIMEOUT", "1000"],
    ["TILT-TRIGGER", "120000"],
];

/// The time without an answer after which a master counts as failed, in milliseconds: while it is being replaced, and otherwise.
const HASTY: u32 = 500;
const CALM: u32 = 120_000;

/// Three servers and three sentinels, killed when dropped.
#[derive(Debug)]
pub(crate) struct Sentinels {
    servers: Vec<Server>,
    sentinels: Vec<Server>,
}

impl Sentinels {
    /// Starts all, and waits until the sentinels know each other and the replicas.
    pub(crate) fn start() -> Self {
        let servers = together(Server::start);
        let master = servers[0].port();
        for replica in &servers[1..] {
            let follow = ["REPLICAOF", "127.0.0.1", &master.to_string()];
            replica.command(&follow).expect_success();
        }
        let sentinels = together(|| start_sentinel(master));
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

    /// The master and the replicas, whether up or down.
    pub(crate) fn servers(&self) -> &[Server] {
        &self.servers
    }

    pub(crate) fn sentinels(&self) -> &[Server] {
        &self.sentinels
    }

    /// The master, according to a sentinel.
    pub(crate) fn master(&self) -> &Server {
        let mut sentinels = self.sentinels.iter();
        let sentinel = sentinels.find(|sentinel| sentinel.is_up());
        let address = master_of(sentinel.expect("a sentinel is up"));
        let mut servers = self.servers.iter();
        let found = servers.find(|server| server.addr() == address);
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
        self.hasten();
        eventually("the sentinels choose another master", || {
            let mut sentinels = up(&self.sentinels);
            sentinels.all(|sentinel| master_of(sentinel) != old.addr())
        });
        // From here on, this master stays, however slow the machine is.
        self.calm();
        self.wait_until_settled();
        self.master()
    }

    /// From now on, a master that does not answer for half a second is replaced.
    fn hasten(&self) {
        self.set_patience(HASTY);
    }

    /// From now on, a master is only replaced on command, however slow the machine is.
    fn calm(&self) {
        self.set_patience(CALM);
    }

    fn set_patience(&self, millis: u32) {
        let millis = millis.to_string();
        let set = [
            "SENTINEL",
            "SET",
            SERVICE,
            "down-after-milliseconds",
            &millis,
        ];
        for sentinel in up(&self.sentinels) {
            sentinel.command(&set).expect_success();
        }
    }

    /// Starts a server again and waits until it follows the master.
    pub(crate) fn restart(&self, server: &Server) {
        server.restart();
        self.wait_until_settled();
    }

    /// Waits until all sentinels that are up agree on the master, and all other servers that are up follow it.
    pub(crate) fn wait_until_settled(&self) {
        eventually("the sentinels agree", || {
            let master = self.master();
            let mut sentinels = up(&self.sentinels);
            let agree = sentinels.all(|sentinel| self.is_known_to(sentinel, master));
            agree && up(&self.servers).all(|server| has_its_role(server, master))
        });
    }

    /// Whether a sentinel sees the other sentinels, the master and all replicas that are up.
    fn is_known_to(&self, sentinel: &Server, master: &Server) -> bool {
        let state = sentinel.command(&["SENTINEL", "MASTER", SERVICE]);
        let fields: Vec<_> = state.array().iter().map(|field| field.text()).collect();
        let (port, others) = (master.port().to_string(), self.sentinels.len() - 1);
        let expected = [
            ["flags", "master"],
            ["port", &port],
            ["num-other-sentinels", &others.to_string()],
        ];
        let (fields, _) = fields.as_chunks();
        expected.iter().all(|field| fields.contains(field)) && self.replicas_known_to(sentinel)
    }

    fn replicas_known_to(&self, sentinel: &Server) -> bool {
        let replicas = sentinel.command(&["SENTINEL", "REPLICAS", SERVICE]);
        let healthy = replicas.array().iter().filter(|replica| {
            let fields: Vec<_> = replica.array().iter().map(|field| field.text()).collect();
            let (fields, _) = fields.as_chunks();
            fields.contains(&["flags", "slave"]) && fields.contains(&["master-link-status", "ok"])
        });
        healthy.count() + 1 == up(&self.servers).count()
    }
}

fn up(servers: &[Server]) -> impl Iterator<Item = &Server> {
    servers.iter().filter(|server| server.is_up())
}

/// Starts three servers at once.
fn together(start: impl Fn() -> Server + Sync) -> Vec<Server> {
    thread::scope(|scope| {
        let starts = [(); 3].map(|()| scope.spawn(&start));
        starts
            .map(|start| start.join().expect("a server starts"))
            .into()
    })
}

fn start_sentinel(master: u16) -> Server {
    let sentinel = Server::start_as(|port| {
        let config = format!(
            "sentinel monitor {SERVICE} 127.0.0.1 {master} 2\n\
             sentinel down-after-milliseconds {SERVICE} {CALM}\n\
             sentinel failover-timeout {SERVICE} 2000\n"
        );
        let mut args = options(port, &["--sentinel"]);
        args.insert(0, "sentinel.conf".to_owned());
        let file = Some(("sentinel.conf", config));
        Launch {
            args,
            file,
            bus: None,
        }
    });
    let debug = ["SENTINEL", "DEBUG"].into_iter();
    let command: Vec<_> = debug.chain(PERIODS.into_iter().flatten()).collect();
    // Before Redis 7, there is no such command, and sentinels need some seconds more.
    if !is_redis_6() {
        sentinel.command(&command).expect_success();
    }
    sentinel
}

fn master_of(sentinel: &Server) -> SocketAddr {
    let address = sentinel.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE]);
    let [host, port] = address.array() else {
        panic!("no address: {address}");
    };
    let address = format!("{}:{}", host.text(), port.text());
    address.parse().expect("an address")
}

fn has_its_role(server: &Server, master: &Server) -> bool {
    if server.port() == master.port() {
        server.info("role") == "master"
    } else {
        server.follows(master)
    }
}
