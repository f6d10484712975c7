//! Metadata of issuers and resources: what is accepted names only itself and addresses that may be called.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tsugi_auth::endpoint::PlainHttp;
use tsugi_auth::issuer_metadata::{IssuerMetadata, discovery_addresses};
use tsugi_auth::resource_metadata::{ResourceMetadata, covers, metadata_addresses};
use url::Url;

const ISSUER: &str = "https://a.example/t";

fuzz_target!(|data: &[u8]| {
    if let Ok(metadata) = IssuerMetadata::parse(data, ISSUER, PlainHttp::Refused) {
        let found = [metadata.key_set, metadata.token, metadata.authorization, metadata.introspection];
        for url in found.into_iter().flatten() {
            assert_eq!(url.scheme(), "https");
            assert!(url.username().is_empty() && url.password().is_none());
        }
    }
    let address = Url::parse("https://a.example/t/mcp").expect("an address");
    if let Ok(metadata) = ResourceMetadata::parse(data, &address, PlainHttp::Refused) {
        let resource = Url::parse(&metadata.resource).expect("checked when it was read");
        assert!(covers(&resource, &address) && resource.host_str() == Some("a.example"));
        assert!(!metadata.authorization_servers.is_empty());
    }
    if let Ok(text) = std::str::from_utf8(data) {
        for found in discovery_addresses(text, PlainHttp::Refused).into_iter().flatten() {
            assert_eq!(found.origin(), Url::parse(text).expect("it was read").origin());
        }
        if let Ok(url) = Url::parse(text).and_then(|url| if url.has_host() { Ok(url) } else { Err(url::ParseError::EmptyHost) }) {
            assert!(metadata_addresses(&url).iter().all(|found| found.host_str() == url.host_str()));
            assert!(covers(&url, &url));
        }
    }
});
