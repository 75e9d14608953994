//! Reads the fields in which servers say how much is left, in all the forms that are in use.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName};

use crate::{algorithm::parse_duration, clock::date::seconds};

/// The fields of services and of earlier drafts: the remaining number, and those with the reset. The first pair that is present
/// counts.
const SEPARATE: [(&str, &[&str]); 3] = [
    ("ratelimit-remaining", &["ratelimit-reset"]),
    (
        "x-ratelimit-remaining",
        &["x-ratelimit-reset-after", "x-ratelimit-reset"],
    ),
    ("x-rate-limit-remaining", &["x-rate-limit-reset"]),
];

/// A reset of this many seconds or more counts from 1970. Counted from now, it would be 31 years away.
const EPOCH_SECS: u64 = 1_000_000_000;

/// The same bound in milliseconds.
const EPOCH_MS: u64 = 1_000_000_000_000;

/// The wait if a server names none, or one that cannot be read.
pub(super) const DEFAULT_WAIT: Duration = Duration::from_secs(1);

/// The most policies of a response that are searched, so that a server cannot make the search slow.
const MOST_POLICIES: usize = 16;

/// The content of the fields of a response.
#[derive(Debug, Default)]
pub(super) struct RateFields {
    /// The number of requests that are accepted now.
    pub(super) remaining: Option<u64>,
    /// If none remain, the time until there are more.
    pub(super) wait: Option<Duration>,
}

impl RateFields {
    /// Reads the newest form that is present. `now` is the server's time.
    pub(super) fn read(headers: &HeaderMap, now: SystemTime) -> Self {
        if let Some(fields) = draft11(headers) {
            return fields;
        }
        let mut fields = Self::default();
        if let Some((remaining, wait)) = draft7(headers).or_else(|| separate(headers, now)) {
            fields.add(remaining, wait);
        }
        fields
    }

    /// Adds a limit: the lowest number counts, and the longest wait.
    fn add(&mut self, remaining: u64, wait: Option<Duration>) {
        let least = self.remaining.unwrap_or(u64::MAX);
        self.remaining = Some(remaining.min(least));
        if remaining == 0 {
            self.wait = self.wait.max(wait);
        }
    }
}

/// Reads `RateLimit` and `RateLimit-Policy` of [draft-ietf-httpapi-ratelimit-headers-11]. A malformed field is ignored as a
/// whole.
///
/// [draft-ietf-httpapi-ratelimit-headers-11]:
///     https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-ratelimit-headers-11
fn draft11(headers: &HeaderMap) -> Option<RateFields> {
    let states = list(headers, "ratelimit")?;
    let mut policies = list(headers, "ratelimit-policy").unwrap_or_default();
    policies.truncate(MOST_POLICIES);
    let mut fields = RateFields::default();
    for state in states {
        let remaining = whole(state.get("r")?)?;
        let t = match state.get("t") {
            Some(t) => Some(delta(whole(t)?)),
            None => None,
        };
        let policy = policies.iter().find(|policy| policy.name == state.name);
        fields.add(remaining, t.or_else(|| policy?.interval()));
    }
    Some(fields)
}

/// Reads the single field of draft 7: `limit=100, remaining=50, reset=30`.
fn draft7(headers: &HeaderMap) -> Option<(u64, Option<Duration>)> {
    let members = split(single(headers, "ratelimit")?, ',')?;
    let pairs = members.iter().filter_map(|member| member.split_once('='));
    let pairs: Vec<_> = pairs.collect();
    let get = |key| pairs.iter().find(|(name, _)| *name == key);
    let reset = |text| rounded_up(text).map_or(DEFAULT_WAIT, delta);
    let reset = get("reset").map(|(_, text)| reset(text));
    Some((rounded_down(get("remaining")?.1)?, reset))
}

/// Reads separate fields for the number and the reset. If proxies or several limits have added values, the lowest number and the
/// longest wait count.
fn separate(headers: &HeaderMap, now: SystemTime) -> Option<(u64, Option<Duration>)> {
    SEPARATE.iter().find_map(|(remaining, resets)| {
        let remaining = values(headers, remaining).filter_map(rounded_down).min()?;
        let mut waits = resets
            .iter()
            .filter_map(|reset| longest(headers, reset, now));
        let is_present = resets.iter().any(|reset| headers.contains_key(*reset));
        Some((
            remaining,
            waits.next().or(is_present.then_some(DEFAULT_WAIT)),
        ))
    })
}

/// Returns the longest wait of a field's values.
pub(super) fn longest(headers: &HeaderMap, name: &str, now: SystemTime) -> Option<Duration> {
    values(headers, name)
        .filter_map(|value| until(value, now))
        .max()
}

/// Reads a number of seconds from now, a duration, or an instant: a date, or seconds or milliseconds since 1970.
fn until(reset: &str, now: SystemTime) -> Option<Duration> {
    let instant = match rounded_up(reset) {
        Some(secs @ ..EPOCH_SECS) => return Some(delta(secs)),
        Some(secs @ EPOCH_SECS..EPOCH_MS) => UNIX_EPOCH.checked_add(Duration::from_secs(secs)),
        Some(ms) => UNIX_EPOCH.checked_add(Duration::from_millis(ms)),
        None => match parse_duration(reset) {
            Ok(wait) => return Some(wait.max(Duration::from_millis(1))),
            Err(_) => httpdate::parse_http_date(reset)
                .ok()
                .or_else(|| rfc3339(reset)),
        },
    };
    Some(instant?.duration_since(now).unwrap_or_default())
}

