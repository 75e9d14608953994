//! Servers of the bench: one, or three masters of a cluster.

use std::{
    env, fs,
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

/// The number of ports to try.
const ATTEMPTS: usize = 10;

/// A `redis-server`, which is killed when this value is dropped.
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
    /// The directory of a cluster's node, which is removed at the end.
    directory: Option<PathBuf>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::started(&[], None)
    }

    fn started(options: &[&str], directory: Option<PathBuf>) -> Self {
        let mut started = (0..ATTEMPTS).filter_map(|_| Self::try_start(options, directory.clone()));
        started.next().expect("redis-server starts")
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Runs a command, and returns what `redis-cli` prints.
    pub(crate) fn command(&self, command: &[&str]) -> String {
        let mut cli = Command::new("redis-cli");
        cli.args(["-p", &self.address.port().to_string()]);
        let done = cli.args(command).output();
        String::from_utf8_lossy(&done.expect("redis-cli is installed").stdout).into_owned()
    }

    /// Returns the value of a line in a section of `INFO`.
    pub(crate) fn info(&self, section: &str, name: &str) -> String {
        let info = self.command(&["INFO", section]);
        let value = info.lines().find_map(|line| line.strip_prefix(name));
        value.unwrap_or_default().trim().to_owned()
    }

    /// Starts a server on a free port. Returns `None` if another program takes the port in the meantime.
    fn try_start(options: &[&str], directory: Option<PathBuf>) -> Option<Self> {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.expect("there is a free port");
        let port = address.port().to_string();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port, "--bind", "127.0.0.1", "--save", ""]);
        command.args(options).stdout(Stdio::null());
        if let Some(directory) = &directory {
            fs::create_dir_all(directory).expect("there is room for a directory");
            command.current_dir(directory);
        }
        let mut server = Self {
            child: command.spawn().expect("redis-server is installed"),
            address,
            directory,
        };
        while TcpStream::connect(address).is_err() {
            if !matches!(server.child.try_wait(), Ok(None)) {
                return None;
            }
        }
        Some(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(directory) = &self.directory {
            let _ = fs::remove_dir_all(directory);
        }
    }
}

/// Three masters without replicas.
pub(crate) struct Cluster(Vec<Server>);

impl Cluster {
    pub(crate) fn start() -> Self {
        let nodes = (0..3).map(|node| {
            let name = format!("tollgate-bench-{}-{node}", std::process::id());
            let directory = env::temp_dir().join(name);
            Server::started(&["--cluster-enabled", "yes"], Some(directory))
        });
        let nodes: Vec<_> = nodes.collect();
        let addresses = nodes.iter().map(|node| node.address.to_string());
        let mut create = Command::new("redis-cli");
        create
            .args(["--cluster", "create", "--cluster-yes"])
            .args(addresses);
        let created = create.stdout(Stdio::null()).status();
        assert!(created.expect("redis-cli is installed").success());
        Self(nodes)
    }

    pub(crate) fn nodes(&self) -> &[Server] {
        &self.0
    }

    pub(crate) fn url(&self) -> String {
        let nodes: Vec<_> = self.0.iter().map(|node| node.address.to_string()).collect();
        let others: Vec<_> = nodes[1..]
            .iter()
            .map(|node| format!("node={node}"))
            .collect();
        format!("redis-cluster://{}?{}", nodes[0], others.join("&"))
    }
}
