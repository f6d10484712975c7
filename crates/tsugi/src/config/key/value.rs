//! Types of values: what they look like in a file, and how they are parsed.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use tsugi_audit::writer::SyncMode;
use tsugi_auth::jose::algorithm::SigningAlgorithm;
use tsugi_client::config::InstancePolicy;
use tsugi_gateway::guard::proxy_trust::AddressRange;
use tsugi_process::{MemorySize, NetworkAccess, SandboxPolicy};
use url::Url;

use super::shape::SchemaShape;
use crate::config::parse::{self, ConfigKeyword, ParseResult, expected};
use crate::config::settings::{CertificatePart, ProviderQuirk, RemoteTransport};

/// A type of values.
pub(crate) struct ValueType<T> {
    pub(crate) shape: SchemaShape,
    pub(crate) parse: fn(&str) -> ParseResult<T>,
}

impl<T> std::fmt::Debug for ValueType<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:?}", self.shape)
    }
}

pub(crate) const TEXT: ValueType<String> = plain(SchemaShape::Text, parse_text);
pub(crate) const FLAG: ValueType<bool> = plain(SchemaShape::Flag, parse::flag);
pub(crate) const SWITCH: ValueType<bool> = plain(SchemaShape::Switch, parse::flag);
pub(crate) const DURATION: ValueType<Duration> = plain(SchemaShape::Duration, parse::duration);
pub(crate) const POSITIVE_DURATION: ValueType<Duration> = plain(SchemaShape::Duration, parse::positive_duration);
pub(crate) const SIZE: ValueType<u64> = plain(SchemaShape::Size, parse::size);
pub(crate) const FACTOR: ValueType<f64> = plain(SchemaShape::Number, parse::factor);
pub(crate) const ADDRESS: ValueType<SocketAddr> = plain(SchemaShape::Address, parse::address);
pub(crate) const MOMENT: ValueType<SystemTime> = plain(SchemaShape::Text, parse::moment);
pub(crate) const REVISION: ValueType<String> = plain(SchemaShape::Words(&parse::REVISIONS), parse::revision);
pub(crate) const TOOL_NAME: ValueType<String> = plain(SchemaShape::Text, parse::tool_name);
/// Items of lists.
pub(crate) const TEXTS: ValueType<String> = plain(SchemaShape::TextList, parse_text);
pub(crate) const TOOL_NAMES: ValueType<String> = plain(SchemaShape::TextList, parse::tool_name);
pub(crate) const GLOBS: ValueType<String> = plain(SchemaShape::Globs, parse::glob);
pub(crate) const HOSTS: ValueType<String> = plain(SchemaShape::TextList, parse::host);
pub(crate) const ADDRESS_RANGES: ValueType<AddressRange> = plain(SchemaShape::TextList, parse::address_range);
pub(crate) const ORIGINS: ValueType<String> = plain(SchemaShape::TextList, parse::origin);
pub(crate) const PINS: ValueType<String> = plain(SchemaShape::TextList, parse::pin);
/// The name in a certificate, with stars.
pub(crate) const CERTIFICATE_GLOB: ValueType<String> = plain(SchemaShape::Text, parse::certificate_glob);
pub(crate) const CERTIFICATE_PARTS: ValueType<CertificatePart> = plain(SchemaShape::TextList, parse::keyword);
pub(crate) const CERTIFICATE_NAME: ValueType<String> = plain(SchemaShape::Text, parse::server_name);
pub(crate) const ERROR_CODES: ValueType<String> = plain(SchemaShape::ErrorCodes, parse::error_code);
pub(crate) const TRANSPORT_WORD: ValueType<RemoteTransport> = plain(SchemaShape::Words(TRANSPORTS), parse::keyword);
pub(crate) const AUDIT_SYNC: ValueType<SyncMode> = plain(SchemaShape::Text, parse::audit_sync);
pub(crate) const MEMORY_SIZE: ValueType<MemorySize> = plain(SchemaShape::Size, parse::memory_size);
/// Items of `outbound.allow` and of `sandbox.net.allow`, as they were written.
pub(crate) const OUTBOUND_ENTRIES: ValueType<String> = plain(SchemaShape::TextList, parse::outbound_entry);
pub(crate) const EGRESS_ENTRIES: ValueType<String> = plain(SchemaShape::TextList, parse::egress_entry);
pub(crate) const PROVIDER_QUIRKS: ValueType<ProviderQuirk> = plain(SchemaShape::TextList, parse::keyword);
pub(crate) const SCOPE_NAMES: ValueType<String> = plain(SchemaShape::TextList, parse::scope);
pub(crate) const SIGNING_ALGORITHM: ValueType<SigningAlgorithm> =
    plain(SchemaShape::Words(&["RS256", "PS256", "ES256", "ES384", "EdDSA"]), parse::signing_algorithm);
pub(crate) const PROXY_URL: ValueType<Url> = plain(SchemaShape::Url, parse::proxy_url);
/// A word, or a map that is read by hand.
pub(crate) const NETWORK_WORD: ValueType<NetworkAccess> =
    plain(SchemaShape::WordsOrTable(&["none", "loopback", "all"], "servers[].sandbox.net"), parse::network_word);
pub(crate) const SANDBOX_WORD: ValueType<SandboxPolicy> =
    plain(SchemaShape::WordsOrTable(&["off", "default"], "servers[].sandbox"), parse::sandbox_word);
pub(crate) const INSTANCES_WORD: ValueType<InstancePolicy> =
    plain(SchemaShape::WordsOrTable(&["shared", "per-session", "auto"], "servers[].instances"), parse::instances_word);

/// `stdio` is a word for servers that are programs, which have no transport of this type.
const TRANSPORTS: &[&str] =
    &["auto", "stdio", "http", "streamable-http", "streamableHttp", "sse", "rpc", "websocket", "ws"];

const fn plain<T>(shape: SchemaShape, parse: fn(&str) -> ParseResult<T>) -> ValueType<T> {
    ValueType { shape, parse }
}

/// A whole number, at least zero.
pub(crate) const fn count<T: FromStr>() -> ValueType<T> {
    plain(SchemaShape::Integer(0), parse::count)
}

/// A whole number, at least one.
pub(crate) const fn positive<T: FromStr + PartialEq + Default>() -> ValueType<T> {
    plain(SchemaShape::Integer(1), parse::positive)
}

/// One of a few words.
pub(crate) const fn keyword<T: ConfigKeyword>() -> ValueType<T> {
    plain(SchemaShape::Words(T::NAMES), parse::keyword)
}

/// A value that is read by hand and has this shape.
pub(crate) const fn by_hand(shape: SchemaShape) -> ValueType<()> {
    plain(shape, refuse)
}

fn parse_text(text: &str) -> ParseResult<String> {
    Ok(text.to_owned())
}

/// Values that are read by hand never come here.
fn refuse(_: &str) -> ParseResult<()> {
    expected("a value that is read by hand")
}