/// Reads an instant of RFC 3339. It can have an offset from UTC, and a fraction of a second, which is rounded up.
fn rfc3339(text: &str) -> Option<SystemTime> {
    let text = text.to_ascii_uppercase();
    let time_at = text.find('T')?;
    let zone_at = time_at + text[time_at..].find(['Z', '+', '-'])?;
    let (local, zone) = text.split_at(zone_at);
    let (local, fraction) = local.split_once('.').unwrap_or((local, "0"));
    let more = i64::from(whole(fraction)? > 0);
    let offset = || seconds(&format!("1970-01-01T{}:00Z", &zone[1..]));
    let ahead = match zone.chars().next()? {
        '+' => offset()?,
        '-' => -offset()?,
        _ if zone == "Z" => 0,
        _ => return None,
    };
    let since_1970 = seconds(&format!("{local}Z"))? - ahead + more;
    UNIX_EPOCH.checked_add(Duration::from_secs(since_1970.try_into().ok()?))
}

/// Returns a time in whole seconds. 0 counts as one second, because the server has rounded it down.
fn delta(secs: u64) -> Duration {
    Duration::from_secs(secs.max(1))
}

/// An item of a list in a structured field (RFC 9651), with its parameters.
#[derive(Debug)]
struct Item<'a> {
    /// A string in quotes or, as some servers write it, a token.
    name: &'a str,
    parameters: Vec<&'a str>,
}

impl Item<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        let pairs = self.parameters.iter().rev();
        let mut pairs = pairs.filter_map(|parameter| parameter.split_once('='));
        pairs.find_map(|(name, value)| (name == key).then_some(value))
    }

    /// Returns the window, divided by the quota: the average time in which a unit comes back.
    fn interval(&self) -> Option<Duration> {
        let window = Duration::from_secs(whole(self.get("w")?)?);
        let quota = u32::try_from(whole(self.get("q")?)?).ok()?;
        window.checked_div(quota)
    }
}

/// Reads a list of at least one item. `None` if the field is malformed.
fn list<'a>(headers: &'a HeaderMap, field: &str) -> Option<Vec<Item<'a>>> {
    let mut items = Vec::new();
    for line in headers.get_all(field) {
        for item in split(line.to_str().ok()?, ',')? {
            let mut parts = split(item, ';')?.into_iter();
            let name = parts.next().filter(|name| is_name(name))?;
            let parameters = parts.collect();
            items.push(Item { name, parameters });
        }
    }
    Some(items).filter(|items| !items.is_empty())
}

/// Splits a text outside of quoted strings. `None` if a part is empty, or a string does not end.
fn split(text: &str, separator: char) -> Option<Vec<&str>> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    let parts = text.split(|c| {
        let is_quote = c == '"' && !is_escaped;
        is_quoted ^= is_quote;
        is_escaped = c == '\\' && is_quoted && !is_escaped;
        c == separator && !is_quoted
    });
    let parts: Vec<_> = parts.map(|part| part.trim_matches([' ', '\t'])).collect();
    let is_whole = !is_quoted && parts.iter().all(|part| !part.is_empty());
    is_whole.then_some(parts)
}

fn is_name(text: &str) -> bool {
    let is_string = text.len() > 1 && text.starts_with('"') && text.ends_with('"');
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.*".contains(&byte);
    is_string || text.bytes().all(is_token)
}

/// Returns the values of a field: its lines, and the items of lines that are lists. Dates contain a comma but are not lists.
pub(super) fn values<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(name).into_iter();
    lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| {
            let is_date = httpdate::parse_http_date(line.trim()).is_ok();
            let most = if is_date { 1 } else { usize::MAX };
            line.splitn(most, ',').map(str::trim)
        })
}

/// Returns the only line of a field, if it is text.
pub(super) fn single<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut lines = headers.get_all(name).iter();
    let line = lines.next()?.to_str().ok()?;
    lines.next().is_none().then(|| line.trim())
}

/// Reads a whole number of digits only. A number above `u64::MAX` is read as `u64::MAX`.
pub(super) fn whole(text: &str) -> Option<u64> {
    let is_whole = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_whole.then(|| text.parse().unwrap_or(u64::MAX))
}

/// Reads a number of digits, and rounds a fraction down.
fn rounded_down(text: &str) -> Option<u64> {
    let (number, fraction) = text.split_once('.').unwrap_or((text, "0"));
    whole(fraction)?;
    whole(number)
}

/// Reads a number of digits, and rounds a fraction up.
pub(super) fn rounded_up(text: &str) -> Option<u64> {
    let (number, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let more = whole(fraction)? > 0;
    Some(whole(number)?.saturating_add(more.into()))
}

/// Reads a field that holds a date.
pub(super) fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(single(headers, name.as_str())?).ok()
}
