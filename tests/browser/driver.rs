//! The program that drives browsers, ended when dropped, even by a panic.

use std::{
    env, fs,
    io::{ErrorKind, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

/// How long the browser may take for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// How often a condition is looked at.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// Its file for what is printed.
const OUTPUT: &str = "output";

const MISSING: &str =
    "chromedriver is missing: install the packages `chromium` and `chromium-driver`";

/// What chromedriver prints before its port.
const LISTENS: &str = "started successfully on port ";

/// The program that drives browsers. It ends them when it is told to end.
pub(crate) struct Driver {
    child: Child,
    address: SocketAddr,
    /// Where it and its browsers leave what they need, and what they print.
    files: PathBuf,
}

impl Driver {
    /// Starts one on a port, or on any if this is 0. The error is what it has printed if it does not listen.
    ///
    /// It finds a free port of IPv6, and ends if somebody uses the same one of IPv4.
    pub(crate) fn start(port: u16) -> Result<Self, String> {
        let files = directory();
        let output = fs::File::create(files.join(OUTPUT)).expect("files can be written");
        let mut command = Command::new("chromedriver");
        command
            .arg(format!("--port={port}"))
            .arg("--enable-chrome-logs");
        command.env("TMPDIR", &files).stdin(Stdio::null());
        command.stdout(output.try_clone().expect("a second handle"));
        command.stderr(output);
        let mut driver = Self {
            child: command.spawn().expect(MISSING),
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            files,
        };
        let start = Instant::now();
        while driver.address.port() == 0 {
            let has_ended = driver.has_ended();
            let output = driver.output();
            let told = output.split_once(LISTENS);
            let told = told.and_then(|(_, rest)| rest.split_once('.'));
            match told.and_then(|(port, _)| port.parse().ok()) {
                Some(port) => driver.address.set_port(port),
                None if has_ended || start.elapsed() > PATIENCE => return Err(output),
                None => thread::sleep(POLL),
            }
        }
        Ok(driver)
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it and its browsers have printed so far.
    pub(crate) fn output(&self) -> String {
        let output = fs::read(self.files.join(OUTPUT)).unwrap_or_default();
        String::from_utf8_lossy(&output).into_owned()
    }

    /// Asks it to end its browsers and itself.
    fn shut_down(&self) -> std::io::Result<()> {
        let mut stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let address = self.address;
        write!(
            stream,
            "GET /shutdown HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"
        )?;
        stream.read_to_end(&mut Vec::new())?;
        Ok(())
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let start = Instant::now();
        let ends = !self.has_ended() && self.shut_down().is_ok();
        while ends && !self.has_ended() && start.elapsed() < PATIENCE {
            thread::sleep(POLL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.files);
    }
}

/// A new directory with a short path, since the browser has sockets in it.
fn directory() -> PathBuf {
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    loop {
        let nth = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("browser-{}-{nth}", std::process::id());
        let directory = env::temp_dir().join(name);
        match fs::create_dir(&directory) {
            Ok(()) => return directory,
            // One of an earlier process of this number.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => panic!("{}: {error}", directory.display()),
        }
    }
}

#[test]
fn driver_that_finds_its_port_taken_says_so() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let Err(printed) = Driver::start(port) else {
        panic!("two programs listen on port {port}");
    };
    assert!(printed.contains("port not available"), "{printed}");
}
