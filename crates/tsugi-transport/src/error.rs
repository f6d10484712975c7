//! What can fail on a wire, with the exact cause as a type, and whether anything had been sent by then.

use std::error::Error;
use std::io;
use std::time::Duration;

use rustls::CertificateError;
use tsugi_protocol::answer::FaultReason;
use tsugi_tls::error::TlsFileError;
use tsugi_tls::pin::PinMismatch;

use crate::http::CredentialDefect;

#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct TransportError {
    /// What the failure means for the connection.
    pub kind: TransportErrorKind,
    /// What exactly failed, where it is known.
    pub reason: Option<FaultReason>,
    /// For people, with the cause.
    pub message: String,
    /// What to try, where there is something.
    pub hint: Option<String>,
    /// False only when it is certain that no byte of the message reached the server.
    pub may_be_sent: bool,
}

/// Kinds of failure that a caller treats differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportErrorKind {
    /// The program could not be started.
    Spawn {
        /// Whether the same attempt may succeed later without any change.
        may_pass: bool,
    },
    /// No connection: refused, unreachable, name not found, TLS refused.
    Connect,
    /// An established connection broke.
    Lost,
    /// So much is waiting that the server has stopped reading.
    Congested,
    /// The peer sent something that the wire's rules forbid.
    Protocol,
    /// Larger than a limit.
    TooLarge,
    /// An HTTP status that is not an answer.
    Status {
        status: u16,
        /// `Retry-After`, when the server sent one.
        retry_after: Option<Duration>,
    },
}

impl TransportError {
    /// A failure before anything could have been sent.
    pub fn unsent(kind: TransportErrorKind, message: impl Into<String>) -> Self {
        Self::new(kind, message.into(), false)
    }

    /// A failure after something may have been sent.
    pub fn sent(kind: TransportErrorKind, message: impl Into<String>) -> Self {
        Self::new(kind, message.into(), true)
    }

    fn new(kind: TransportErrorKind, message: String, may_be_sent: bool) -> Self {
        let reason = match &kind {
            TransportErrorKind::Status { status, .. } => Some(FaultReason::HttpStatus(*status)),
            _ => None,
        };
        Self { kind, reason, message, hint: None, may_be_sent }
    }

    pub(crate) fn with_hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }

    pub(crate) fn with_reason(mut self, reason: Option<FaultReason>) -> Self {
        self.reason = reason;
        self
    }

    /// Credentials that the server wants and that could not be had. The request had no effect.
    pub fn credential(message: impl Into<String>, hint: Option<String>, defect: CredentialDefect) -> Self {
        let kind = TransportErrorKind::Status { status: 401, retry_after: None };
        let reason = match defect {
            CredentialDefect::Missing => FaultReason::OauthRequired,
            CredentialDefect::Ended => FaultReason::SignInEnded,
            CredentialDefect::Scope => FaultReason::SignInScope,
            CredentialDefect::Refused => FaultReason::SignInRefused,
        };
        Self::unsent(kind, message).with_hint(hint).with_reason(Some(reason))
    }

    /// Credentials that could not be had for a reason that may pass, such as a provider that is down.
    pub fn credential_delayed(message: impl Into<String>, hint: Option<String>) -> Self {
        Self::unsent(TransportErrorKind::Connect, message).with_hint(hint)
    }

    /// A wire that takes no more messages.
    pub(crate) fn closed() -> Self {
        Self::unsent(TransportErrorKind::Lost, "the server closed its input")
    }

    /// A wire whose server does not read.
    pub(crate) fn congested() -> Self {
        Self::unsent(TransportErrorKind::Congested, "the server does not read its input")
    }

    /// A host name that could not be resolved.
    pub(crate) fn name_lookup(error: &io::Error) -> Self {
        Self::unsent(TransportErrorKind::Connect, error.to_string()).with_reason(Some(FaultReason::HostNotFound))
    }

    /// A connection to `host` that broke.
    pub(crate) fn broke(host: &str, error: &(dyn Error + 'static), may_be_sent: bool) -> Self {
        Self::new(TransportErrorKind::Lost, format!("the connection to {host} broke: {}", chain(error)), may_be_sent)
    }

    /// A failure to connect to `host`: its reason and its hint follow from the types of `error` and its sources.
    pub(crate) fn connect(host: &str, error: &(dyn Error + 'static)) -> Self {
        let reason = reason_of(error);
        let message = format!("cannot connect to {host}: {}", chain(error));
        let hint = reason.and_then(connect_hint).map(str::to_owned);
        Self::unsent(TransportErrorKind::Connect, message).with_reason(reason).with_hint(hint)
    }
}

fn connect_hint(reason: FaultReason) -> Option<&'static str> {
    Some(match reason {
        FaultReason::ConnectionRefused => "is the server running, and is the port right?",
        FaultReason::TlsWrongName | FaultReason::TlsExpired | FaultReason::TlsUntrusted => {
            "the server's certificate is not trusted; check the name in the address, or add the authority with \
             `tls.ca` or SSL_CERT_FILE"
        }
        FaultReason::AddressRefused => {
            "the log names the rule; write the server into the configuration file, or allow its address with \
             `outbound.allow`"
        }
        FaultReason::TlsWrongKey => {
            "compare the server's key with `tls.pin`: it was changed, or another server answers at this address"
        }
        FaultReason::TlsFileUnusable => "check the files that `tls` of this server names",
        FaultReason::HostNotFound => "check the host name in the address",
        FaultReason::ConnectTimeout => "nothing answers at that address; check host, port and firewall",
        _ => return None,
    })
}

