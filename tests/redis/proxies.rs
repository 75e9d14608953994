//! Proxies and managed services, which know few commands.

use std::{
    collections::{HashMap, hash_map::Entry},
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
};

use futures_util::future::join_all;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};
use tollgate::{RedisBackend, Transaction, backend::redis::RedisError, clock::SystemClock};

use crate::{
    CLUSTER, TIMEOUT,
    eventually::{PATIENCE, eventually_async},
    load::{BURST, patient_limiter, reason},
    redis_support::Server,
};

/// What a proxy does with a command.
enum Verdict {
    Forward(SocketAddr),
    Answer(&'static str),
    Close,
}

/// Judges a command by its arguments.
type Judge = dyn Fn(&[Vec<u8>]) -> Verdict + Send + Sync;

/// A proxy that judges each command.
struct RestrictingProxy {
    url: String,
    /// The names of the received commands.
    seen: Arc<Mutex<Vec<String>>>,
}

impl RestrictingProxy {
    async fn start(judge: impl Fn(&[Vec<u8>]) -> Verdict + Send + Sync + 'static) -> Self {
        let judge: Arc<Judge> = Arc::new(judge);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let names = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let names = Arc::clone(&names);
                let judge = Arc::clone(&judge);
                tokio::spawn(async move {
                    // It ends as its client does.
                    let _ = forward(client, &*judge, &names).await;
                });
            }
        });
        Self { url, seen }
    }

    fn seen(&self) -> Vec<String> {
        let mut seen = self.seen.lock().unwrap().clone();
        seen.sort();
        seen.dedup();
        seen
    }
}

async fn forward(client: TcpStream, judge: &Judge, names: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut client = BufReader::new(client);
    let mut servers = HashMap::new();
    loop {
        let (text, arguments) = read(&mut client).await?;
        names.lock().unwrap().push(name_of(&arguments));
        match judge(&arguments) {
            Verdict::Forward(to) => {
                let server = match servers.entry(to) {
                    Entry::Occupied(server) => server.into_mut(),
                    Entry::Vacant(place) => {
                        place.insert(BufReader::new(TcpStream::connect(to).await?))
                    }
                };
                server.write_all(&text).await?;
                let (reply, _) = read(server).await?;
                if reply.starts_with(b"-CROSSSLOT") {
                    names.lock().unwrap().push("CROSSSLOT".to_owned());
                }
                client.write_all(&reply).await?;
            }
            Verdict::Answer(reply) => {
                client.write_all(format!("{reply}\r\n").as_bytes()).await?;
            }
            Verdict::Close => return Ok(()),
        }
    }
}

/// Reads a command or a reply, and the texts in it.
async fn read(from: &mut BufReader<impl AsyncRead + Unpin>) -> io::Result<(Vec<u8>, Vec<Vec<u8>>)> {
    let mut whole = Vec::new();
    let mut texts = Vec::new();
    let mut missing = 1;
    while missing > 0 {
        let start = whole.len();
        if from.read_until(b'\n', &mut whole).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = String::from_utf8_lossy(&whole[start..]).into_owned();
        missing -= 1;
        match (&line[..1], line[1..].trim().parse::<usize>()) {
            ("*", Ok(count)) => missing += count,
            ("$", Ok(length)) => {
                let mut text = vec![0; length + 2];
                from.read_exact(&mut text).await?;
                whole.extend_from_slice(&text);
                text.truncate(length);
                texts.push(text);
            }
            _ => {}
        }
    }
    Ok((whole, texts))
}

fn name_of(command: &[Vec<u8>]) -> String {
    String::from_utf8_lossy(&command[0]).to_uppercase()
}

