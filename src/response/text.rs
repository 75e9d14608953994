//! ResponseText that is written piece by piece.

use arrayvec::ArrayVec;
use bytes::Bytes;
use http::HeaderValue;

/// The most bytes that are written without an allocation.
const SHORT: usize = 512;

/// A text that is copied to its place once it is whole, so that it takes one allocation of its size.
#[derive(Default)]
pub(super) struct ResponseText {
    /// The whole text, or a full array.
    short: ArrayVec<u8, SHORT>,
    /// The whole text, if it is longer.
    long: Vec<u8>,
}

impl ResponseText {
    #[inline(always)]
    pub(super) fn push(&mut self, piece: &str) {
        if self.short.try_extend_from_slice(piece.as_bytes()).is_err() {
            self.lengthen(piece);
        }
    }

    /// Adds the name of a parameter, with the punctuation around it, and a number.
    #[inline(always)]
    pub(super) fn parameter(&mut self, name: &str, number: impl itoa::Integer) {
        self.push(name);
        self.push(itoa::Buffer::new().format(number));
    }

    #[cold]
    fn lengthen(&mut self, piece: &str) {
        if self.long.is_empty() {
            self.long.extend_from_slice(&self.short);
            // A full array takes no further piece.
            self.short = ArrayVec::from([0; SHORT]);
        }
        self.long.extend_from_slice(piece.as_bytes());
    }

    #[inline(always)]
    pub(super) fn as_bytes(&self) -> &[u8] {
        match self.long.is_empty() {
            true => &self.short,
            false => &self.long,
        }
    }

    pub(super) fn to_bytes(&self) -> Bytes {
        Bytes::copy_from_slice(self.as_bytes())
    }
}

/// Returns the value of a field that is a number.
pub(super) fn number(number: impl itoa::Integer) -> HeaderValue {
    value(itoa::Buffer::new().format(number).as_bytes())
}

/// Returns the value of a field with the names of limits and numbers.
#[inline(always)]
pub(super) fn value(text: &[u8]) -> HeaderValue {
    HeaderValue::from_bytes(text).expect("limit names are ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_whole() {
        for length in [0, 1, SHORT - 1, SHORT, SHORT + 1, 3 * SHORT] {
            let pieces = ["ab", "c", "defgh"].into_iter().cycle().take(length);
            let mut text = ResponseText::default();
            pieces.clone().for_each(|piece| text.push(piece));
            assert_eq!(text.as_bytes(), pieces.collect::<String>().as_bytes());
        }
    }
}
