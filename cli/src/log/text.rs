//! Reads lines of words, by regular expressions, and W3C extended logs.

use std::{borrow::Cow, sync::LazyLock};

use regex::{Captures, Regex};

use super::{LineError, LogArgs, line::Line};

/// The name of the field with the authenticated user.
const USER: &str = "user";

/// Common Log Format, and Combined, which adds fields at its end:
/// `203.0.113.7 - alice [10/Oct/2000:13:55:36 -0700] "GET /index.html HTTP/1.0" 200 2326`. Anything may stand before it, such as the
/// host of the server, so the first form finds the client three words before the time. The second is for names of users with
/// spaces, and for lines without a client. The last form is that of AWS load balancers.
static FORMS: LazyLock<[Regex; 3]> = LazyLock::new(|| {
    // Servers escape quotes, so only a time ends like this. Quotes, and commas at the ends of words, keep a list together.
    let request = r#""(?<request>(?:[^"\\]|\\.)*)""#;
    let end = format!(r"\[(?<time>[^\[\]]*)\] {request}");
    [
        format!(
            r#"(?:^|\s)(?<address>"[^"]*"|(?:\S+, ?)*[\[[:xdigit:]]*[.:]\S*) +\S+ (?<user>\S+) {end}"#
        ),
        format!(r#"(?:(?:^|\s)(?<address>"[^"]*"|(?:\S+, )*\S+) +- (?<user>.+?) )?{end}"#),
        format!(r#"^(?:\S+ )?(?<time>\d{{4}}-\S+Z) \S+ (?<address>\S+) [^"]*{request}"#),
    ]
    .map(|form| Regex::new(&form).expect("it is a regular expression"))
});

/// Finds the parts of a line in a known form.
pub(super) fn known_form(line: &str) -> Option<Captures<'_>> {
    FORMS.iter().find_map(|form| form.captures(line))
}

/// A line that a regular expression matches. Its groups are the fields.
impl Line for Captures<'_> {
    fn field(&self, name: &str) -> Option<Cow<'_, str>> {
        let group = self.name(name)?;
        Some(group.as_str().into())
    }

    fn has_fixed_names(&self, args: &LogArgs) -> bool {
        args.pattern.is_none()
    }
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
}

impl Line for ExtendedLine<'_> {
    fn field(&self, name: &str) -> Option<Cow<'_, str>> {
        let index_of = |name| self.columns.iter().position(|column| column == name);
        let alias = if name == USER { "cs-username" } else { name };
        let index = index_of(name).or_else(|| index_of(alias))?;
        Some(self.values[index].into())
    }

    fn list(&self, name: &str) -> Option<Cow<'_, str>> {
        // Spaces in values are escaped.
        let value = self.field(name)?;
        Some(value.replace("%20", " ").replace('+', " ").into())
    }
}
