//! Lines in JSON: Caddy's, those of an nginx with a `log_format` in JSON, and any with named fields.

use std::{
    borrow::{Borrow, Cow},
    collections::HashMap,
    net::IpAddr,
};

use ahash::RandomState;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    common_format::{address_in, method_and_path, path_of},
    instant,
    record::{Record, Wanted},
    unreadable::Reason,
};

/// The usual names of the time, in the order in which they are looked for. A dot leads into an object.
const TIMES: [&str; 11] = [
    "StartUTC",
    "start_time",
    "ts",
    "msec",
    "time",
    "timestamp",
    "@timestamp",
    "time_iso8601",
    "time_local",
    "datetime",
    "date",
];

/// The usual names of the client's address.
const ADDRESSES: [&str; 13] = [
    "request.client_ip",
    "request.remote_ip",
    "request.remote_addr",
    "remote_addr",
    "client_ip",
    "remote_ip",
    "ip",
    "client",
    "address",
    "remote",
    "host",
    "ClientHost",
    "clientip",
];

const METHODS: [&str; 5] = [
    "request.method",
    "request_method",
    "method",
    "verb",
    "RequestMethod",
];

const PATHS: [&str; 7] = [
    "request.uri",
    "request_uri",
    "uri",
    "path",
    "url",
    "target",
    "RequestPath",
];

pub(super) fn read(line: &[u8], wanted: &Wanted) -> Result<Record, Reason> {
    let object: Object<'_> = serde_json::from_slice(line).map_err(|_| Reason::Form)?;
    let time = match &wanted.time {
        Some(name) => object.find(name),
        None => TIMES.iter().find_map(|name| object.get(name)),
    };
    let time = text(time.ok_or(Reason::NoTime)?).ok_or(Reason::Time)?;
    let mut record = Record {
        at: instant::of_text(&time)?,
        ..Record::default()
    };
    if wanted.address {
        record.address = Some(object.address(wanted).ok_or(Reason::NoAddress)?);
    }
    if wanted.request {
        (record.method, record.path) = object.request();
    }
    let fields = wanted.fields.iter();
    let values = fields.map(|name| Some(text(object.find(name)?)?.into_owned()));
    record.fields = values.collect();
    Ok(record)
}

/// The fields of a JSON object, as they are written.
#[derive(Deserialize)]
struct Object<'a>(#[serde(borrow)] HashMap<Name<'a>, &'a RawValue, RandomState>);

#[derive(Deserialize, PartialEq, Eq, Hash)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl Borrow<str> for Name<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl<'a> Object<'a> {
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

    fn inner(&self, name: &str) -> Option<Object<'a>> {
        let value = self.get(name)?.get();
        let is_object = value.starts_with('{');
        is_object.then(|| serde_json::from_str(value).ok())?
    }

    /// Finds the first of the usual names. `request` may be an object, which is read once.
    fn first_of(&self, names: &[&str], request: Option<&Self>) -> Option<&'a RawValue> {
        names.iter().find_map(|name| match name.split_once('.') {
            Some((_, inner)) => request?.get(inner),
            None => self.get(name),
        })
    }

    fn address(&self, wanted: &Wanted) -> Option<IpAddr> {
        if let Some(name) = &wanted.address_field {
            return address_in(&text(self.find(name)?)?);
        }
        let request = self.inner("request");
        let mut names = ADDRESSES.iter();
        names.find_map(|name| {
            let value = self.first_of(&[name], request.as_ref())?;
            address_in(&text(value)?)
        })
    }

    /// The method and the path, from fields of their own or from a whole request line.
    fn request(&self) -> (String, String) {
        let request = self.inner("request");
        let request = request.as_ref();
        let part = |names| self.first_of(names, request).and_then(text);
        match (part(&METHODS), part(&PATHS)) {
            (Some(method), Some(uri)) => (method.into_owned(), path_of(&uri).to_owned()),
            (method, uri) => {
                let line = self.get("request").and_then(text);
                let (first, second) = method_and_path(line.as_deref().unwrap_or_default());
                let path = uri.map_or(second, |uri| path_of(&uri).to_owned());
                (method.map_or(first, Cow::into_owned), path)
            }
        }
    }
}

/// A value as text; none for null and objects. Of a list, such as a header's values, it is the first.
fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    let json = value.get();
    match json.as_bytes().first()? {
        b'"' => {
            let Name(text) = serde_json::from_str(json).ok()?;
            Some(text)
        }
        b'[' => {
            let values: Vec<&RawValue> = serde_json::from_str(json).ok()?;
            let first = values
                .first()
                .filter(|value| !value.get().starts_with('['))?;
            text(first)
        }
        b'{' | b'n' => None,
        _ => Some(Cow::Borrowed(json)),
    }
}
