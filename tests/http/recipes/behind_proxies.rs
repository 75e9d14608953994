include!("pages/behind_proxies.rs");

use http::Request;
use tollgate::key::{Extracted, KeyExtractor};

/// Who a request is from, by its peer and its headers.
fn client(deployment: &Deployment, peer: &str, headers: &[(&str, &str)]) -> Option<String> {
    let request: Request<()> = headers
        .iter()
        .fold(super::from_ip(peer), |request, (name, value)| {
            request.header(*name, *value)
        })
        .body(())
        .unwrap();
    match client_ip(deployment)
        .unwrap()
        .extract(&request.into_parts().0)
    {
        Extracted::Id(id) => Some(id.to_string()),
        _ => None,
    }
}

const XFF: &str = "x-forwarded-for";

#[test]
fn client_is_the_address_that_the_nearest_proxy_saw() {
    let cloudflare = Deployment::Cloudflare {
        ranges: "173.245.48.0/20\n2400:cb00::/32".into(),
    };
    let both = [
        (XFF, "6.6.6.6, 203.0.113.7"),
        ("cf-connecting-ip", "203.0.113.8"),
    ];
    let cases = [
        (&Deployment::Direct, "127.0.0.1", "127.0.0.1"),
        (&Deployment::Nginx, "127.0.0.1", "203.0.113.7"),
        (&cloudflare, "173.245.48.1", "203.0.113.8"),
        (&Deployment::AwsAlb, "10.0.0.1", "203.0.113.7"),
        (&Deployment::KubernetesIngress, "10.0.0.1", "203.0.113.7"),
    ];
    for (deployment, peer, expected) in cases {
        assert_eq!(client(deployment, peer, &both).as_deref(), Some(expected));
        assert_eq!(
            client(deployment, peer, &both[..0]).is_some(),
            peer == expected
        );
    }
}

#[test]
fn header_of_a_client_that_bypasses_a_known_proxy_is_ignored() {
    let cloudflare = Deployment::Cloudflare {
        ranges: "173.245.48.0/20".into(),
    };
    let forged = [(XFF, "6.6.6.6"), ("cf-connecting-ip", "6.6.6.6")];
    for deployment in [Deployment::Direct, Deployment::Nginx, cloudflare] {
        let found = client(&deployment, "203.0.113.9", &forged);
        assert_eq!(found.as_deref(), Some("203.0.113.9"));
    }
}
