//! A process that ends with the test.

use std::{
    env, fs,
    io::{BufRead, BufReader, ErrorKind, Write},
    net::{Ipv4Addr, TcpListener, UdpSocket},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio, id},
    sync::{
        LazyLock, Mutex,
        atomic::{AtomicU16, AtomicU32, Ordering},
    },
};

/// Runs a server by the orders on its lines of input, and answers each order that is done. Its input ends when the test drops it or
/// ends. Then it ends the server and removes its files. Processes that the server has started write to the
/// same log, so the files are kept until the log has no more writers.
const WATCHER: &str = r#"
home=$1
server=$2
shift 2
cd "$home" || exit
export TMPDIR="$home"
command -v "$server" || { rm -rf "$home"; exit; }
trap '' HUP INT TERM
mkfifo output
cat output >>log &
logger=$!
exec 4>output
pid=
end() {
    if [ "$pid" ]; then kill -s KILL "$pid"; wait "$pid"; pid=; fi
}
while read -r order; do
    case $order in
    START) "$server" "$@" >&4 2>&1 4>&- & pid=$! ;;
    KILL) end ;;
    *) kill -s "$order" "$pid" ;;
    esac
    echo done
done
end
exec 4>&-
wait "$logger"
cd / && rm -rf "$home"
"#;

/// One server, and the shell that watches it.
#[derive(Debug)]
pub(crate) struct Process {
    home: PathBuf,
    watcher: Mutex<Watcher>,
}

impl Process {
    /// Prepares a process with a directory of its own, in which it will run. Of the command, only its program and arguments count.
    pub(crate) fn new(home: PathBuf, command: &Command) -> Self {
        let program = command.get_program();
        let mut shell = Command::new("sh")
            .args(["-c", WATCHER, "watcher"])
            .arg(&home)
            .arg(program)
            .args(command.get_args())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("there is a shell");
        let answers = BufReader::new(shell.stdout.take().expect("it is piped"));
        let mut watcher = Watcher { shell, answers };
        assert!(
            !watcher.answer().is_empty(),
            "{} is not in the PATH: install it, as `script/test` does on Debian",
            program.display()
        );
        let watcher = Mutex::new(watcher);
        Self { home, watcher }
    }

    pub(crate) fn start(&self) {
        self.order("START");
    }

    /// Kills the server, if it runs, and waits for its end.
    pub(crate) fn kill(&self) {
        self.order("KILL");
    }

    pub(super) fn pause(&self) {
        self.order("STOP");
    }

    pub(super) fn resume(&self) {
        self.order("CONT");
    }

    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// What the server has written so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.home.join("log")).unwrap_or_default()
    }

    fn order(&self, order: &str) {
        let mut watcher = self.watcher.lock().expect("no order has failed");
        let input = watcher.shell.stdin.as_mut().expect("it is piped");
        writeln!(input, "{order}").expect("the watcher reads");
        assert_eq!(watcher.answer(), "done");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Waiting for the shell first closes its input.
        if let Ok(watcher) = self.watcher.get_mut() {
            let _ = watcher.shell.wait();
        }
    }
}

#[derive(Debug)]
struct Watcher {
    shell: Child,
    answers: BufReader<ChildStdout>,
}

impl Watcher {
    fn answer(&mut self) -> String {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        read.expect("the watcher writes");
        line.trim_end().to_owned()
    }
}

/// Creates a directory that no other test uses. Its path is short, because the paths of sockets must be.
pub(crate) fn new_home() -> PathBuf {
    static HOMES: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = HOMES.fetch_add(1, Ordering::Relaxed);
        let home = env::temp_dir().join(format!("tollgate-{}-{number}", id()));
        match fs::create_dir(&home) {
            Ok(()) => return home,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => panic!("{}: {error}", home.display()),
        }
    }
}

/// How much higher the port is on which a node of a cluster hears the others.
const BUS: u16 = 10_000;

/// A port that no other test takes, in this process or another one, until this is dropped, even while no server listens there.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    /// Claims the port by binding it over UDP, which no server of a test uses.
    _claim: UdpSocket,
}

impl Port {
    /// Claims a free port, and with it the one on which a node of a cluster hears the others. Both are below the ports that systems
    /// give to outgoing connections. One of those could take the port of a server that is down, or even connect to
    /// itself there.
    pub(crate) fn claim() -> Self {
        const FIRST: u16 = 10_000;
        static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| AtomicU16::new(seed()));
        loop {
            let number = FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % BUS;
            let is_free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
            if let Ok(claim) = UdpSocket::bind((Ipv4Addr::LOCALHOST, number))
                && is_free(number)
                && is_free(number + BUS)
            {
                return Self {
                    number,
                    _claim: claim,
                };
            }
        }
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }
}

/// Returns a number that differs between processes, so that simultaneous tests seldom try the same ports.
fn seed() -> u16 {
    let scattered = id().wrapping_mul(0x9E37_79B1) >> 16;
    u16::try_from(scattered).expect("16 bits are left")
}
