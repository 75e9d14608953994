//! The permits of one charge, until the store has taken them back.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{runtime::Handle, time::Instant};

use super::{Limiter, correction::Correction, error::LimiterError};
use crate::{
    batch::OwnedMember,
    metrics::PermitCount,
    transaction::{Operation, Receipt},
};

/// The time between the starts of two attempts to give permits back.
const REFUND_PAUSE: Duration = Duration::from_millis(250);

/// The permits of one charge. The receipt contains their name, so messages about them can be repeated and can be late.
pub(super) struct PermitRecord {
    limiter: Limiter,
    pub(super) client: OwnedMember,
    receipt: Receipt,
    /// The key of this record in the keeper.
    pub(super) number: u64,
    /// The runtime in which the permits were taken. They are given back in it, unless they are dropped in another runtime.
    runtime: Option<Handle>,
    state: Mutex<PermitState>,
}

struct PermitState {
    stage: PermitStage,
    /// The latest instant at which the permits can have been taken or renewed. After the end of their work, the instant of that
    /// end.
    since: Instant,
    hold: Duration,
    /// When the next attempt to renew or to give back is due.
    due: Instant,
    /// The attempts to give the permits back. The next one begins although the one before it has no answer.
    attempts: u32,
    /// Counts the permits in metrics, until their work has ended or they are lost.
    counted: Option<PermitCount>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PermitStage {
    /// The work is running, and the permits are renewed.
    Working,
    /// The work has ended. The permits are given back, again and again, until this succeeds or the hold has passed.
    Ended,
    /// The permits are given back or lost.
    Over,
}

impl PermitState {
    /// Returns whether the hold has not passed yet.
    fn lasts(&self) -> bool {
        self.since.elapsed() < self.hold
    }

    /// Ends the work. Returns whether it was going on.
    fn end(&mut self) -> bool {
        if self.stage != PermitStage::Working {
            return false;
        }
        self.stage = PermitStage::Ended;
        self.since = Instant::now();
        self.due = self.since + REFUND_PAUSE;
        self.counted = None;
        true
    }
}

impl PermitRecord {
    /// Creates the record of permits. `since` is the instant before they were asked for, so the hold starts at that instant or
    /// later.
    pub(super) fn new(
        number: u64,
        limiter: &Limiter,
        client: OwnedMember,
        receipt: Receipt,
        (since, hold): (Instant, Duration),
        counted: Option<PermitCount>,
    ) -> Self {
        Self {
            limiter: limiter.clone(),
            client,
            receipt,
            number,
            runtime: Handle::try_current().ok(),
            state: Mutex::new(PermitState {
                stage: PermitStage::Working,
                since,
                hold,
                due: since + hold / 3,
                attempts: 0,
                counted,
            }),
        }
    }

    pub(super) fn is_held(&self) -> bool {
        let state = self.state.lock();
        state.stage == PermitStage::Working && state.lasts()
    }

    pub(super) fn is_working(&self) -> bool {
        self.state.lock().stage == PermitStage::Working
    }

    /// Lets the keeper renew the permits in its next search.
    pub(super) fn renew_soon(&self) {
        self.state.lock().due = Instant::now();
    }

    /// Returns whether an attempt to renew or to give back is due within some time.
    pub(super) fn is_due_within(&self, time: Duration) -> bool {
        Instant::now() + time >= self.state.lock().due
    }

    /// Ends the work, and begins to give the permits back.
    pub(super) fn end(self: &Arc<Self>) {
        if !self.state.lock().end() {
            return;
        }
        let record = Arc::clone(self);
        let refund = Box::pin(async move {
            let _repeated = record.give_back().await;
        });
        self.limiter.detach_on(self.runtime.as_ref(), refund);
    }

    /// Ends the work, and gives the permits back. Returns whether they were still there.
    pub(super) async fn release(self: Arc<Self>) -> Result<bool, LimiterError> {
        let was_held = self.is_held();
        self.state.lock().end();
        let were_there = Arc::clone(&self).give_back().await?;
        // If another attempt was faster, the store has no permits for this one.
        let is_repeated = self.state.lock().attempts > 1;
        Ok(were_there || was_held && is_repeated)
    }

    /// Gives the permits back if their work has ended. If the store does not answer, the keeper tries again.
    pub(super) async fn give_back(self: Arc<Self>) -> Result<bool, LimiterError> {
        {
            let mut state = self.state.lock();
            state.attempts += 1;
            if state.stage != PermitStage::Ended {
                return Ok(false);
            }
            state.due = Instant::now() + REFUND_PAUSE;
        }
        let refund = self.limiter.give_back(&self.client, &self.receipt).await;
        let is_repeated =
            matches!(refund, Err(LimiterError::Backend(_))) && self.state.lock().lasts();
        if is_repeated {
            // The keeper may have no task in this runtime that would try again.
            let _without_runtime = self.limiter.shared.permits.run_here();
        } else {
            self.is_over();
        }
        refund
    }

    /// Renews the permits. Returns whether they are lost.
    pub(super) async fn renew(self: Arc<Self>) -> bool {
        let since = Instant::now();
        {
            let mut state = self.state.lock();
            state.due = since + state.hold / 12;
        }
        let renewal = Correction::of_receipt(Operation::Renew, &self.receipt);
        let renewed = self.limiter.correct(&self.client, renewal).await;
        let hold = self.limiter.hold_of(&self.client);
        let mut state = self.state.lock();
        if state.stage != PermitStage::Working {
            return false;
        }
        match (renewed, hold) {
            (Ok(renewed), Some(hold)) if renewed.renewed() => {
                state.since = since;
                state.hold = hold;
                state.due = since + hold / 3;
                return false;
            }
            // The store may still have the permits, so the keeper tries again before they expire.
            (Err(_), _) if state.lasts() => return false,
            (Ok(renewed), _) if !renewed.limited() => {
                drop(state);
                // The limit was removed.
                self.is_over();
                return false;
            }
            _ => {}
        }
        drop(state);
        self.is_over();
        true
    }

    fn is_over(&self) {
        let mut state = self.state.lock();
        state.stage = PermitStage::Over;
        state.counted = None;
        drop(state);
        self.limiter.shared.permits.forget(self.number);
    }
}
