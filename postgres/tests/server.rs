//! A server of a test, which ends with it.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use sqlx::{Connection, PgConnection, PgPool, postgres::PgPoolOptions};
use tollgate_postgres::PostgresBackend;

use crate::{
    eventually::{PATIENCE, eventually},
    process::{Port, Process, new_home},
};

/// The data need not survive a crash of the machine.
const OPTIONS: [&str; 9] = [
    "fsync=off",
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_connections=100",
    "shared_buffers=32MB",
    "wal_level=replica",
    "max_wal_senders=2",
    "log_min_messages=warning",
    "autovacuum_naptime=5s",
];

/// A running server, killed when dropped.
pub(crate) struct Server {
    process: Process,
    port: Port,
}

impl Server {
    /// The server of the tests that do it no harm.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<Server> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    pub(crate) fn start() -> Self {
        Self::of(initialized(), as_user(&program("postgres")), &[])
    }

    /// Starts a server whose files cannot be larger than 4 MiB.
    pub(crate) fn with_small_files() -> Self {
        let mut command = as_user(Path::new("sh"));
        command.args(["-c", "ulimit -f 8192; exec \"$0\" \"$@\""]);
        command.arg(program("postgres"));
        Self::of(initialized(), command, &[])
    }

    /// Starts a server that lets the role `remote` in by TLS alone, with a certificate of a folder.
    pub(crate) fn with_tls(certificates: &Path) -> Self {
        let home = initialized();
        for file in ["server.pem", "server.key"] {
            let to = home.join(file);
            fs::copy(certificates.join(file), &to).expect("it is there");
            fs::set_permissions(&to, fs::Permissions::from_mode(0o600)).expect("it is ours");
            give(&to);
        }
        let rules = "hostssl all remote 127.0.0.1/32 trust\nhost all postgres 127.0.0.1/32 trust\n";
        fs::write(home.join("data/pg_hba.conf"), rules).expect("it is there");
        let certificate = format!("ssl_cert_file={}", home.join("server.pem").display());
        let key = format!("ssl_key_file={}", home.join("server.key").display());
        let options = ["ssl=on", &certificate, &key];
        Self::of(home, as_user(&program("postgres")), &options)
    }

    /// Starts a standby of another server.
    pub(crate) fn standby_of(primary: &Self) -> Self {
        let home = home();
        let port = primary.port.number().to_string();
        let mut copy = as_user(&program("pg_basebackup"));
        let options = "-h 127.0.0.1 -U postgres -c fast --no-sync -R";
        copy.args(options.split(' '));
        run(copy.args(["-p", &port, "-D"]).arg(home.join("data")));
        Self::of(home, as_user(&program("postgres")), &[])
    }

    /// Starts a server of a directory with data, by a command.
    fn of(home: PathBuf, mut command: Command, options: &[&str]) -> Self {
        let port = Port::claim();
        command.arg("-D").arg(home.join("data"));
        command.args(["-p", &port.number().to_string()]);
        for option in OPTIONS.iter().chain(options) {
            command.args(["-c", option]);
        }
        let process = Process::new(home, &command);
        let server = Self { process, port };
        server.begin();
        server
    }

    /// Starts the server, and waits until it answers.
    pub(crate) fn begin(&self) {
        self.process.start();
        let port = self.port.number().to_string();
        let ready = || {
            let mut command = Command::new(program("pg_isready"));
            let status = command
                .args(["-q", "-h", "127.0.0.1", "-p", &port])
                .status();
            status.expect("it runs").success()
        };
        eventually("the server answers", ready);
    }

    /// Kills the server. Its processes end by themselves, and hold the memory that the next one needs.
    pub(crate) fn kill(&self) {
        self.process.kill();
        eventually("its processes end", || self.processes().is_empty());
    }

    /// Sends a signal to all processes of the server.
    pub(crate) fn signal_all(&self, signal: &str) {
        for process in self.processes() {
            let mut kill = Command::new("kill");
            let kill = kill.args(["-s", signal, &process]).stderr(Stdio::null());
            // One that serves a connection may have ended meanwhile.
            let _has_ended = kill.status().expect("it runs");
        }
    }

    /// The numbers of the server's processes.
    fn processes(&self) -> Vec<String> {
        let data = self.process.home().join("data");
        let all = Path::new("/proc")
            .read_dir()
            .expect("there is one")
            .flatten();
        let of_server = all.filter(|entry| {
            let directory = fs::read_link(entry.path().join("cwd"));
            directory.is_ok_and(|directory| directory == data)
        });
        let names = of_server.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.collect()
    }

    pub(crate) fn promote(&self) {
        let data = self.process.home().join("data");
        run(as_user(&program("pg_ctl"))
            .args(["promote", "-D"])
            .arg(data));
    }

    pub(crate) fn port(&self) -> u16 {
        self.port.number()
    }

    pub(crate) fn log(&self) -> String {
        self.process.log()
    }

    pub(crate) fn url(&self) -> String {
        url(self.port.number())
    }

    /// Connects as the superuser.
    pub(crate) async fn connection(&self) -> PgConnection {
        let connected = PgConnection::connect(&self.url()).await;
        connected.expect("it answers")
    }

    /// Runs statements as the superuser.
    pub(crate) async fn sql(&self, text: &str) {
        let mut connection = self.connection().await;
        let run = sqlx::raw_sql(text).execute(&mut connection).await;
        run.expect("it may");
    }

    /// Returns the number that a statement reads.
    pub(crate) async fn number(&self, text: &str) -> i64 {
        let mut connection = self.connection().await;
        let read = sqlx::query_scalar(text).fetch_one(&mut connection).await;
        read.expect("it is one")
    }

    /// A backend whose table is there. It is logged in, because on a busy machine that may take longer than decisions wait for it.
    pub(crate) async fn backend(&self, table: &str) -> PostgresBackend {
        let pool = self.pool();
        let (one, other) = tokio::join!(pool.acquire(), pool.acquire());
        drop([one, other].map(|connection| connection.expect("it may log in")));
        let backend = PostgresBackend::new(pool).table(table).deadline(PATIENCE);
        backend.create_table().await.expect("it may");
        backend
    }

    /// A backend whose table may be missing.
    pub(crate) fn backend_without_table(&self, table: &str) -> PostgresBackend {
        let backend = PostgresBackend::new(self.pool());
        backend.table(table).deadline(PATIENCE)
    }

    fn pool(&self) -> PgPool {
        let pool = PgPoolOptions::new().max_connections(4);
        let pool = pool.acquire_timeout(PATIENCE);
        pool.connect_lazy(&self.url()).expect("it is a URL")
    }
}

