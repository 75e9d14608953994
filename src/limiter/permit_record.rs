//! The permits of one charge, from when they are taken until the store has them back.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{runtime::Handle, time::Instant};

use super::{Limiter, charged::Correction, error::LimiterError};
use crate::{
    batch::OwnedMember,
    metrics::PermitCount,
    transaction::{Operation, Receipt},
};

/// The time between the starts of two attempts to give permits back.
const REFUND_PAUSE: Duration = Duration::from_millis(250);

/// The permits of one charge. Their receipt has their name, so each message about them can be repeated and can come late.
pub(super) struct PermitRecord {
    limiter: Limiter,
    pub(super) client: OwnedMember,
    receipt: Receipt,
    /// The key among the permits of the limiter.
    pub(super) number: u64,
    /// The runtime that took them. It gives them back, unless they are dropped in another one.
    runtime: Option<Handle>,
    course: Mutex<Course>,
}

struct Course {
    stage: Stage,
    /// When they were taken or renewed last, at the latest. For work that has ended, when it has.
    since: Instant,
    hold: Duration,
    /// When they have to be renewed, or given back, for the next time.
    due: Instant,
    /// Counts them until their work has ended, or they are lost.
    counted: Option<PermitCount>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Their work goes on, and they are renewed.
    Working,
    /// Their work has ended, and they are given back until that has succeeded or the hold has passed.
    Ended,
    /// They are back, or lost.
    Over,
}

impl Course {
    /// Returns whether the hold is not over.
    fn lasts(&self) -> bool {
        self.since.elapsed() < self.hold
    }

    /// Ends the work. Returns whether it was going on.
    fn end(&mut self) -> bool {
        if self.stage != Stage::Working {
            return false;
        }
        self.stage = Stage::Ended;
        self.since = Instant::now();
        self.due = self.since + REFUND_PAUSE;
        self.counted = None;
        true
    }
}

impl PermitRecord {
    /// Creates the record of permits that were asked for at an instant, and count from then on at the latest.
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
            course: Mutex::new(Course {
                stage: Stage::Working,
                since,
                hold,
                due: since + hold / 3,
                counted,
            }),
        }
    }

    pub(super) fn is_held(&self) -> bool {
        let course = self.course.lock();
        course.stage == Stage::Working && course.lasts()
    }

    pub(super) fn is_working(&self) -> bool {
        self.course.lock().stage == Stage::Working
    }

    /// Lets the permits be renewed soon.
    pub(super) fn renew_soon(&self) {
        self.course.lock().due = Instant::now();
    }

    /// Returns whether the permits have to be renewed, or given back, within some time.
    pub(super) fn is_due_within(&self, time: Duration) -> bool {
        Instant::now() + time >= self.course.lock().due
    }

    /// Ends the work, and begins to give the permits back.
    pub(super) fn end(self: &Arc<Self>) {
        if !self.course.lock().end() {
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
        self.course.lock().end();
        self.give_back().await
    }

    /// Gives the permits back, if their work has ended. If the store does not answer, the keeper tries it again.
    pub(super) async fn give_back(self: Arc<Self>) -> Result<bool, LimiterError> {
        {
            let mut course = self.course.lock();
            if course.stage != Stage::Ended {
                return Ok(false);
            }
            course.due = Instant::now() + REFUND_PAUSE;
        }
        let refund = self.limiter.give_back(&self.client, &self.receipt).await;
        let is_repeated =
            matches!(refund, Err(LimiterError::Backend(_))) && self.course.lock().lasts();
        if is_repeated {
            // The runtime that has begun this may have no task that repeats it.
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
            let mut course = self.course.lock();
            course.due = since + course.hold / 12;
        }
        let renewal = Correction::of_receipt(Operation::Renew, &self.receipt);
        let renewed = self.limiter.correct(&self.client, renewal).await;
        let hold = self.limiter.hold_of(&self.client);
        let mut course = self.course.lock();
        if course.stage != Stage::Working {
            return false;
        }
        match (renewed, hold) {
            (Ok(renewed), Some(hold)) if renewed.renewed() => {
                course.since = since;
                course.hold = hold;
                course.due = since + hold / 3;
                return false;
            }
            // They may be there, so another attempt is made before they expire.
            (Err(_), _) if course.lasts() => return false,
            (Ok(renewed), _) if !renewed.limited() => {
                drop(course);
                // The limit has gone.
                self.is_over();
                return false;
            }
            _ => {}
        }
        drop(course);
        self.is_over();
        true
    }

    fn is_over(&self) {
        let mut course = self.course.lock();
        course.stage = Stage::Over;
        course.counted = None;
        drop(course);
        self.limiter.shared.permits.forget(self.number);
    }
}
