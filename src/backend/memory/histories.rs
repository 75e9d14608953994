use crate::algorithm::State;

/// The histories of a shard, by number. Buckets with windows, permits and tiers have one.
#[derive(Debug)]
pub(super) struct Histories {
    slots: Vec<Slot>,
    free: Vec<u32>,
    bytes: usize,
    max_bytes: usize,
}

/// The memory that a history takes besides its own bytes: its slot, room for more slots, and the overhead of allocators.
const SLOT_BYTES: usize = size_of::<Slot>() * 9 / 8 + 40;

/// The slot of a history. It is empty while no bucket uses its number.
#[derive(Debug, Default)]
struct Slot {
    /// `None` while a batch that has taken it is decided.
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

    /// Stores a history with `heap_bytes` on the heap, in its own slot or in a free one. Returns the number of the slot.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "there are fewer slots than buckets of a shard"
    )]
    pub(super) fn set(&mut self, known: Option<u32>, (history, heap_bytes): (State, usize)) -> u32 {
        let number = known.or_else(|| self.free.pop()).unwrap_or_else(|| {
            // The list grows by an eighth, because doubling it would exceed the budget of bytes.
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
