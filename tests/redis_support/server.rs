//! One server.

use std::{
    fs, io,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::PathBuf,
    process::Command,
    sync::{LazyLock, Mutex},
    time::Duration,
};

use super::{
    eventually::{PATIENCE, eventually},
    process::{Port, Process, new_home},
    resp::{Connection, Reply},
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

/// The number of ports that are tried.
const ATTEMPTS: usize = 10;

/// A running `redis-server`, killed when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    process: Process,
    port: Port,
    /// The port for the other nodes, if this is a node of a cluster.
    _bus: Option<Port>,
    password: Option<String>,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Up(u32),
    Paused(u32),
    Down,
}

impl Server {
    /// Starts a server on a free port of the loopback interface.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with more options, such as `["--requirepass", "secret"]`.
    pub(crate) fn start_with(own: &[&str]) -> Self {
        Self::start_as(|port| {
            let args = options(port, own);
            Launch {
                args,
                file: None,
                bus: None,
            }
        })
    }

    /// Starts a server on a free port, with the options that `launch` returns for it. If another program takes the port first, it
    /// tries another one.
    pub(super) fn start_as(launch: impl Fn(u16) -> Launch) -> Self {
        let mut logs = Vec::new();
        while logs.len() < ATTEMPTS {
            let port = Port::claim();
            let launch = launch(port.number());
            let server = Self::prepare(port, launch);
            if server.run() {
                return server;
            }
            logs.push(server.log());
        }
        panic!("no server starts:\n{}", logs.join("\n"));
    }

    fn prepare(port: Port, launch: Launch) -> Self {
        let home = new_home();
        if let Some((name, text)) = &launch.file {
            fs::write(home.join(name), text).expect("the directory is ours");
        }
        let mut pairs = launch.args.windows(2);
        let password = pairs.find(|pair| pair[0] == "--requirepass");
        Self {
            process: Process::new(home, "redis-server", &launch.args),
            port,
            password: password.map(|pair| pair[1].clone()),
            _bus: launch.bus,
            state: Mutex::new(State::Down),
        }
    }

    /// Starts the server again, on the same port and without its data.
    pub(crate) fn restart(&self) {
        self.kill();
        assert!(self.run(), "port {} is taken: {}", self.port(), self.log());
    }

    /// Kills the server, as a crash would.
    pub(crate) fn kill(&self) {
        if self.pid().is_some() {
            self.process.kill();
        }
        self.set(State::Down);
    }

    /// Stops the server: it keeps its connections, and answers nothing.
    pub(crate) fn pause(&self) {
        let pid = self.pid().expect("the server runs");
        self.process.pause();
        self.set(State::Paused(pid));
    }

    /// Resumes a paused server.
    pub(crate) fn resume(&self) {
        let pid = self.pid().expect("the server runs");
        self.process.resume();
        self.set(State::Up(pid));
    }

    /// Sends a command over a connection of its own.
    #[track_caller]
    pub(crate) fn command<A: AsRef<[u8]>>(&self, args: &[A]) -> Reply {
        match self.connect(PATIENCE).and_then(|mut to| to.command(args)) {
            Ok(reply) => reply,
            Err(error) => panic!("{error}; its log: {}", self.log()),
        }
    }

    /// Opens a connection, on which no reply may take longer than `timeout`.
    pub(crate) fn connect(&self, timeout: Duration) -> io::Result<Connection<TcpStream>> {
        let mut connection = Connection::open(self.addr(), timeout)?;
        if let Some(password) = &self.password {
            connection.command(&["AUTH", password])?;
        }
        Ok(connection)
    }

    /// The key of a bucket, such as `1:client`, whatever its tag is, if the bucket exists.
    pub(crate) fn key_of(&self, bucket: &str) -> Option<String> {
        let found = self.command(&["KEYS", &format!("*}}:{bucket}")]);
        found.array().first().map(|key| key.text().to_owned())
    }

    /// A field of `INFO`, which is empty if there is no such field.
    pub(crate) fn info(&self, field: &str) -> String {
        let info = self.command(&["INFO", "everything"]);
        let mut fields = info.text().lines().filter_map(|line| line.split_once(':'));
        let found = fields.find(|(name, _)| *name == field);
        found.map_or_else(String::new, |(_, value)| value.to_owned())
    }

    /// Returns whether this is a replica of `master` that has all its data so far and is being sent more.
    pub(crate) fn follows(&self, master: &Self) -> bool {
        let replication = master.command(&["INFO", "replication"]);
        let online = format!("port={},state=online", self.port());
        replication.text().contains(&online)
            && self.info("master_port") == master.port().to_string()
            && self.info("master_link_status") == "up"
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

    /// `redis+unix:///PATH`, with the password if there is one.
    pub(crate) fn unix_url(&self) -> String {
        let password = self.password.as_ref();
        // A URL with a password needs a host, which is ignored.
        let user = password.map_or_else(String::new, |password| format!(":{password}@unix"));
        format!("redis+unix://{user}{}", self.unix_path().display())
    }

    pub(crate) fn unix_path(&self) -> PathBuf {
        self.process.home().join("socket")
    }

    /// What the server has logged.
    pub(crate) fn log(&self) -> String {
        self.process.log()
    }

    /// The process id, unless the server is down.
    pub(crate) fn pid(&self) -> Option<u32> {
        match self.state() {
            State::Up(pid) | State::Paused(pid) => Some(pid),
            State::Down => None,
        }
    }

    /// Whether it has been neither killed nor paused.
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.state(), State::Up(_))
    }

    /// Starts the process and waits until it answers. Returns false if the port is taken.
    fn run(&self) -> bool {
        let logged = self.log().len();
        let pid = self.process.start();
        self.set(State::Up(pid));
        let mut taken = false;
        eventually("the server answers", || {
            let log = self.log().split_off(logged);
            taken = log.contains("Failed listening on port");
            taken || log.contains("FATAL CONFIG") || self.answers()
        });
        let mistaken = self.log().contains("FATAL CONFIG");
        assert!(!mistaken, "no server comes up: {}", self.log());
        !taken
    }

    /// Returns whether it answers on its unix socket, which no other server uses.
    fn answers(&self) -> bool {
        let Ok(mut connection) = Connection::open_unix(&self.unix_path(), PATIENCE) else {
            return false;
        };
        let Ok(reply) = connection.command(&["PING"]) else {
            return false;
        };
        reply
            .error()
            .is_none_or(|error| error.starts_with("NOAUTH"))
    }

    fn state(&self) -> State {
        *self.state.lock().expect("nothing panics with it")
    }

    fn set(&self, state: State) {
        *self.state.lock().expect("nothing panics with it") = state;
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

/// The options of a server: its arguments, a file that it needs, and a second port.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) args: Vec<String>,
    pub(super) file: Option<(&'static str, String)>,
    pub(super) bus: Option<Port>,
}

/// The arguments that all servers have, and `own`.
pub(super) fn options(port: u16, own: &[&str]) -> Vec<String> {
    let port = ["--port", &port.to_string()];
    let all = OPTIONS.iter().chain(&port).chain(own);
    all.map(ToString::to_string).collect()
}
