//! Checks the client's address behind proxies.

mod written;

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use http::{HeaderName, HeaderValue, Request, request::Parts};
use tollgate::{
    ClientIp,
    id::Id,
    key::{Ipv6Range, KeyExtractor, MissingId, Proxies, ProxyHeader},
};

use self::written::Style;

const FORWARDED_FOR: &str = "x-forwarded-for";
const REAL_IP: &str = "x-real-ip";

/// The ranges of the proxies.
const TRUSTED: [&str; 2] = ["10.0.0.0/8", "fd00::/8"];

/// A proxy's address, and the same address as a dual-stack socket reports it.
const PROXY: [&str; 2] = ["10.0.0.1", "::ffff:10.0.0.1"];

/// Checks lines that a client sends. The input's first line says how a proxy writes the client's
/// address (one byte) and what that address is; the lines after it are those of the header.
///
/// # Panics
///
/// If a check fails.
pub fn check(input: &[u8]) {
    let mut lines = input.split(|byte| *byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let (style, address) = first.split_first().unwrap_or((&0, first));
    let (style, client) = (Style::of(*style), client(address));
    let sent: Vec<HeaderValue> = lines.filter_map(value).collect();
    for header in [ProxyHeader::XForwardedFor, ProxyHeader::Forwarded] {
        let list = List { header, style };
        list.whatever_was_sent(client, &sent);
        list.client_behind_proxies(client, sent.clone());
        list.nobody_behind_the_client(client, sent.clone());
        list.lines_before_change_nothing(&sent);
    }
    one_list(&sent);
    single(client, style, &sent);
    registry(client, style, &sent);
}

/// Returns the address in a text, or one made from its bytes. It is a valid address of a client, not of a proxy.
fn client(text: &[u8]) -> IpAddr {
    let written = str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    let ip = written.unwrap_or_else(|| {
        let mut bytes = [0; 16];
        for (to, from) in bytes.iter_mut().zip(text) {
            *to = *from;
        }
        IpAddr::from(bytes)
    });
    let ip = canonical(ip);
    if is_trusted(ip) || ip.is_unspecified() {
        IpAddr::from([203, 0, 113, 7])
    } else {
        ip
    }
}

fn is_trusted(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets()[0] == 10,
        IpAddr::V6(ip) => ip.octets()[0] == 0xfd,
    }
}

/// Returns a line of a header, without the bytes that servers reject.
fn value(line: &[u8]) -> Option<HeaderValue> {
    let visible = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f);
    let line: Vec<u8> = line.iter().copied().filter(visible).collect();
    HeaderValue::from_bytes(&line).ok()
}

fn request(peer: IpAddr, name: &HeaderName, lines: &[HeaderValue]) -> Parts {
    let mut request = Request::new(());
    for line in lines {
        request.headers_mut().append(name, line.clone());
    }
    let mut parts = request.into_parts().0;
    parts.extensions.insert(SocketAddr::new(peer, 49_152));
    parts
}

fn proxy(written: &str) -> IpAddr {
    written.parse().expect("a proxy's address")
}

fn name_of(header: &ProxyHeader) -> HeaderName {
    match header {
        ProxyHeader::Forwarded => HeaderName::from_static("forwarded"),
        ProxyHeader::Single(name) => name.clone(),
        _ => HeaderName::from_static(FORWARDED_FOR),
    }
}

fn trusted(header: &ProxyHeader) -> Proxies {
    Proxies::trusted(TRUSTED, header.clone()).expect("they are ranges")
}

/// The IPv4 address for which an IPv6 address stands.
pub(crate) fn canonical(ip: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = ip else { return ip };
    match v6.octets() {
        [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, low @ ..] if low != [0; 4] => {
            IpAddr::from(low)
        }
        _ => ip.to_canonical(),
    }
}

/// Finds the client's address. All extractors must agree on it.
#[allow(
    clippy::panic_in_result_fn,
    reason = "they disagree: the input has found a defect"
)]
fn find(proxies: &Proxies, parts: &Parts) -> Result<IpAddr, MissingId> {
    let by_64 = ClientIp::behind(proxies.clone()).extract(parts);
    let by_48 = Ipv6Range::behind(proxies.clone()).extract(parts);
    let exact = ClientIp::behind(proxies.clone()).exact().extract(parts);
    let found = exact.map(|id| address(&id.expect("it is not skipped")));
    let id_64 = found
        .clone()
        .map(|ip| Some(masked(ip, 64).map_or(ip, IpAddr::from).into()));
    let id_48 = found
        .clone()
        .map(|ip| Some(format!("{}/48", masked(ip, 48)?).into()));
    assert_eq!((by_64, by_48), (id_64, id_48));
    found
}

fn address(exact: &Id) -> IpAddr {
    let ip: IpAddr = exact.as_str().parse().expect("an id is an address");
    assert_eq!((ip, exact), (canonical(ip), &Id::display(ip)));
    assert!(!ip.is_unspecified());
    ip
}

/// The first address of the network of an IPv6 address.
fn masked(ip: IpAddr, bits: u32) -> Option<Ipv6Addr> {
    let IpAddr::V6(ip) = ip else { return None };
    Some(Ipv6Addr::from_bits(
        ip.to_bits() & (u128::MAX << (128 - bits)),
    ))
}

/// A header to which proxies append, each in one style.
struct List {
    header: ProxyHeader,
    style: Style,
}

impl List {
    fn request(&self, peer: &str, lines: &[HeaderValue]) -> Parts {
        request(proxy(peer), &name_of(&self.header), lines)
    }

    fn append(&self, lines: &mut Vec<HeaderValue>, ip: IpAddr) {
        let item = match self.header {
            ProxyHeader::Forwarded => self.style.element(ip),
            _ => self.style.item(ip),
        };
        self.style.append(lines, &item);
    }

