//! A legacy client notifies that its roots have changed: this passes it on to the servers that have them.
//!
//! A server is notified on a connection that only this client uses (`instances: per-session`), where `initialize`
//! declared it. Where callers share a connection, the roots of one are not those of the next, and nothing is declared.
//! Servers ask for the new roots at once and outside any call, when no caller could be asked; so the client is asked
//! first, once for all servers, and its answer is kept for them.

use tsugi_protocol::answer::{Call, InputRequired, Outcome, Reply};
use tsugi_protocol::json::JsonObject;
use tsugi_protocol::mcp::Method;

use super::Server;

/// The key of the question for the new roots.
const KEY: &str = "roots";

/// Answers `notifications/roots/list_changed` for these servers: with the question for the new roots where one of them
/// needs them, and with nothing once it has them.
pub fn changed(servers: &[Server], call: &Call) -> Reply {
    let promised = servers.iter().filter_map(|server| server.pool.as_ref()?.promised_roots(call));
    let mut promised = promised.peekable();
    let answers = call.params.get_object("inputResponses");
    match answers.and_then(|answers| answers.get(KEY)) {
        None if promised.peek().is_some() => {
            let asked = InputRequired::one(KEY, &Method::RootsList, None, None);
            return Reply::ready(Outcome::InputRequired(asked));
        }
        None => {}
        Some(roots) => promised.for_each(|instance| instance.tell_roots(roots.clone())),
    }
    Reply::ready(Outcome::complete(JsonObject::empty()))
}
