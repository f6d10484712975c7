//! Addresses that a metadata document or a configuration may name.

use std::net::IpAddr;

use url::{Host, Url};

/// Whether `http` is accepted for a loopback address, for tests and for a provider on the same machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainHttp {
    Refused,
    LoopbackOnly,
}

/// An address that we would call: https, or http to a loopback address where that is allowed, with a host and without
/// user, password or fragment. `None` for anything else.
pub fn parse_endpoint(text: &str, plain: PlainHttp) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_secure = url.scheme() == "https";
    let is_local = plain == PlainHttp::LoopbackOnly && url.scheme() == "http" && is_loopback(&url);
    let is_plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    ((is_secure || is_local) && url.has_host() && is_plain).then_some(url)
}

/// Whether the host is this machine: a loopback address, or `localhost`.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => IpAddr::V4(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::V6(address).is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{PlainHttp, parse_endpoint};

    #[test]
    fn only_https_and_plain_loopback_are_endpoints() {
        for good in ["https://login.example/keys", "https://login.example:8443/a?b=c", "https://[2001:db8::1]/x"] {
            assert!(parse_endpoint(good, PlainHttp::Refused).is_some(), "{good}");
        }
        for bad in [
            "http://login.example/keys",
            "javascript:alert(1)",
            "file:///etc/passwd",
            "data:application/json,{}",
            "https://user@login.example/",
            "https://user:pass@login.example/",
            "https://login.example/#part",
            "//login.example/keys",
            "login.example",
            "",
        ] {
            assert!(parse_endpoint(bad, PlainHttp::LoopbackOnly).is_none(), "{bad}");
        }
    }

    #[test]
    fn plain_http_is_for_loopback_where_it_is_allowed() {
        for local in ["http://127.0.0.1:9/keys", "http://[::1]:9/keys", "http://localhost/keys"] {
            assert!(parse_endpoint(local, PlainHttp::LoopbackOnly).is_some(), "{local}");
            assert!(parse_endpoint(local, PlainHttp::Refused).is_none(), "{local}");
        }
        assert!(parse_endpoint("http://localhost.evil.example/", PlainHttp::LoopbackOnly).is_none());
    }
}
