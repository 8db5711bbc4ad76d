//! TLS towards a store (`rediss://`): whom we believe, and who we say that we are.

use std::sync::Arc;

use mod_nap::agent::Auth;
use nap_core::fleet::trouble::Trouble;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::line::Failure;

/// A session that begins with a store of this name, certified as [`Auth`] has it.
pub fn session(host: &str, auth: &Auth) -> Result<ClientConnection, Failure> {
    let broken = |what: &str, why: &dyn std::fmt::Display| {
        Failure::new(Trouble::Tls, format!("{what}: {why}"))
    };
    let mut roots = RootCertStore::empty();
    match auth.ca.as_str() {
        "" => {
            let system = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(system.certs);
        }
        text => {
            for one in CertificateDer::pem_slice_iter(text.as_bytes()) {
                let one = one.map_err(|error| broken("ca", &error))?;
                roots.add(one).map_err(|error| broken("ca", &error))?;
            }
        }
    }
    if roots.is_empty() {
        return Err(broken("ca", &"there is no certificate of an authority"));
    }
    let config = ClientConfig::builder().with_root_certificates(roots);
    let config = match auth.certificate.as_str() {
        "" => config.with_no_client_auth(),
        text => {
            let chain = CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<_, _>>();
            let chain = chain.map_err(|error| broken("cert", &error))?;
            let key = PrivateKeyDer::from_pem_slice(auth.key.as_bytes());
            let key = key.map_err(|error| broken("key", &error))?;
            let config = config.with_client_auth_cert(chain, key);
            config.map_err(|error| broken("cert", &error))?
        }
    };
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|error| broken("its name", &error))?;
    let session = ClientConnection::new(Arc::new(config), name);
    session.map_err(|error| broken("TLS", &error))
}
