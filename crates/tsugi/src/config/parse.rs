//! How single values are written: durations, sizes, switches, numbers, words.
//!
//! A parser that refuses says what it expected, never what it got: the value may be secret.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use tsugi_audit::writer::{FailurePolicy, SyncMode};
use tsugi_auth::jose::algorithm::SigningAlgorithm;
use tsugi_client::config::{
    AutoSwitch, EraChoice, InstancePolicy, LintMode, PinMode, RestartPolicy, StartPolicy, ValidationMode,
};
use tsugi_gateway::dashboard::payload::RecordMode;
use tsugi_gateway::guard::api_key::KeyRole;
use tsugi_gateway::guard::certificate::CertificateRule;
use tsugi_gateway::guard::policy::PolicyMode;
use tsugi_gateway::guard::proxy_trust::AddressRange;
use tsugi_gateway::hub::tool_search::ToolListing;
use tsugi_outbound::{AllowList, EgressList};
use tsugi_process::{CacheAccess, Isolation, MemorySize, NetworkAccess, SandboxPolicy};
use tsugi_protocol::answer::FaultCode;
use tsugi_schema::tool_name::ToolNaming;
use url::Url;

use super::key::nearest;
use super::settings::{
    AcmeChallenge, ArgumentMode, AuditSinkType, BuiltinServer, CertificatePart, ClientAuthWord, ProviderQuirk,
    RemoteTransport, UpstreamAuthMode,
};

/// What a value should have been.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ExpectedValue {
    pub(crate) what: String,
    pub(crate) hint: Option<String>,
}

/// The result of reading one value.
pub(crate) type ParseResult<T> = Result<T, ExpectedValue>;

/// Refuses a value, saying what it should have been.
pub(crate) fn expected<T>(what: impl Into<String>) -> ParseResult<T> {
    Err(ExpectedValue { what: what.into(), hint: None })
}

/// A duration: a bare number is milliseconds, otherwise a unit follows.
pub(crate) fn duration(text: &str) -> ParseResult<Duration> {
    let (number, unit) = split_unit(text);
    let scale = match unit {
        "" | "ms" => 0.001,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return not_a_duration(),
    };
    // `try_from_secs_f64` refuses negative numbers, infinity and NaN.
    match number.parse::<f64>().ok().and_then(|number| Duration::try_from_secs_f64(number * scale).ok()) {
        Some(duration) if duration <= LONGEST => Ok(duration),
        _ => not_a_duration(),
    }
}

/// Longer durations are mistakes, and would overflow a timer.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

fn not_a_duration<T>() -> ParseResult<T> {
    expected("a duration such as `30s`, `1500ms`, `2m`, or a number of milliseconds, not negative, a year at most")
}

/// A duration that is not zero, for limits.
pub(crate) fn positive_duration(text: &str) -> ParseResult<Duration> {
    match duration(text)? {
        Duration::ZERO => expected("a duration longer than zero"),
        duration => Ok(duration),
    }
}

/// A number of bytes: `4MiB`, `64KB`, or a bare number.
pub(crate) fn size(text: &str) -> ParseResult<u64> {
    let (number, unit) = split_unit(text);
    let scale = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => Some(1u64),
        // `KB` is a power of ten and `KiB` a power of two.
        "k" | "kb" => Some(1000),
        "m" | "mb" => Some(1_000_000),
        "g" | "gb" => Some(1_000_000_000),
        "kib" => Some(1 << 10),
        "mib" => Some(1 << 20),
        "gib" => Some(1 << 30),
        _ => None,
    };
    let bytes = scale.and_then(|scale| number.parse::<u64>().ok()?.checked_mul(scale));
    bytes.map_or_else(|| expected("a size such as `4MiB`, `64KB`, or a number of bytes"), Ok)
}

/// A number and the letters after it.
fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    // `1e3` is refused this way, because `e3` is not a unit.
    let end = text.find(|character: char| character.is_ascii_alphabetic()).unwrap_or(text.len());
    (text[..end].trim(), text[end..].trim())
}

/// A switch.
pub(crate) fn flag(text: &str) -> ParseResult<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Ok(true),
        "false" | "no" | "off" => Ok(false),
        _ => expected("`true` or `false`"),
    }
}

/// A whole number, at least zero.
pub(crate) fn count<T: std::str::FromStr>(text: &str) -> ParseResult<T> {
    text.trim().parse().or_else(|_| expected("a whole number, not negative"))
}

