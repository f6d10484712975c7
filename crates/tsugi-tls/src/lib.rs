//! Certificates and keys of both sides: read from files, checked, and replaced while in use.
//!
//! [`server`] is what a listener needs, [`client_auth`] what it believes about the certificates of callers, and
//! [`upstream`] what a connection to one server needs. Nothing here opens a socket, and the time is an argument.

mod pem_file;

pub mod acme_challenge;
pub mod certificate;
pub mod client_auth;
pub mod error;
pub mod key_pair;
pub mod pin;
pub mod server;
pub mod upstream;

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

/// The one cryptography backend of the workspace.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
