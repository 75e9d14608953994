//! Reads a line of either format.

use super::{
    common_format, json_format,
    record::{Record, Wanted},
    unreadable::Reason,
};

/// Reads a line. One that begins with a brace is JSON.
pub(super) fn read(line: &[u8], wanted: &Wanted) -> Result<Record, Reason> {
    match line.trim_ascii_start().first() {
        Some(b'{') => json_format::read(line, wanted),
        _ => common_format::read(line, wanted),
    }
}