/// A whole number, at least one.
pub(crate) fn positive<T: std::str::FromStr + PartialEq + Default>(text: &str) -> ParseResult<T> {
    let number: T = count(text)?;
    // The default of every number type is zero.
    if number == T::default() { expected("a whole number, at least 1") } else { Ok(number) }
}

/// A factor, at least one.
pub(crate) fn factor(text: &str) -> ParseResult<f64> {
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 1.0 => Ok(number),
        _ => expected("a number, at least 1"),
    }
}

/// An address to listen on; a bare port, or `localhost`, means loopback. No name is looked up.
pub(crate) fn address(text: &str) -> ParseResult<SocketAddr> {
    let local = text.strip_prefix("localhost:").unwrap_or(text);
    match (local.parse::<u16>(), text.parse()) {
        // Leaving out the host must not make a gateway public.
        (Ok(port), _) => Ok(SocketAddr::from(([127, 0, 0, 1], port))),
        (_, Ok(address)) => Ok(address),
        _ => expected("an address such as `127.0.0.1:7600`"),
    }
}

/// An address, or a range of them.
pub(crate) fn address_range(text: &str) -> ParseResult<AddressRange> {
    match AddressRange::parse(text) {
        Some(range) => Ok(range),
        None => expected("an address or a range such as `10.0.0.0/8`"),
    }
}

/// A day, which begins at midnight, or a second, both in UTC.
pub(crate) fn moment(text: &str) -> ParseResult<SystemTime> {
    match seconds_of(text) {
        Some(seconds) => Ok(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)),
        None => expected("a time such as `2027-01-31` or `2027-01-31T18:00:00Z`"),
    }
}

