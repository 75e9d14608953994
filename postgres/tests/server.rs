//! A server of a test, which ends with it.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    time::Duration,
};

use sqlx::{Connection, PgConnection, postgres::PgPoolOptions};
use tollgate_postgres::PostgresBackend;

use crate::process::{Port, Process, comes_true, new_home};

/// Longer than any decision on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What a crash of the machine loses does not matter here.
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
    home: PathBuf,
}

impl Server {
    /// The server of the tests that do it no harm.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<Server> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(&[]))
    }

    /// Starts a server with more options.
    pub(crate) fn start(options: &[&str]) -> Self {
        let home = home();
        let data = home.join("data");
        let init = [
            "--no-sync",
            "-A",
            "trust",
            "-U",
            "postgres",
            "--locale=C",
            "-E",
            "UTF8",
        ];
        run(as_user(&program("initdb")).args(init).arg("-D").arg(&data));
        Self::of(home, options)
    }

    /// Starts a standby of another server.
    pub(crate) fn standby_of(primary: &Self) -> Self {
        let home = home();
        let port = primary.port.number().to_string();
        let mut copy = as_user(&program("pg_basebackup"));
        copy.args([
            "-h",
            "127.0.0.1",
            "-U",
            "postgres",
            "-c",
            "fast",
            "--no-sync",
            "-R",
            "-p",
            &port,
        ]);
        run(copy.arg("-D").arg(home.join("data")));
        Self::of(home, &[])
    }

    /// Starts a server of a directory with data.
    fn of(home: PathBuf, options: &[&str]) -> Self {
        let port = Port::claim();
        let data = home.join("data");
        let mut args = vec!["-D".to_owned(), data.display().to_string()];
        args.extend(["-p".to_owned(), port.number().to_string()]);
        for option in OPTIONS.iter().chain(options) {
            args.extend(["-c".to_owned(), (*option).to_owned()]);
        }
        let command = as_user(&program("postgres"));
        let words = command
            .get_args()
            .map(|word| word.to_str().expect("UTF-8").to_owned());
        let args: Vec<_> = words.chain(args).collect();
        let name = command.get_program().to_str().expect("UTF-8").to_owned();
        let server = Self {
            process: Process::new(home.clone(), &name, &args),
            port,
            home,
        };
        server.begin();
        server
    }

    /// Starts the server, and waits until it answers.
    pub(crate) fn begin(&self) {
        self.process.start();
        let ready = || self.control("pg_isready", &["-q", "-h", "127.0.0.1"]);
        assert!(comes_true(ready), "{}", self.process.log());
    }

    pub(crate) fn kill(&self) {
        self.process.kill();
        // Its processes end by themselves, and hold the memory that the next one needs.
        let pid = self.home.join("data/postmaster.pid");
        let text = fs::read_to_string(&pid).unwrap_or_default();
        assert!(text.contains(&self.port.number().to_string()), "{text}");
        let ended = || {
            !Path::new("/proc")
                .read_dir()
                .expect("there is one")
                .flatten()
                .any(|entry| {
                    let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
                    let cwd = fs::read_link(entry.path().join("cwd")).unwrap_or_default();
                    !line.is_empty() && cwd == self.home.join("data")
                })
        };
        assert!(comes_true(ended));
    }

    pub(crate) fn promote(&self) {
        let data = self.home.join("data");
        run(as_user(&program("pg_ctl"))
            .arg("promote")
            .arg("-D")
            .arg(data));
    }

    /// Runs a program for the server's port.
    fn control(&self, name: &str, args: &[&str]) -> bool {
        let port = self.port.number().to_string();
        let mut command = Command::new(program(name));
        let status = command.args(args).args(["-p", &port]).status();
        status.expect("it runs").success()
    }

    pub(crate) fn port(&self) -> u16 {
        self.port.number()
    }

    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    pub(crate) fn url(&self) -> String {
        url(self.port.number())
    }

    /// Runs statements as the superuser.
    pub(crate) async fn sql(&self, text: &str) {
        let mut connection = PgConnection::connect(&self.url())
            .await
            .expect("it answers");
        sqlx::raw_sql(text)
            .execute(&mut connection)
            .await
            .expect("it may");
    }

    /// A backend whose table is there.
    pub(crate) async fn backend(&self, table: &str) -> PostgresBackend {
        let backend = self.unmade(table);
        backend.create_table().await.expect("it may");
        backend
    }

    /// A backend whose table may be missing.
    pub(crate) fn unmade(&self, table: &str) -> PostgresBackend {
        let pool = PgPoolOptions::new()
            .max_connections(4)
            .acquire_timeout(PATIENCE);
        let pool = pool.connect_lazy(&self.url()).expect("it is a URL");
        PostgresBackend::new(pool).table(table).deadline(PATIENCE)
    }
}

pub(crate) fn url(port: u16) -> String {
    format!("postgres://postgres@127.0.0.1:{port}/postgres")
}

/// A directory of the user who runs the server.
fn home() -> PathBuf {
    let home = new_home();
    if is_root() {
        run(Command::new("chown").arg("postgres").arg(&home));
    }
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).expect("it is ours");
    home
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

pub(crate) fn run(command: &mut Command) {
    let output = command.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}");
}
