//! `inNetwork(address, "10.0.0.0/8")`: the one function that CEL lacks for addresses.

use std::net::IpAddr;

use cel::common::types::{CelBool, CelString, STRING_TYPE};
use cel::common::value::CowVal;
use cel::{Env, ExecutionError};

pub(super) const NAME: &str = "inNetwork";

/// The environment with the function.
pub(super) fn add(mut env: Env) -> Env {
    let added = env.add_overload(NAME, "string_in_network", vec![STRING_TYPE, STRING_TYPE], |arguments| {
        let text = |at: usize| arguments.get(at).and_then(|value| value.downcast_ref::<CelString<'_>>());
        match (text(0), text(1)) {
            (Some(address), Some(network)) => {
                contains(network.inner(), address.inner()).map(|is_in| CowVal::owned(CelBool::from(is_in)))
            }
            _ => Err(ExecutionError::function_error(NAME, "two texts are needed")),
        }
    });
    debug_assert!(added.is_ok(), "no other function has this name");
    env
}

/// True when a network, written as a literal, can be read.
pub(super) fn is_network(text: &str) -> bool {
    parse(text).is_some()
}

fn contains(network: &str, address: &str) -> Result<bool, ExecutionError> {
    let (base, bits) = parse(network).ok_or_else(|| ExecutionError::function_error(NAME, "this is not a network"))?;
    // A caller without an address, such as one at a terminal, is in no network.
    let Ok(address) = address.parse::<IpAddr>() else { return Ok(false) };
    Ok(match (base, address.to_canonical()) {
        (IpAddr::V4(base), IpAddr::V4(address)) => {
            let shift = 32 - u32::from(bits);
            base.to_bits().checked_shr(shift).unwrap_or(0) == address.to_bits().checked_shr(shift).unwrap_or(0)
        }
        (IpAddr::V6(base), IpAddr::V6(address)) => {
            let shift = 128 - u32::from(bits);
            base.to_bits().checked_shr(shift).unwrap_or(0) == address.to_bits().checked_shr(shift).unwrap_or(0)
        }
        _ => false,
    })
}

fn parse(text: &str) -> Option<(IpAddr, u8)> {
    let (base, bits) = text.split_once('/').map_or((text, None), |(base, bits)| (base, Some(bits)));
    let base: IpAddr = base.parse().ok()?;
    let most = if base.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(most), |bits| bits.parse().ok())?;
    (bits <= most).then_some((base, bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_the_networks_that_hold_it() {
        for (network, address, expected) in [
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "11.1.2.3", false),
            ("0.0.0.0/0", "11.1.2.3", true),
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("fd00::/8", "fd12::1", true),
            ("fd00::/8", "fe80::1", false),
            ("::/0", "10.0.0.1", false),
            ("10.0.0.0/8", "", false),
        ] {
            assert_eq!(contains(network, address), Ok(expected), "{network} {address}");
        }
        for network in ["", "10.0.0.0/33", "x", "10.0.0.0/", "10.0.0/8"] {
            assert!(!is_network(network), "{network}");
        }
    }
}
