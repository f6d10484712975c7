//! The defence against web pages that reach a local gateway through a name they control (DNS rebinding).

use std::net::IpAddr;

use http::header::{HOST, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, HeaderName};

use super::refusal::HttpRefusal;
use crate::config::GatewayConfig;

/// Which values of `Host` and `Origin` are accepted.
#[derive(Debug)]
pub struct OriginGuard {
    hosts: Vec<String>,
    origins: Vec<String>,
    /// The addresses we listen on.
    own: Vec<IpAddr>,
    is_local: bool,
}

impl OriginGuard {
    /// Loopback names always, and what the configuration adds. As `Host` also plain addresses when others can reach us,
    /// since a rebinding attack always needs a name. As `Origin` an address is as foreign as any other page.
    pub fn new(config: &GatewayConfig) -> Self {
        let lower = |list: &[String]| list.iter().map(|entry| entry.to_ascii_lowercase()).collect();
        Self {
            hosts: lower(&config.allowed_hosts),
            origins: lower(&config.allowed_origins),
            own: config.listen.iter().map(|address| address.ip()).filter(|ip| !ip.is_unspecified()).collect(),
            is_local: config.is_local(),
        }
    }

    /// Refuses a request for another name or from a foreign web page.
    pub fn check(&self, parts: &Parts) -> Result<(), HttpRefusal> {
        // HTTP/2 and absolute targets name the host here, and `Host` may be missing.
        if let Some(authority) = parts.uri.authority() {
            self.check_host(authority.as_str())?;
        }
        match single(&parts.headers, &HOST) {
            SingleHeader::One(host) => self.check_host(host)?,
            SingleHeader::None if parts.uri.authority().is_some() => {}
            _ => return Err(HttpRefusal::forbidden("exactly one Host header is needed").by("host")),
        }
        match single(&parts.headers, &ORIGIN) {
            SingleHeader::None => Ok(()),
            SingleHeader::One(origin) => self.check_origin(origin, host(parts)),
            SingleHeader::Odd => {
                Err(HttpRefusal::forbidden("more than one Origin header, or one that cannot be read").by("origin"))
            }
        }
    }

    fn check_host(&self, authority: &str) -> Result<(), HttpRefusal> {
        match host_of(authority) {
            Some(host) if self.is_known(host) || self.may_be_ours(host) => Ok(()),
            _ => Err(HttpRefusal::forbidden(
                "this gateway is not known by the name in Host: add it to `gateway.allowedHosts`",
            )
            .by("host")),
        }
    }

    /// Whether the configuration names the web page that this request comes from.
    pub(super) fn is_listed(&self, parts: &Parts) -> bool {
        // The usual case, on every request.
        if self.origins.is_empty() {
            return false;
        }
        let origin = parts.headers.get(ORIGIN).and_then(|origin| origin.to_str().ok());
        origin.is_some_and(|origin| self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin)))
    }

    fn check_origin(&self, origin: &str, own: Option<&str>) -> Result<(), HttpRefusal> {
        let is_listed = self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin));
        let authority = bare(origin);
        // A page of ours, such as the dashboard: its address has just passed as `Host`.
        let is_own = own.zip(authority).is_some_and(|(own, origin)| own.eq_ignore_ascii_case(origin));
        if is_listed || is_own || authority.and_then(host_of).is_some_and(|host| self.is_known(host)) {
            return Ok(());
        }
        Err(HttpRefusal::forbidden("this Origin may not call: add it to `gateway.allowedOrigins`").by("origin"))
    }

    /// Names of this machine, and those that the configuration adds.
    fn is_known(&self, host: &str) -> bool {
        host.eq_ignore_ascii_case("localhost")
            || address(host).is_some_and(|address| address.is_loopback())
            || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
    }

    /// Addresses by which others may reach us.
    fn may_be_ours(&self, host: &str) -> bool {
        address(host).is_some_and(|address| !self.is_local || self.own.contains(&address))
    }
}

/// What a request says that we are called.
pub(super) fn host(parts: &Parts) -> Option<&str> {
    let own = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
    own.or_else(|| parts.uri.authority().map(|authority| authority.as_str()))
}

/// A web page's origin without its scheme.
fn bare(origin: &str) -> Option<&str> {
    origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"))
}

/// Refuses what another web page makes a browser send. A page on another port of this machine is another page, although
/// browsers send it the same cookies.
pub(super) fn expect_own(parts: &Parts) -> Result<(), HttpRefusal> {
    let own = host(parts).map(str::to_ascii_lowercase);
    let origin = parts.headers.get(ORIGIN).and_then(|origin| origin.to_str().ok());
    let is_own = origin.is_none_or(|origin| bare(origin).map(str::to_ascii_lowercase) == own);
    let site = parts.headers.get("sec-fetch-site").map(|site| site.as_bytes());
    match is_own && site.is_none_or(|site| site == b"same-origin" || site == b"none") {
        true => Ok(()),
        false => Err(HttpRefusal::forbidden("this is for the dashboard's own page only").by("page")),
    }
}

fn address(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    bare.parse().ok()
}