/// Seconds since 1970 of `YYYY-MM-DD` or `YYYY-MM-DDThh:mm:ssZ`.
fn seconds_of(text: &str) -> Option<u64> {
    let number = |part: &str, digits: usize| {
        let is_plain = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        if is_plain { part.parse::<u64>().ok() } else { None }
    };
    let (day, time) = match text.split_once('T') {
        Some((day, time)) => (day, time.strip_suffix('Z')?),
        None => (text, "00:00:00"),
    };
    let mut parts = day.split('-');
    let (year, month, day) = (number(parts.next()?, 4)?, number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let mut clock = time.split(':');
    let (hour, minute, second) = (number(clock.next()?, 2)?, number(clock.next()?, 2)?, number(clock.next()?, 2)?);
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut months = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    months[1] += u64::from(is_leap(year));
    let is_valid = year >= 1970
        && (1..=12).contains(&month)
        && (1..=months[usize::try_from(month).ok()? - 1]).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60
        && parts.next().is_none()
        && clock.next().is_none();
    if !is_valid {
        return None;
    }
    let years: u64 = (1970..year).map(|year| 365 + u64::from(is_leap(year))).sum();
    let days = years + months[..usize::try_from(month).ok()? - 1].iter().sum::<u64>() + day - 1;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

/// A glob; it is only checked here.
pub(crate) fn glob(text: &str) -> ParseResult<String> {
    match globset::Glob::new(text) {
        Ok(_) if !text.is_empty() => Ok(text.to_owned()),
        Ok(_) => expected("a glob that is not empty"),
        Err(error) => expected(format!("a glob: {}", error.kind())),
    }
}

/// A protocol revision.
pub(crate) fn revision(text: &str) -> ParseResult<String> {
    if REVISIONS.contains(&text) { Ok(text.to_owned()) } else { expected(format!("one of {}", REVISIONS.join(", "))) }
}

/// The revisions of the protocol that tsugi speaks.
pub(crate) const REVISIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

/// A host that requests may name.
pub(crate) fn host(text: &str) -> ParseResult<String> {
    let is_host = !text.is_empty() && !text.contains(['/', '@', ' ']);
    if is_host { Ok(text.to_owned()) } else { expected("a host name, with a port if needed") }
}

/// A web origin.
pub(crate) fn origin(text: &str) -> ParseResult<String> {
    match url::Url::parse(text) {
        Ok(url) if url.path() == "/" && url.query().is_none() && url.has_host() => {
            // Browsers send the lower-case host without a default port, so it is compared in that form.
            Ok(url.origin().ascii_serialization())
        }
        _ => expected("an origin such as `https://example.com`"),
    }
}

/// The SHA-256 of a public key.
pub(crate) fn pin(text: &str) -> ParseResult<String> {
    match text.parse::<tsugi_tls::pin::KeyPin>() {
        Ok(pin) => Ok(pin.to_string()),
        Err(error) => expected(error.to_string()),
    }
}

/// The name in a server's certificate.
pub(crate) fn server_name(text: &str) -> ParseResult<String> {
    match tsugi_tls::upstream::parse_server_name(text) {
        Some(_) => Ok(text.to_owned()),
        None => expected("a host name or an address"),
    }
}

/// A tool's name as the protocol wants it, or with the slash that some servers use.
pub(crate) fn tool_name(text: &str) -> ParseResult<String> {
    let allowed = |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | '-' | '/');
    let is_name = !text.is_empty() && text.len() <= 128 && text.chars().all(allowed);
    if is_name { Ok(text.to_owned()) } else { expected("1 to 128 letters, digits, `.`, `_`, `-` or `/`") }
}

/// A code as tool results show it, or the number of a server's own JSON-RPC error.
pub(crate) fn error_code(text: &str) -> ParseResult<String> {
    let codes = FaultCode::ALL.iter().map(|code| code.as_str());
    if text.parse::<i64>().is_ok() || codes.clone().any(|code| code == text) {
        return Ok(text.to_owned());
    }
    // All codes are upper case, so `timeout` is near enough for a hint.
    let hint = nearest(&text.to_ascii_uppercase(), codes).map(|near| format!("did you mean `{near}`?"));
    let what = "an error code such as `TIMEOUT` or `EXECUTION_FAILED`, or a JSON-RPC number such as `-32603`".into();
    Err(ExpectedValue { what, hint })
}

/// An amount of memory.
pub(crate) fn memory_size(text: &str) -> ParseResult<MemorySize> {
    size(text).map(MemorySize)
}

/// The words for a sandbox that is not a map.
pub(crate) fn sandbox_word(text: &str) -> ParseResult<SandboxPolicy> {
    match text {
        "off" | "false" | "no" => Ok(SandboxPolicy::Off),
        "default" | "on" | "true" | "yes" => Ok(SandboxPolicy::Default),
        _ => expected("`off`, `default`, or a map"),
    }
}

/// The words for instances that are not a pool.
pub(crate) fn instances_word(text: &str) -> ParseResult<InstancePolicy> {
    match text {
        "shared" => Ok(InstancePolicy::Shared),
        "per-session" => Ok(InstancePolicy::PerSession),
        "auto" => Ok(InstancePolicy::Auto),
        _ => expected("`shared`, `per-session`, `auto`, or a map such as `{pool: 4}`"),
    }
}

/// A server's name.
pub(crate) fn name(text: &str) -> ParseResult<String> {
    if !text.is_empty() && text.len() <= 64 && text.chars().all(is_name_character) {
        return Ok(text.to_owned());
    }
    let hint = format!("`{}` would do", tidy_name(text));
    Err(ExpectedValue { what: "1 to 64 of A-Z, a-z, 0-9, `.`, `_` and `-`".to_owned(), hint: Some(hint) })
}

fn is_name_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | '-')
}

/// The allowed name nearest to what someone wrote.
pub(crate) fn tidy_name(text: &str) -> String {
    let replace = |character: char| if is_name_character(character) { character } else { '-' };
    let plain: String = text.trim().chars().map(replace).collect();
    // Several replaced characters in a row become one dash.
    let parts: Vec<&str> = plain.split('-').filter(|part| !part.is_empty()).collect();
    let name: String = parts.join("-").chars().take(64).collect();
    if name.is_empty() { "server".to_owned() } else { name }
}

/// The words for a network; a list of hosts is a map.
pub(crate) fn network_word(text: &str) -> ParseResult<NetworkAccess> {
    match text {
        "none" => Ok(NetworkAccess::None),
        "loopback" => Ok(NetworkAccess::Loopback),
        "all" => Ok(NetworkAccess::All),
        _ => expected("one of none, loopback, all, or a map with `allow`"),
    }
}

/// An entry of `outbound.allow`.
pub(crate) fn outbound_entry(text: &str) -> ParseResult<String> {
    match AllowList::parse([text]) {
        Ok(_) => Ok(text.to_owned()),
        Err(fault) => Err(ExpectedValue {
            what: "a network such as 10.1.0.0/16, or a host name such as *.corp.example".to_owned(),
            hint: Some(fault.to_string()),
        }),
    }
}