/// A proxy in front of several servers: it finds the server by the first key of a script, and closes the connection at all that
/// it does not know.
fn only_scripts_with_keys(command: &[Vec<u8>], route: impl Fn(&str) -> SocketAddr) -> Verdict {
    match &*name_of(command) {
        "AUTH" => Verdict::Forward(route("")),
        "EVAL" | "EVALSHA" if command[2] != b"0" => {
            Verdict::Forward(route(str::from_utf8(&command[3]).unwrap()))
        }
        _ => Verdict::Close,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_with_keys_are_all_that_deciding_needs() {
    let server = Server::start_with(&["--requirepass", "secret"]);
    let to = server.addr();
    let judge = move |command: &[Vec<u8>]| only_scripts_with_keys(command, |_| to);
    let proxy = RestrictingProxy::start(judge).await;
    let limiter = patient_limiter(proxy.url.replace("://", "://:secret@")).await;
    for id in ["first", "second"] {
        let one = Transaction::new("one", id);
        assert!(limiter.spend(&one).await.unwrap().allowed());
        assert!(limiter.check(&one).await.unwrap().limited());
        limiter.reset(&[one]).await.unwrap();
    }
    assert_eq!(proxy.seen(), ["AUTH", "EVAL", "EVALSHA"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_without_the_servers_clock_does_not_ask_for_it() {
    let server = Server::start();
    server.exec(&["ACL", "SETUSER", "default", "-time"]);
    let limiter = patient_limiter(server.url()).await;
    let one = Transaction::new("one", "id");
    let error = reason(&limiter.spend(&one).await.unwrap_err());
    assert!(error.is_permanent(), "{error}");
    assert!(
        matches!(
            &error,
            RedisError::RefusedCommand {
                command: "TIME",
                ..
            }
        ),
        "{error}"
    );
    let text = error.to_string();
    assert!(text.contains("with_clock(SystemClock::new())"), "{text}");
    let limiter = limiter.with_clock(SystemClock::new());
    assert!(limiter.spend(&one).await.unwrap().allowed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_command_is_named_with_a_remedy() {
    let server = Server::start();
    let to = server.addr();
    let no_scripts = &[
        ("EVALSHA", "-NOSCRIPT none"),
        ("EVAL", "-ERR command not allowed"),
    ];
    let no_hashes = &[("EVALSHA", "-unsupported command 'EVALSHA'")];
    let no_databases = &[("SELECT", "-ERR unknown command 'SELECT'")];
    for (answers, name, remedy) in [
        (&no_scripts[..], "EVAL", "run scripts"),
        (no_hashes, "EVALSHA", "run scripts"),
        (no_databases, "SELECT", "leave out the database"),
    ] {
        let judge = move |command: &[Vec<u8>]| {
            let mut answers = answers.iter();
            let answer = answers.find(|(refused, _)| *refused == name_of(command));
            answer.map_or(Verdict::Forward(to), |(_, answer)| Verdict::Answer(answer))
        };
        let proxy = RestrictingProxy::start(judge).await;
        let backend = RedisBackend::builder(format!("{}/1", proxy.url)).timeout(TIMEOUT);
        let connected = backend.build().unwrap().connected(PATIENCE).await;
        let error = connected.unwrap_err();
        assert!(error.is_permanent(), "{error}");
        let text = error.to_string();
        let named = format!("refused the command `{name}`");
        assert!(text.contains(&named) && text.contains(remedy), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn command_that_ends_the_connection_is_named() {
    let proxy = RestrictingProxy::start(|_| Verdict::Close).await;
    let backend = RedisBackend::builder(&proxy.url).build().unwrap();
    eventually_async("the command is named", async || {
        let error = backend
            .connected(std::time::Duration::from_millis(100))
            .await
            .unwrap_err();
        error.to_string().contains("after the command `EVALSHA`")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxy_in_front_of_a_cluster_gets_no_call_with_keys_of_several_slots() {
    let judge = |command: &[Vec<u8>]| {
        only_scripts_with_keys(command, |key| CLUSTER.owner(CLUSTER.slot_of(key)).addr())
    };
    let proxy = RestrictingProxy::start(judge).await;
    let limiter = patient_limiter(proxy.url.replace("redis:", "redis-proxy:")).await;
    let ids: Vec<_> = (0..40).map(|number| format!("proxied{number}")).collect();
    let batch: Vec<_> = ids.iter().map(|id| Transaction::new("one", id)).collect();
    assert!(limiter.spend_batch(&batch).await.unwrap().allowed());
    let together = batch.iter().map(|one| limiter.peek(one));
    for bucket in join_all(together).await {
        assert_eq!(bucket.unwrap().remaining(), Some(BURST - 1));
    }
    // The servers may have the script already.
    let seen = proxy.seen();
    assert!(seen.iter().all(|name| name.starts_with("EVAL")), "{seen:?}");
}
