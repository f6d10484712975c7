//! Skills of all servers together: one list, addresses that name their server, digests as the servers wrote them
//! (SEP-2640, extension `io.modelcontextprotocol/skills`).

use std::sync::Arc;

use futures_util::future::join_all;
use tsugi_client::Server;
use tsugi_policy::question::NameKind;
use tsugi_protocol::answer::{Answer, Call, CallFailure, CompletedResult, Fault, FaultCode, Outcome, Reply};
use tsugi_protocol::json::{JsonObject, ObjectWriter, RawJson};
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::cache_hints::{CacheHints, CacheScope};
use tsugi_protocol::mcp::extension::SKILLS;

use super::access::denied;
use super::snapshot::HubSnapshot;
use super::{Hub, app, complete, extension, page, resource, task};
use crate::guard::caller_access::CallerAccess;

const LIST: &str = "skills/list";
const GET: &str = "skills/get";
const DIRECTORY: &str = "resources/directory/read";

/// How many pages of one server's list are read. A server with more, or one that never ends, is cut off here.
const MOST_PAGES: usize = 100;

/// True for the methods of skills.
pub(super) fn is_skill_method(method: &Method) -> bool {
    matches!(method.as_str(), LIST | GET | DIRECTORY)
}

/// Answers a method of skills. With one server it is passed on as it is.
pub(super) fn answer(hub: &Hub, call: Call, access: CallerAccess) -> Reply {
    let snapshot = hub.snapshot();
    if !snapshot.has_several_servers() || !snapshot.extensions.has(SKILLS) {
        return hub.forward(call, access);
    }
    match call.method.as_str() {
        LIST => {
            let hub = hub.clone();
            Reply::from_future(async move { list(&hub, &snapshot, &call, &access).await })
        }
        _ => about_address(hub, &snapshot, call, &access),
    }
}

/// `skills/get` and `resources/directory/read`, at the server that the address names.
fn about_address(hub: &Hub, snapshot: &HubSnapshot, call: Call, access: &CallerAccess) -> Reply {
    let found = call
        .params
        .get_str("uri")
        .ok_or_else(|| Fault::new(FaultCode::InvalidParams, "the parameter `uri` is missing"));
    let found = found.and_then(|uri| resource::find(snapshot, &uri, &call, access));
    let is_denied = |server: &Server| access.denies_method(server.name(), &call.method);
    let (server, own) = match found {
        Ok((server, _)) if is_denied(&server) => {
            return hub.refuse(&call, denied("method", call.method.as_str()));
        }
        Ok(found) => found,
        Err(fault) => return hub.refuse(&call, fault),
    };
    let mut call = call;
    call.params = extension::with_parameter(&call.params, "uri", &own);
    extension::narrow(&mut call, snapshot.extensions.of(server.name()).map(|extensions| &**extensions));
    let name: Arc<str> = server.name().into();
    let reply = hub.send_recorded(call, &name.clone(), move |call| server.answer(call));
    task::edited(reply, move |outcome| match outcome {
        Outcome::Complete(complete) => {
            let body =
                app::replaced(&complete.body, "skill", |skill| Some(public_entry(&JsonObject::of(skill)?, &name)));
            let body = JsonObject::of(&body).unwrap_or_else(|| complete.body.clone());
            let body =
                app::replaced(&body, "resources", |items| app::each(items, |item| app::with_public_uri(item, &name)));
            let body = JsonObject::of(&body).unwrap_or_else(|| complete.body.clone());
            Outcome::Complete(CompletedResult { body, ..complete })
        }
        other => other,
    })
}

/// The entry of a skill with addresses that name its server. Digests and sizes stay.
fn public_entry(entry: &JsonObject, server: &str) -> RawJson {
    let entry = app::with_public_uri(entry, server);
    let Some(object) = JsonObject::of(&entry) else { return entry };
    // `"dynamic"` in place of the files stays too.
    app::replaced(&object, "resources", |files| app::each(files, |file| app::with_public_uri(file, server)))
}

/// One server's skills: the server's own address of each, its public address, and its public entry.
struct ServerSkills {
    entries: Vec<(String, RawJson)>,
    freshness: CacheHints,
}

