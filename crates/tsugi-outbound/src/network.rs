//! Networks such as `10.1.0.0/16`: the unit in which addresses are refused and allowed.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// All addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressNetwork {
    base: IpAddr,
    bits: u8,
}

/// Why a text is not a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkFault {
    #[error("expected an address, or a network such as 10.1.0.0/16")]
    Syntax,
    #[error("the prefix /{0} is longer than the address")]
    PrefixTooLong(u8),
    /// `10.1.2.3/16` could mean the host or the network.
    #[error("the address has bits beyond its prefix; the network is {0}")]
    HostBits(AddressNetwork),
}

impl AddressNetwork {
    pub(crate) const fn v4(octets: [u8; 4], bits: u8) -> Self {
        let [a, b, c, d] = octets;
        Self { base: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), bits }
    }

    pub(crate) const fn v6(segments: [u16; 8], bits: u8) -> Self {
        let [a, b, c, d, e, f, g, h] = segments;
        Self { base: IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)), bits }
    }

    /// Whether the address is in this network. An IPv4 address is the same address when it is written inside
    /// `::ffff:0:0/96`, which is how sockets of both families show it.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.base, address.to_canonical()) {
            (IpAddr::V4(base), IpAddr::V4(address)) => (base.to_bits() ^ address.to_bits()) & mask_v4(self.bits) == 0,
            (IpAddr::V6(base), IpAddr::V6(address)) => (base.to_bits() ^ address.to_bits()) & mask_v6(self.bits) == 0,
            _ => false,
        }
    }

    /// The network of this size that the address lies in.
    fn around(address: IpAddr, bits: u8) -> Self {
        let base = match address {
            IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() & mask_v4(bits)).into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & mask_v6(bits)).into(),
        };
        Self { base, bits }
    }
}

// A shift by the whole width is an error in Rust, and means "no bit counts" here.
fn mask_v4(bits: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0)
}

fn mask_v6(bits: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0)
}

impl FromStr for AddressNetwork {
    type Err = NetworkFault;

    fn from_str(text: &str) -> Result<Self, NetworkFault> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        // The parser of std knows one spelling of an address: no octal, no short form, no zone.
        let address = address.parse::<IpAddr>().map_err(|_| NetworkFault::Syntax)?.to_canonical();
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(text) if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) => {
                return Err(NetworkFault::Syntax);
            }
            Some(text) => text.parse::<u8>().map_err(|_| NetworkFault::Syntax)?,
            None => most,
        };
        if bits > most {
            return Err(NetworkFault::PrefixTooLong(bits));
        }
        let network = Self::around(address, bits);
        if network.base == address { Ok(network) } else { Err(NetworkFault::HostBits(network)) }
    }
}

impl fmt::Display for AddressNetwork {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.base, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<AddressNetwork, NetworkFault> {
        text.parse()
    }

    #[test]
    fn a_network_contains_what_begins_like_it() {
        for (network, inside, outside) in [
            ("10.1.0.0/16", "10.1.255.255", "10.2.0.0"),
            ("10.1.2.3", "10.1.2.3", "10.1.2.2"),
            ("0.0.0.0/0", "203.0.113.9", "::1"),
            ("fd12::/32", "fd12:0:ffff::1", "fd12:1::"),
            ("::/0", "2001:db8::1", "10.0.0.1"),
            ("10.0.0.0/8", "::ffff:10.9.9.9", "::ffff:11.0.0.1"),
        ] {
            let network = parse(network).unwrap();
            assert!(network.contains(inside.parse().unwrap()), "{network} has {inside}");
            assert!(!network.contains(outside.parse().unwrap()), "{network} has not {outside}");
        }
    }

    #[test]
    fn a_text_with_a_second_meaning_is_not_a_network() {
        for text in ["", "10.1/16", "010.1.0.0/16", "10.1.0.0/", "10.1.0.0/+8", "10.1.0.0/016x", "fe80::1%lo/64", "a/8"]
        {
            assert_eq!(parse(text), Err(NetworkFault::Syntax), "{text}");
        }
        assert_eq!(parse("10.0.0.0/33"), Err(NetworkFault::PrefixTooLong(33)));
        assert_eq!(parse("10.1.2.3/16"), Err(NetworkFault::HostBits(parse("10.1.0.0/16").unwrap())));
    }
}
