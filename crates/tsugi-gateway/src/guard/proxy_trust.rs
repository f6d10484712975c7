//! Which address a request comes from when proxies that the configuration names stand in between.

use std::fmt;
use std::net::IpAddr;

use http::{HeaderMap, HeaderName};
use serde::{Serialize, Serializer};

/// A range of addresses: `10.0.0.0/8`, `2001:db8::/32`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    first: IpAddr,
    bits: u8,
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

impl Serialize for AddressRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl AddressRange {
    /// Reads an address or a range; `None` when the text is neither.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().ok()?)),
            None => (text, None),
        };
        let first: IpAddr = address.parse().ok()?;
        let most = if first.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        (bits <= most).then_some(Self { first, bits })
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        // A listener on `::` sees IPv4 clients as mapped addresses.
        match (self.first, address.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                let differing = u64::from(first.to_bits() ^ address.to_bits());
                differing >> (32 - u32::from(self.bits)) == 0
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                let differing = first.to_bits() ^ address.to_bits();
                differing.checked_shr(128 - u32::from(self.bits)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// The proxies that are believed about the address of their client.
#[derive(Debug, Clone, Default)]
pub(super) struct ProxyTrust(Vec<AddressRange>);

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

impl ProxyTrust {
    pub(super) fn new(proxies: Vec<AddressRange>) -> Self {
        Self(proxies)
    }

    fn is_proxy(&self, address: IpAddr) -> bool {
        self.0.iter().any(|range| range.contains(address))
    }

    /// The client of a request that came from `peer`: the last address that no trusted proxy has. Everything to the left
    /// of it was written by that client and proves nothing. `X-Forwarded-For` alone is read: proxies that write it pass a
    /// client's own `Forwarded` on, so that reading both would believe the client.
    pub(super) fn client_of(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        if !self.is_proxy(peer) {
            return peer;
        }
        let lines = headers.get_all(&X_FORWARDED_FOR).iter().filter_map(|line| line.to_str().ok());
        let hops: Vec<&str> = lines.flat_map(|line| line.split(',')).map(str::trim).collect();
        let mut client = peer;
        for hop in hops.into_iter().rev() {
            let Some(address) = parse_hop(hop) else { return client };
            client = address;
            if !self.is_proxy(address) {
                return client;
            }
        }
        client
    }
}

/// An address with or without a port: `192.0.2.1`, `192.0.2.1:80`, `[2001:db8::1]:80`.
fn parse_hop(hop: &str) -> Option<IpAddr> {
    hop.parse().ok().or_else(|| hop.parse::<std::net::SocketAddr>().ok().map(|address| address.ip())).or_else(|| {
        hop.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).and_then(|address| address.parse().ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_holds_its_addresses_and_no_others() {
        for (range, inside, outside) in [
            ("10.1.0.0/16", "10.1.255.1", "10.2.0.1"),
            ("10.1.0.0/16", "::ffff:10.1.2.3", "::a01:203"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.8"),
            ("0.0.0.0/0", "255.1.2.3", "::1"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::1"),
            ("::/0", "ff00::1", "1.2.3.4"),
            ("::1", "::1", "::2"),
        ] {
            let range = AddressRange::parse(range).unwrap();
            assert!(range.contains(inside.parse().unwrap()) && !range.contains(outside.parse().unwrap()), "{range:?}");
        }
        for wrong in ["", "10.0.0.0/33", "::/129", "10.0.0/8", "example.com", "10.0.0.0/-1", "10.0.0.0/"] {
            assert_eq!(AddressRange::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn only_named_proxies_are_believed_and_only_about_their_own_client() {
        let trust =
            ProxyTrust::new(["10.0.0.0/8", "127.0.0.1"].map(|range| AddressRange::parse(range).unwrap()).to_vec());
        for (peer, lines, expected) in [
            ("192.0.2.1", &["198.51.100.1"][..], "192.0.2.1"),
            ("127.0.0.1", &[], "127.0.0.1"),
            ("127.0.0.1", &["198.51.100.1"], "198.51.100.1"),
            ("127.0.0.1", &["203.0.113.9, 198.51.100.1"], "198.51.100.1"),
            ("127.0.0.1", &["203.0.113.9", "198.51.100.1, 10.0.0.2"], "198.51.100.1"),
            ("127.0.0.1", &["198.51.100.1:4711, 10.0.0.2"], "198.51.100.1"),
            ("127.0.0.1", &["[2001:db8::1]:4711"], "2001:db8::1"),
            ("127.0.0.1", &["198.51.100.1, rubbish"], "127.0.0.1"),
            ("127.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append("x-forwarded-for", line.parse().unwrap());
            }
            headers.insert("forwarded", "for=203.0.113.77".parse().unwrap());
            let client = trust.client_of(peer.parse().unwrap(), &headers);
            assert_eq!(client, expected.parse::<IpAddr>().unwrap(), "{peer} {lines:?}");
        }
    }
}