/// An entry of `sandbox.net.allow`.
pub(crate) fn egress_entry(text: &str) -> ParseResult<String> {
    match EgressList::parse([text]) {
        Ok(_) => Ok(text.to_owned()),
        Err((_, fault)) => Err(ExpectedValue {
            what: "a host with or without a port, such as api.github.com:443 or *.example.com".to_owned(),
            hint: Some(fault.to_string()),
        }),
    }
}

/// The address of an HTTP proxy. It is spoken to without TLS, as proxies are.
pub(crate) fn proxy_url(text: &str) -> ParseResult<Url> {
    let is_usable = |url: &Url| url.scheme() == "http" && url.host().is_some() && url.username().is_empty();
    match Url::parse(text).ok().filter(is_usable) {
        Some(url) => Ok(url),
        None => expected("an address such as http://proxy.example:3128, without a user"),
    }
}

/// A setting that is one of a few words.
pub(crate) trait ConfigKeyword: Copy + 'static {
    /// The words and what they mean.
    const WORDS: &'static [(&'static str, Self)];
    /// The words alone.
    const NAMES: &'static [&'static str];
}

/// A scope of OAuth.
pub(crate) fn scope(text: &str) -> ParseResult<String> {
    match tsugi_auth::scope::is_scope(text) {
        true => Ok(text.to_owned()),
        false => expected("a scope: printable ASCII without spaces and quotes"),
    }
}

/// An algorithm that signs.
pub(crate) fn signing_algorithm(text: &str) -> ParseResult<SigningAlgorithm> {
    match SigningAlgorithm::parse(text) {
        Some(algorithm) => Ok(algorithm),
        None => expected("RS256, PS256, ES256, ES384 or EdDSA"),
    }
}

/// How soon lines of the audit log reach the disk.
pub(crate) fn audit_sync(text: &str) -> ParseResult<SyncMode> {
    if text == "always" {
        return Ok(SyncMode::Always);
    }
    match positive_duration(text) {
        Ok(interval) => Ok(SyncMode::Interval(interval)),
        Err(_) => expected("`always` or a duration such as 200ms"),
    }
}

/// A JSON pointer (RFC 6901).
pub(crate) fn json_pointer(text: &str) -> ParseResult<String> {
    if text.starts_with('/') { Ok(text.to_owned()) } else { expected("a JSON pointer such as /to") }
}

/// The name in a certificate, with stars: one of the forms that a certificate can have.
pub(crate) fn certificate_glob(text: &str) -> ParseResult<String> {
    let is_form = text.contains(':') || text.starts_with('*');
    match CertificateRule::new(text) {
        Ok(_) if is_form => Ok(text.to_owned()),
        _ => expected("a name in a certificate, such as spiffe://corp.example/*, dns:*.example.com or cn:ann"),
    }
}

/// One of a few words.
pub(crate) fn keyword<T: ConfigKeyword>(text: &str) -> ParseResult<T> {
    if let Some((_, meaning)) = T::WORDS.iter().find(|(word, _)| *word == text) {
        return Ok(*meaning);
    }
    let words: Vec<&str> = T::WORDS.iter().map(|(word, _)| *word).collect();
    let hint = nearest(text, words.iter().copied()).map(|word| format!("did you mean `{word}`?"));
    Err(ExpectedValue { what: format!("one of {}", words.join(", ")), hint })
}

macro_rules! words {
    ($($type:ident: $($word:literal => $variant:ident),+;)+) => {
        $(impl ConfigKeyword for $type {
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, $type::$variant)),+];
            const NAMES: &'static [&'static str] = &[$($word),+];
        })+
    };
}

