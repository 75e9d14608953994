//! A backend whose buckets are in a file, in the embedded database `redb`.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
};

use tokio::sync::{
    mpsc::{self, error::TryRecvError},
    oneshot,
};
use tollgate::backend::{
    Backend, BackendError, Stats, async_trait,
    custom::{Batch, Outcome, OwnedBatch},
};

use super::table::{Buckets, StoreError};

/// The most batches in one transaction of the database, and the most batches that wait.
const GROUP: usize = 256;

/// Keeps buckets in a file.
///
/// A decision is on the disk before it is answered, so none is lost when the process is killed or the machine loses
/// power. Decisions that arrive while the disk is busy are written together, in one transaction.
///
/// The database blocks, and a [`Backend`] must not. So the database has its own thread, which takes each batch in turn
/// and sends the outcome back. `spawn_blocking` for each batch would also work, but then each batch would wait for the
/// disk separately.
///
/// A file belongs to one process at a time, and to one clock. Either all limiters of a store have a clock of their own, or none of
/// them has.
#[derive(Debug)]
pub(crate) struct EmbeddedStore {
    requests: Option<mpsc::Sender<Request>>,
    writer: Option<JoinHandle<()>>,
    buckets: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Request {
    batch: OwnedBatch,
    reply: oneshot::Sender<Result<Outcome, BackendError>>,
}

impl EmbeddedStore {
    /// Opens a file, or creates one. It blocks, so call it at startup.
    ///
    /// # Errors
    ///
    /// If the file is not a database or belongs to another process, or if no thread can be started.
    pub(crate) fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let table = Buckets::open(path.as_ref())?;
        let buckets = Arc::new(AtomicUsize::new(table.len()?));
        let (requests, queue) = mpsc::channel(GROUP);
        let gauge = Arc::clone(&buckets);
        let writer = thread::Builder::new().name("buckets".into());
        let writer = writer.spawn(move || write(&table, queue, &gauge));
        Ok(Self {
            requests: Some(requests),
            writer: Some(writer.map_err(redb::Error::Io)?),
            buckets,
        })
    }
}

#[async_trait]
impl Backend for EmbeddedStore {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let gone = || BackendError::unavailable("the thread that writes buckets has ended");
        let (reply, outcome) = oneshot::channel();
        let batch = OwnedBatch::from(batch);
        let requests = self.requests.as_ref().ok_or_else(gone)?;
        let sent = requests.send(Request { batch, reply }).await;
        sent.map_err(|_| gone())?;
        outcome.await.map_err(|_| gone())?
    }

    fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        stats.buckets = Some(self.buckets.load(Ordering::Relaxed));
        stats
    }
}

/// Closes the file once all pending batches are decided.
impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        drop(self.requests.take());
        if let Some(writer) = self.writer.take() {
            // A panic of the thread has already been printed.
            let _ = writer.join();
        }
    }
}

/// Decides batches until the store is dropped.
fn write(table: &Buckets, mut queue: mpsc::Receiver<Request>, buckets: &AtomicUsize) {
    while let Some(first) = queue.blocking_recv() {
        let mut group = vec![first];
        while group.len() < GROUP {
            match queue.try_recv() {
                Ok(request) => group.push(request),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        // If the caller of a batch has left, the batch is not decided.
        group.retain(|request| !request.reply.is_closed());
        decide(table, group, buckets);
    }
}

/// Decides a group in one transaction, and answers when it is on the disk.
fn decide(table: &Buckets, group: Vec<Request>, buckets: &AtomicUsize) {
    let batches = group.iter().map(|request| &request.batch);
    match table.decide(batches) {
        Ok(outcomes) => {
            if let Ok(len) = table.len() {
                buckets.store(len, Ordering::Relaxed);
            }
            for (request, outcome) in group.into_iter().zip(outcomes) {
                // The caller may have left in the meantime.
                let _ = request.reply.send(outcome);
            }
        }
        Err(error) => {
            let error = Arc::new(error);
            for request in group {
                let error = BackendError::unavailable(Arc::clone(&error));
                let _ = request.reply.send(Err(error));
            }
        }
    }
}
