//! The `_meta` of a request: the entries of each era, and those of anyone else.

use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;

use super::capability::{ClientCapabilities, ClientProfile};
use super::log::LogLevel;
use super::version::{Era, ProtocolVersion};
use crate::json::{JsonObject, MemberSpan, ObjectWriter, RawJson};
use crate::rpc::MessageError;

/// The revision a request is written in.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Who sends a request.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// What the sender can do.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// How much the sender wants logged.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// Which subscription a notification belongs to.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// Asks for progress notifications under this token.
pub const PROGRESS_TOKEN: &str = "progressToken";

/// What a request says about itself, apart from its parameters.
#[derive(Debug, Clone)]
pub struct RequestMeta {
    /// Who asks and what they can do.
    pub client: Arc<ClientProfile>,
    /// How much is to be logged for this request; `None` means nothing.
    pub log_level: Option<LogLevel>,
    /// The caller's token for progress; `None` means that none is wanted.
    pub progress_token: Option<RawJson>,
    /// Every other entry, such as `traceparent` and those of extensions.
    pub rest: JsonObject,
}

impl Default for RequestMeta {
    fn default() -> Self {
        static UNNAMED: std::sync::OnceLock<Arc<ClientProfile>> = std::sync::OnceLock::new();
        let client = UNNAMED.get_or_init(Arc::default).clone();
        Self { client, log_level: None, progress_token: None, rest: JsonObject::empty() }
    }
}

const OURS: [&str; 5] = [PROTOCOL_VERSION, CLIENT_INFO, CLIENT_CAPABILITIES, LOG_LEVEL, PROGRESS_TOKEN];

impl RequestMeta {
    /// Of a program that can do this.
    pub fn of_client(client: Arc<ClientProfile>) -> Self {
        Self { client, ..Self::default() }
    }

    /// Reads the `_meta` of a modern request
    /// ([`_meta`](https://modelcontextprotocol.io/specification/2026-07-28/basic#_meta)).
    pub fn from_modern(meta: &JsonObject) -> Result<Self, MessageError> {
        let ([version, info, capabilities, level, token], others) = meta.select(OURS);
        let version = version.and_then(|version| meta.value_str(version));
        let version = version.ok_or(MessageError::MissingMeta(PROTOCOL_VERSION))?;
        // A legacy version in a modern request is as unknown as any other.
        let version = ProtocolVersion::parse(&version)
            .filter(|version| version.era() == Era::Modern)
            .ok_or_else(|| MessageError::Version(version.into_owned()))?;
        let bytes = |member: Option<MemberSpan>| member.map(|member| meta.value_bytes(member));
        Ok(Self {
            client: client_of(version, bytes(info), bytes(capabilities))?,
            log_level: level.map(|level| read_level(&meta.value(level))).transpose()?,
            progress_token: token.map(|token| meta.value(token)),
            rest: if others == 0 { JsonObject::empty() } else { rest_of(meta) },
        })
    }

    /// Reads the `_meta` of a request in a legacy session, whose client is known from `initialize`.
    pub fn from_legacy(meta: Option<&JsonObject>, client: Arc<ClientProfile>, log_level: Option<LogLevel>) -> Self {
        let Some(meta) = meta else { return Self { client, log_level, ..Self::default() } };
        Self { client, log_level, progress_token: meta.get(PROGRESS_TOKEN), rest: rest_of(meta) }
    }

    /// Writes `_meta` for a modern server. `token` is our own progress token.
    pub fn write_modern(&self, meta: &mut ObjectWriter, token: Option<u64>) {
        LAST_CLIENT.with_borrow_mut(|last| {
            let told = match last {
                // Consecutive calls mostly have the same client, so its entries are written once.
                Some(told) if Arc::ptr_eq(&told.client, &self.client) => told,
                _ => last.insert(ClientMeta::of(&self.client)),
            };
            meta.written(&told.pairs);
        });
        if let Some(level) = self.log_level {
            meta.string(LOG_LEVEL, level.as_str());
        }
        if let Some(token) = token {
            meta.number(PROGRESS_TOKEN, token);
        }
        meta.all_members(&self.rest);
    }

    /// Writes `_meta` for a legacy server, when [there is anything to say](Self::is_sent_to_legacy).
    pub(crate) fn write_legacy(&self, meta: &mut ObjectWriter, token: Option<u64>) {
        if let Some(token) = token {
            meta.number(PROGRESS_TOKEN, token);
        }
        meta.all_members(&self.rest);
    }

    /// Whether there is anything to say to a legacy server.
    pub(crate) fn is_sent_to_legacy(&self, token: Option<u64>) -> bool {
        token.is_some() || !self.rest.is_empty()
    }

    /// How many bytes it has, at most, but for its token.
    pub(crate) fn size_hint(&self) -> usize {
        let info = self.client.info.as_ref().map_or(0, |info| info.bytes().len());
        256 + info + self.client.capabilities.object().bytes().len() + self.rest.bytes().len()
    }
}

/// What every modern request states about its client, as it is written.
struct ClientMeta {
    client: Arc<ClientProfile>,
    pairs: Bytes,
}

impl ClientMeta {
    fn of(client: &Arc<ClientProfile>) -> Self {
        let mut pairs = ObjectWriter::with_capacity(256);
        pairs.string(PROTOCOL_VERSION, ProtocolVersion::LATEST.as_str());
        if let Some(info) = &client.info {
            pairs.raw(CLIENT_INFO, info);
        }
        pairs.json(CLIENT_CAPABILITIES, client.capabilities.object().trimmed());
        let whole = pairs.finish();
        // Without the braces: the pairs go into another object.
        let inside = 1..whole.bytes().len() - 1;
        Self { client: client.clone(), pairs: whole.bytes().slice(inside) }
    }
}

