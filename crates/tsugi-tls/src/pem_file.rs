//! PEM files, read whole: a file that is cut off in the middle is an error and not a shorter file.

use std::path::Path;

use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

use crate::error::{PemContent, TlsFileError};

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, TlsFileError> {
    std::fs::read(path).map_err(|error| TlsFileError::Unreadable { path: path.to_owned(), error })
}

/// Every certificate of a file, in its order; at least one.
pub(crate) fn certificates(path: &Path, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    all(path, CertificateDer::pem_slice_iter(bytes), PemContent::Certificate)
}

pub(crate) fn revocation_lists(
    path: &Path,
    bytes: &[u8],
) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsFileError> {
    all(path, CertificateRevocationListDer::pem_slice_iter(bytes), PemContent::RevocationList)
}

/// The first private key of a file, in any of the usual forms.
pub(crate) fn private_key(path: &Path, bytes: &[u8]) -> Result<PrivateKeyDer<'static>, TlsFileError> {
    PrivateKeyDer::from_pem_slice(bytes).map_err(|_| missing(path, PemContent::PrivateKey))
}

fn all<T>(
    path: &Path,
    sections: impl Iterator<Item = Result<T, PemError>>,
    what: PemContent,
) -> Result<Vec<T>, TlsFileError> {
    // The cause is left out: it may quote the file, and the path says where to look.
    let found: Vec<T> = sections.collect::<Result<_, _>>().map_err(|_| missing(path, what))?;
    if found.is_empty() { Err(missing(path, what)) } else { Ok(found) }
}

fn missing(path: &Path, what: PemContent) -> TlsFileError {
    TlsFileError::Missing { path: path.to_owned(), what }
}
