//! One server.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::Command,
    sync::{
        LazyLock,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
};

use redis::{
    Client, Cmd, Connection, ConnectionAddr, FromRedisValue, InfoDict, IntoConnectionInfo,
    RedisConnectionInfo, RedisResult,
};

use super::{
    eventually::{PATIENCE, eventually},
    process::{Port, Process, new_home},
};

/// Options for servers without persistence, and with short timeouts.
const OPTIONS: [&str; 14] = [
    "--bind",
    "127.0.0.1",
    "--unixsocket",
    "socket",
    "--save",
    "",
    "--appendonly",
    "no",
    "--daemonize",
    "no",
    "--hz",
    "100",
    // A diskless master sends its replicas nothing for up to a second after their first data.
    "--repl-diskless-sync",
    "no",
];

/// The file of each server, which sentinels write.
const CONFIG: &str = "redis.conf";

/// The number of ports that are tried.
const ATTEMPTS: usize = 10;

/// A running `redis-server`, killed when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    process: Process,
    port: Port,
    password: Option<String>,
    is_up: AtomicBool,
}

impl Server {
    /// Starts a server on a free port of the loopback interface.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with more options, such as `["--requirepass", "secret"]`. If another program takes its port first, it tries
    /// another one.
    pub(crate) fn start_with(options: &[&str]) -> Self {
        let mut logs = Vec::new();
        while logs.len() < ATTEMPTS {
            let server = Self::prepare(options);
            if server.run() {
                return server;
            }
            logs.push(server.log());
        }
        panic!("no server starts:\n{}", logs.join("\n"));
    }

    fn prepare(own: &[&str]) -> Self {
        let home = new_home();
        fs::write(home.join(CONFIG), "").expect("the directory is ours");
        let port = Port::claim();
        let mut command = Command::new("redis-server");
        command.args([CONFIG, "--port", &port.number().to_string()]);
        command.args(OPTIONS).args(own);
        let mut pairs = own.windows(2);
        let password = pairs.find(|pair| pair[0] == "--requirepass");
        Self {
            process: Process::new(home, &command),
            port,
            password: password.map(|pair| pair[1].to_owned()),
            is_up: AtomicBool::new(false),
        }
    }

    /// Starts the server again, on the same port and without its data.
    pub(crate) fn restart(&self) {
        self.kill();
        assert!(self.run(), "port {} is taken: {}", self.port(), self.log());
    }

    /// Kills the server, as a crash would.
    pub(crate) fn kill(&self) {
        self.process.kill();
        self.is_up.store(false, SeqCst);
    }

    /// Stops the server: it keeps its connections, and answers nothing.
    pub(crate) fn pause(&self) {
        self.process.pause();
        self.is_up.store(false, SeqCst);
    }

    /// Resumes a paused server.
    pub(crate) fn resume(&self) {
        self.process.resume();
        self.is_up.store(true, SeqCst);
    }

    /// Opens a connection to its unix socket, which no other server uses.
    pub(crate) fn connect(&self) -> RedisResult<Connection> {
        let mut settings = RedisConnectionInfo::default();
        if let Some(password) = &self.password {
            settings = settings.set_password(password);
        }
        let address = ConnectionAddr::Unix(self.unix_path()).into_connection_info()?;
        let client = Client::open(address.set_redis_settings(settings))?;
        let connection = client.get_connection_with_timeout(PATIENCE)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        Ok(connection)
    }

    /// Sends a command over a connection of its own, and returns the answer.
    #[track_caller]
    pub(crate) fn query<T: FromRedisValue>(&self, command: &[&str]) -> T {
        let connection = self.connect();
        match connection.and_then(|mut to| Cmd::new().arg(command).query(&mut to)) {
            Ok(answer) => answer,
            Err(error) => panic!("{error}; its log: {}", self.log()),
        }
    }

    /// Sends a command that must succeed.
    #[track_caller]
    pub(crate) fn exec(&self, command: &[&str]) {
        self.query::<()>(command);
    }

    /// Sets an option of a running server.
    #[track_caller]
    pub(crate) fn configure(&self, option: &str, value: &str) {
        self.exec(&["CONFIG", "SET", option, value]);
    }

    /// All keys.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.query(&["KEYS", "*"])
    }

    /// The key of a bucket, such as `1:client`, whatever its tag is, if the bucket exists.
    pub(crate) fn key_of(&self, bucket: &str) -> Option<String> {
        let found: Vec<_> = self.query(&["KEYS", &format!("*}}:{bucket}")]);
        found.into_iter().next()
    }

    /// A field of `INFO`, which is empty if there is no such field.
    pub(crate) fn info(&self, field: &str) -> String {
        let info: InfoDict = self.query(&["INFO", "everything"]);
        info.get(field).unwrap_or_default()
    }

    /// The time of its clock, in microseconds.
    pub(crate) fn time(&self) -> u64 {
        let (seconds, micros): (u64, u64) = self.query(&["TIME"]);
        seconds * 1_000_000 + micros
    }

    /// Returns whether this is a replica of `master` that has all its data so far and is being sent more.
    pub(crate) fn follows(&self, master: &Self) -> bool {
        let replication: String = master.query(&["INFO", "replication"]);
        let online = format!("port={},state=online", self.port());
        replication.contains(&online)
            && self.info("master_port") == master.port().to_string()
            && self.info("master_link_status") == "up"
    }

    pub(crate) fn is_master(&self) -> bool {
        self.info("role") == "master"
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port()).into()
    }

    pub(crate) fn port(&self) -> u16 {
        self.port.number()
    }

    /// `redis://127.0.0.1:PORT`, with the password if there is one.
    pub(crate) fn url(&self) -> String {
        let password = self.password.as_ref();
        let user = password.map_or_else(String::new, |password| format!(":{password}@"));
        format!("redis://{user}{}", self.addr())
    }

    pub(crate) fn unix_path(&self) -> PathBuf {
        self.process.home().join("socket")
    }

    /// What the server has logged.
    pub(crate) fn log(&self) -> String {
        self.process.log()
    }

    /// Whether it has been neither killed nor paused.
    pub(crate) fn is_up(&self) -> bool {
        self.is_up.load(SeqCst)
    }

    /// Starts the process and waits until it answers. Returns false if the port is taken.
    fn run(&self) -> bool {
        let logged = self.log().len();
        self.process.start();
        let mut taken = false;
        eventually("the server answers", || {
            let log = self.log().split_off(logged);
            assert!(!log.contains("FATAL CONFIG"), "no server comes up: {log}");
            taken = log.contains("Failed listening on port");
            taken || self.answers()
        });
        self.is_up.store(!taken, SeqCst);
        !taken
    }

    fn answers(&self) -> bool {
        let connection = self.connect();
        connection
            .and_then(|mut to| redis::cmd("PING").exec(&mut to))
            .is_ok()
    }
}

/// Whether the servers in the path are of Redis 6, which has fewer options and commands.
pub(crate) fn is_redis_6() -> bool {
    static IS_6: LazyLock<bool> = LazyLock::new(|| {
        let output = Command::new("redis-server").arg("--version").output();
        let version = output.expect("it is in the path").stdout;
        String::from_utf8_lossy(&version).contains(" v=6.")
    });
    *IS_6
}

/// Starts several servers at once.
pub(super) fn together<T: Send>(count: usize, start: impl Fn() -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let starts: Vec<_> = (0..count).map(|_| scope.spawn(&start)).collect();
        let starts = starts.into_iter();
        starts
            .map(|start| start.join().expect("a server starts"))
            .collect()
    })
}
