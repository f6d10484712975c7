//! Addresses and list entries of the outbound guard: what one part accepts, another reads the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tsugi_outbound::address::{AddressClass, classify};
use tsugi_outbound::{AllowList, EgressList, OutboundGuard, TargetHost};

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(target) = OutboundGuard::default().parse(text) {
        assert!(target.is_secure() && (target.port() == 443 || target.port() >= 1024), "{text:?}");
        assert!(target.url().username().is_empty() && target.url().password().is_none(), "{text:?}");
        if let TargetHost::Address(address) = target.host() {
            assert_eq!(classify(*address), AddressClass::Public, "{text:?}");
        }
        // The host as it is printed is the host that was checked.
        assert_eq!(TargetHost::parse(&target.host().to_string()).as_ref(), Some(target.host()), "{text:?}");
    }
    if let Ok(list) = EgressList::parse(text.lines()) {
        let written = serde_json::to_string(&list).expect("a list of texts");
        assert_eq!(serde_json::from_str::<EgressList>(&written).expect("it reads back"), list, "{text:?}");
    }
    if let Ok(list) = AllowList::parse(text.lines()) {
        assert!(!list.has_host(""), "{text:?}");
    }
});
