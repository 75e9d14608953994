//! The hash tags of keys.

use std::{
    fmt,
    sync::{Arc, LazyLock},
};

/// The number of slots of a cluster.
pub(super) const SLOTS: u16 = 1 << 14;

/// The remainders of CRC-16/XMODEM, by the first byte.
const REMAINDERS: [u16; 256] = {
    let mut remainders = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = byte << 8;
        let mut bit = 0;
        while bit < 8 {
            let carry = remainder & 0x8000 != 0;
            remainder = (remainder << 1) ^ if carry { 0x1021 } else { 0 };
            bit += 1;
        }
        remainders[byte as usize] = remainder;
        byte += 1;
    }
    remainders
};

/// Returns the slot of a key: that of its hash tag, the text between the first `{` and the next `}`, if there is one.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    let position = |text: &[u8], brace| text.iter().position(|byte| *byte == brace);
    let after = position(key, b'{').map_or(&[][..], |start| &key[start + 1..]);
    let tag = position(after, b'}').map_or(&[][..], |end| &after[..end]);
    let hashed = if tag.is_empty() { key } else { tag };
    let crc = hashed.iter().fold(0_u16, |crc, byte| {
        let [high, low] = crc.to_be_bytes();
        REMAINDERS[usize::from(high ^ byte)] ^ (u16::from(low) << 8)
    });
    crc % SLOTS
}

/// Numbers that serve as hash tags. They divide the slots into parts of equal size: the slot of each is in the middle of its part.
/// So masters with equal shares of the slots have equal shares of the tags, however the cluster is divided.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct HashTags(Arc<[u32]>);

impl HashTags {
    /// Finds `count` tags, at most one for each slot. The tag of a part is the first number whose slot is the middle of the part.
    pub(super) fn find(count: u16) -> Self {
        let mut part_of_slot = vec![None; SLOTS.into()];
        for part in 0..usize::from(count) {
            let middle = (2 * part + 1) * usize::from(SLOTS) / (2 * usize::from(count));
            part_of_slot[middle] = Some(part);
        }
        let mut tags = vec![0; count.into()];
        let mut text = itoa::Buffer::new();
        let mut missing = count;
        for number in 0.. {
            if missing == 0 {
                break;
            }
            let slot = slot_of(text.format(number).as_bytes());
            if let Some(part) = part_of_slot[usize::from(slot)].take() {
                tags[part] = number;
                missing -= 1;
            }
        }
        Self(tags.into())
    }

    /// Returns the tag of a group of ids. It is the tag of the part that contains the group's own slot.
    pub(super) fn of(&self, group: &str) -> u32 {
        let slot = usize::from(slot_of(group.as_bytes()));
        self.0[slot * self.0.len() / usize::from(SLOTS)]
    }
}

/// The default number of tags. More tags would divide decisions into smaller groups, and fewer would spread them unevenly over
/// eight masters.
impl Default for HashTags {
    fn default() -> Self {
        static DEFAULT: LazyLock<HashTags> = LazyLock::new(|| HashTags::find(64));
        DEFAULT.clone()
    }
}

impl fmt::Debug for HashTags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tags", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn slot(tag: u32) -> u16 {
        slot_of(tag.to_string().as_bytes())
    }

    #[test]
    fn masters_with_equal_shares_of_slots_have_equal_shares_of_tags() {
        let tags = HashTags::default().0;
        assert_eq!(tags.len(), 64);
        for masters in [3, 5, 7, 16] {
            let mut counts = vec![0; masters];
            for tag in &*tags {
                counts[usize::from(slot(*tag)) * masters / usize::from(SLOTS)] += 1;
            }
            let most = counts.iter().max().unwrap();
            assert!(most * masters * 10 <= 64 * 11, "{masters}: {counts:?}");
        }
    }

    #[test]
    fn slots_of_tags_are_equally_far_from_each_other() {
        for count in [1, 2, 3, 64, 1000, SLOTS] {
            let mut slots: Vec<_> = (HashTags::find(count).0.iter())
                .map(|tag| slot(*tag))
                .collect();
            let distance = SLOTS / count;
            let first = slots[0];
            assert_eq!(first, distance / 2, "{count}");
            slots.push(SLOTS + first);
            for pair in slots.windows(2) {
                assert!(
                    (distance..=distance + 1).contains(&(pair[1] - pair[0])),
                    "{count}: {pair:?}"
                );
            }
        }
    }

    #[test]
    fn clients_use_all_tags_alike() {
        for count in [1, 3, 64, 1000] {
            let tags = HashTags::find(count);
            let ids = (0..100 * usize::from(count))
                .map(|n| format!("10.{}.{}.{}", n >> 16, n >> 8 & 255, n & 255));
            let mut counts = std::collections::HashMap::<u32, usize>::new();
            for id in ids {
                *counts.entry(tags.of(&id)).or_default() += 1;
            }
            assert_eq!(
                counts.keys().collect::<HashSet<_>>().len(),
                usize::from(count)
            );
            let most = counts.values().max().unwrap();
            assert!(
                *most <= 150,
                "{count} tags: one has {most} clients, not 100"
            );
        }
    }
}
