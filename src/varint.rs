//! Unsigned integers in as few bytes as they need (LEB128): seven bits in each byte, lowest first, the eighth bit set in
//! all bytes but the last.

const MORE: u8 = 0x80;

/// The error for bytes that are not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// They end too early.
    Truncated,
    /// They hold a value that is never written.
    Impossible(&'static str),
}

/// Appends a number.
pub(crate) fn write(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= u64::from(MORE) {
        bytes.push(number.to_le_bytes()[0] | MORE);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

/// Takes a number off the front. A number has one form only, the shortest.
pub(crate) fn read(bytes: &mut &[u8]) -> Result<u64, Malformed> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or(Malformed::Truncated)?;
        *bytes = rest;
        let bits = u64::from(byte & !MORE);
        if shift > 0 && *byte == 0 {
            return Err(Malformed::Impossible(
                "a number in more bytes than it needs",
            ));
        }
        if bits << shift >> shift != bits {
            break;
        }
        number |= bits << shift;
        if byte & MORE == 0 {
            return Ok(number);
        }
    }
    Err(Malformed::Impossible("a number above 2^64"))
}

/// Takes a number of 32 bits off the front.
pub(crate) fn read_u32(bytes: &mut &[u8]) -> Result<u32, Malformed> {
    let number = read(bytes)?;
    u32::try_from(number).map_err(|_| Malformed::Impossible("a number above 2^32"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_written() {
        let numbers = (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, u64::MAX >> bit]);
        for number in numbers {
            let mut bytes = Vec::new();
            write(&mut bytes, number);
            let bits = (u64::BITS - number.leading_zeros()).max(1);
            assert_eq!(bytes.len(), bits.div_ceil(7) as usize);
            let mut rest = &*bytes;
            assert_eq!((read(&mut rest), rest), (Ok(number), [].as_slice()));
            let mut cut = &bytes[..bytes.len() - 1];
            assert_eq!(read(&mut cut), Err(Malformed::Truncated));
        }
    }

    #[test]
    fn longer_forms_and_larger_numbers_are_refused() {
        for bytes in [&[0x80, 0][..], &[0xff, 0x80, 0], &[0xff; 10], &[0x80; 12]] {
            let read = read(&mut { bytes });
            assert!(matches!(read, Err(Malformed::Impossible(_))), "{bytes:x?}");
        }
        let mut two = [0x80, 0x80, 0x80, 0x80, 0x10].as_slice();
        assert!(read_u32(&mut two).is_err());
    }
}