    /// No input panics. If all addresses are those of proxies, one of them is the client.
    fn whatever_was_sent(&self, client: IpAddr, sent: &[HeaderValue]) {
        let trusted = trusted(&self.header);
        let direct = request(client, &name_of(&self.header), sent);
        assert_eq!(find(&trusted, &direct), Ok(client));

        let [one, mapped] = PROXY.map(|peer| find(&trusted, &self.request(peer, sent)));
        assert_eq!(one, mapped);
        let proxied = self.request(PROXY[0], sent);
        let at = |hops| find(&Proxies::hops(hops, self.header.clone()), &proxied);
        let items: Vec<_> = (1..=64).map_while(|hops| at(hops).ok()).collect();
        match one {
            Ok(ip) if is_trusted(ip) => {
                assert!(items.iter().all(|ip| is_trusted(*ip)));
                assert_eq!(items.last(), Some(&ip));
            }
            Ok(ip) => assert_eq!(items.iter().find(|ip| !is_trusted(**ip)), Some(&ip)),
            Err(_) => assert!(items.iter().all(|ip| is_trusted(*ip))),
        }
    }

    /// The client is found behind one proxy and behind two, whatever it has sent.
    fn client_behind_proxies(&self, client: IpAddr, mut lines: Vec<HeaderValue>) {
        let trusted = trusted(&self.header).trust_unix_socket();
        self.append(&mut lines, client);
        for hops in 1..=2 {
            let mut parts = self.request(PROXY[0], &lines);
            assert_eq!(find(&trusted, &parts), Ok(client), "{lines:?}");
            let counted = Proxies::hops(hops, self.header.clone());
            assert_eq!(find(&counted, &parts), Ok(client), "{lines:?}");
            parts.extensions.clear();
            assert_eq!(find(&trusted, &parts), Ok(client), "{lines:?}");
            self.append(&mut lines, proxy("10.9.9.9"));
        }
    }

    /// An item that is not an address keeps its position, and is never skipped in favour of an earlier one.
    fn nobody_behind_the_client(&self, client: IpAddr, mut lines: Vec<HeaderValue>) {
        self.append(&mut lines, client);
        let nobody = match self.header {
            ProxyHeader::Forwarded => "for=unknown;proto=https",
            _ => "unknown",
        };
        let nobody = HeaderValue::from_static(nobody);
        self.style.append(&mut lines, &nobody);
        let parts = self.request(PROXY[0], &lines);
        let hops = |hops| Proxies::hops(hops, self.header.clone());
        assert!(find(&trusted(&self.header), &parts).is_err());
        assert!(find(&hops(1), &parts).is_err());
        assert_eq!(find(&hops(2), &parts), Ok(client));
    }

    /// A client that is found in some lines is also found if other lines precede them.
    fn lines_before_change_nothing(&self, sent: &[HeaderValue]) {
        let Some((_, last)) = sent.split_first() else {
            return;
        };
        let [all, last] = [sent, last].map(|lines| self.request(PROXY[0], lines));
        let all_proxies = [trusted(&self.header), Proxies::hops(2, self.header.clone())];
        for (proxies, are_ranges) in all_proxies.iter().zip([true, false]) {
            // If a list contains only proxies, the client precedes them.
            if let Ok(client) = find(proxies, &last)
                && !(are_ranges && is_trusted(client))
            {
                assert_eq!(find(proxies, &all), Ok(client));
            }
        }
    }
}

/// Lines of `X-Forwarded-For` are one list.
fn one_list(sent: &[HeaderValue]) {
    if sent.is_empty() {
        return;
    }
    let lines: Vec<_> = sent.iter().map(HeaderValue::as_bytes).collect();
    let joined = HeaderValue::from_bytes(&lines.join(&b","[..])).expect("its parts are values");
    let name = HeaderName::from_static(FORWARDED_FOR);
    let [one, other] = [sent, &[joined]].map(|lines| request(proxy(PROXY[0]), &name, lines));
    let header = ProxyHeader::XForwardedFor;
    for proxies in [
        trusted(&header),
        Proxies::hops(2, header),
        Proxies::registry(),
    ] {
        assert_eq!(find(&proxies, &one), find(&proxies, &other));
    }
}

/// A header with a single address is read if it occurs once.
fn single(client: IpAddr, style: Style, sent: &[HeaderValue]) {
    let name = HeaderName::from_static(REAL_IP);
    let header = ProxyHeader::Single(name.clone());
    for proxies in [trusted(&header), Proxies::hops(1, header)] {
        let found = find(&proxies, &request(proxy(PROXY[0]), &name, sent));
        assert!(found.is_err() || sent.len() == 1);
        let replaced = [style.item(client)];
        let parts = request(proxy(PROXY[0]), &name, &replaced);
        assert_eq!(find(&proxies, &parts), Ok(client));
    }
}

/// The client is the second entry, or the address in the other header, or the peer.
fn registry(client: IpAddr, style: Style, sent: &[HeaderValue]) {
    let forwarded_for = HeaderName::from_static(FORWARDED_FOR);
    let registry = Proxies::registry();
    let mut parts = request(proxy(PROXY[0]), &forwarded_for, sent);
    let found = find(&registry, &parts);
    assert!(found.is_ok(), "the peer is known");

    parts.headers.insert(REAL_IP, style.item(client));
    let with_other = find(&registry, &parts);
    assert!(with_other == Ok(client) || with_other == found);

    let entries = [HeaderValue::from_static("unknown"), style.item(client)];
    let lines = [&entries, sent].concat();
    let parts = request(proxy(PROXY[0]), &forwarded_for, &lines);
    assert_eq!(find(&registry, &parts), Ok(client));
}