impl Drop for Server {
    /// Kills all processes of the server. If a failed test has stopped some of them, they would not end with it.
    fn drop(&mut self) {
        self.signal_all("KILL");
    }
}

pub(crate) fn url(port: u16) -> String {
    format!("postgres://postgres@127.0.0.1:{port}/postgres")
}

/// A directory with the data of a new server.
fn initialized() -> PathBuf {
    let home = home();
    let mut init = as_user(&program("initdb"));
    init.args(["--no-sync", "-A", "trust", "-U", "postgres", "--locale=C"]);
    run(init
        .args(["-E", "UTF8", "--wal-segsize=1", "-D"])
        .arg(home.join("data")));
    home
}

/// A directory of the user who runs the server.
pub(crate) fn home() -> PathBuf {
    let home = new_home();
    give(&home);
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).expect("it is ours");
    home
}

fn give(path: &Path) {
    if is_root() {
        run(Command::new("chown").arg("postgres").arg(path));
    }
}

/// The command of a program, as a user who is not root, because servers refuse root.
pub(crate) fn as_user(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
    command.arg(program);
    command
}

fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").expect("there is one");
    status.lines().any(|line| line.starts_with("Uid:\t0\t"))
}

/// Debian keeps the programs of each version in a folder, outside of the `PATH`.
fn program(name: &str) -> PathBuf {
    let versions = Path::new("/usr/lib/postgresql").read_dir();
    let versions = versions.expect("PostgreSQL is installed, as by `script/test`");
    let newest = versions.flatten().map(|version| version.path()).max();
    newest.expect("there is a version").join("bin").join(name)
}

fn run(command: &mut Command) {
    let output = command.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}");
}
