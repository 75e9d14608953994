//! Writes addresses in the forms and places in which proxies write them.

use std::net::IpAddr;

use http::HeaderValue;

/// The style of a proxy, selected by the bits of one byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style(u8);

impl Style {
    /// Returns the style of a byte. The lowest bit selects the line, and the next three the form.
    pub(super) fn of(byte: u8) -> Self {
        Self(byte)
    }

    /// Returns an address for a plain header.
    pub(super) fn item(self, ip: IpAddr) -> HeaderValue {
        value(&match (ip, self.how() % 4) {
            (IpAddr::V4(_), 0) | (IpAddr::V6(_), 1) => ip.to_string(),
            (IpAddr::V4(ip), 1) => format!("{ip}:80"),
            (IpAddr::V4(ip), 2) => format!("::ffff:{ip}"),
            (IpAddr::V4(ip), _) => format!("[::FFFF:{ip}]:65535"),
            (IpAddr::V6(ip), 0) => format!("[{ip}]"),
            (IpAddr::V6(ip), 2) => format!("[{ip}%25eth0]:80"),
            (IpAddr::V6(ip), _) => format!("{ip}%eth0").to_ascii_uppercase(),
        })
    }

    /// Returns an element of `Forwarded`, strictly by RFC 7239.
    pub(super) fn element(self, ip: IpAddr) -> HeaderValue {
        let plain = match ip {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        value(&match (self.how(), ip) {
            (0, IpAddr::V4(_)) => format!("for={plain}"),
            (1, IpAddr::V4(_)) => format!("proto=https;for={plain};by=_gateway"),
            (0..=2, _) => format!(r#"for="{plain}""#),
            (3, _) => format!(r#"For="{plain}:80";Proto=https"#),
            (4, _) => format!(r#"host="a,\"b\\";for="{plain}:_port""#),
            (5, _) => format!(r#"by="[fd00::9]";for="{plain}";host="x\",for=6.6.6.6""#),
            (6, _) => format!(r#"for="\{plain}";proto="\"""#),
            _ => format!(r#"x=",";FOR="{plain}:0";host="""#),
        })
    }

    /// Appends the item of a proxy, on the last line or on a new one.
    pub(super) fn append(self, lines: &mut Vec<HeaderValue>, item: &HeaderValue) {
        match lines.last_mut() {
            Some(line) if self.0 & 1 == 0 => {
                let joined = [line.as_bytes(), item.as_bytes()].join(&b", "[..]);
                *line = HeaderValue::from_bytes(&joined).expect("both are values");
            }
            _ => lines.push(item.clone()),
        }
    }

    fn how(self) -> u8 {
        self.0 >> 1 & 7
    }
}

fn value(text: &str) -> HeaderValue {
    text.parse().expect("addresses are ASCII")
}