words! {
    UpstreamAuthMode: "oauth" => Oauth, "clientCredentials" => ClientCredentials, "workload" => Workload,
        "enterprise" => Enterprise, "header" => Header;
    ProviderQuirk: "assumePkce" => AssumePkce, "noResource" => NoResource;
    RestartPolicy: "on-failure" => OnFailure, "never" => Never;
    StartPolicy: "eager" => Eager, "lazy" => Lazy;
    RecordMode: "off" => Off, "errors" => Errors, "all" => All;
    ToolListing: "all" => All, "search" => Search, "auto" => Auto;
    ToolNaming: "prefix" => Prefix, "prefix-on-conflict" => PrefixOnConflict, "bare" => Bare;
    EraChoice: "auto" => Auto, "modern" => Modern, "legacy" => Legacy;
    ValidationMode: "off" => Off, "warn" => Warn, "enforce" => Enforce;
    PinMode: "off" => Off, "warn" => Warn, "enforce" => Enforce, "tofu" => Tofu;
    PolicyMode: "enforce" => Enforce, "shadow" => Shadow;
    LintMode: "off" => Off, "warn" => Warn, "quarantine" => Quarantine;
    CacheAccess: "none" => None, "read" => Read, "write" => Write;
    Isolation: "auto" => Auto, "standard" => Standard, "strict" => Strict;
    ArgumentMode: "none" => None, "digest" => Digest, "fields" => Fields;
    AuditSinkType: "postgres" => Postgres, "syslog" => Syslog, "otlp" => Otlp;
    FailurePolicy: "refuse" => Refuse, "continue" => Continue;
    BuiltinServer: "pm" => Pm, "demo" => Demo;
    AcmeChallenge: "tls-alpn-01" => TlsAlpn, "http-01" => Http;
    ClientAuthWord: "off" => Off, "optional" => Optional, "required" => Required;
    CertificatePart: "uri" => Uri, "dns" => Dns, "cn" => Cn, "key" => Key;
    KeyRole: "admin" => Admin, "user" => User, "readOnly" => Reader;
    AutoSwitch: "auto" => Auto, "on" => On, "true" => On, "yes" => On, "off" => Off, "false" => Off, "no" => Off;
    RemoteTransport: "auto" => Auto, "http" => Http, "streamable-http" => Http, "streamableHttp" => Http,
        "sse" => Sse, "rpc" => Rpc, "websocket" => Websocket, "ws" => Websocket;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_number_is_milliseconds_and_units_are_understood() {
        for (text, milliseconds) in [
            ("30000", 30_000),
            ("0", 0),
            ("30s", 30_000),
            ("1500ms", 1_500),
            ("2m", 120_000),
            ("1.5s", 1_500),
            ("1 h", 3_600_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["-1", "-5s", "soon", "", "s", "1e300s", "10y", "NaN", "inf", "400d"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(positive_duration("0").is_err());
    }

    #[test]
    fn sizes_know_both_kinds_of_unit() {
        for (text, bytes) in [("4MiB", 4 << 20), ("64KB", 64_000), ("512", 512), ("1 GiB", 1 << 30)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        assert!(size("-1").is_err() && size("99999999999GiB").is_err() && size("1.5MB").is_err());
    }

    #[test]
    fn addresses_may_be_a_port_alone() {
        for (text, expected) in [("7600", "127.0.0.1:7600"), ("localhost:0", "127.0.0.1:0"), ("[::1]:80", "[::1]:80")] {
            assert_eq!(address(text).unwrap().to_string(), expected);
        }
        assert!(address("example.com:80").is_err() && address("70000").is_err());
    }

    #[test]
    fn a_moment_is_a_day_or_a_second_in_utc() {
        let seconds = |text: &str| moment(text).unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        for (text, expected) in [
            ("1970-01-01", 0),
            ("2000-02-29T00:00:01Z", 951_782_401),
            ("2026-11-18T05:50:00Z", 1_794_981_000),
            ("2100-03-01", 4_107_542_400),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
        let wrong = ["", "2027", "2027-13-01", "2027-02-29", "2100-02-29", "1969-12-31", "2027-01-01T24:00:00Z"];
        for text in
            wrong.into_iter().chain(["2027-01-01T10:00:00", "2027-01-01T10:00:00+01:00", "2027-1-1", "tomorrow"])
        {
            assert!(moment(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_near_word_is_suggested() {
        let error = keyword::<RestartPolicy>("onfailure").unwrap_err();
        assert_eq!(error.hint.as_deref(), Some("did you mean `on-failure`?"));
    }

    #[test]
    fn a_name_that_does_not_do_gets_a_suggestion() {
        assert!(name("good-name_1.0").is_ok());
        assert_eq!(name("My Server!").unwrap_err().hint.as_deref(), Some("`My-Server` would do"));
        assert_eq!(tidy_name("日本"), "server");
        assert!(name(&"a".repeat(65)).is_err() && name("").is_err() && name("a/b").is_err());
    }
}