/// The host of `host[:port]`; nothing when it has user information, a path, or a port that is not a number.
fn host_of(authority: &str) -> Option<&str> {
    // Anything that a URL parser could read in two ways is refused.
    if authority.bytes().any(|byte| matches!(byte, b'@' | b'/' | b'\\' | b' ' | b',' | b'?' | b'#')) {
        return None;
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let end = rest.find(']')? + 2;
            (&authority[..end], &authority[end..])
        }
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let is_port = port.is_empty()
        || port.strip_prefix(':').is_some_and(|digits| digits.len() <= 5 && digits.bytes().all(|b| b.is_ascii_digit()));
    (is_port && !host.is_empty()).then_some(host)
}

/// How often a header is there.
pub enum SingleHeader<'headers> {
    /// Not at all.
    None,
    /// Once, as text.
    One(&'headers str),
    /// More than once, or not text.
    Odd,
}

/// A header that may be there once. Two of them are how request smuggling begins.
pub fn single<'headers>(headers: &'headers HeaderMap, name: &HeaderName) -> SingleHeader<'headers> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => SingleHeader::None,
        (Some(value), None) => value.to_str().map_or(SingleHeader::Odd, SingleHeader::One),
        _ => SingleHeader::Odd,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(guard: &OriginGuard, headers: &[(&str, &str)]) -> bool {
        let mut request = http::Request::builder().uri("/mcp");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        guard.check(&request.body(()).unwrap().into_parts().0).is_ok()
    }

    #[test]
    fn only_names_of_this_machine_come_in_by_default() {
        let guard = OriginGuard::new(&GatewayConfig::on_free_port());
        for host in ["localhost", "LOCALHOST:7600", "127.0.0.1:1", "[::1]:80", "[::1]"] {
            assert!(check(&guard, &[("host", host)]), "{host}");
        }
        let foreign = [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "evil@localhost",
            "localhost:x",
            "localhost:80:90",
            "",
            "0.0.0.0",
            "10.0.0.1",
            "[::1",
            "localhost/x",
            "localhost, evil.example",
        ];
        for host in foreign {
            assert!(!check(&guard, &[("host", host)]), "{host}");
        }
        assert!(!check(&guard, &[]), "no host at all");
        assert!(!check(&guard, &[("host", "localhost"), ("host", "localhost")]), "two hosts");
    }

    #[test]
    fn only_web_pages_of_this_machine_may_ask_by_default() {
        let guard = OriginGuard::new(&GatewayConfig::on_free_port());
        for origin in ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:5173"] {
            assert!(check(&guard, &[("host", "localhost"), ("origin", origin)]), "{origin}");
        }
        for origin in ["null", "http://evil.example", "file://", "http://localhost.evil.example", "localhost", ""] {
            assert!(!check(&guard, &[("host", "localhost"), ("origin", origin)]), "{origin}");
        }
        assert!(!check(
            &guard,
            &[("host", "localhost"), ("origin", "http://localhost"), ("origin", "http://evil.example")]
        ));
    }

    #[test]
    fn what_the_configuration_adds_comes_in_too() {
        let mut config =
            GatewayConfig { allowed_hosts: vec!["Gateway.example".into()], ..GatewayConfig::on_free_port() };
        config.allowed_origins = vec!["https://app.example".into()];
        let guard = OriginGuard::new(&config);
        assert!(check(&guard, &[("host", "gateway.EXAMPLE:443"), ("origin", "https://app.example")]));
        assert!(!check(&guard, &[("host", "gateway.example"), ("origin", "https://app.example:8443")]));
    }

    #[test]
    fn plain_addresses_come_in_only_when_others_can_reach_us() {
        let open = GatewayConfig { listen: vec!["0.0.0.0:0".parse().unwrap()], ..GatewayConfig::default() };
        let guard = OriginGuard::new(&open);
        assert!(check(&guard, &[("host", "192.168.1.5:7600")]) && check(&guard, &[("host", "[fd00::1]")]));
        assert!(!check(&guard, &[("host", "evil.example")]));
    }

    #[test]
    fn a_page_that_another_address_serves_may_not_ask() {
        let open = GatewayConfig { listen: vec!["0.0.0.0:0".parse().unwrap()], ..GatewayConfig::default() };
        let guard = OriginGuard::new(&open);
        let asks = |origin: &str| check(&guard, &[("host", "192.168.1.5:7600"), ("origin", origin)]);
        assert!(asks("http://192.168.1.5:7600"), "the dashboard's own page");
        assert!(asks("http://127.0.0.1:3000") && asks("http://localhost:3000"), "pages of this machine");
        for foreign in ["http://203.0.113.7", "http://192.168.1.6:7600", "http://192.168.1.5:8080", "http://[fd00::1]"]
        {
            assert!(!asks(foreign), "{foreign}");
        }
    }

    #[test]
    fn whatever_address_of_this_machine_we_listen_on_is_a_name_of_ours() {
        let second = GatewayConfig { listen: vec!["127.0.0.2:0".parse().unwrap()], ..GatewayConfig::default() };
        let guard = OriginGuard::new(&second);
        assert!(check(&guard, &[("host", "127.0.0.2:7600"), ("origin", "http://127.0.0.2:7600")]));
        assert!(!check(&guard, &[("host", "10.0.0.1:7600")]), "others cannot reach us");
    }
}