/// The exact cause of a failure to connect: the first error in the chain of sources whose type tells.
pub(crate) fn reason_of(error: &(dyn Error + 'static)) -> Option<FaultReason> {
    let own = if let Some(error) = error.downcast_ref::<TransportError>() {
        error.reason
    } else if error.is::<TlsFileError>() {
        Some(FaultReason::TlsFileUnusable)
    } else if let Some(error) = error.downcast_ref::<rustls::Error>() {
        Some(tls_reason(error))
    } else if let Some(error) = error.downcast_ref::<io::Error>() {
        // An I/O error hides the error it wraps: `source` skips it.
        error.get_ref().and_then(|inner| reason_of(inner)).or_else(|| io_reason(error.kind()))
    } else {
        None
    };
    own.or_else(|| error.source().and_then(reason_of))
}

fn io_reason(kind: io::ErrorKind) -> Option<FaultReason> {
    Some(match kind {
        io::ErrorKind::ConnectionRefused => FaultReason::ConnectionRefused,
        io::ErrorKind::TimedOut => FaultReason::ConnectTimeout,
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => FaultReason::HostUnreachable,
        _ => return None,
    })
}

fn tls_reason(error: &rustls::Error) -> FaultReason {
    let rustls::Error::InvalidCertificate(error) = error else { return FaultReason::TlsFailed };
    match error {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            FaultReason::TlsWrongName
        }
        // A wrong clock makes a certificate look expired or not valid yet, so one reason covers both.
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => FaultReason::TlsExpired,
        CertificateError::Other(other) if other.0.is::<PinMismatch>() => FaultReason::TlsWrongKey,
        // Neither the name nor the dates: the certificate or its issuer is not accepted.
        _ => FaultReason::TlsUntrusted,
    }
}

/// An error and all its sources, as one line.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Many libraries repeat the text of the source in their own.
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(error: impl Error + 'static, expected: Option<FaultReason>) {
        assert_eq!(reason_of(&error), expected, "{error:?}");
    }

    #[test]
    fn the_reason_follows_from_the_type_of_an_error_however_it_is_wrapped() {
        let wrapped = |error: rustls::Error| io::Error::new(io::ErrorKind::InvalidData, error);
        let certificate = |error| wrapped(rustls::Error::InvalidCertificate(error));
        check(io::Error::from(io::ErrorKind::ConnectionRefused), Some(FaultReason::ConnectionRefused));
        check(io::Error::from(io::ErrorKind::TimedOut), Some(FaultReason::ConnectTimeout));
        check(io::Error::other(io::Error::from(io::ErrorKind::HostUnreachable)), Some(FaultReason::HostUnreachable));
        check(certificate(CertificateError::NotValidForName), Some(FaultReason::TlsWrongName));
        check(certificate(CertificateError::Expired), Some(FaultReason::TlsExpired));
        check(certificate(CertificateError::UnknownIssuer), Some(FaultReason::TlsUntrusted));
        check(wrapped(rustls::Error::HandshakeNotComplete), Some(FaultReason::TlsFailed));
        check(io::Error::other(TransportError::name_lookup(&io::Error::other("no"))), Some(FaultReason::HostNotFound));
        // The text alone decides nothing.
        check(io::Error::other("connection refused"), None);
    }
}
