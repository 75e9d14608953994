//! States as whole numbers, and these as bytes.

/// A state that is written as numbers.
pub(crate) trait AsNumbers: Sized {
    /// The first byte of the state's bytes. A form that changes gets another letter, and the old one is still read.
    const LETTER: u8;

    /// Passes on the numbers of the state.
    fn write(&self, number: &mut impl FnMut(u64));

    /// Reads the numbers of a state. Returns `None` if they are none.
    fn read(numbers: &mut Numbers<'_>) -> Option<Self>;
}

/// Returns the letter of a state, and its numbers in LEB128.
pub(super) fn bytes_of<S: AsNumbers>(state: &S) -> Vec<u8> {
    let mut bytes = vec![S::LETTER];
    state.write(&mut |mut number| {
        while number >= 0x80 {
            bytes.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        bytes.push(number.to_le_bytes()[0]);
    });
    bytes
}

/// Bytes of whole numbers.
pub(crate) struct Numbers<'a>(pub(super) &'a [u8]);

impl Numbers<'_> {
    /// No instant, name or amount is as large: scripts hold the same numbers as doubles.
    const END: u64 = 1 << 53;

    pub(super) fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..56).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                // The shortest form is the only one.
                let is_short = *byte > 0 || shift == 0;
                return Some(number).filter(|number| is_short && *number < Self::END);
            }
        }
        None
    }

    pub(super) fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    pub(super) fn instant_after(&mut self, before: u64) -> Option<u64> {
        let instant = before + self.number()?;
        Some(instant).filter(|instant| *instant < Self::END)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
