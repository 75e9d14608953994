//! The limits of the page on migration, next to a real nginx. Its rate is one per minute, so that nothing depends on the speed
//! of the machine.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use tollgate::{Limit, Limiter, Limits, MemoryBackend, clock::ManualClock};

const REQUESTS: u32 = 40;
const MINUTE: Duration = Duration::from_secs(60);

/// The parameters of `limit_req`, and the limit that the page shows for them.
fn kinds() -> [(&'static str, Limit); 5] {
    let limit = Limit::per_minute(1);
    [
        ("", limit.clone().burst(1)),
        ("burst=20 nodelay", limit.clone().burst(21)),
        ("burst=20", limit.clone().burst(1).max_wait(20 * MINUTE)),
        (
            "burst=20 delay=8",
            limit.clone().burst(9).max_wait(12 * MINUTE),
        ),
        ("burst=3 delay=1", limit.burst(2).max_wait(2 * MINUTE)),
    ]
}

/// How many of the requests are answered at once, wait, and are refused.
async fn ours(limit: Limit) -> [u32; 3] {
    let limits = Limits::builder().limit("requests", limit).build().unwrap();
    let limiter = Limiter::new(limits, MemoryBackend::new()).with_clock(ManualClock::default());
    let limit = limiter.limit("requests").unwrap();
    let mut counts = [0; 3];
    for _ in 0..REQUESTS {
        let decision = limit.spend("client").await.unwrap();
        let place = match decision.allowed() {
            true => usize::from(!decision.delay().is_zero()),
            false => 2,
        };
        counts[place] += 1;
    }
    counts
}

/// A running nginx, with a location and a zone for each kind.
struct Nginx {
    process: Child,
    folder: PathBuf,
    port: u16,
}

impl Nginx {
    /// Starts it at a free port. If another program takes the port first, it ends, and another one is tried.
    fn start() -> Self {
        let mut tries = (0..10).map(|_| Self::start_once());
        tries.find_map(|started| started).expect("it finds a port")
    }

    fn start_once() -> Option<Self> {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let folder = folder.join(format!("nginx-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let port = free_port();
        fs::write(folder.join("nginx.conf"), configuration(port)).unwrap();
        for kind in 0..kinds().len() {
            fs::write(folder.join(kind.to_string()), "hello").unwrap();
        }
        let mut command = Command::new("nginx");
        command
            .arg("-p")
            .arg(&folder)
            .args(["-c", "nginx.conf", "-e", "stderr"]);
        let process = command.stderr(Stdio::null()).spawn();
        let mut nginx = Self {
            process: process
                .expect("nginx is missing: install it with `script/install nginx-light`"),
            folder,
            port,
        };
        // It writes this file once it listens.
        while !nginx.folder.join("nginx.pid").exists() {
            if nginx.process.try_wait().unwrap().is_some() {
                return None;
            }
            thread::yield_now();
        }
        Some(nginx)
    }

    /// The statuses of the requests that are answered, in the order of the answers.
    fn ask(&self, kind: usize) -> mpsc::Receiver<u16> {
        let (sender, answers) = mpsc::channel();
        for _ in 0..REQUESTS {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
            let request = format!("GET /{kind} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).unwrap();
            let sender = sender.clone();
            thread::spawn(move || {
                let mut answer = String::new();
                let _ = stream.read_to_string(&mut answer);
                let status = answer
                    .split(' ')
                    .nth(1)
                    .and_then(|status| status.parse().ok());
                let _ = sender.send(status.unwrap_or(0));
            });
        }
        answers
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn configuration(port: u16) -> String {
    let (mut zones, mut locations) = (String::new(), String::new());
    for (i, (parameters, _)) in kinds().iter().enumerate() {
        zones += &format!("limit_req_zone $binary_remote_addr zone=z{i}:1m rate=1r/m;\n");
        locations += &format!("location /{i} {{ limit_req zone=z{i} {parameters}; }}\n");
    }
    let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let folders = folders
        .map(|folder| format!("{folder}_temp_path temporary;\n"))
        .concat();
    format!(
        "daemon off;\nmaster_process off;\npid nginx.pid;\nevents {{}}\nhttp {{\naccess_log off;\n{folders}{zones}\
         server {{\nlisten 127.0.0.1:{port};\nroot .;\nlimit_req_status 429;\n{locations}}}\n}}\n"
    )
}

#[tokio::test]
async fn nginx_admits_delays_and_refuses_as_many() {
    let nginx = Nginx::start();
    for (i, (parameters, limit)) in kinds().into_iter().enumerate() {
        let [passed, waiting, refused] = ours(limit).await;
        let answers = nginx.ask(i);
        let answered = passed + refused;
        let statuses = (0..answered).map(|_| answers.recv_timeout(2 * MINUTE));
        let statuses: Vec<u16> = statuses.collect::<Result<_, _>>().expect(parameters);
        let with = |status| statuses.iter().filter(|other| **other == status).count();
        assert_eq!(with(200), passed as usize, "{parameters}");
        assert_eq!(with(429), refused as usize, "{parameters}");
        assert_eq!(answered + waiting, REQUESTS, "{parameters}");
        assert!(answers.try_recv().is_err(), "the others wait: {parameters}");
    }
}
