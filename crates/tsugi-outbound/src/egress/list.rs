//! The hosts and ports that a sandboxed program may reach.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::allow::{HostPattern, PatternFault};
use crate::guard::TargetHost;
use crate::network::AddressNetwork;

/// The ports of an entry that names none: those of HTTP.
const USUAL_PORTS: [u16; 2] = [80, 443];

/// What a program may reach: `api.github.com:443`, `*.example.com`, `10.1.2.3:5432`, `10.1.0.0/16`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EgressList(Vec<EgressEntry>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct EgressEntry {
    host: EgressHost,
    /// Without one, [`USUAL_PORTS`].
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum EgressHost {
    Name(HostPattern),
    Network(AddressNetwork),
}

impl EgressList {
    /// The list of these entries, or the first that is wrong with its reason.
    pub fn parse<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Self, (String, PatternFault)> {
        let entries = entries.into_iter().map(|text| text.parse().map_err(|fault| (text.to_owned(), fault)));
        entries.collect::<Result<_, _>>().map(Self)
    }

    /// Whether an entry stands for this host and port.
    pub fn has(&self, host: &TargetHost, port: u16) -> bool {
        match host {
            TargetHost::Address(address) => self.has_address(*address, port),
            TargetHost::Name(name) => self.with_port(port).any(|entry| entry.matches(name)),
        }
    }

    /// Whether an entry names this machine's own loopback.
    pub fn has_loopback(&self) -> bool {
        let local = [IpAddr::from([127, 0, 0, 1]), std::net::Ipv6Addr::LOCALHOST.into()];
        self.0.iter().any(|entry| match &entry.host {
            EgressHost::Name(pattern) => pattern.matches("localhost"),
            EgressHost::Network(network) => local.iter().any(|address| network.contains(*address)),
        })
    }

    /// Whether an entry names the network of this address.
    pub(super) fn has_address(&self, address: IpAddr, port: u16) -> bool {
        self.with_port(port)
            .any(|entry| matches!(&entry.host, EgressHost::Network(network) if network.contains(address)))
    }

    /// Whether an entry names exactly this host, and not by a wildcard.
    pub(super) fn has_exactly(&self, name: &str, port: u16) -> bool {
        let is_exact = |entry: &EgressEntry| matches!(&entry.host, EgressHost::Name(pattern) if pattern.is_exact());
        self.with_port(port).any(|entry| is_exact(entry) && entry.matches(name))
    }

    fn with_port(&self, port: u16) -> impl Iterator<Item = &EgressEntry> {
        self.0.iter().filter(move |entry| match entry.port {
            Some(only) => only == port,
            None => USUAL_PORTS.contains(&port),
        })
    }
}

impl EgressEntry {
    fn matches(&self, name: &str) -> bool {
        matches!(&self.host, EgressHost::Name(pattern) if pattern.matches(name))
    }
}

impl FromStr for EgressEntry {
    type Err = PatternFault;

    fn from_str(text: &str) -> Result<Self, PatternFault> {
        let text = text.trim();
        // `::1` and `fd00::/8` have colons of their own, so a port needs brackets around them.
        if let Ok(network) = text.parse() {
            return Ok(Self { host: EgressHost::Network(network), port: None });
        }
        if let Some((address, rest)) = text.strip_prefix('[').and_then(|text| text.split_once(']')) {
            let port = match rest.strip_prefix(':') {
                Some(port) => Some(parse_port(port)?),
                None if rest.is_empty() => None,
                None => return Err(PatternFault::Port),
            };
            return Ok(Self { host: EgressHost::Network(address.parse()?), port });
        }
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, Some(parse_port(port)?)),
            None => (text, None),
        };
        let host = match host.parse::<AddressNetwork>() {
            Ok(network) => EgressHost::Network(network),
            Err(fault) if host.contains('/') => return Err(fault.into()),
            Err(_) => EgressHost::Name(host.parse()?),
        };
        Ok(Self { host, port })
    }
}

fn parse_port(text: &str) -> Result<u16, PatternFault> {
    // `+443` is a number to the parser of std.
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.parse().ok().filter(|port| is_plain && *port > 0);
    port.ok_or(PatternFault::Port)
}

impl fmt::Display for EgressEntry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        match &self.host {
            EgressHost::Name(pattern) => write!(formatter, "{pattern}{port}"),
            EgressHost::Network(network) if port.is_empty() => network.fmt(formatter),
            EgressHost::Network(network) => write!(formatter, "[{network}]{port}"),
        }
    }
}

impl Serialize for EgressList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(ToString::to_string))
    }
}

impl<'de> Deserialize<'de> for EgressList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries = Vec::<String>::deserialize(deserializer)?;
        Self::parse(entries.iter().map(String::as_str))
            .map_err(|(entry, fault)| de::Error::custom(format!("`{entry}`: {fault}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[&str]) -> EgressList {
        EgressList::parse(entries.iter().copied()).unwrap()
    }

    fn has(list: &EgressList, host: &str, port: u16) -> bool {
        list.has(&TargetHost::parse(host).unwrap(), port)
    }

    #[test]
    fn an_entry_stands_for_its_host_and_port_alone() {
        let list = list(&["api.github.com:443", "*.example.com", "10.1.2.3:5432", "10.2.0.0/16", "[fd00::1]:8443"]);
        for (host, port) in [
            ("api.github.com", 443),
            ("API.GitHub.com.", 443),
            ("a.example.com", 80),
            ("a.example.com", 443),
            ("10.1.2.3", 5432),
            ("0x0a.1.2.3", 5432),
            ("10.2.9.9", 443),
            ("[fd00::1]", 8443),
        ] {
            assert!(has(&list, host, port), "{host}:{port}");
        }
        for (host, port) in [
            ("api.github.com", 80),
            ("api.github.com", 22),
            ("github.com", 443),
            ("api.github.com.evil.test", 443),
            ("xapi.github.com", 443),
            ("example.com", 443),
            ("evilexample.com", 443),
            ("a.example.com", 8443),
            ("10.1.2.3", 443),
            ("10.3.0.1", 443),
            ("93.184.216.34", 443),
        ] {
            assert!(!has(&list, host, port), "{host}:{port}");
        }
    }

    #[test]
    fn a_list_is_read_back_as_it_was_written() {
        let entries =
            ["a.example:443", "*.b.example", "10.1.0.0/16", "10.1.2.3:5432", "[fd00::1]:80", "::1", "[fd00::/8]:1"];
        let list = list(&entries);
        let written = serde_json::to_string(&list).unwrap();
        assert_eq!(serde_json::from_str::<EgressList>(&written).unwrap(), list, "{written}");
    }

    #[test]
    fn what_could_mean_more_than_it_says_is_not_an_entry() {
        for text in [
            "",
            "*",
            "*:443",
            "a.example:",
            "a.example:0",
            "a.example:65536",
            "a.example:+1",
            "a.example:443:1",
            ":443",
            "https://a.example",
            "a.example/x",
            "[::1]x",
            "[::1]:",
            "[a.example]:1",
            "a*.example",
            "0x7f.1:80",
            "10.1.2.3/16",
        ] {
            assert!(EgressList::parse([text]).is_err(), "{text:?}");
        }
    }
}
