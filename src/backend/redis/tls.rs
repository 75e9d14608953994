//! TLS with rustls and ring.

use std::{fmt, sync::Arc};

use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};

use super::error::RedisError;

/// The certificates of a connection, as PEM. Not `Debug`, because it holds a private key.
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

    pub(super) fn connector(&self) -> Result<TlsConnector, RedisError> {
        let mut roots = RootCertStore::empty();
        let trusted = match &self.authorities {
            Some(pem) => certificates(pem, "the root certificates")?,
            None => rustls_native_certs::load_native_certs().certs,
        };
        roots.add_parsable_certificates(trusted);
        if roots.is_empty() {
            return Err(invalid(
                "there are no root certificates: install `ca-certificates`, or set `root_certificates`",
            ));
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(invalid)?
            .with_root_certificates(roots);
        let config = match &self.client {
            None => config.with_no_client_auth(),
            Some((chain, key)) => {
                let chain = certificates(chain, "the client's certificate")?;
                let key = PrivateKeyDer::from_pem_slice(key);
                let key =
                    key.map_err(|_| invalid("the client's key is not a private key in PEM"))?;
                config.with_client_auth_cert(chain, key).map_err(invalid)?
            }
        };
        Ok(TlsConnector::from(Arc::new(config)))
    }
}

/// Reads certificates, at least one.
fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, RedisError> {
    let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.ok().filter(|found| !found.is_empty());
    certificates.ok_or_else(|| {
        invalid(format_args!(
            "{what} must be PEM, from `-----BEGIN CERTIFICATE-----` on"
        ))
    })
}

fn invalid(problem: impl fmt::Display) -> RedisError {
    RedisError::Config(format!("TLS: {problem}"))
}
