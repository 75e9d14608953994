//! TLS with rustls and ring.

use std::sync::Arc;

use fred::{
    rustls::{
        self, ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
    rustls_native_certs,
    types::config::{TlsConfig, TlsConnector},
};

use super::error::RedisError;

/// The certificates of a connection, as PEM. It has no `Debug`, because it holds a private key.
#[derive(Clone, Default)]
pub(super) struct TlsSettings {
    /// The authorities to trust, instead of those of the system.
    pub(super) authorities: Option<Vec<u8>>,
    /// A certificate chain and its key, for servers that ask for one.
    pub(super) client: Option<(Vec<u8>, Vec<u8>)>,
}

impl TlsSettings {
    pub(super) fn is_default(&self) -> bool {
        self.authorities.is_none() && self.client.is_none()
    }

    pub(super) fn connector(&self) -> Result<TlsConfig, RedisError> {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(invalid)?
            .with_root_certificates(self.roots()?);
        let config = match &self.client {
            None => config.with_no_client_auth(),
            Some((chain, key)) => {
                let chain = certificates(chain, "the client's certificate")?;
                let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| {
                    RedisError::config("TLS: the client's key is not a private key in PEM")
                })?;
                config.with_client_auth_cert(chain, key).map_err(invalid)?
            }
        };
        Ok(TlsConnector::from(config).into())
    }

    fn roots(&self) -> Result<RootCertStore, RedisError> {
        let mut roots = RootCertStore::empty();
        let Some(authorities) = &self.authorities else {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            return match roots.is_empty() {
                true => Err(RedisError::config(
                    "TLS: the system has no root certificates: install `ca-certificates`, or set \
                     `root_certificates`",
                )),
                false => Ok(roots),
            };
        };
        for root in certificates(authorities, "the root certificates")? {
            roots.add(root).map_err(invalid)?;
        }
        Ok(roots)
    }
}

/// Reads certificates, at least one.
fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, RedisError> {
    let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(RedisError::Config(format!(
            "TLS: {what} must be PEM, from `-----BEGIN CERTIFICATE-----` on"
        ))),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it maps an error")]
fn invalid(error: rustls::Error) -> RedisError {
    RedisError::Config(format!("TLS: {error}"))
}
