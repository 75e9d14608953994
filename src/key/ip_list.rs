use std::{fs, net::IpAddr, path::Path, sync::Arc};

use arc_swap::ArcSwap;

use super::ranges::Ranges;
use crate::{
    id::{canonical_ip, range},
    limit::{LimitsError, Mistakes, Reporter},
};

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
/// The list can change while requests run: [`Reloader::list`](crate::reload::Reloader::list) reads the file again whenever it looks
/// at the limits. If the file contains a mistake, the list stays as it was. To replace the file, write the new one under another
/// name and rename it, so that no reload reads half a file. Clones share one list.
#[derive(Clone, Debug)]
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
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, LimitsError> {
        let path: Arc<Path> = path.as_ref().into();
        let ranges = Arc::new(ArcSwap::from_pointee(read(&path)?));
        Ok(Self { path, ranges })
    }

    /// Reads the file again. Returns whether the list has changed.
    pub(crate) fn reload(&self) -> Result<bool, LimitsError> {
        let ranges = read(&self.path)?;
        let is_new = **self.ranges.load() != ranges;
        if is_new {
            self.ranges.store(Arc::new(ranges));
        }
        Ok(is_new)
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether an address is on the list.
    pub(super) fn contains(&self, ip: IpAddr) -> bool {
        self.ranges.load().contains(canonical_ip(ip))
    }
}

fn read(path: &Arc<Path>) -> Result<Ranges, LimitsError> {
    let mistakes = Mistakes::default();
    let report = Reporter::new(&mistakes, Some(path));
    let text = fs::read_to_string(path).unwrap_or_else(|cause| {
        report.unreadable(cause);
        "# unreadable".into()
    });
    // Some editors write a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    if text.trim().is_empty() {
        report.mistaken(
            "it is empty: write a comment such as `# none` if no address should be on the list",
        );
    }
    let entries = (1..).zip(text.lines()).filter_map(|(line, text)| {
        let (entry, _) = text.split_once('#').unwrap_or((text, ""));
        let entry = Some(entry.trim()).filter(|entry| !entry.is_empty())?;
        let mistaken = |mistake: String| report.at(line).mistaken(mistake);
        range(entry).map_err(mistaken).ok()
    });
    let ranges = entries.collect();
    mistakes.or(ranges)
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn list_is_read_again_unless_it_has_a_mistake() {
        let directory = std::env::temp_dir();
        let path = directory.join(format!("tollgate-{}-denied.txt", std::process::id()));
        let write = |text: &[u8]| fs::write(&path, text).unwrap();
        write("\u{feff}# a scanner\r\n203.0.113.7\r\n\n2001:db8::/48  # a range\n".as_bytes());
        let list = IpList::from_file(&path).unwrap();
        let shared = list.clone();
        let lists = |ip: &str| shared.contains(ip.parse().unwrap());
        for ip in [
            "203.0.113.7",
            "::ffff:203.0.113.7",
            "64:ff9b::203.0.113.7",
            "2001:db8::9",
        ] {
            assert!(lists(ip), "{ip}");
        }
        assert!(!lists("203.0.113.8"));
        assert!(!list.reload().unwrap());
        for (text, mistake) in [
            (&b""[..], "it is empty: write a comment such as `# none`"),
            (b" \n", "it is empty"),
            (
                b"\xff",
                "cannot read it: stream did not contain valid UTF-8",
            ),
            (
                b"# one\n10.0.0.1/8\n",
                "denied.txt:2: `10.0.0.1/8` has bits set",
            ),
        ] {
            write(text);
            let error = list.reload().unwrap_err().to_string();
            assert!(error.contains(mistake), "{error}");
            assert!(lists("203.0.113.7"));
        }
        write(b"# none\n");
        assert!(list.reload().unwrap() && !lists("203.0.113.7"));
        fs::remove_file(&path).unwrap();
        let error = list.reload().unwrap_err();
        assert!(error.source().is_some(), "{error}");
    }
}
