//! The cookies of the dashboard: their names, their attributes, and which of them a request may bring.
//!
//! Over TLS the name begins with `__Host-`, which browsers accept only with `Secure`, without a domain and for `/`. So no
//! other host of the domain and no plain connection can plant one. Over plain HTTP the name has no such beginning, and
//! where a request must have come over TLS that name is not read.

use http::HeaderMap;
use http::header::COOKIE;
use http::request::Parts;

use crate::config::GatewayConfig;
use crate::guard::origin::host;

const SESSION: &str = "tsugi_session";
const LOGIN: &str = "tsugi_login";

/// Whether the browser reaches us over TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CookieSecurity {
    Plain,
    Secure,
}

/// How this gateway is reached.
#[derive(Debug)]
pub(in crate::guard) struct CookiePolicy {
    /// Every connection is TLS.
    is_tls: bool,
    /// The host, and the port if it has one, under which the gateway is known over TLS.
    secure_host: Option<String>,
}

impl CookieSecurity {
    pub(crate) fn of_scheme(url: &str) -> Self {
        if url.starts_with("https://") { Self::Secure } else { Self::Plain }
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Secure => "__Host-",
        }
    }

    fn suffix(self) -> &'static str {
        match self {
            // A browser would keep a cookie with `Secure` away from a plain connection.
            Self::Plain => "",
            Self::Secure => "; Secure",
        }
    }

    /// The value of `Set-Cookie` that begins a session. It is for requests of our own page alone.
    pub(super) fn set_session(self, value: &str) -> String {
        format!("{}{SESSION}={value}; HttpOnly; SameSite=Strict; Path=/{}", self.prefix(), self.suffix())
    }

    pub(crate) fn clear_session(self) -> String {
        format!("{}; Max-Age=0", self.set_session(""))
    }

    /// The value of `Set-Cookie` that holds a sign-in under way. The browser must send it when the provider sends the
    /// person back, which is a navigation from another site: `Lax`.
    pub(crate) fn set_login(self, value: &str, seconds: u64) -> String {
        let (prefix, suffix) = (self.prefix(), self.suffix());
        format!("{prefix}{LOGIN}={value}; HttpOnly; SameSite=Lax; Path=/; Max-Age={seconds}{suffix}")
    }

    pub(crate) fn login_of(self, headers: &HeaderMap) -> Option<&str> {
        single_cookie(headers, self.prefix(), LOGIN)
    }
}

impl CookiePolicy {
    pub(in crate::guard) fn new(config: &GatewayConfig) -> Self {
        let url = config.public_url.as_ref().filter(|url| url.scheme() == "https");
        // `url` leaves out the usual port, as browsers do in `Host`.
        let secure_host = url.and_then(|url| Some(url.host_str()?.to_owned() + &port_of(url)));
        Self { is_tls: config.tls.is_some(), secure_host }
    }

    /// What is certain about a request.
    pub(in crate::guard) fn security(&self, parts: &Parts) -> CookieSecurity {
        let is_known = || self.secure_host.as_deref().zip(host(parts)).is_some_and(|(a, b)| a.eq_ignore_ascii_case(b));
        if self.is_tls || is_known() { CookieSecurity::Secure } else { CookieSecurity::Plain }
    }

    /// The session that a request brings, and under which kind of name.
    pub(in crate::guard) fn session_of<'a>(&self, parts: &'a Parts) -> Option<(&'a str, CookieSecurity)> {
        let named = |security: CookieSecurity| {
            single_cookie(&parts.headers, security.prefix(), SESSION).map(|value| (value, security))
        };
        // A proxy may have changed `Host`. The browser's promise about the name holds all the same.
        named(CookieSecurity::Secure).or_else(|| match self.security(parts) {
            CookieSecurity::Plain => named(CookieSecurity::Plain),
            CookieSecurity::Secure => None,
        })
    }
}

fn port_of(url: &url::Url) -> String {
    url.port().map(|port| format!(":{port}")).unwrap_or_default()
}

/// The value of a cookie of ours. Two of them are an attack, and then neither counts.
fn single_cookie<'a>(headers: &'a HeaderMap, prefix: &str, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let is_ours = |found: &str| found.strip_prefix(prefix) == Some(name);
    let mut ours = pairs.filter(|(found, _)| is_ours(found)).map(|(_, value)| value);
    match (ours.next(), ours.next()) {
        (Some(value), None) => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(host: &str, cookie: &str) -> Parts {
        let request = http::Request::builder().uri("/").header("host", host).header("cookie", cookie);
        request.body(()).unwrap().into_parts().0
    }

    fn policy(public_url: &str) -> CookiePolicy {
        CookiePolicy::new(&GatewayConfig { public_url: public_url.parse().ok(), ..GatewayConfig::default() })
    }

    #[test]
    fn where_tls_is_certain_a_plain_cookie_is_not_read() {
        let policy = policy("https://mcp.example");
        let both = "tsugi_session=planted; __Host-tsugi_session=ours";
        assert_eq!(policy.session_of(&parts("mcp.example", both)), Some(("ours", CookieSecurity::Secure)));
        assert_eq!(policy.session_of(&parts("MCP.example", "tsugi_session=planted")), None);
        let local = parts("127.0.0.1:7600", "tsugi_session=local");
        let found = policy.session_of(&local);
        assert_eq!(found, Some(("local", CookieSecurity::Plain)), "a plain address beside it works as before");
        assert_eq!(policy.session_of(&parts("mcp.example", "__Host-tsugi_session=a; __Host-tsugi_session=b")), None);
    }

    #[test]
    fn a_secure_cookie_has_what_browsers_want_for_its_name() {
        let set = CookieSecurity::Secure.set_session("x");
        assert_eq!(set, "__Host-tsugi_session=x; HttpOnly; SameSite=Strict; Path=/; Secure");
        assert!(!set.contains("Domain") && !CookieSecurity::Plain.set_session("x").contains("Secure"));
        let login = CookieSecurity::Secure.set_login("x", 600);
        assert_eq!(login, "__Host-tsugi_login=x; HttpOnly; SameSite=Lax; Path=/; Max-Age=600; Secure");
    }
}
