//! The guard: checks an address as text, then every address behind its name, and connects to one of those.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde::{Serialize, Serializer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use url::{Host, Url};

use crate::address::{AddressClass, classify, is_metadata_name};
use crate::allow::AllowList;
use crate::lookup::NameLookup;
use crate::refusal::{DialError, OutboundRefusal};

/// The most that an outbound proxy may say before its tunnel begins.
const PROXY_HEAD_LIMIT: usize = 8 << 10;

/// What an operator has decided about addresses that came from elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutboundRules {
    /// What is allowed although it is special.
    pub allow: AllowList,
    /// Whether services on this machine's loopback may be used, without TLS too.
    pub insecure_loopback: bool,
    /// An HTTP proxy that makes all connections and decides about names. Its own address is not checked.
    #[serde(serialize_with = "shown_proxy")]
    pub proxy: Option<Url>,
}

fn shown_proxy<S: Serializer>(proxy: &Option<Url>, serializer: S) -> Result<S::Ok, S::Error> {
    proxy.as_ref().map(|proxy| proxy.origin().ascii_serialization()).serialize(serializer)
}

/// Checks addresses and connects to those that pass. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct OutboundGuard {
    rules: std::sync::Arc<OutboundRules>,
    lookup: NameLookup,
}

/// An address that passed as text. What is behind its name is checked with every connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardedTarget {
    url: Url,
    host: TargetHost,
    port: u16,
    is_secure: bool,
}

/// A host as it is looked up and named to TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetHost {
    Address(IpAddr),
    /// Lower case, as punycode, without a final dot.
    Name(String),
}

impl TargetHost {
    /// The host of an address. A name whose labels are not all there has no host.
    pub fn of(url: &Url) -> Option<Self> {
        Self::from_host(url.host()?)
    }

    /// A host as it stands in an address or before the colon of an authority.
    pub fn parse(text: &str) -> Option<Self> {
        Self::from_host(match Host::parse(text).ok()? {
            Host::Domain(ref name) => Host::Domain(name.as_str()),
            Host::Ipv4(address) => Host::Ipv4(address),
            Host::Ipv6(address) => Host::Ipv6(address),
        })
    }

    fn from_host(host: Host<&str>) -> Option<Self> {
        match host {
            // A socket treats both forms as the same address, so the rules must too.
            Host::Ipv4(address) => Some(Self::Address(address.into())),
            Host::Ipv6(address) => Some(Self::Address(IpAddr::from(address).to_canonical())),
            Host::Domain(name) => {
                let name = name.strip_suffix('.').unwrap_or(name);
                (!name.split('.').any(str::is_empty)).then(|| Self::Name(name.to_ascii_lowercase()))
            }
        }
    }

    fn is_loopback(&self) -> bool {
        match self {
            Self::Address(address) => address.is_loopback(),
            Self::Name(name) => name == "localhost" || name.ends_with(".localhost"),
        }
    }
}

impl std::fmt::Display for TargetHost {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(IpAddr::V6(address)) => write!(formatter, "[{address}]"),
            Self::Address(address) => address.fmt(formatter),
            Self::Name(name) => name.fmt(formatter),
        }
    }
}

impl GuardedTarget {
    pub fn url(&self) -> &Url {
        &self.url
    }

    pub fn host(&self) -> &TargetHost {
        &self.host
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether the connection is to be encrypted.
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }
}

impl PartialEq for OutboundGuard {
    /// Guards with the same rules decide alike; how names are looked up is not a rule.
    fn eq(&self, other: &Self) -> bool {
        self.rules == other.rules
    }
}

impl Eq for OutboundGuard {}

impl OutboundGuard {
    /// A guard that asks the system for names.
    pub fn new(rules: OutboundRules) -> Self {
        Self { rules: rules.into(), lookup: NameLookup::system() }
    }

    /// The same guard with another lookup of names.
    pub fn with_lookup(self, lookup: NameLookup) -> Self {
        Self { lookup, ..self }
    }

    /// Checks an address as text: nothing is looked up yet.
    pub fn parse(&self, text: &str) -> Result<GuardedTarget, OutboundRefusal> {
        self.check(&Url::parse(text).map_err(OutboundRefusal::NotAnAddress)?)
    }

    /// Checks an address that is parsed already.
    pub fn check(&self, url: &Url) -> Result<GuardedTarget, OutboundRefusal> {
        let host = TargetHost::of(url).ok_or(OutboundRefusal::NoHost)?;
        let is_secure = match url.scheme() {
            "https" | "wss" => true,
            "http" | "ws" if self.rules.insecure_loopback && host.is_loopback() => false,
            other => return Err(OutboundRefusal::Scheme(other.to_owned())),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(OutboundRefusal::UserPart);
        }
        let port = url.port_or_known_default().ok_or(OutboundRefusal::NoHost)?;
        // Ports below are those of mail, databases and other services that were never meant for HTTP.
        if port != 443 && port < 1024 {
            return Err(OutboundRefusal::Port(port));
        }
        match &host {
            TargetHost::Address(address) => self.check_address(&host, *address)?,
            TargetHost::Name(name) if is_metadata_name(name) => {
                return Err(OutboundRefusal::MetadataName(name.clone()));
            }
            // Some systems have no answer for these names, and all mean the same by them.
            TargetHost::Name(_) if host.is_loopback() => self.check_address(&host, Ipv4Addr::LOCALHOST.into())?,
            TargetHost::Name(_) => {}
        }
        Ok(GuardedTarget { url: url.clone(), host, port, is_secure })
    }

