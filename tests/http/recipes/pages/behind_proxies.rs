use tollgate::{
    ClientIp,
    key::{Proxies, ProxiesError, ProxyHeader},
};

/// The proxy in front of the server. This belongs in the configuration of each deployment.
enum Deployment {
    /// Nothing: a development machine, or a server with an address of its own.
    Direct,
    /// nginx on this machine, with
    /// `proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;`.
    Nginx,
    /// Cloudflare, with its published ranges, separated by white space.
    Cloudflare { ranges: String },
    /// An AWS Application Load Balancer, and a security group that admits nothing else.
    AwsAlb,
    /// ingress-nginx, and a network policy that admits nothing else.
    KubernetesIngress,
}

fn client_ip(deployment: &Deployment) -> Result<ClientIp, ProxiesError> {
    let x_forwarded_for = ProxyHeader::XForwardedFor;
    let proxies = match deployment {
        Deployment::Direct => return Ok(ClientIp::peer()),
        Deployment::Nginx => Proxies::trusted(["127.0.0.1", "::1"], x_forwarded_for)?,
        Deployment::Cloudflare { ranges } => {
            let header = ProxyHeader::single("cf-connecting-ip");
            Proxies::trusted(ranges.split_whitespace(), header)?
        }
        Deployment::AwsAlb | Deployment::KubernetesIngress => Proxies::hops(1, x_forwarded_for),
    };
    Ok(ClientIp::behind(proxies))
}
