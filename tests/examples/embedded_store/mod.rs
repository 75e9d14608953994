//! The example `embedded_store` passes the conformance suite, keeps acknowledged charges and forgets full buckets.

mod killed;
#[path = "../../../examples/embedded_store/store.rs"]
mod store;
#[path = "../../../examples/embedded_store/table.rs"]
mod table;

use std::{ops::Range, path::Path, sync::Arc, time::Duration};

use tollgate::{
    Limit, Limiter, Limits, Transaction,
    backend::{
        Backend, BackendError, Stats, async_trait,
        custom::{Batch, Outcome},
    },
    clock::ManualClock,
    testing::conformance,
};

use self::store::EmbeddedStore;
use crate::support::Folder;

/// The file of a store.
const FILE: &str = "buckets.redb";

/// A store in a folder of its own. The store is dropped first.
#[derive(Debug)]
struct Temporary {
    store: EmbeddedStore,
    _folder: Folder,
}

impl Temporary {
    /// In memory, if the system has such a folder, because each write to a disk is slow.
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() {
            Folder::within(memory)
        } else {
            Folder::new()
        };
        let store = EmbeddedStore::open(folder.path(FILE)).unwrap();
        Self {
            store,
            _folder: folder,
        }
    }
}

#[async_trait]
impl Backend for Temporary {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        self.store.apply(batch).await
    }

    fn stats(&self) -> Stats {
        self.store.stats()
    }
}

conformance!(by_the_suite, Temporary::new());

fn per_minute() -> Limits {
    let limits = Limits::builder().limit("l", Limit::per_minute(3));
    limits.build().unwrap()
}

#[tokio::test]
async fn buckets_survive_a_restart() {
    let folder = Folder::new();
    let clock = ManualClock::default();
    let bucket = Transaction::new("l", "alice");
    for left in [Some(2), Some(1), Some(0)] {
        let store = EmbeddedStore::open(folder.path(FILE)).unwrap();
        let limiter = Limiter::new(per_minute(), store).with_clock(clock.clone());
        assert_eq!(limiter.spend(&bucket).await.unwrap().remaining(), left);
    }
}

#[tokio::test]
async fn full_buckets_are_removed_as_others_are_written() {
    let (store, clock) = (Arc::new(Temporary::new()), ManualClock::default());
    let limiter = Limiter::new(per_minute(), Arc::clone(&store)).with_clock(clock.clone());
    let spend = async |ids: Range<u32>| {
        for id in ids {
            let id = id.to_string();
            limiter.spend(&Transaction::new("l", &id)).await.unwrap();
        }
    };
    spend(0..100).await;
    assert_eq!(store.stats().buckets, Some(100));
    clock.advance(Duration::from_secs(19));
    spend(100..150).await;
    assert_eq!(store.stats().buckets, Some(150), "none is full");
    clock.advance(Duration::from_secs(1));
    spend(150..200).await;
    assert_eq!(store.stats().buckets, Some(100), "two for each");
    let decided = limiter.check(&Transaction::new("l", "120")).await;
    assert_eq!(decided.unwrap().remaining(), Some(1));
}

#[test]
fn file_belongs_to_one_store() {
    let folder = Folder::new();
    let store = EmbeddedStore::open(folder.path(FILE)).unwrap();
    assert!(EmbeddedStore::open(folder.path(FILE)).is_err());
    drop(store);
    EmbeddedStore::open(folder.path(FILE)).unwrap();
    let text = folder.write("text", "not a database, but a text");
    EmbeddedStore::open(text).unwrap_err();
}

#[tokio::test]
async fn bucket_that_is_damaged_is_an_error_of_its_own() {
    let folder = Folder::new();
    let store = EmbeddedStore::open(folder.path(FILE)).unwrap();
    drop(Limiter::new(per_minute(), store));
    {
        let database = redb::Database::create(folder.path(FILE)).unwrap();
        let transaction = database.begin_write().unwrap();
        let bad = b"{\"Gcra\":5}".as_slice();
        let mut table = transaction.open_table(table::BUCKETS).unwrap();
        table.insert("l:bad", (7, bad)).unwrap();
        drop(table);
        transaction.commit().unwrap();
    }
    let store = EmbeddedStore::open(folder.path(FILE)).unwrap();
    let limiter = Limiter::new(per_minute(), store);
    let (bad, good) = (Transaction::new("l", "bad"), Transaction::new("l", "good"));
    let (bad, good) = tokio::join!(limiter.spend(&bad), limiter.spend(&good));
    let error = bad.unwrap_err();
    let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| {
        error.source()
    });
    let error = causes
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ");
    assert!(
        error.contains("`l:bad`") && error.contains("delete the bucket"),
        "{error}"
    );
    assert!(good.unwrap().allowed());
}
