//! Reads lines in JSON: those of Caddy, Traefik, Envoy, of nginx with a `log_format` in JSON, and all with named fields.

use std::{
    borrow::{Borrow, Cow},
    collections::HashMap,
    net::IpAddr,
};

use ahash::RandomState;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    Line, LineError, LogArgs,
    value::{YEAR, address, instant, method_and_path, path_of},
};

/// The usual names of the time, in the order in which they are looked for.
const TIMES: &str =
    "StartUTC start_time ts msec time timestamp @timestamp time_iso8601 time_local datetime date";

/// The usual names of the client's address. They are looked for in `request` if that is an object, and then in the line.
const ADDRESSES: &str = "client_ip remote_ip remote_addr downstream_remote_address ip client address remote ClientHost \
                         clientip x_real_ip http_x_real_ip";

const METHODS: &str = "request_method method verb RequestMethod";

const PATHS: &str = "request_uri uri path url target RequestPath";

/// A line, and the object `request` in it, if there is one.
pub(super) struct JsonLine<'a> {
    whole: JsonObject<'a>,
    request: Option<JsonObject<'a>>,
}

/// The fields of a JSON object, as they are written.
#[derive(Deserialize)]
struct JsonObject<'a>(#[serde(borrow)] HashMap<Name<'a>, &'a RawValue, RandomState>);

#[derive(Deserialize, PartialEq, Eq, Hash)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl Borrow<str> for Name<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl<'a> JsonLine<'a> {
    pub(super) fn parse(line: &'a [u8]) -> Result<Self, LineError> {
        let whole: JsonObject<'_> = serde_json::from_slice(line).map_err(|_| LineError::Form)?;
        let request = whole.inner("request");
        Ok(Self { whole, request })
    }

    /// The values of these fields, those in `request` first.
    fn usual<'b>(&'b self, names: &'static str) -> impl Iterator<Item = &'a RawValue> + 'b {
        let objects = self.request.iter().chain([&self.whole]);
        objects.flat_map(move |object| names.split(' ').filter_map(|name| object.get(name)))
    }
}

impl Line for JsonLine<'_> {
    fn time(&self, args: &LogArgs) -> Result<u64, LineError> {
        let read = |value| instant(&text(value).ok_or(LineError::Time)?);
        let is_instant = |read: &Result<u64, LineError>| !matches!(read, Ok(..YEAR));
        if let Some(field) = &args.time {
            return read(self.whole.find(field).ok_or(LineError::NoTime)?);
        }
        let present = || {
            TIMES
                .split(' ')
                .filter_map(|name| self.whole.get(name))
                .map(read)
        };
        let found = present().find(is_instant).or_else(|| present().next());
        found.unwrap_or(Err(LineError::NoTime))
    }

    fn address(&self, args: &LogArgs) -> Result<IpAddr, LineError> {
        let read = |value| address(&list(value).ok_or(LineError::NoAddress)?, args.hops);
        if let Some(field) = &args.address {
            return read(self.whole.find(field).ok_or(LineError::NoAddress)?);
        }
        let mut usual = self.usual(ADDRESSES).map(read);
        let found = usual.find(|read| *read != Err(LineError::NoAddress));
        found.unwrap_or(Err(LineError::NoAddress))
    }

    /// The method and the path, from fields of their own or from a whole request line.
    fn request(&self) -> (String, String) {
        let part = |names| self.usual(names).find_map(text);
        let line = self.whole.get("request").and_then(text);
        let (first, second) = method_and_path(line.as_deref().unwrap_or_default());
        let path = part(PATHS).map_or(second, |uri| path_of(&uri).to_owned());
        (part(METHODS).map_or(first, Cow::into_owned), path)
    }

    fn field(&self, name: &str) -> Option<Cow<'_, str>> {
        text(self.whole.find(name)?)
    }
}

impl<'a> JsonObject<'a> {
    fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.get(name).copied()
    }

    /// Finds a field. If no field has the whole name, each dot in it leads into an object.
    fn find(&self, name: &str) -> Option<&'a RawValue> {
        self.get(name).or_else(|| {
            let (outer, inner) = name.split_once('.')?;
            self.inner(outer)?.find(inner)
        })
    }

    fn inner(&self, name: &str) -> Option<JsonObject<'a>> {
        let value = self.get(name)?.get();
        let is_object = value.starts_with('{');
        is_object.then(|| serde_json::from_str(value).ok())?
    }
}

/// Returns a value as text; `None` for null and objects. From a list, such as a header's values, it returns the first.
fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    let json = value.get();
    match json.as_bytes().first()? {
        b'"' => {
            let Name(text) = serde_json::from_str(json).ok()?;
            Some(text)
        }
        b'[' => texts(value)?.into_iter().next(),
        b'{' | b'n' => None,
        _ => Some(Cow::Borrowed(json)),
    }
}

/// A value as text, with commas between the values of a list.
fn list(value: &RawValue) -> Option<Cow<'_, str>> {
    if value.get().starts_with('[') {
        Some(texts(value)?.join(",").into())
    } else {
        text(value)
    }
}

/// The values of a list that has no lists in it.
fn texts(list: &RawValue) -> Option<Vec<Cow<'_, str>>> {
    let values: Vec<&RawValue> = serde_json::from_str(list.get()).ok()?;
    let values = values.into_iter().map(|value| {
        if value.get().starts_with('[') {
            None
        } else {
            text(value)
        }
    });
    values.collect()
}
