//! What an IP address is: anywhere on the internet, part of a private or special network, or a cloud's metadata service.
//!
//! The networks are those of the special-purpose registries of IANA
//! ([IPv4](https://www.iana.org/assignments/iana-ipv4-special-registry), [IPv6](https://www.iana.org/assignments/iana-ipv6-special-registry))
//! that are not globally reachable, and multicast. Of IPv6 only what is assigned as global unicast counts as public.
//! An IPv6 address that carries an IPv4 address is judged by that one too: a translator or a tunnel would deliver to it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::network::AddressNetwork;

/// What an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressClass {
    /// Anywhere on the internet.
    Public,
    /// In a network that is not reached over the internet.
    Special(AddressNetwork),
    /// A service of a cloud that gives credentials to any program that asks.
    Metadata,
}

/// Metadata services. No setting allows them: a host that needs one asks it itself.
const METADATA_V4: [Ipv4Addr; 7] = [
    // Most clouds.
    Ipv4Addr::new(169, 254, 169, 254),
    // Containers and pods of AWS.
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(169, 254, 170, 23),
    // Tencent.
    Ipv4Addr::new(169, 254, 0, 23),
    // Alibaba.
    Ipv4Addr::new(100, 100, 100, 200),
    // Azure. It lies in a public network.
    Ipv4Addr::new(168, 63, 129, 16),
    // Oracle.
    Ipv4Addr::new(192, 0, 0, 192),
];

const METADATA_V6: [Ipv6Addr; 3] = [
    // AWS: instances and pods.
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    // Google.
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

/// Names of metadata services, without a final dot.
const METADATA_NAMES: [&str; 3] = ["metadata.google.internal", "metadata.goog", "instance-data.ec2.internal"];

const SPECIAL_V4: [AddressNetwork; 15] = [
    AddressNetwork::v4([0, 0, 0, 0], 8),
    AddressNetwork::v4([10, 0, 0, 0], 8),
    AddressNetwork::v4([100, 64, 0, 0], 10),
    AddressNetwork::v4([127, 0, 0, 0], 8),
    AddressNetwork::v4([169, 254, 0, 0], 16),
    AddressNetwork::v4([172, 16, 0, 0], 12),
    AddressNetwork::v4([192, 0, 0, 0], 24),
    AddressNetwork::v4([192, 0, 2, 0], 24),
    AddressNetwork::v4([192, 88, 99, 0], 24),
    AddressNetwork::v4([192, 168, 0, 0], 16),
    AddressNetwork::v4([198, 18, 0, 0], 15),
    AddressNetwork::v4([198, 51, 100, 0], 24),
    AddressNetwork::v4([203, 0, 113, 0], 24),
    AddressNetwork::v4([224, 0, 0, 0], 4),
    AddressNetwork::v4([240, 0, 0, 0], 4),
];

/// Special networks inside the global unicast space, and those outside of it that deserve their name in a log.
const SPECIAL_V6: [AddressNetwork; 14] = [
    AddressNetwork::v6([0; 8], 128),
    AddressNetwork::v6([0, 0, 0, 0, 0, 0, 0, 1], 128),
    // Translation for local use: where in the address the IPv4 part stands depends on the local network.
    AddressNetwork::v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48),
    AddressNetwork::v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64),
    // Benchmarks, and identifiers that only look like addresses.
    AddressNetwork::v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48),
    AddressNetwork::v6([0x2001, 0x10, 0, 0, 0, 0, 0, 0], 28),
    AddressNetwork::v6([0x2001, 0x20, 0, 0, 0, 0, 0, 0], 28),
    // Documentation.
    AddressNetwork::v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32),
    AddressNetwork::v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20),
    AddressNetwork::v6([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16),
    AddressNetwork::v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7),
    AddressNetwork::v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10),
    AddressNetwork::v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10),
    AddressNetwork::v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8),
];

/// What has been assigned as global unicast.
const GLOBAL_UNICAST: AddressNetwork = AddressNetwork::v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);
/// The well-known prefix of translators to IPv4, which is reached over the internet (RFC 6052).
const TRANSLATED: AddressNetwork = AddressNetwork::v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96);
/// An IPv4 address with zeros before it, as RFC 4291 had it once.
const COMPATIBLE: AddressNetwork = AddressNetwork::v6([0; 8], 96);
const SIX_TO_FOUR: AddressNetwork = AddressNetwork::v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16);
const TEREDO: AddressNetwork = AddressNetwork::v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32);
const ALL_V6: AddressNetwork = AddressNetwork::v6([0; 8], 0);

/// What this address is.
pub fn classify(address: IpAddr) -> AddressClass {
    match address.to_canonical() {
        IpAddr::V4(address) => classify_v4(address),
        IpAddr::V6(address) => classify_v6(address),
    }
}

/// Whether this is the name of a metadata service; lower case, without a final dot.
pub fn is_metadata_name(name: &str) -> bool {
    METADATA_NAMES.contains(&name)
}

fn classify_v4(address: Ipv4Addr) -> AddressClass {
    if METADATA_V4.contains(&address) {
        return AddressClass::Metadata;
    }
    let network = SPECIAL_V4.into_iter().find(|network| network.contains(address.into()));
    network.map_or(AddressClass::Public, AddressClass::Special)
}

