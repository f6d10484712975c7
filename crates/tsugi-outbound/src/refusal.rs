//! Why an address is not used: the rule for the log, and one sentence for everyone else.

use std::io;
use std::net::IpAddr;

use crate::network::AddressNetwork;

/// Which rule refused an address. Its text is for the log: it says what stands behind a name, which a caller could use
/// to explore our network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OutboundRefusal {
    #[error("not an address: {0}")]
    NotAnAddress(url::ParseError),
    #[error("an address without a usable host")]
    NoHost,
    #[error("the scheme {0:?} is not allowed; expected https")]
    Scheme(String),
    #[error("the address has a user name or a password")]
    UserPart,
    #[error("port {0} is not allowed; expected 443, or 1024 and above")]
    Port(u16),
    #[error("{0} is the name of a metadata service")]
    MetadataName(String),
    #[error("{0} is the address of a metadata service")]
    MetadataAddress(IpAddr),
    #[error("{address} lies in {network}, which is not public")]
    SpecialAddress { address: IpAddr, network: AddressNetwork },
    #[error("{host}:{port} is not on the list of the sandbox")]
    NotListed { host: String, port: u16 },
}

impl OutboundRefusal {
    /// The name of the rule, for logs and events.
    pub fn rule(&self) -> &'static str {
        match self {
            Self::NotAnAddress(_) | Self::NoHost => "address",
            Self::Scheme(_) => "scheme",
            Self::UserPart => "user-part",
            Self::Port(_) => "port",
            Self::MetadataName(_) | Self::MetadataAddress(_) => "metadata",
            Self::SpecialAddress { .. } => "network",
            Self::NotListed { .. } => "egress-list",
        }
    }
}

/// Why no connection was made. The text is for the log.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    #[error(transparent)]
    Refused(#[from] OutboundRefusal),
    #[error("the host {host} cannot be looked up: {error}")]
    Lookup { host: String, error: io::Error },
    #[error("no connection to {host}: {error}")]
    Connect { host: String, error: io::Error },
    /// The proxy of `outbound.proxy` decided.
    #[error("the outbound proxy answered: {0}")]
    Proxy(String),
}

impl DialError {
    /// The rule that refused the address, if one did.
    pub fn refusal(&self) -> Option<&OutboundRefusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }
}
