//! The handshake over a stream: finds out which era a server speaks and agrees on a revision.
//!
//! The rules are those of [stdio: Backward Compatibility](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio#backward-compatibility):
//! ask `server/discover` first; a result or a modern error means modern, anything else or silence means legacy.

use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;
use tsugi_protocol::answer::{CallStage, Fault, FaultCode};
use tsugi_protocol::codec::framing::FramingKind;
use tsugi_protocol::era::{detect, session};
use tsugi_protocol::json::{JsonObject, ObjectWriter, RawJson};
use tsugi_protocol::mcp::meta::RequestMeta;
use tsugi_protocol::mcp::{Era, Method, ProtocolVersion, ServerIdentity};
use tsugi_protocol::rpc::{ResponsePayload, RpcNotification, code};

use super::context::ConnectionContext;
use super::era_cache::KnownEra;
use super::stream::StreamConnection;
use crate::config::EraChoice;

/// How long a server may be silent after `initialize` before it gets a second one with `Content-Length`.
const COUNTED_AFTER: Duration = Duration::from_secs(3);
/// How long the handshake may take with a server that exited when it read lines, and is tried with `Content-Length`.
const GUESS_LIMIT: Duration = Duration::from_secs(10);

/// What is known about a server before the first message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HandshakeTerms {
    pub(crate) choice: EraChoice,
    /// The era that the server spoke last time.
    pub(crate) remembered: Option<Era>,
    /// How messages are framed until the server has shown how it frames its own.
    pub(crate) framing: FramingKind,
}

impl HandshakeTerms {
    pub(crate) fn new(choice: EraChoice, known: Option<KnownEra>) -> Self {
        let framing = known.map_or(FramingKind::Line, |known| known.framing);
        Self { choice, remembered: known.map(|known| known.era), framing }
    }

    /// True when this framing is only a guess.
    fn is_guess(self) -> bool {
        self.framing == FramingKind::ContentLength && self.remembered.is_none()
    }

    /// The era to open with; `None` means to find out.
    pub(crate) fn opening(self) -> Option<Era> {
        match self.choice {
            EraChoice::Modern => Some(Era::Modern),
            EraChoice::Legacy => Some(Era::Legacy),
            EraChoice::Auto => self.remembered,
        }
    }
}

/// Agrees with a server on a stream, within the handshake timeout.
pub(crate) async fn over_stream(
    context: &ConnectionContext,
    mux: &StreamConnection,
    terms: HandshakeTerms,
) -> Result<ServerIdentity, Fault> {
    let limit = context.options.handshake_timeout;
    let limit = if terms.is_guess() { limit.min(GUESS_LIMIT) } else { limit };
    let end = Instant::now() + limit;
    match tokio::time::timeout_at(end, agree_in_lines_or_counted(context, mux, terms, end)).await {
        Ok(agreed) => agreed.map_err(|fault| fault.at(CallStage::Handshake)),
        Err(_) => Err(context
            .fault(FaultCode::Timeout, format!("no answer to the handshake within {} s", limit.as_secs()))
            .at(CallStage::Handshake)
            .with_hint("does the program speak MCP on its standard output? run it by hand to see")),
    }
}

/// Agrees. A server that has read everything and is silent may wait for `Content-Length`: it gets a second `initialize`
/// in that framing, and the first answer counts. A server that is only slow loses nothing.
async fn agree_in_lines_or_counted(
    context: &ConnectionContext,
    mux: &StreamConnection,
    terms: HandshakeTerms,
    end: Instant,
) -> Result<ServerIdentity, Fault> {
    let mut agreeing = pin!(agree(context, mux, terms, end));
    let options = &context.options;
    // Half of the time is left for the second framing.
    let silence = (options.probe_timeout + COUNTED_AFTER).min(options.handshake_timeout / 2);
    if let Ok(agreed) = tokio::time::timeout(silence, &mut agreeing).await {
        return agreed;
    }
    if terms.choice == EraChoice::Modern || !mux.begin_to_count() {
        return agreeing.await;
    }
    tokio::select! {
        // The first handshake is preferred: its framing is the one that almost every server has.
        biased;
        agreed = &mut agreeing => agreed,
        initialized = initialize(context, mux) => initialized,
    }
}

async fn agree(
    context: &ConnectionContext,
    mux: &StreamConnection,
    terms: HandshakeTerms,
    end: Instant,
) -> Result<ServerIdentity, Fault> {
    match terms.opening() {
        Some(Era::Legacy) => initialize(context, mux).await,
        Some(Era::Modern) => match probe(context, mux).await? {
            StreamProbe::Agreed(identity) => Ok(*identity),
            StreamProbe::Legacy if terms.choice == EraChoice::Modern => Err(not_modern(context)),
            StreamProbe::Legacy => initialize(context, mux).await,
        },
        None => find_out(context, mux, end).await,
    }
}

pub(crate) fn not_modern(context: &ConnectionContext) -> Fault {
    context
        .fault(FaultCode::ConnectionFailed, "the server does not speak a modern revision")
        .with_hint("leave `era` out, and tsugi finds out")
}

