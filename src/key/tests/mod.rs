//! Tests of each extractor, with good and bad requests.

mod address;
mod proxies;
#[cfg(feature = "axum")]
mod route;

use std::net::{IpAddr, SocketAddr};

use http::{HeaderName, HeaderValue, Request, StatusCode, request::Parts};

use super::{
    ClientIp, Everyone, ExtensionId, HeaderId, IdSource, Ipv6Range, KeyExtractor, MissingId,
    Proxies, ProxyHeader,
};
use crate::id::{
    Id,
    IdFormat::{self, FqdnSet, IpAddress, Opaque, RegId, RegIdFqdnSet, RegIdIdentValue},
};

/// A request whose peer is not known.
fn request(headers: &[(&str, &[u8])]) -> Parts {
    let mut request = Request::new(());
    for (name, value) in headers {
        let name: HeaderName = name.parse().unwrap();
        let value = HeaderValue::from_bytes(value).unwrap();
        request.headers_mut().append(name, value);
    }
    request.into_parts().0
}

fn from(peer: &str, headers: &[(&str, &[u8])]) -> Parts {
    let mut parts = request(headers);
    let peer: IpAddr = peer.parse().unwrap();
    parts.extensions.insert(SocketAddr::new(peer, 49_152));
    parts
}

/// Returns the id, or the reason why there is none.
fn id(extractor: &impl KeyExtractor, parts: &Parts) -> Result<String, String> {
    found(extractor.extract(parts))
}

/// Returns the id in a format, or the reason why there is none.
fn id_as(extractor: &impl KeyExtractor, parts: &Parts, format: IdFormat) -> Result<String, String> {
    found(extractor.extract_as(parts, format))
}

fn found(found: Result<Option<Id>, MissingId>) -> Result<String, String> {
    match found {
        Ok(Some(id)) => Ok(id.to_string()),
        Ok(None) => Err("skipped".into()),
        Err(missing) => Err(format!(
            "{} {}",
            missing.status().as_u16(),
            missing.reason()
        )),
    }
}

#[test]
fn header_is_an_id_if_it_is_one_clear_value() {
    let header = HeaderId::new("x-account-id");
    let with = |values: &[&[u8]]| {
        let headers: Vec<_> = values
            .iter()
            .map(|value| ("x-account-id", *value))
            .collect();
        id(&header, &request(&headers))
    };
    let long = [b'x'; 1024];
    let too_long = [b'x'; 1025];
    assert_eq!(with(&[b"12345678"]).unwrap(), "12345678");
    assert_eq!(with(&[b" 12345678\t"]).unwrap(), "12345678");
    assert_eq!(with(&[&long]).unwrap().len(), 1024);
    let refused: [(&[&[u8]], &str); 6] = [
        (&[], "is missing"),
        (&[b""], "is empty"),
        (&[b"  "], "is empty"),
        (&[b"1", b"2"], "appears more than once"),
        (&["é".as_bytes()], "is not visible ASCII"),
        (&[&too_long], "is longer than 1024 bytes"),
    ];
    for (values, problem) in refused {
        let expected =
            format!("400 header `x-account-id` {problem}: send it once, with the id as its value");
        assert_eq!(with(values).unwrap_err(), expected);
    }
}

#[test]
fn header_is_a_secret_unless_it_is_shown() {
    let parts = request(&[("x-key", b"sk-1")]);
    let hidden = HeaderId::new("x-key");
    let shown = HeaderId::new("x-key").shown();
    let is_secret = |found: Result<Option<Id>, MissingId>| found.unwrap().unwrap().is_secret();
    assert!(is_secret(hidden.extract(&parts)) && !is_secret(shown.extract(&parts)));
    assert!(is_secret(hidden.clone().prefix("key:").extract(&parts)));
    assert!(is_secret((shown.clone(), hidden.clone()).extract(&parts)));
    assert!(!is_secret((shown.clone(), Everyone).extract(&parts)));
    let refused = id_as(&hidden, &parts, RegId).unwrap_err();
    let expected = "400 header `x-key`: its value is not an id in the format regId: use";
    assert!(refused.starts_with(expected), "{refused}");
    let refused = id_as(&shown, &parts, RegId).unwrap_err();
    assert!(
        refused.starts_with("400 header `x-key`: `sk-1` is not an id"),
        "{refused}"
    );
}

#[test]
#[should_panic(expected = "`x account` is not a header name: use ASCII letters, digits and `-`")]
fn header_names_are_checked() {
    let _ = HeaderId::new("x account");
}

#[test]
fn missing_header_asks_to_authenticate_if_it_is_set_to() {
    let header = HeaderId::new("x-key").unauthorized("ApiKey");
    for parts in [request(&[]), request(&[("x-key", b"one")])] {
        let missing = header.extract_as(&parts, RegId).unwrap_err();
        assert_eq!(missing.status(), StatusCode::UNAUTHORIZED);
        assert_eq!(
            missing.challenge(),
            Some(HeaderValue::from_static("ApiKey"))
        );
    }
    let server = MissingId::server("a mistake").unauthorized("ApiKey");
    assert_eq!((server.status().as_u16(), server.challenge()), (500, None));
}