fn classify_v6(address: Ipv6Addr) -> AddressClass {
    if METADATA_V6.contains(&address) {
        return AddressClass::Metadata;
    }
    let inner: Vec<AddressClass> = embedded(address).into_iter().flatten().map(classify_v4).collect();
    // Metadata first: it is refused even where a special network is allowed.
    if inner.contains(&AddressClass::Metadata) {
        return AddressClass::Metadata;
    }
    if let Some(network) = SPECIAL_V6.into_iter().find(|network| network.contains(address.into())) {
        return AddressClass::Special(network);
    }
    if let Some(special) = inner.into_iter().find(|class| *class != AddressClass::Public) {
        return special;
    }
    let is_public = [GLOBAL_UNICAST, TRANSLATED, COMPATIBLE].iter().any(|network| network.contains(address.into()));
    if is_public { AddressClass::Public } else { AddressClass::Special(ALL_V6) }
}

/// The IPv4 addresses that stand inside an IPv6 address.
fn embedded(address: Ipv6Addr) -> [Option<Ipv4Addr>; 2] {
    let segments = address.segments();
    let pair = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    let last = pair(segments[6], segments[7]);
    let is_in = |network: &AddressNetwork| network.contains(address.into());
    if is_in(&SIX_TO_FOUR) {
        [Some(pair(segments[1], segments[2])), isatap(segments)]
    } else if is_in(&TEREDO) {
        // The server as it is, the client with every bit turned (RFC 4380).
        [Some(pair(segments[2], segments[3])), Some(Ipv4Addr::from_bits(!last.to_bits()))]
    } else if is_in(&TRANSLATED) || is_in(&COMPATIBLE) {
        [Some(last), None]
    } else {
        [isatap(segments), None]
    }
}

/// A tunnel within a site puts the IPv4 address behind `0:5efe` in the last half (RFC 5214).
fn isatap(segments: [u16; 8]) -> Option<Ipv4Addr> {
    let is_tunnel = segments[4] & !0x0200 == 0 && segments[5] == 0x5efe;
    is_tunnel.then(|| Ipv4Addr::from_bits(u32::from(segments[6]) << 16 | u32::from(segments[7])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(text: &str) -> AddressClass {
        classify(text.parse().unwrap())
    }

    #[test]
    fn both_ends_of_every_special_network_are_special_and_their_neighbours_are_public() {
        for (first, last) in [
            ("0.0.0.0", "0.255.255.255"),
            ("10.0.0.0", "10.255.255.255"),
            ("100.64.0.0", "100.127.255.255"),
            ("127.0.0.0", "127.255.255.255"),
            ("169.254.0.0", "169.254.255.255"),
            ("172.16.0.0", "172.31.255.255"),
            ("192.0.0.0", "192.0.0.255"),
            ("192.0.2.0", "192.0.2.255"),
            ("192.88.99.0", "192.88.99.255"),
            ("192.168.0.0", "192.168.255.255"),
            ("198.18.0.0", "198.19.255.255"),
            ("198.51.100.0", "198.51.100.255"),
            ("203.0.113.0", "203.0.113.255"),
            ("224.0.0.0", "255.255.255.255"),
        ] {
            for end in [first, last] {
                assert!(matches!(class(end), AddressClass::Special(_)), "{end}");
            }
            let number = |text: &str| text.parse::<Ipv4Addr>().unwrap().to_bits();
            let neighbours = [number(first).checked_sub(1), number(last).checked_add(1)];
            for neighbour in neighbours.into_iter().flatten().map(Ipv4Addr::from_bits) {
                assert_eq!(classify(neighbour.into()), AddressClass::Public, "{neighbour}");
            }
        }
    }

    #[test]
    fn special_addresses_of_ipv6_are_special() {
        for text in [
            "::",
            "::1",
            "fc00::1",
            "fdff:ffff::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "2001:db8::1",
            "3fff::1",
            "100::1",
            "2001:2::1",
            "2001:10::1",
            "2001:2f::1",
            "5f00::1",
            "64:ff9b:1::808:808",
            "64:ff9b:1:ffff::1",
            // Not assigned: what is not known to be public is not.
            "4000::1",
            "8000::1",
            "e000::1",
            "1::1",
            "::1:0:0:0",
            // A private IPv4 address in each place where one can stand.
            "::ffff:10.0.0.1",
            "::10.0.0.1",
            "64:ff9b::10.0.0.1",
            "2002:a00:1::",
            "2002:7f00:1::1",
            "2001:0:a00:1::",
            "2001:0:808:808::f5ff:fffe",
            "2600::5efe:10.0.0.1",
            "2600::200:5efe:192.168.0.1",
            "2002:808:808::5efe:10.0.0.1",
            "::ffff:0:10.0.0.1",
        ] {
            assert!(matches!(class(text), AddressClass::Special(_)), "{text}: {:?}", class(text));
        }
        for text in ["2606:4700::1111", "2a00::1", "64:ff9b::8.8.8.8", "2002:808:808::1", "::ffff:8.8.8.8"] {
            assert_eq!(class(text), AddressClass::Public, "{text}");
        }
    }

    #[test]
    fn metadata_services_are_found_in_every_form() {
        for address in METADATA_V4 {
            let [a, b, c, d] = address.octets().map(u16::from);
            let (high, low) = (a << 8 | b, c << 8 | d);
            let forms = [
                Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, high, low),
                Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
                Ipv6Addr::new(0x2001, 0, 0x0808, 0x0808, 0, 0, !high, !low),
                Ipv6Addr::new(0x2600, 0, 0, 0, 0, 0x5efe, high, low),
            ];
            assert_eq!(classify(address.into()), AddressClass::Metadata, "{address}");
            for form in forms {
                assert_eq!(classify(form.into()), AddressClass::Metadata, "{address} in {form}");
            }
        }
        for address in METADATA_V6 {
            assert_eq!(classify(address.into()), AddressClass::Metadata, "{address}");
        }
        assert!(is_metadata_name("metadata.google.internal"));
    }
}
