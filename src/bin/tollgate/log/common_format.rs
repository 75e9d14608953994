//! Common Log Format, and Combined, which adds fields at its end:
//! `203.0.113.7 - alice [10/Oct/2000:13:55:36 -0700] "GET /index.html HTTP/1.0" 200 2326`. The host that was asked may stand before
//! the client, as in Apache's logs of virtual hosts.

use std::net::{IpAddr, SocketAddr};

use super::{
    instant,
    record::{Record, Wanted},
    unreadable::Reason,
};

/// The name of the field with the authenticated user.
const USER: &str = "user";

pub(super) fn read(line: &[u8], wanted: &Wanted) -> Result<Record, Reason> {
    let (client, time, request) = split(line).ok_or(Reason::Form)?;
    let mut record = Record {
        at: instant::of_common_format(time)?,
        ..Record::default()
    };
    let client = String::from_utf8_lossy(client);
    let client = without_host(&client);
    if wanted.address {
        let address = client.split(' ').next().and_then(address_in);
        record.address = Some(address.ok_or(Reason::NoAddress)?);
    }
    if wanted.request {
        let request = String::from_utf8_lossy(request);
        (record.method, record.path) = method_and_path(&request);
    }
    if !wanted.fields.is_empty() {
        let user = client.splitn(3, ' ').nth(2).filter(|user| *user != "-");
        let fields = wanted.fields.iter();
        let values = fields.map(|field| user.filter(|_| field == USER).map(str::to_owned));
        record.fields = values.collect();
    }
    Ok(record)
}

/// Skips the host that was asked, if the client's address stands after it.
fn without_host(client: &str) -> &str {
    match client.split_once(' ') {
        Some((first, rest)) if address_in(first).is_none() => {
            let second = rest.split(' ').next().and_then(address_in);
            second.map_or(client, |_| rest)
        }
        _ => client,
    }
}

/// Splits a line into what stands before the time, the time, and the request.
fn split(line: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let open = line.windows(2).position(|pair| pair == b" [")?;
    let (client, rest) = (&line[..open], &line[open + 2..]);
    let close = rest.iter().position(|byte| *byte == b']')?;
    let (time, rest) = (&rest[..close], &rest[close + 1..]);
    let request = rest.strip_prefix(b" \"")?;
    let mut escaped = false;
    let end = request.iter().position(|byte| {
        let is_end = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        is_end
    });
    Some((client, time, &request[..end?]))
}

/// Splits `GET /path?query HTTP/1.1`. What is no request, such as the bytes of TLS on a plain port, has neither part.
pub(super) fn method_and_path(request: &str) -> (String, String) {
    let mut words = request.split(' ');
    match (words.next(), words.next()) {
        (Some(method), Some(target)) => (method.to_owned(), path_of(target).to_owned()),
        _ => Default::default(),
    }
}

/// The path of a request's target, which may be a whole URL.
pub(super) fn path_of(target: &str) -> &str {
    let target = match target.split_once("://") {
        Some((_, rest)) if !target.starts_with('/') => {
            rest.find('/').map_or("/", |slash| &rest[slash..])
        }
        _ => target,
    };
    let end = target.find(['?', '#']).unwrap_or(target.len());
    &target[..end]
}

/// An address, with or without a port.
pub(super) fn address_in(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let with_port = || text.parse().map(|socket: SocketAddr| socket.ip());
    let bracketed = || text.trim_start_matches('[').trim_end_matches(']').parse();
    let without_zone = || text.split('%').next().unwrap_or(text).parse();
    let read = text.parse().or_else(|_| with_port());
    let read = read.or_else(|_| bracketed()).or_else(|_| without_zone());
    read.ok()
}