    /// Whether a host may be reached at this address.
    pub(crate) fn check_address(&self, host: &TargetHost, address: IpAddr) -> Result<(), OutboundRefusal> {
        let network = match classify(address) {
            AddressClass::Metadata => return Err(OutboundRefusal::MetadataAddress(address)),
            AddressClass::Public => return Ok(()),
            AddressClass::Special(network) => network,
        };
        // The name must say loopback too: a name of another party must not lead there.
        let is_own = self.rules.insecure_loopback && host.is_loopback() && address.to_canonical().is_loopback();
        let is_named = matches!(host, TargetHost::Name(name) if self.rules.allow.has_host(name));
        if is_own || is_named || self.rules.allow.has_address(address) {
            return Ok(());
        }
        Err(OutboundRefusal::SpecialAddress { address, network })
    }

    /// Looks the host up once and checks every address. One that may not be reached refuses them all: an answer that
    /// mixes public and private addresses is an attempt to slip one in.
    pub async fn resolve(&self, target: &GuardedTarget) -> Result<Vec<SocketAddr>, DialError> {
        let found = find(&self.lookup, &target.host).await?;
        // All are checked before the first is used.
        found.iter().try_for_each(|address| self.check_address(&target.host, *address))?;
        Ok(found.into_iter().map(|address| SocketAddr::new(address, target.port)).collect())
    }

    /// Connects to one of the addresses that were checked.
    pub async fn dial(&self, target: &GuardedTarget) -> Result<TcpStream, DialError> {
        match &self.rules.proxy {
            // What is on this machine is not the business of a proxy.
            Some(proxy) if !target.host.is_loopback() => through_proxy(proxy, target).await,
            _ => connect(&target.host, &self.resolve(target).await?).await,
        }
    }

    pub(crate) fn lookup(&self) -> &NameLookup {
        &self.lookup
    }

    pub(crate) fn rules(&self) -> &OutboundRules {
        &self.rules
    }
}

/// All addresses of a host: itself, or what its name stands for now.
pub(crate) async fn find(lookup: &NameLookup, host: &TargetHost) -> Result<Vec<IpAddr>, DialError> {
    let name = match host {
        TargetHost::Address(address) => return Ok(vec![*address]),
        TargetHost::Name(name) => name,
    };
    let failed = |error| DialError::Lookup { host: name.clone(), error };
    let found = lookup.find(name).await.map_err(failed)?;
    if found.is_empty() {
        return Err(failed(io::Error::new(io::ErrorKind::NotFound, "it has no address")));
    }
    Ok(found)
}

/// Connects to the first of these addresses that answers.
pub(crate) async fn connect(host: &TargetHost, addresses: &[SocketAddr]) -> Result<TcpStream, DialError> {
    // Given addresses instead of a name, tokio looks nothing up.
    let stream = TcpStream::connect(addresses).await;
    let stream = stream.map_err(|error| DialError::Connect { host: host.to_string(), error })?;
    // Requests are small and complete; waiting for more only delays them.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// Asks the operator's proxy for a tunnel (RFC 9110, section 9.3.6).
async fn through_proxy(proxy: &Url, target: &GuardedTarget) -> Result<TcpStream, DialError> {
    let failed = |error: io::Error| DialError::Connect { host: "the outbound proxy".to_owned(), error };
    let (Some(host), Some(port)) = (TargetHost::of(proxy), proxy.port_or_known_default()) else {
        return Err(DialError::Proxy("its address has no host".to_owned()));
    };
    let found = find(&NameLookup::system(), &host).await?;
    let found: Vec<SocketAddr> = found.into_iter().map(|address| SocketAddr::new(address, port)).collect();
    let mut stream = connect(&host, &found).await?;
    let authority = format!("{}:{}", target.host, target.port);
    let request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.map_err(failed)?;
    // Byte by byte, so that nothing of the tunnel is read with the head.
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= PROXY_HEAD_LIMIT {
            return Err(DialError::Proxy("more than 8 KiB of headers".to_owned()));
        }
        head.push(stream.read_u8().await.map_err(failed)?);
    }
    let line = String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_owned();
    match line.split(' ').nth(1) {
        Some(status) if status.len() == 3 && status.starts_with('2') => Ok(stream),
        _ => Err(DialError::Proxy(line)),
    }
}

/// Whether a server of the operator's own configuration may be at this address. Only metadata services are refused:
/// a configuration that names one was copied or tampered with, and its answers are credentials.
pub fn check_configured(host: &TargetHost, address: Option<IpAddr>) -> Result<(), OutboundRefusal> {
    if let TargetHost::Name(name) = host
        && is_metadata_name(name)
    {
        return Err(OutboundRefusal::MetadataName(name.clone()));
    }
    match address.filter(|address| classify(*address) == AddressClass::Metadata) {
        Some(address) => Err(OutboundRefusal::MetadataAddress(address)),
        None => Ok(()),
    }
}
