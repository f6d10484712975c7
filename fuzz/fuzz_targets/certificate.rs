//! Certificates: any bytes are read or refused, and names that are read are names.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tsugi_tls::certificate::{CertificateDer, CertificateFacts, first_in_pem};
use tsugi_tls::upstream::parse_server_name;

fuzz_target!(|data: &[u8]| {
    let from_pem = first_in_pem(data);
    for certificate in from_pem.into_iter().chain([CertificateDer::from(data)]) {
        let Ok(facts) = CertificateFacts::read(&certificate) else { continue };
        for name in &facts.dns_names {
            let host = name.strip_prefix("*.").unwrap_or(name);
            assert!(parse_server_name(host).is_some(), "{name:?} is no host");
        }
        assert!(facts.uri_names.iter().all(|name| !name.is_empty()));
        let again = CertificateFacts::read(&certificate).expect("it was read once");
        assert_eq!(again, facts);
    }
});
