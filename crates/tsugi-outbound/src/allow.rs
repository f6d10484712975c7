//! What an operator allows although it is refused by default: networks, and host names by whole labels.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use url::Host;

use crate::network::{AddressNetwork, NetworkFault};

/// A host name, or `*.` and a name: then every name that ends in it and has more labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPattern {
    /// Lower case, as punycode, without a final dot.
    name: String,
    has_wildcard: bool,
}

/// Why a text is not a pattern or not an entry of a list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternFault {
    #[error("expected a host name such as api.example.com or *.example.com")]
    HostName,
    #[error("`*` stands for whole labels and only at the front, as in *.example.com")]
    Wildcard,
    /// `0x7f.1` and `2130706433` are addresses to some programs.
    #[error("write the address as {0}")]
    OddAddress(IpAddr),
    #[error(transparent)]
    Network(#[from] NetworkFault),
    #[error("expected a port from 1 to 65535 after the colon")]
    Port,
}

impl HostPattern {
    /// Whether it stands for this name, which is lower case and has no final dot.
    pub fn matches(&self, name: &str) -> bool {
        match (self.has_wildcard, name.strip_suffix(self.name.as_str())) {
            (false, rest) => rest == Some(""),
            // A whole label more: `evilexample.com` ends in `example.com` as well.
            (true, Some(front)) => front.len() > 1 && front.ends_with('.'),
            (true, None) => false,
        }
    }

    /// Whether it names one host.
    pub fn is_exact(&self) -> bool {
        !self.has_wildcard
    }
}

impl FromStr for HostPattern {
    type Err = PatternFault;

    fn from_str(text: &str) -> Result<Self, PatternFault> {
        let (name, has_wildcard) = match text.strip_prefix("*.") {
            Some(name) => (name, true),
            None => (text, false),
        };
        if name.contains('*') {
            return Err(PatternFault::Wildcard);
        }
        // The parser of addresses itself decides what a name is, so that both sides compare the same form.
        let name = match Host::parse(name).map_err(|_| PatternFault::HostName)? {
            Host::Domain(name) => name,
            Host::Ipv4(address) => return Err(PatternFault::OddAddress(address.into())),
            Host::Ipv6(address) => return Err(PatternFault::OddAddress(address.into())),
        };
        let name = name.strip_suffix('.').unwrap_or(&name);
        // `%2a` is decoded here, and would be read as a wildcard where the list is written and read again.
        if name.split('.').any(str::is_empty) || name.contains('*') {
            return Err(PatternFault::HostName);
        }
        Ok(Self { name: name.to_owned(), has_wildcard })
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", if self.has_wildcard { "*." } else { "" }, self.name)
    }
}

/// Networks and hosts that are allowed although they are special. It cannot allow a metadata service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowList {
    networks: Vec<AddressNetwork>,
    hosts: Vec<HostPattern>,
}

impl AllowList {
    /// Adds an entry: `10.1.0.0/16`, `10.1.2.3`, `idp.corp.example` or `*.corp.example`.
    pub fn add(&mut self, text: &str) -> Result<(), PatternFault> {
        let text = text.trim();
        match text.parse::<AddressNetwork>() {
            Ok(network) => self.networks.push(network),
            // Only a network has a slash, so the reader learns what is wrong with it.
            Err(fault) if text.contains('/') => return Err(fault.into()),
            Err(_) => self.hosts.push(text.parse()?),
        }
        Ok(())
    }

    /// The list of these entries, or the first that is wrong.
    pub fn parse<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Self, PatternFault> {
        let mut list = Self::default();
        entries.into_iter().try_for_each(|entry| list.add(entry))?;
        Ok(list)
    }

    /// Whether an entry names the network of this address.
    pub fn has_address(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(address))
    }

    /// Whether an entry stands for this host name, which is lower case and has no final dot.
    pub fn has_host(&self, name: &str) -> bool {
        self.hosts.iter().any(|pattern| pattern.matches(name))
    }
}

impl Serialize for AllowList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let networks = self.networks.iter().map(ToString::to_string);
        serializer.collect_seq(networks.chain(self.hosts.iter().map(ToString::to_string)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> HostPattern {
        text.parse().unwrap_or_else(|fault| panic!("{text}: {fault}"))
    }

    #[test]
    fn a_pattern_stands_for_whole_labels() {
        assert!(pattern("*.example.com").matches("api.example.com"));
        assert!(pattern("*.example.com").matches("a.b.example.com"));
        assert!(pattern("API.Example.com.").matches("api.example.com"));
        assert!(pattern("bücher.example").matches("xn--bcher-kva.example"));
        for (text, other) in [
            ("*.example.com", "example.com"),
            ("*.example.com", ".example.com"),
            ("*.example.com", "evilexample.com"),
            ("*.example.com", "api.example.com.evil.test"),
            ("*.example.com", "api.example.comx"),
            ("example.com", "api.example.com"),
            ("example.com", "xexample.com"),
        ] {
            assert!(!pattern(text).matches(other), "{text} {other}");
        }
    }

    #[test]
    fn what_could_mean_more_than_it_says_is_not_an_entry() {
        for text in
            ["", "*", "*.", "a*.example.com", "api.*.com", "**.example.com", "*.*.com", "%2a.example.com", "a%2Am"]
        {
            assert!(text.parse::<HostPattern>().is_err(), "{text:?}");
        }
        for text in ["https://x.example", "x.example/path", "x.example:443", "a b", "user@x.example", "x..example", "."]
        {
            assert!(AllowList::parse([text]).is_err(), "{text:?}");
        }
        for (text, meant) in [("0x7f.1", "127.0.0.1"), ("2130706433", "127.0.0.1"), ("[::1]", "::1")] {
            assert_eq!(AllowList::parse([text]), Err(PatternFault::OddAddress(meant.parse().unwrap())), "{text}");
        }
    }

    #[test]
    fn a_list_allows_by_network_or_by_name_and_is_shown_as_it_was_meant() {
        let list = AllowList::parse(["10.1.0.0/16", " *.Corp.example ", "idp.example", "fd00::1"]).unwrap();
        assert!(list.has_address("10.1.2.3".parse().unwrap()) && list.has_address("fd00::1".parse().unwrap()));
        assert!(!list.has_address("10.2.0.0".parse().unwrap()));
        assert!(list.has_host("a.corp.example") && list.has_host("idp.example") && !list.has_host("corp.example"));
        let shown = serde_json::to_string(&list).unwrap();
        assert_eq!(shown, r#"["10.1.0.0/16","fd00::1/128","*.corp.example","idp.example"]"#);
    }
}
