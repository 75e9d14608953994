//! What the allocator takes.

/// Returns the memory that an allocation of this many bytes takes: those of glibc, with its header, in steps of 16. Others
/// take less, or differ by an eighth.
pub(crate) const fn allocated(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        1..=24 => 32,
        bytes => (bytes + 8).next_multiple_of(16),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocation_has_a_header_and_is_rounded_up() {
        let sizes = [0, 1, 8, 24, 25, 40, 41, 32_768].map(allocated);
        assert_eq!(sizes, [0, 32, 32, 32, 48, 48, 64, 32_784]);
    }
}