#[derive(Clone)]
struct User(&'static str);

#[test]
fn extension_is_an_id_once_its_layer_has_run() {
    let user = ExtensionId::new(|user: &User| user.0);
    let optional = ExtensionId::optional(|user: &User| user.0);
    let mut parts = request(&[]);
    let missing = id(&user, &parts).unwrap_err();
    assert!(
        missing.starts_with("500 the request has no extension `"),
        "{missing}"
    );
    assert!(missing.contains("User`: add the layer"), "{missing}");
    assert_eq!(id(&optional, &parts).unwrap_err(), "skipped");
    parts.extensions.insert(User("7"));
    assert_eq!(id(&user, &parts).unwrap(), "7");
    parts.extensions.insert(User("seven"));
    let wrong = id_as(&optional, &parts, RegId).unwrap_err();
    assert!(
        wrong.contains("its value is not an id in the format regId"),
        "{wrong}"
    );
    assert!(
        wrong.starts_with("500 extension `") && !wrong.contains("seven"),
        "{wrong}"
    );
}

#[test]
fn closures_are_extractors() {
    let by_path = |parts: &Parts| Some(parts.uri.path().to_owned());
    assert_eq!(id(&by_path, &request(&[])).unwrap(), "/");
    let never = |_: &Parts| None::<Id>;
    assert_eq!(id(&never, &request(&[])).unwrap_err(), "skipped");
    let boxed: Box<dyn KeyExtractor> = Box::new(Everyone);
    assert_eq!(found(boxed.extract(&request(&[]))).unwrap(), "everyone");
    let empty = |_: &Parts| Some("");
    let missing = id_as(&empty, &request(&[]), Opaque).unwrap_err();
    assert!(missing.starts_with("400 `` is not an id in the format opaque: it is empty"));
}

#[test]
fn first_valid_id_of_a_chain_counts() {
    let account = HeaderId::new("x-account");
    let key = HeaderId::new("x-key");
    let three = account.or_else(key.or_else(Everyone));
    let empty: (&str, &[u8]) = ("x-account", b"");
    for (format, headers, expected) in [
        (
            Opaque,
            &[("x-account", &b"a"[..]), ("x-key", b"k")][..],
            "a",
        ),
        (Opaque, &[("x-key", b"k")], "k"),
        (Opaque, &[empty, ("x-key", b"k")], "k"),
        (
            Opaque,
            &[("x-account", b"a"), ("x-account", b"b")],
            "everyone",
        ),
        (Opaque, &[], "everyone"),
        (RegId, &[("x-account", b"0012"), ("x-key", b"34")], "34"),
    ] {
        let parts = request(headers);
        assert_eq!(
            id_as(&three, &parts, format).unwrap(),
            expected,
            "{headers:?}"
        );
    }
    let parts = request(&[("x-account", b"a")]);
    assert_eq!(id(&three, &parts).unwrap(), "a");
    // The last one says what is missing.
    let last = HeaderId::new("x-account").or_else(HeaderId::new("x-other").unauthorized("Key"));
    let missing = id_as(&last, &parts, RegId).unwrap_err();
    assert!(
        missing.starts_with("401 header `x-other` is missing"),
        "{missing}"
    );
    let skips = HeaderId::new("x-other").or_else(|_: &Parts| None::<String>);
    assert_eq!(id(&skips, &parts).unwrap_err(), "skipped");
}

#[test]
fn chain_fits_the_formats_that_all_its_extractors_fit() {
    let fits = |extractor: &dyn KeyExtractor| {
        let formats = IdFormat::ALL.map(|(format, _)| format).into_iter();
        formats
            .filter(|format| extractor.fits(*format))
            .collect::<Vec<_>>()
    };
    let header = || HeaderId::new("x");
    assert_eq!(fits(&header()).len(), IdFormat::ALL.len());
    assert_eq!(fits(&|_: &Parts| Some("7")).len(), IdFormat::ALL.len());
    assert_eq!(fits(&ClientIp::peer().exact()), [Opaque, IpAddress]);
    assert_eq!(fits(&Ipv6Range::peer()), [Opaque, IdFormat::Ipv6Range]);
    assert_eq!(fits(&Ipv6Range::peer().bits(56)), [Opaque]);
    assert_eq!(fits(&Everyone), [Opaque]);
    assert_eq!(fits(&header().prefix("x:")), [Opaque]);
    let either = header().or_else(ClientIp::peer());
    assert_eq!(fits(&either), [Opaque, IpAddress]);
    assert_eq!(fits(&Everyone.or_else(ClientIp::peer())), [Opaque]);
    let pairs = [
        Opaque,
        IdFormat::RegIdDomain,
        IdFormat::RegIdDomainOrCidr,
        RegIdIdentValue,
        RegIdFqdnSet,
    ];
    assert_eq!(fits(&(header(), header())), pairs);
    assert_eq!(fits(&(ClientIp::peer(), header())), [Opaque]);
    assert_eq!(fits(&(header(), header(), header())), [Opaque]);
}

#[test]
fn accounts_with_a_prefix_and_addresses_never_meet() {
    let either = |header: HeaderId| header.prefix("account:").or_else(ClientIp::peer());
    let sent = from("198.51.100.2", &[("x-account", b"192.0.2.1")]);
    let account = HeaderId::new("x-account").shown();
    assert_eq!(
        id(&either(account.clone()), &sent).unwrap(),
        "account:192.0.2.1"
    );
    assert_eq!(
        id(&account.or_else(ClientIp::peer()), &sent).unwrap(),
        "192.0.2.1"
    );
    let without = from("192.0.2.1", &[]);
    let found = id(&either(HeaderId::new("x-account")), &without);
    assert_eq!(found.unwrap(), "192.0.2.1");
}

#[test]
fn ids_that_can_collide_are_a_mistake() {
    let header = || HeaderId::new("x-account");
    let proxies = || Proxies::hops(1, ProxyHeader::XForwardedFor);
    let registry = || ClientIp::behind(Proxies::registry());
    let code = |source: IdSource| source.mistake().map(|(code, _)| code);
    let closure = |_: &Parts| Some("7");
    for (source, expected) in [
        (header().source(), None),
        (ClientIp::peer().source(), None),
        (header().or_else(header()).source(), None),
        (header().or_else(Everyone).source(), None),
        (
            header().prefix("a:").or_else(ClientIp::peer()).source(),
            None,
        ),
        (closure.or_else(ClientIp::peer()).source(), None),
        ((header(), ClientIp::peer()).source(), None),
        (registry().source(), Some("everyone-trusted")),
        ((registry(), Everyone).source(), Some("everyone-trusted")),
        (
            header().or_else(ClientIp::peer()).source(),
            Some("ids-collide"),
        ),
        (
            ClientIp::peer().or_else(header()).source(),
            Some("ids-collide"),
        ),
        (
            header().or_else(Ipv6Range::peer()).source(),
            Some("ids-collide"),
        ),
        (
            header().or_else(ClientIp::behind(proxies())).source(),
            Some("ids-collide"),
        ),
        (
            header().or_else(ClientIp::from_fn(|_| None)).source(),
            Some("ids-collide"),
        ),
        (
            header().or_else(ClientIp::peer().prefix("ip:")).source(),
            Some("ids-collide"),
        ),
        (
            header()
                .or_else(header())
                .or_else(ClientIp::peer())
                .source(),
            Some("ids-collide"),
        ),
    ] {
        assert_eq!(code(source), expected, "{source:?}");
    }
}

#[test]
fn tuples_join_their_ids_without_collisions() {
    let two = (HeaderId::new("x-a"), HeaderId::new("x-b"));
    let three = (HeaderId::new("x-a"), Everyone, HeaderId::new("x-b"));
    for (a, b, joined) in [
        ("1", "2", "1:2"),
        ("1:2", "3", "1%3A2:3"),
        ("1", "2:3", "1:2:3"),
        ("1%3A2", "3", "1%253A2:3"),
    ] {
        let parts = request(&[("x-a", a.as_bytes()), ("x-b", b.as_bytes())]);
        assert_eq!(id(&two, &parts).unwrap(), joined);
        let three = id(&three, &parts).unwrap();
        assert_eq!(three.matches(":everyone:").count(), 1, "{three}");
    }
    let missing = id(&two, &request(&[("x-b", b"2")])).unwrap_err();
    assert!(
        missing.starts_with("400 header `x-a` is missing"),
        "{missing}"
    );
    let skips = (Everyone, |_: &Parts| None::<Id>);
    assert_eq!(id(&skips, &request(&[])).unwrap_err(), "skipped");
    let empty = (Everyone, |_: &Parts| Some(""));
    assert!(id(&empty, &request(&[])).is_err());
}

#[test]
fn pairs_are_folded_part_by_part() {
    let pair = (
        HeaderId::new("x-old").or_else(HeaderId::new("x-account")),
        HeaderId::new("x-names").shown(),
    );
    let parts =
        |account: &'static [u8]| request(&[("x-account", account), ("x-names", b"B.com,a.com")]);
    let hash = FqdnSet.fold("a.com,b.com").unwrap();
    let folded = id_as(&pair, &parts(b"7"), RegIdFqdnSet).unwrap();
    assert_eq!(folded, format!("7:{hash}"));
    assert_eq!(id(&pair, &parts(b"7")).unwrap(), "7:B.com,a.com");
    let wrong = id_as(&pair, &parts(b"seven"), RegIdFqdnSet).unwrap_err();
    assert!(
        wrong.starts_with("400 header `x-account`: its value is not"),
        "{wrong}"
    );
    let parts = |name: &'static [u8]| request(&[("x-account", b"7"), ("x-names", name)]);
    let folded = id_as(&pair, &parts(b"WWW.Example.com."), RegIdIdentValue);
    assert_eq!(folded.unwrap(), "7:www.example.com");
    let wrong = id_as(&pair, &parts(b"com"), RegIdIdentValue).unwrap_err();
    assert!(
        wrong.starts_with("400 header `x-names`: its value is not"),
        "{wrong}"
    );
}
