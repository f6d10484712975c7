//! How each era opens: `initialize` and `server/discover`, with their answers.

use super::revision;
use crate::json::rewrite::{self, MemberEdit};
use crate::json::{JsonObject, ObjectWriter, RawJson};
use crate::mcp::cache_hints::CacheHints;
use crate::mcp::extension;
use crate::mcp::meta::SERVER_INFO;
use crate::mcp::{ClientCapabilities, ClientProfile, Era, ProtocolVersion, ServerCapabilities, ServerIdentity};

/// Who we are, for peers that must be told and profiles that do not say.
fn own_info() -> RawJson {
    let mut info = ObjectWriter::with_capacity(48);
    info.string("name", "tsugi").string("version", env!("CARGO_PKG_VERSION"));
    info.finish()
}

/// The parameters of the `initialize` that we send to a legacy server.
pub fn initialize_params(profile: &ClientProfile, version: ProtocolVersion) -> RawJson {
    let mut params = ObjectWriter::with_capacity(256);
    params
        .string("protocolVersion", version.as_str())
        .raw("capabilities", &declared(&profile.capabilities, version))
        .raw("clientInfo", &profile.info.clone().unwrap_or_else(own_info));
    params.finish()
}

fn declared(capabilities: &ClientCapabilities, version: ProtocolVersion) -> RawJson {
    let known = revision::client_capabilities(capabilities, version);
    if !capabilities.announces_roots() {
        return known.raw();
    }
    // Modern capabilities have no such flag, so it is kept apart from them and written here.
    let announced = rewrite::members(known.object(), |key, _| match key {
        "roots" => MemberEdit::Replace(RawJson::literal(r#"{"listChanged":true}"#)),
        _ => MemberEdit::Keep,
    });
    announced.raw()
}

/// Reads a legacy client's `initialize`: the revision to answer with, and who the client is.
/// What only works between a client and the server it is connected to is left out of its capabilities:
/// tasks of its own. The promise to announce new roots, which no modern client makes, is kept apart from them.
pub fn read_initialize(params: &JsonObject) -> (ProtocolVersion, ClientProfile) {
    // An unknown version is not an error: the client decides whether it accepts ours.
    let version = ProtocolVersion::negotiate_legacy(&params.get_str("protocolVersion").unwrap_or_default());
    let capabilities = params.get_object("capabilities").unwrap_or_else(JsonObject::empty);
    let roots = capabilities.get_object("roots");
    let announces_roots = roots.is_some_and(|roots| roots.get_bytes("listChanged") == Some(b"true"));
    let capabilities = rewrite::members(&capabilities, |key, member| match key {
        "tasks" => MemberEdit::Drop,
        "roots" => MemberEdit::replace(without_list_changed(&capabilities.value(member))),
        _ => MemberEdit::Keep,
    });
    let capabilities = ClientCapabilities::from_object(capabilities).announcing_roots(announces_roots);
    (version, ClientProfile { version, info: params.get("clientInfo"), capabilities })
}

fn without_list_changed(settings: &RawJson) -> Option<RawJson> {
    let settings = JsonObject::of(settings).filter(|settings| settings.has("listChanged"))?;
    Some(rewrite::without(&settings, |key| key == "listChanged").raw())
}

/// The answer to a legacy client's `initialize`. Tasks are left out: the extension is of the modern revision, and we wait
/// for tasks in the place of legacy clients.
pub fn initialize_result(identity: &ServerIdentity, version: ProtocolVersion) -> RawJson {
    let mut result = ObjectWriter::with_capacity(512);
    result
        .string("protocolVersion", version.as_str())
        .raw("capabilities", &without_tasks(&identity.capabilities).raw())
        .raw("serverInfo", &identity.info.clone().unwrap_or_else(own_info));
    if let Some(instructions) = &identity.instructions {
        result.string("instructions", instructions);
    }
    result.finish()
}

fn without_tasks(capabilities: &ServerCapabilities) -> ServerCapabilities {
    if !capabilities.has_extension(extension::TASKS) {
        return capabilities.clone();
    }
    let others: Vec<_> = capabilities.extensions().into_iter().filter(|(id, _)| id != extension::TASKS).collect();
    capabilities.with_extensions(&others)
}

/// Reads a legacy server's answer to `initialize`. Fails when it chose a revision that we do not speak with
/// legacy servers; the connection then ends
/// ([Version Negotiation](https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#version-negotiation)).
pub fn read_initialize_result(result: &JsonObject) -> Result<ServerIdentity, &'static str> {
    let chosen = result.get_str("protocolVersion").ok_or("the server named no protocol version")?;
    let version =
        ProtocolVersion::parse(&chosen).ok_or("the server chose a protocol version that is not spoken here")?;
    // A modern server has no `initialize`, so such an answer contradicts itself.
    if version.era() == Era::Modern {
        return Err("the server answered initialize with a protocol version that has none");
    }
    Ok(ServerIdentity {
        info: result.get("serverInfo"),
        version,
        capabilities: capabilities_of(result),
        instructions: result.get_str("instructions").map(|text| text.into_owned()),
        supported_versions: vec![version.as_str().to_owned()],
    })
}

fn capabilities_of(result: &JsonObject) -> ServerCapabilities {
    ServerCapabilities::from_object(result.get_object("capabilities").unwrap_or_else(JsonObject::empty))
}

/// The answer to `server/discover`
/// ([DiscoverResult](https://modelcontextprotocol.io/specification/2026-07-28/server/discover#discoverresult)).
/// The newest revision is always among the supported ones; the identity may name more. Tasks, which the
/// modern revision moved into an extension, are left out.
pub fn discover_result(identity: &ServerIdentity) -> JsonObject {
    let newest = ProtocolVersion::LATEST.as_str();
    let others = identity.supported_versions.iter().map(String::as_str).filter(|version| *version != newest);
    let versions: Vec<&str> = std::iter::once(newest).chain(others).collect();
    let capabilities = rewrite::without(identity.capabilities.object(), |key| key == "tasks");
    let mut meta = ObjectWriter::with_capacity(128);
    meta.raw(SERVER_INFO, &identity.info.clone().unwrap_or_else(own_info));
    let mut result = ObjectWriter::with_capacity(512);
    result
        .string("resultType", "complete")
        .raw("supportedVersions", &RawJson::from_value(&versions))
        .raw("capabilities", &capabilities.raw());
    if let Some(instructions) = &identity.instructions {
        result.string("instructions", instructions);
    }
    result
        .raw("_meta", &meta.finish())
        .number("ttlMs", CacheHints::NONE.ttl_ms)
        .string("cacheScope", CacheHints::NONE.scope.as_str());
    result.finish_object()
}

/// Reads a server's answer to `server/discover`. Fails when it is not one, or when no modern revision is
/// spoken on both sides.
pub fn read_discover_result(result: &JsonObject) -> Result<ServerIdentity, &'static str> {
    let supported_versions = supported_versions(result).ok_or("the answer names no supported versions")?;
    let version = newest_modern(&supported_versions).ok_or("no modern protocol version is spoken on both sides")?;
    let named = result.get_object("_meta").and_then(|meta| meta.get(SERVER_INFO));
    Ok(ServerIdentity {
        // Drafts of the revision had the name beside the capabilities, and servers written then still do.
        info: named.or_else(|| result.get("serverInfo")),
        version,
        capabilities: capabilities_of(result),
        instructions: result.get_str("instructions").map(|text| text.into_owned()),
        supported_versions,
    })
}

/// The versions that an answer to `server/discover` lists; `None` when it is not such an answer.
pub(super) fn supported_versions(result: &JsonObject) -> Option<Vec<String>> {
    result.get("supportedVersions")?.to().ok()
}

/// The newest modern revision in a list that we speak too.
pub(super) fn newest_modern(versions: &[String]) -> Option<ProtocolVersion> {
    known(versions).filter(|version| version.era() == Era::Modern).max()
}

/// The newest legacy revision in a list that we speak too.
pub(super) fn newest_legacy(versions: &[String]) -> Option<ProtocolVersion> {
    known(versions).filter(|version| version.era() == Era::Legacy).max()
}

fn known(versions: &[String]) -> impl Iterator<Item = ProtocolVersion> {
    versions.iter().filter_map(|version| ProtocolVersion::parse(version))
}