/// Probes. After the probe's own limit the legacy handshake begins beside it, and the first good answer wins.
async fn find_out(context: &ConnectionContext, mux: &StreamConnection, end: Instant) -> Result<ServerIdentity, Fault> {
    let mut probing = pin!(probe(context, mux));
    match tokio::time::timeout(context.options.probe_timeout, &mut probing).await {
        Ok(Ok(StreamProbe::Agreed(identity))) => return Ok(*identity),
        Ok(Ok(StreamProbe::Legacy)) => return initialize(context, mux).await,
        Ok(Err(fault)) => return Err(fault),
        Err(_) => {}
    }
    let mut initializing = pin!(initialize(context, mux));
    let refusal = tokio::select! {
        biased;
        probed = &mut probing => return match probed {
            Ok(StreamProbe::Agreed(identity)) => Ok(*identity),
            Ok(StreamProbe::Legacy) => initializing.await,
            Err(fault) => Err(fault),
        },
        initialized = &mut initializing => match initialized {
            Ok(identity) => return Ok(identity),
            Err(refusal) => refusal,
        },
    };
    // A slow modern server refuses `initialize` with any error, and may still answer the probe
    // ([Compatibility Matrix](https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#compatibility-matrix)).
    match tokio::time::timeout_at(end, probing).await {
        Ok(Ok(StreamProbe::Agreed(identity))) => Ok(*identity),
        _ => Err(refusal),
    }
}

enum StreamProbe {
    Agreed(Box<ServerIdentity>),
    Legacy,
}

async fn probe(context: &ConnectionContext, mux: &StreamConnection) -> Result<StreamProbe, Fault> {
    let body = mux.request(&Method::Discover, Some(&discover_params(context))).await?;
    match detect::of_probe(&body) {
        detect::EraVerdict::Modern(identity) => Ok(StreamProbe::Agreed(Box::new(identity))),
        detect::EraVerdict::Legacy => Ok(StreamProbe::Legacy),
        // It speaks a modern revision that we do not know, and perhaps a legacy one too.
        detect::EraVerdict::ModernOther { supported } if has_legacy(&supported) => Ok(StreamProbe::Legacy),
        // It speaks a modern revision that we do not know, and perhaps a legacy one too.
        detect::EraVerdict::ModernOther { supported } => Err(no_common_version(context, &supported)),
    }
}

pub(crate) fn has_legacy(supported: &[String]) -> bool {
    supported.iter().filter_map(|version| ProtocolVersion::parse(version)).any(|version| version.era() == Era::Legacy)
}

pub(crate) fn no_common_version(context: &ConnectionContext, supported: &[String]) -> Fault {
    let theirs = if supported.is_empty() { "no revision that it names".to_owned() } else { supported.join(", ") };
    context.fault(FaultCode::ConnectionFailed, format!("no protocol revision in common; the server speaks {theirs}"))
}

pub(crate) fn discover_params(context: &ConnectionContext) -> RawJson {
    let mut params = ObjectWriter::with_capacity(256);
    let own = RequestMeta::of_client(context.options.profile.clone());
    params.object("_meta", |meta| own.write_modern(meta, None));
    params.finish()
}

async fn initialize(context: &ConnectionContext, mux: &StreamConnection) -> Result<ServerIdentity, Fault> {
    let params = session::initialize_params(&context.options.profile, context.options.legacy_version);
    let body = mux.request(&Method::Initialize, Some(&params)).await?;
    if let ResponsePayload::Error(error) = &body
        && error.code() == code::UNSUPPORTED_VERSION
    {
        // A modern server that was too slow for the probe.
        return match probe(context, mux).await? {
            StreamProbe::Agreed(identity) => Ok(*identity),
            StreamProbe::Legacy => Err(refused(context, &body)),
        };
    }
    let identity = read_initialized(context, &body)?;
    mux.notify(&RpcNotification::new(Method::Initialized, None));
    Ok(identity)
}

/// Reads the answer to `initialize`.
pub(crate) fn read_initialized(context: &ConnectionContext, body: &ResponsePayload) -> Result<ServerIdentity, Fault> {
    let ResponsePayload::Result(result) = body else { return Err(refused(context, body)) };
    let unacceptable =
        |why: &str| context.fault(FaultCode::InvalidResponse, format!("the answer to initialize: {why}"));
    let result = JsonObject::of(result).ok_or_else(|| unacceptable("not an object"))?;
    session::read_initialize_result(&result).map_err(|why| match result.get_str("protocolVersion") {
        Some(version) => unacceptable(&format!("{why}: {version}")),
        None => unacceptable(why),
    })
}

fn refused(context: &ConnectionContext, body: &ResponsePayload) -> Fault {
    let why = match body {
        ResponsePayload::Error(error) => format!("{} ({})", error.message(), error.code()),
        ResponsePayload::Result(_) => "an unexpected answer".to_owned(),
    };
    context.fault(FaultCode::ConnectionFailed, format!("the server refused the handshake: {why}"))
}