async fn list(hub: &Hub, snapshot: &HubSnapshot, call: &Call, access: &CallerAccess) -> Outcome {
    let after = match page::after(LIST, call) {
        Ok(after) => after,
        Err(fault) => return Outcome::fault(fault),
    };
    let has_skills = |server: &&Server| {
        let declares = snapshot.extensions.of(server.name()).is_some_and(|all| all.has(SKILLS));
        declares && access.allows_some_of(server.name()) && !access.denies_method(server.name(), &call.method)
    };
    let asked = snapshot.servers.iter().filter(has_skills).map(|server| list_of(hub, snapshot, server, call, access));
    let mut all = Vec::new();
    let mut first_failure = None;
    for listed in join_all(asked).await {
        match listed {
            Ok(skills) => all.push(skills),
            // One server that fails does not hide the skills of the others.
            Err(failure) => first_failure = first_failure.or(Some(failure)),
        }
    }
    if let (true, Some(failure)) = (all.is_empty(), first_failure) {
        return Outcome::Failed(failure);
    }
    let freshness = all.iter().map(|skills| skills.freshness).reduce(CacheHints::narrowest).unwrap_or(CacheHints::NONE);
    let scope = if access.is_restricted() { CacheScope::Private } else { freshness.scope };
    let entries: Vec<&(String, RawJson)> = all.iter().flat_map(|skills| &skills.entries).collect();
    let named = entries.iter().map(|(uri, entry)| (uri.as_str(), entry.as_str()));
    let Some(cut) = hub.config().page.page(LIST, named, after.as_deref()) else { return Outcome::fault(page::gone()) };
    let items = RawJson::parse(format!("[{}]", cut.items.join(",")).into()).expect("an array of values is a value");
    let mut result = ObjectWriter::with_capacity(items.bytes().len() + 128);
    result.string("resultType", "complete").raw("skills", &items);
    if let Some(next) = &cut.next {
        result.string("nextCursor", next);
    }
    result.number("ttlMs", freshness.ttl_ms).string("cacheScope", scope.as_str());
    complete(result.finish_object())
}

async fn list_of(
    hub: &Hub,
    snapshot: &HubSnapshot,
    server: &Server,
    call: &Call,
    access: &CallerAccess,
) -> Result<ServerSkills, CallFailure> {
    let mut skills = ServerSkills { entries: Vec::new(), freshness: CacheHints::NONE };
    let mut cursor: Option<RawJson> = None;
    for number in 0..MOST_PAGES {
        let mut asking = call.clone();
        let mut params = ObjectWriter::with_capacity(64);
        params.members_except(&call.params, &["cursor"]);
        if let Some(cursor) = &cursor {
            params.raw("cursor", cursor);
        }
        asking.params = params.finish_object();
        extension::narrow(&mut asking, snapshot.extensions.of(server.name()).map(|extensions| &**extensions));
        let asked = server.clone();
        let body = match hub.send_recorded(asking, server.name(), move |call| asked.answer(call)).outcome().await {
            Outcome::Complete(complete) => complete.body,
            Outcome::Failed(failure) => return Err(failure),
            Outcome::InputRequired(_) => {
                let fault = Fault::new(FaultCode::InvalidResponse, "the server asks for input before it lists skills");
                return Err(fault.on_server(server.name()).into());
            }
        };
        let hints = CacheHints::of(&body);
        skills.freshness = if number == 0 { hints } else { skills.freshness.narrowest(hints) };
        for entry in body.get("skills").and_then(|entries| entries.items()).unwrap_or_default() {
            let Some(object) = JsonObject::of(&entry) else { continue };
            let Some(own) = object.get_lossy("uri") else { continue };
            if access.lists(server.name(), NameKind::Address, &own) {
                let public = resource::keep_scheme(server.name(), &own).unwrap_or(own);
                skills.entries.push((public, public_entry(&object, server.name())));
            }
        }
        let next = body.get("nextCursor").filter(|next| !next.is_null());
        // A server that gives the same cursor again would never end.
        if next.is_none() || next == cursor {
            break;
        }
        cursor = next;
    }
    Ok(skills)
}
