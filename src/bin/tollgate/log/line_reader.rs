//! Reads a line of either format.

use super::{
    common_format, json_format,
    record::{Record, Wanted},
    unreadable::Reason,
};

/// The mark with which some programs begin a file in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads a line. One that begins with a brace is JSON.
pub(super) fn read(line: &[u8], wanted: &Wanted) -> Result<Record, Reason> {
    let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
    let line = line.trim_ascii_start();
    match line.first() {
        Some(b'{') => json_format::read(line, wanted),
        _ => common_format::read(line, wanted),
    }
}
