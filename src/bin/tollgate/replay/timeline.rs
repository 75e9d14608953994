//! Requests over time, in a fixed number of slots.

/// The most slots.
const SLOTS: usize = 240;

const SECOND: u64 = 1_000_000;

/// What was allowed and denied in each slot. Slots double their length when the log is longer than all of them.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    pub(crate) start: u64,
    /// The length of a slot, in microseconds.
    pub(crate) slot_us: u64,
    pub(crate) slots: Vec<Slot>,
}

/// The requests in a slot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slot {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
}

impl Default for Timeline {
    fn default() -> Self {
        Self {
            start: 0,
            slot_us: SECOND,
            slots: Vec::new(),
        }
    }
}

impl Timeline {
    /// Adds a request, which is not earlier than the first one.
    pub(super) fn add(&mut self, at: u64, is_denied: bool) {
        if self.slots.is_empty() {
            self.start = at;
        }
        let since = at.saturating_sub(self.start);
        while since / self.slot_us >= SLOTS as u64 {
            self.double();
        }
        let place = usize::try_from(since / self.slot_us).unwrap_or(SLOTS - 1);
        if self.slots.len() <= place {
            self.slots.resize(place + 1, Slot::default());
        }
        let slot = &mut self.slots[place];
        match is_denied {
            true => slot.denied += 1,
            false => slot.allowed += 1,
        }
    }

    fn double(&mut self) {
        self.slot_us *= 2;
        let pairs = self.slots.chunks(2);
        let joined = pairs.map(|pair| Slot {
            allowed: pair.iter().map(|slot| slot.allowed).sum(),
            denied: pair.iter().map(|slot| slot.denied).sum(),
        });
        self.slots = joined.collect();
    }
}
