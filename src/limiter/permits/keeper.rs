//! All permits that a process holds by one limiter, and the task that renews them.

use std::{mem, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use tokio::{runtime::Handle, sync::Notify, time};
use tracing::instrument::WithSubscriber;

use super::{
    super::{
        Limiter,
        recorder::{hidden, logged},
        renewal::MOST_RENEWED,
    },
    held::PermitRecord,
    renewals::Renewal,
};
use crate::{
    task::{detach, detached},
    transaction::Receipt,
};

/// The permits that a process holds. They are renewed every third of their hold, in few calls.
#[derive(Default)]
pub(crate) struct PermitKeeper {
    table: Mutex<PermitTable>,
    /// Notified when a permit is due earlier than planned.
    earlier: Notify,
}

#[derive(Default)]
struct PermitTable {
    permits: Vec<Option<Arc<PermitRecord>>>,
    /// The free places.
    free: Vec<usize>,
    is_running: bool,
    /// When the task wakes up.
    planned: Option<time::Instant>,
}

impl PermitKeeper {
    /// Adds permits, which are renewed until they are [forgotten](Self::forget).
    pub(super) fn keep(self: &Arc<Self>, record: &Arc<PermitRecord>) {
        let mut table = self.lock();
        let mut state = record.state();
        let place = match table.free.pop() {
            Some(place) => place,
            None => {
                table.permits.push(None);
                table.permits.len() - 1
            }
        };
        table.permits[place] = Some(Arc::clone(record));
        state.place = Some(place);
        self.wake_before(&table, state.due);
        if !mem::replace(&mut table.is_running, true) {
            drop((state, table));
            self.run();
        }
    }

    pub(super) fn forget(&self, place: usize) {
        let mut table = self.lock();
        table.free.push(place);
        let forgotten = table.permits[place].take();
        drop(table);
        drop(forgotten);
    }

    /// Starts the task. Outside of a runtime, the next permit starts it.
    #[cold]
    fn run(self: &Arc<Self>) {
        let run = KeeperRun {
            keeper: Arc::clone(self),
            is_over: false,
        };
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(run.renew_all().with_current_subscriber());
        }
    }

    /// Wakes the task if it has planned to wake up later than that.
    fn wake_before(&self, table: &PermitTable, due: time::Instant) {
        if table.planned.is_some_and(|planned| due < planned) {
            self.earlier.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, PermitTable> {
        self.table.lock()
    }

    /// Plans the next renewal, or ends the run if there is nothing left to renew.
    fn plan(&self) -> Option<time::Instant> {
        let mut table = self.lock();
        let records = table.permits.iter().flatten();
        let next = records.map(|record| record.state().wakes_at()).min();
        table.planned = next;
        if next.is_none() {
            (table.permits, table.free) = (Vec::new(), Vec::new());
            table.is_running = false;
        }
        next
    }

    fn records(&self) -> Vec<Arc<PermitRecord>> {
        self.lock().permits.iter().flatten().cloned().collect()
    }

    /// Renews all permits soon, because the limits have changed: they may count for a shorter time now.
    pub(crate) fn renew_soon(&self) {
        let now = time::Instant::now();
        let records = self.records();
        for record in &records {
            record.state().due = now;
        }
        if !records.is_empty() {
            self.earlier.notify_one();
        }
    }

    /// Gives back all permits, before the process ends. Those of a renewal that is under way are given back after it.
    pub(crate) async fn close(&self) {
        for together in self.records().chunks(MOST_RENEWED) {
            let records = together.iter().cloned();
            let released: Vec<_> = records.map(|record| detached(record.release())).collect();
            for released in released {
                let _logged = released.await;
            }
        }
    }
}

/// A run of the task. The next permit starts another one when it ends, also when its runtime ends.
struct KeeperRun {
    keeper: Arc<PermitKeeper>,
    /// Whether it has found nothing left to renew. Another run can have begun since.
    is_over: bool,
}

impl Drop for KeeperRun {
    fn drop(&mut self) {
        if !self.is_over {
            let mut table = self.keeper.lock();
            (table.is_running, table.planned) = (false, None);
        }
    }
}

impl KeeperRun {
    async fn renew_all(mut self) {
        while let Some(next) = self.keeper.plan() {
            tokio::select! {
                () = time::sleep_until(next) => self.renew_due().await,
                () = self.keeper.earlier.notified() => {}
            }
        }
        self.is_over = true;
    }

    /// Renews the permits that are due now or soon, so that they travel together.
    async fn renew_due(&self) {
        let now = time::Instant::now();
        let mut due = Vec::new();
        for record in self.keeper.records() {
            let mut state = record.state();
            if state.due <= now + state.hold / 12
                && let Some(receipt) = state.begin_renewal()
            {
                drop(state);
                due.push(DuePermit {
                    record,
                    receipt: Some(receipt),
                });
            }
        }
        // Limiters that share the backend can have clocks of their own.
        while let Some(first) = due.first() {
            let limiter = first.record.limiter.clone();
            let is_same = |due: &mut DuePermit| due.record.limiter.has_clock_of(&limiter);
            let together = due.extract_if(.., is_same).collect();
            renew(&limiter, together, now).await;
        }
    }
}

/// Permits in a renewal. If it is dropped before it has ended, the receipt is as valid as before, as far as is known.
struct DuePermit {
    record: Arc<PermitRecord>,
    receipt: Option<Receipt>,
}

impl Drop for DuePermit {
    fn drop(&mut self) {
        if let Some(receipt) = self.receipt.take() {
            end(&self.record, Some(receipt));
        }
    }
}

async fn renew(limiter: &Limiter, due: Vec<DuePermit>, now: time::Instant) {
    let transactions: Vec<_> = due
        .iter()
        .filter_map(|due| Some(due.record.transaction().of_receipt(due.receipt.as_ref()?)))
        .collect();
    let renewals = limiter.renew_each(&transactions).await;
    drop(transactions);
    for (mut due, renewal) in due.into_iter().zip(renewals) {
        let state = due.record.state();
        if matches!(renewal, Renewal::Lost) && state.may_have_moved() {
            drop(state);
            detach(Box::pin(take_again(due)));
        } else {
            drop(state);
            due.end(renewal, now);
        }
    }
}

/// Takes permits again that an earlier renewal may have moved, before the hold that is known is over.
async fn take_again(mut due: DuePermit) {
    let now = time::Instant::now();
    let Some(before) = &due.receipt else {
        return;
    };
    let transaction = due.record.transaction().of_receipt(before);
    let taken = due.record.limiter.take_again(&transaction).await;
    due.end(taken, now);
}

impl DuePermit {
    /// Ends the renewal that began at a moment.
    fn end(&mut self, renewal: Renewal, now: time::Instant) {
        if let Some(before) = self.receipt.take() {
            end(&self.record, kept(&self.record, renewal, before, now));
        }
    }
}

/// Returns the receipt that is valid after a renewal; `None` if the permits are lost.
fn kept(
    record: &PermitRecord,
    renewal: Renewal,
    before: Receipt,
    now: time::Instant,
) -> Option<Receipt> {
    let mut state = record.state();
    match renewal {
        Renewal::Renewed(receipt, hold) => {
            state.renewed(now, hold);
            Some(receipt)
        }
        // They may be there, so another attempt is made before they expire.
        Renewal::Unknown if state.lasts() => {
            state.try_again();
            Some(before)
        }
        Renewal::Unknown | Renewal::Lost => {
            drop(state);
            log_loss(record);
            None
        }
        // The limit has gone, or is of another algorithm now.
        Renewal::Void => None,
    }
}

/// Ends a renewal. If the work has ended meanwhile, gives the permits back.
fn end(record: &Arc<PermitRecord>, receipt: Option<Receipt>) {
    let is_over = receipt.is_none();
    let mut state = record.state();
    let left = state.end_renewal(receipt);
    let place = match is_over || left.is_some() {
        true => state.place.take(),
        false => None,
    };
    let due = state.wakes_at();
    drop(state);
    let keeper = record.limiter.permits();
    match place {
        Some(place) => keeper.forget(place),
        None => keeper.wake_before(&keeper.lock(), due),
    }
    let Some((receipt, waiter)) = left else {
        return;
    };
    let limiter = record.limiter.clone();
    let record = Arc::clone(record);
    limiter.detach(Box::pin(async move {
        let refunded = match receipt {
            Some(receipt) => record.refund(receipt).await.unwrap_or_default(),
            None => false,
        };
        if let Some(waiter) = waiter {
            // Nobody waits any more.
            let _ = waiter.send(refunded);
        }
    }));
}

fn log_loss(record: &PermitRecord) {
    let limits = record.limiter.in_force();
    let id = match record.is_secret() {
        true => hidden(record.id()),
        false => logged(&limits, record.id()),
    };
    tracing::warn!(
        limit = record.limit(),
        id = id.as_str(),
        "a permit was lost while its work goes on: the process was paused or cut off for longer than the hold, which a reload can \
         have shortened, or the bucket was reset"
    );
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Limit, Limits, MemoryBackend};

    const HOLD: Duration = Duration::from_secs(12);

    #[tokio::test(start_paused = true)]
    async fn task_sleeps_during_a_renewal_and_wakes_up_for_the_next() {
        let limit = Limit::concurrent(1).hold(HOLD);
        let limits = Limits::builder().limit("l", limit).build().unwrap();
        let limiter = Limiter::new(limits, MemoryBackend::new());
        let limit = limiter.limit("l").unwrap();
        let _permit = limit.enter("a").await.unwrap().unwrap();
        let keeper = limiter.permits();
        let record = keeper.records().remove(0);
        let mut renewing = DuePermit {
            record: Arc::clone(&record),
            receipt: record.state().begin_renewal(),
        };
        time::advance(HOLD / 2).await;
        tokio::task::yield_now().await;
        let now = time::Instant::now();
        // An earlier instant would let the task turn in circles.
        assert!(keeper.lock().planned > Some(now));
        assert!(keeper.plan() > Some(now));
        renewing.end(Renewal::Unknown, now);
        tokio::task::yield_now().await;
        assert_eq!(keeper.lock().planned, Some(now + HOLD / 12));
    }
}
