use crate::algorithm::State;

/// The histories of a shard, by number. Buckets with windows, permits and tiers have one.
#[derive(Debug)]
pub(super) struct Histories {
    slots: Vec<Slot>,
    free: Vec<u32>,
    bytes: usize,
    max_bytes: usize,
}

/// What a history takes besides its own bytes: its slot with room to grow, and what allocators add.
const SLOT_BYTES: usize = size_of::<Slot>() * 9 / 8 + 40;

/// A place for a history.
#[derive(Debug, Default)]
struct Slot {
    /// `None` while a batch that takes it is decided.
    history: Option<State>,
    /// The bytes that are counted for it.
    bytes: usize,
}

impl Histories {
    pub(super) const fn new(max_bytes: usize) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            bytes: 0,
            max_bytes,
        }
    }

    pub(super) fn get_mut(&mut self, number: u32) -> &mut Option<State> {
        &mut self.slots[number as usize].history
    }

    /// Stores a history with so many bytes on the heap, in its own slot or in a free one, and returns its number.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "there are fewer slots than buckets of a shard"
    )]
    pub(super) fn set(&mut self, known: Option<u32>, (history, heap_bytes): (State, usize)) -> u32 {
        let number = known.or_else(|| self.free.pop()).unwrap_or_else(|| {
            // Doubled, it would take more than its budget.
            if self.slots.len() == self.slots.capacity() {
                self.slots.reserve_exact(self.slots.len() / 8 + 1);
            }
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[number as usize];
        self.bytes -= slot.bytes;
        *slot = Slot {
            history: Some(history),
            bytes: SLOT_BYTES + heap_bytes,
        };
        self.bytes += slot.bytes;
        number
    }

    pub(super) fn remove(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        self.bytes -= slot.bytes;
        *slot = Slot::default();
        self.free.push(number);
    }

    pub(super) fn are_too_large(&self) -> bool {
        self.bytes > self.max_bytes
    }
}