thread_local! {
    /// About whom this thread told a server last.
    static LAST_CLIENT: RefCell<Option<ClientMeta>> = const { RefCell::new(None) };
    /// Who asked last on this thread: most requests come from the same few clients, and say so each time.
    static LAST: RefCell<Option<Arc<ClientProfile>>> = const { RefCell::new(None) };
}

fn client_of(
    version: ProtocolVersion,
    info: Option<&[u8]>,
    capabilities: Option<&[u8]>,
) -> Result<Arc<ClientProfile>, MessageError> {
    // Compared as bytes, which costs less than reading the capabilities again.
    let is_same = |last: &&Arc<ClientProfile>| {
        last.version == version
            && last.info.as_ref().map(|info| &info.bytes()[..]) == info
            && Some(&last.capabilities.object().bytes()[..]) == capabilities
    };
    if let Some(known) = LAST.with_borrow(|last| last.as_ref().filter(is_same).cloned()) {
        return Ok(known);
    }
    // Copied: what is remembered must not keep the buffer of the wire alive.
    let copied = |bytes: &[u8]| Bytes::copy_from_slice(bytes);
    let capabilities = capabilities.and_then(|bytes| JsonObject::parse(copied(bytes)).ok());
    let capabilities = capabilities.ok_or(MessageError::MissingMeta(CLIENT_CAPABILITIES))?;
    let client = Arc::new(ClientProfile {
        version,
        info: info.map(|info| RawJson::from_validated(copied(info))),
        capabilities: ClientCapabilities::from_object(capabilities),
    });
    LAST.set(Some(client.clone()));
    Ok(client)
}

fn read_level(level: &RawJson) -> Result<LogLevel, MessageError> {
    level.as_string().as_deref().and_then(LogLevel::parse).ok_or(MessageError::InvalidMeta(LOG_LEVEL))
}

fn rest_of(meta: &JsonObject) -> JsonObject {
    if meta.members().iter().all(|member| meta.is_one_of(*member, &OURS)) {
        return JsonObject::empty();
    }
    let mut rest = ObjectWriter::with_capacity(meta.bytes().len());
    rest.members_except(meta, &OURS);
    rest.finish_object()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(json: serde_json::Value) -> JsonObject {
        JsonObject::from(json)
    }

    #[test]
    fn required_entries_are_required() {
        let both = serde_json::json!({PROTOCOL_VERSION: "2026-07-28", CLIENT_CAPABILITIES: {}});
        assert!(RequestMeta::from_modern(&meta(both.clone())).is_ok());
        for missing in [PROTOCOL_VERSION, CLIENT_CAPABILITIES] {
            let mut one = both.clone();
            one.as_object_mut().unwrap().remove(missing);
            assert_eq!(RequestMeta::from_modern(&meta(one)).unwrap_err(), MessageError::MissingMeta(missing));
        }
        let mut old = both.clone();
        old[PROTOCOL_VERSION] = "2025-11-25".into();
        assert_eq!(RequestMeta::from_modern(&meta(old)).unwrap_err(), MessageError::Version("2025-11-25".into()));
        let mut loud = both;
        loud[LOG_LEVEL] = "loud".into();
        assert_eq!(RequestMeta::from_modern(&meta(loud)).unwrap_err(), MessageError::InvalidMeta(LOG_LEVEL));
    }

    #[test]
    fn a_client_that_was_just_known_is_told_from_another() {
        let of = |name: &str, capabilities: serde_json::Value| {
            let source = serde_json::json!({
                PROTOCOL_VERSION: "2026-07-28", CLIENT_INFO: {"name": name}, CLIENT_CAPABILITIES: capabilities
            });
            RequestMeta::from_modern(&meta(source)).unwrap().client
        };
        let first = of("a", serde_json::json!({"roots": {}}));
        assert!(Arc::ptr_eq(&first, &of("a", serde_json::json!({"roots": {}}))));
        assert!(!of("a", serde_json::json!({})).capabilities.has_roots());
        let other = of("b", serde_json::json!({"roots": {}}));
        assert_eq!(other.info.as_ref().unwrap().as_str(), r#"{"name":"b"}"#);
    }

    #[test]
    fn entries_of_others_survive_into_both_eras() {
        let source = meta(serde_json::json!({
            PROTOCOL_VERSION: "2026-07-28", CLIENT_CAPABILITIES: {"roots": {}}, "progressToken": "p",
            "traceparent": "00-1", "com.example/x": [1]
        }));
        let read = RequestMeta::from_modern(&source).unwrap();
        let (mut legacy, mut modern) = (ObjectWriter::with_capacity(64), ObjectWriter::with_capacity(64));
        read.write_legacy(&mut legacy, Some(7));
        let legacy = legacy.finish();
        assert_eq!(legacy.as_str(), r#"{"progressToken":7,"traceparent":"00-1","com.example/x":[1]}"#);
        read.write_modern(&mut modern, None);
        let modern = modern.finish();
        assert!(modern.as_str().ends_with(r#""traceparent":"00-1","com.example/x":[1]}"#), "{modern}");
        assert_eq!(read.progress_token.unwrap().as_str(), "\"p\"");
    }

    #[test]
    fn a_legacy_request_with_nothing_to_say_has_no_meta() {
        assert!(!RequestMeta::default().is_sent_to_legacy(None));
    }
}
