//! Addresses in a file that can change while requests run.

use std::{
    fmt, fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use arc_swap::ArcSwap;
use thiserror::Error;

use super::address::{RangeError, Ranges, range};
use crate::message::debug_is_message;

/// A list of addresses and ranges in a file, such as denied or exempt clients.
/// [`ClientIp::listed_in`](super::ClientIp::listed_in) makes a condition of it.
///
/// The file is plain text, with one address or one range in CIDR notation per line. Empty lines and comments (`#` to the end
/// of the line) are ignored:
///
/// ```text
/// # a scanner
/// 203.0.113.7
/// 2001:db8:bad::/48  # until the end of June
/// ```
///
/// The list can change while requests run. [`Reloader::list`](crate::reload::Reloader::list) reads the file again
/// whenever it looks at the limits, and [`reload`](Self::reload) reads it immediately. If the file contains a mistake,
/// the list stays as it was. To replace the file, write the new one under another name and rename it, so that nobody
/// reads half a file.
///
/// Clones share one list. A lookup is a binary search over the ranges.
#[derive(Clone)]
pub struct IpList {
    path: Arc<Path>,
    ranges: Arc<ArcSwap<Ranges>>,
}

impl IpList {
    /// Reads a list from a file. A list without addresses has a comment, such as `# none`. An empty file is an error,
    /// because it may have been truncated.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is empty, or a line is neither an address nor a range.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, IpListError> {
        let path: Arc<Path> = path.as_ref().into();
        let ranges = read(&path)?;
        Ok(Self {
            path,
            ranges: Arc::new(ArcSwap::from_pointee(ranges)),
        })
    }

    /// Reads the file again. Returns whether the list has changed.
    ///
    /// # Errors
    ///
    /// As [`from_file`](Self::from_file). The list then stays as it was.
    pub fn reload(&self) -> Result<bool, IpListError> {
        let ranges = read(&self.path)?;
        let is_new = **self.ranges.load() != ranges;
        if is_new {
            self.ranges.store(Arc::new(ranges));
        }
        Ok(is_new)
    }

    /// Returns whether an address is on the list. An IPv4-mapped address counts as the IPv4 address.
    #[must_use]
    pub fn contains(&self, ip: IpAddr) -> bool {
        self.ranges.load().contains(ip.to_canonical())
    }

    /// The number of ranges. Ranges that overlap or adjoin count as one.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ranges.load().len()
    }

    /// Returns whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Prints the number of ranges, and no addresses.
impl fmt::Debug for IpList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IpList")
            .field("path", &self.path)
            .field("len", &self.len())
            .finish()
    }
}

fn read(path: &Path) -> Result<Ranges, IpListError> {
    let text = fs::read(path).map_err(|source| IpListError::Read {
        path: path.into(),
        source,
    })?;
    let text = String::from_utf8(text).map_err(|_| IpListError::Encoding { path: path.into() })?;
    // Some editors write a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    if text.trim().is_empty() {
        return Err(IpListError::Empty { path: path.into() });
    }
    let lines = (1..).zip(text.lines()).map(|(line, text)| {
        let (entry, _) = text.split_once('#').unwrap_or((text, ""));
        (line, entry.trim())
    });
    let entries = lines.filter(|(_, entry)| !entry.is_empty());
    let ranges = entries.map(|(line, entry)| {
        range(entry).map_err(|source| IpListError::Range {
            path: path.into(),
            line,
            source,
        })
    });
    ranges.collect()
}

/// The error for a list of addresses that cannot be read. Returned by [`IpList::from_file`];
/// [`ClientIp::listed_in`](super::ClientIp::listed_in) has an example.
#[derive(Error)]
#[non_exhaustive]
pub enum IpListError {
    /// The file cannot be read.
    #[error("{}: cannot read it: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It is not text.
    #[error("{}: it is not UTF-8: save it as UTF-8", .path.display())]
    Encoding {
        /// The file.
        path: PathBuf,
    },
    /// It has no content.
    #[error("{}: it is empty: write a comment such as `# none` if no address should be on the list", .path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A line is neither an address nor a range.
    #[error("{}:{line}: {source}", .path.display())]
    Range {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// The mistake.
        source: RangeError,
    },
}

debug_is_message!(IpListError);
