//! A proxy that simulates faults of the network between a client and a server.

use std::{
    io,
    mem::take,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::{Instant, sleep_until},
};

/// A proxy in front of a server, closed when dropped.
#[derive(Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    faults: Arc<Faults>,
    connections: Arc<Mutex<JoinSet<()>>>,
    listener: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free port, and forwards all data to `to`.
    pub(crate) async fn start(to: SocketAddr) -> Self {
        let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = bound.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let (faults, connections) = (Arc::<Faults>::default(), Arc::default());
        let accepts = accept(listener, to, Arc::clone(&faults), Arc::clone(&connections));
        Self {
            address,
            faults,
            connections,
            listener: tokio::spawn(accepts),
        }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Delays what the server sends, one read after the other, by at least `delay` each. This includes what is being delayed already.
    pub(crate) fn delay(&self, delay: Duration) {
        self.faults.delay.send_replace(delay);
    }

    /// Closes the connection on which the server answers next, instead of passing it on. The server has then executed a command
    /// that the client counts as failed.
    pub(crate) fn cut_next_reply(&self) {
        self.faults.cut.store(true, SeqCst);
    }

    /// How many replies were cut.
    pub(crate) fn replies_cut(&self) -> usize {
        self.faults.replies_cut.load(SeqCst)
    }

    /// How many connections were made.
    pub(crate) fn connections_made(&self) -> usize {
        self.faults.connections_made.load(SeqCst)
    }

    /// Sets whether new connections are closed at once. Open ones stay open.
    pub(crate) fn refuse(&self, refuse: bool) {
        self.faults.refuse.store(refuse, SeqCst);
    }

    /// Closes all connections.
    pub(crate) async fn close_all(&self) {
        let mut open = take(&mut *self.connections.lock().expect("nothing panics with it"));
        open.shutdown().await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listener.abort();
        if let Ok(mut open) = self.connections.lock() {
            open.abort_all();
        }
    }
}

#[derive(Debug, Default)]
struct Faults {
    delay: watch::Sender<Duration>,
    cut: AtomicBool,
    replies_cut: AtomicUsize,
    connections_made: AtomicUsize,
    refuse: AtomicBool,
}

async fn accept(
    listener: TcpListener,
    to: SocketAddr,
    faults: Arc<Faults>,
    connections: Arc<Mutex<JoinSet<()>>>,
) {
    while let Ok((client, _)) = listener.accept().await {
        faults.connections_made.fetch_add(1, SeqCst);
        if !faults.refuse.load(SeqCst) {
            let mut open = connections.lock().expect("nothing panics with it");
            open.spawn(forward(client, to, Arc::clone(&faults)));
        }
    }
}

/// Passes on the data of both sides until one of them closes the connection.
async fn forward(client: TcpStream, to: SocketAddr, faults: Arc<Faults>) {
    let Ok(server) = TcpStream::connect(to).await else {
        return;
    };
    // An error here means that the connection has an error, which shows at its next use.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut from_client, to_client) = client.into_split();
    let (from_server, mut to_server) = server.into_split();
    tokio::select! {
        _ = copy(&mut from_client, &mut to_server) => {}
        _ = reply(from_server, to_client, &faults) => {}
    }
}

/// Passes on replies when they are due, until the server closes, or one is to be cut.
async fn reply(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, faults: &Faults) -> io::Result<()> {
    let mut delay = faults.delay.subscribe();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        if faults.cut.swap(false, SeqCst) {
            faults.replies_cut.fetch_add(1, SeqCst);
            return Ok(());
        }
        let received = Instant::now();
        loop {
            let due = received + *delay.borrow_and_update();
            tokio::select! {
                () = sleep_until(due) => break,
                changed = delay.changed() => changed.map_err(io::Error::other)?,
            }
        }
        to.write_all(&buffer[..count]).await?;
    }
}
