//! Certificates: any bytes are read or refused, and names that are read are names.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tsugi_tls::certificate::{CertificateDer, CertificateFacts, first_in_pem};
use tsugi_tls::client_auth::{CertificateSubject, NameSource};
use tsugi_tls::upstream::parse_server_name;

fuzz_target!(|data: &[u8]| {
    let from_pem = first_in_pem(data);
    for certificate in from_pem.into_iter().chain([CertificateDer::from(data)]) {
        let Ok(facts) = CertificateFacts::read(&certificate) else { continue };
        for name in &facts.dns_names {
            let host = name.strip_prefix("*.").unwrap_or(name);
            assert!(parse_server_name(host).is_some(), "{name:?} is no host");
        }
        // Whatever a certificate holds, a caller's name can be shown and has one form.
        for source in [NameSource::Uri, NameSource::Dns, NameSource::CommonName, NameSource::Key] {
            let Some(subject) = CertificateSubject::of(&facts, &[source]) else { continue };
            let name = subject.as_str();
            assert!(!name.is_empty() && name.len() <= 600 && !name.chars().any(char::is_control), "{name:?}");
            let form = ["dns:", "cn:", "sha256:"].iter().position(|form| name.starts_with(form));
            let expected = [NameSource::Dns, NameSource::CommonName, NameSource::Key].iter().position(|own| *own == source);
            assert_eq!(form, expected, "{name:?}");
        }
        if let Some(subject) = CertificateSubject::of_spiffe(&facts, "corp.example") {
            assert!(subject.as_str().starts_with("spiffe://corp.example/") && !subject.as_str().contains("/../"));
        }
        let again = CertificateFacts::read(&certificate).expect("it was read once");
        assert_eq!(again, facts);
    }
});
