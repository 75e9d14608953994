//! Lines of words: Common Log Format, W3C extended logs, and the logs of AWS load balancers.

use std::{borrow::Cow, net::IpAddr};

use super::{
    Line, LineError, LogArgs,
    value::{address, instant, method_and_path, path_of},
};

/// The name of the field with the authenticated user.
const USER: &str = "user";

/// Common Log Format, and Combined, which adds fields at its end: `203.0.113.7 - alice [10/Oct/2000:13:55:36 -0700] "GET
/// /index.html HTTP/1.0" 200 2326`. Words before the client, such as the host of the server, are ignored.
pub(super) struct CommonLine<'a> {
    /// An address, or a list of them.
    client: &'a str,
    user: Option<&'a str>,
    time: &'a str,
    request: &'a str,
}

impl<'a> CommonLine<'a> {
    pub(super) fn parse(line: &'a str) -> Result<Self, LineError> {
        // Servers escape quotes, so only a time is followed by `] "`. A user's name may contain a bracket.
        let (start, rest) = line.split_once("] \"").ok_or(LineError::Form)?;
        let (client, time) = start.rsplit_once(" [").ok_or(LineError::Form)?;
        let (first, rest_of_first) = first_word(client);
        let (second, rest_of_second) = first_word(rest_of_first);
        // If the client is the first word, the second one is its identity by RFC 1413, which is not used.
        let (client, identity) = match address(second, None) {
            Err(LineError::NoAddress) => (first, rest_of_first),
            _ => (second, rest_of_second),
        };
        let user = identity.split_once(' ').map(|(_, user)| user);
        Ok(Self {
            client,
            user: user.filter(|user| *user != "-"),
            time,
            request: until_quote(rest).ok_or(LineError::Form)?,
        })
    }

    /// Parses the line of an AWS load balancer: the client's address and port stand two words after the time, and the request
    /// is in the first quotes.
    pub(super) fn of_balancer(line: &'a str) -> Option<Self> {
        let mut words = line.split(' ');
        let is_time = |word: &&str| word.ends_with('Z') && instant(word).is_ok();
        // In the log of an application load balancer, the time follows the protocol.
        let time = words.by_ref().take(2).find(is_time)?;
        let (_, quoted) = line.split_once(" \"")?;
        Some(Self {
            client: words.nth(1)?,
            user: None,
            time,
            request: until_quote(quoted)?,
        })
    }
}

impl Line for CommonLine<'_> {
    fn time(&self, _: &LogArgs) -> Result<u64, LineError> {
        instant(self.time)
    }

    fn address(&self, args: &LogArgs) -> Result<IpAddr, LineError> {
        address(self.client, args.hops)
    }

    fn request(&self) -> (String, String) {
        method_and_path(self.request)
    }

    fn field(&self, name: &str) -> Option<Cow<'_, str>> {
        self.user.filter(|_| name == USER).map(Cow::Borrowed)
    }
}

/// Splits off the first word. Quotes, and commas at the ends of words, keep a list together.
fn first_word(text: &str) -> (&str, &str) {
    if let Some((list, rest)) = text.strip_prefix('"').and_then(|text| text.split_once('"')) {
        return (list, rest.trim_start());
    }
    let mut spaces = text.match_indices(' ');
    match spaces.find(|(end, _)| !text[..*end].ends_with(',')) {
        Some((end, _)) => (&text[..end], &text[end + 1..]),
        None => (text, ""),
    }
}

/// Returns the text before the next quote that is not escaped.
fn until_quote(text: &str) -> Option<&str> {
    let mut escaped = false;
    let end = text.bytes().position(|byte| {
        let is_end = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        is_end
    });
    Some(&text[..end?])
}

/// A line of a W3C extended log, such as that of IIS or CloudFront, whose columns have names.
pub(super) struct ExtendedLine<'a> {
    columns: &'a [String],
    values: Vec<&'a str>,
}

impl<'a> ExtendedLine<'a> {
    pub(super) fn parse(line: &'a str, columns: &'a [String]) -> Result<Self, LineError> {
        let values: Vec<_> = if line.contains('\t') {
            line.split('\t').collect()
        } else {
            line.split_whitespace().collect()
        };
        if values.len() < columns.len() {
            Err(LineError::Form)
        } else {
            Ok(Self { columns, values })
        }
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        let index = self.columns.iter().position(|column| column == name)?;
        Some(self.values[index]).filter(|value| *value != "-")
    }
}

impl Line for ExtendedLine<'_> {
    fn time(&self, args: &LogArgs) -> Result<u64, LineError> {
        match &args.time {
            Some(field) => instant(self.get(field).ok_or(LineError::NoTime)?),
            None => {
                let date = self.get("date").ok_or(LineError::NoTime)?;
                let time = self.get("time").ok_or(LineError::NoTime)?;
                instant(&format!("{date} {time}"))
            }
        }
    }

    fn address(&self, args: &LogArgs) -> Result<IpAddr, LineError> {
        let field = args.address.as_deref().unwrap_or("c-ip");
        let value = self.get(field).ok_or(LineError::NoAddress)?;
        // Spaces in values are escaped.
        address(&value.replace("%20", " ").replace('+', " "), args.hops)
    }

    fn request(&self) -> (String, String) {
        let method = self.get("cs-method").unwrap_or_default();
        let target = self.get("cs-uri-stem").or_else(|| self.get("cs-uri"));
        let path = path_of(target.unwrap_or_default());
        (method.to_owned(), path.to_owned())
    }

    fn field(&self, name: &str) -> Option<Cow<'_, str>> {
        let alias = if name == USER { "cs-username" } else { name };
        self.get(name)
            .or_else(|| self.get(alias))
            .map(Cow::Borrowed)
    }
}
