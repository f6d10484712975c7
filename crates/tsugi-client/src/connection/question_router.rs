//! Brings the requests of a legacy server to the call they belong to, or answers them without one.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;
use tsugi_protocol::answer::Call;
use tsugi_protocol::era::notification;
use tsugi_protocol::json::{ObjectWriter, RawJson};
use tsugi_protocol::mcp::{Era, Method, meta};
use tsugi_protocol::rpc::message::write_numbered;
use tsugi_protocol::rpc::{RequestId, RpcError, RpcNotification, RpcRequest, RpcResponse, code};

use super::context::RefusalReason;
use super::in_flight::{CallArrival, CallWire};
use super::question_ledger::{CANCEL_GRACE, CancelledCall};
use super::question_owner::{QuestionClient, QuestionOwner, owner};
use super::turnstile::TurnPermit;

/// How long the answer to the ping after a cancellation is waited for.
const PING_LIMIT: Duration = Duration::from_secs(2);
/// How often a cancelled call looks whether its turn may pass on.
const LINGER_STEP: Duration = Duration::from_millis(20);
/// How long a cancelled call may cast doubt on other calls' questions.
const LONGEST_DOUBT: Duration = Duration::from_secs(60);

/// Takes a request of the server. `call` is the key of the call on whose own stream it came, which decides.
pub(crate) fn take_request<W: CallWire>(wire: &Arc<W>, request: RpcRequest, call: Option<u64>) {
    match request.method {
        Method::Ping => wire.send(RpcResponse::result(request.id, RawJson::literal("{}")).to_bytes()),
        Method::Elicit | Method::CreateMessage | Method::RootsList if wire.era() == Era::Legacy => match call {
            Some(key) => give(wire, key, request, None),
            None => route_question(wire, request, None),
        },
        _ => refuse(wire, request, code::METHOD_NOT_FOUND, "method not found"),
    }
}

/// Finds the call that a question belongs to, when the wire does not say. `client` is the one whose call it was first
/// taken for, when that call has ended: no other client may get it now.
pub(crate) fn route_question<W: CallWire>(wire: &Arc<W>, request: RpcRequest, client: Option<&QuestionClient>) {
    let table = wire.table();
    let named = request.params_object().and_then(|params| params.get_object("_meta"));
    let token = named.and_then(|meta| RequestId::from_raw(meta.get(meta::PROGRESS_TOKEN)?)?.as_u64());
    let candidates = table.candidates(&request);
    let owner = candidates.as_deref().map_or(QuestionOwner::Unclear, |candidates| owner(token, candidates));
    let is_of = |key: u64, client: &QuestionClient| {
        candidates.iter().flatten().any(|call| call.key == key && call.client == *client)
    };
    match owner {
        QuestionOwner::Call(key) if client.is_some_and(|client| !is_of(key, client)) => {
            refuse(wire, request, code::INTERNAL_ERROR, "the call that this question belongs to has ended");
        }
        // A call whose client cannot answer refuses the question in the words of its capabilities.
        QuestionOwner::Call(key) | QuestionOwner::Incapable(Some(key)) => {
            // A server whose questions name their call needs no turns.
            let turn = if Some(key) == token { None } else { begin_turns(wire, key) };
            give(wire, key, request, turn);
        }
        // Outside any call (right after the handshake, say) a server gets the roots of its only caller, or those that
        // were configured.
        QuestionOwner::NoCall if request.method == Method::RootsList => {
            wire.send(RpcResponse::result(request.id, table.context.roots()).to_bytes());
        }
        QuestionOwner::NoCall => refuse_no_call(wire, request),
        QuestionOwner::Incapable(None) => {
            let message = format!("the callers of this server do not support {}", request.method);
            refuse(wire, request, code::METHOD_NOT_FOUND, &message);
        }
        QuestionOwner::Unclear => refuse_unclear(wire, request),
    }
}

/// From its first question on a server is known to ask, and calls take turns. The call that asks may have begun before:
/// it gets its turn now, so that no other call comes between.
fn begin_turns<W: CallWire>(wire: &Arc<W>, key: u64) -> Option<TurnPermit> {
    let table = wire.table();
    table.begin_turns();
    let (_, call) = askable_calls(wire).into_iter().find(|(other, _)| *other == key)?;
    table.ledger.set_asks(&call);
    table.turnstile.adopt(QuestionClient::of(key, &call))
}

/// Refuses a question that several clients' calls may have caused. From now on such calls take turns.
fn refuse_unclear<W: CallWire>(wire: &Arc<W>, request: RpcRequest) {
    let table = wire.table();
    table.begin_turns();
    let calls = askable_calls(wire);
    tracing::warn!(
        server = %table.context.server, method = %request.method, calls = calls.len(),
        "refused a question: several calls in flight may have caused it; such calls take turns from now on"
    );
    for (key, call) in calls {
        table.ledger.doubt(&call);
        // A call that ended in this moment needs no explanation.
        let _ = table.pending.post(key, CallArrival::Refused(RefusalReason::Unclear));
    }
    refuse(wire, request, code::INTERNAL_ERROR, "it cannot be told which call in flight this question belongs to");
}

/// Gives a question to a call. One that has just ended cannot take it.
fn give<W: CallWire>(wire: &Arc<W>, key: u64, request: RpcRequest, turn: Option<TurnPermit>) {
    let table = wire.table();
    if !table.ledger.add(key, &request.id) {
        return refuse(wire, request, code::INTERNAL_ERROR, "the call has too many open questions");
    }
    if let Err(CallArrival::Question(request, _)) = table.pending.post(key, CallArrival::Question(request, turn)) {
        table.ledger.remove(&request.id);
        refuse(wire, request, code::INTERNAL_ERROR, "the call that this question belongs to has ended");
    }
}

pub(crate) fn refuse_no_call<W: CallWire>(wire: &Arc<W>, request: RpcRequest) {
    refuse(wire, request, code::INTERNAL_ERROR, "no call in flight can have caused this question");
}

pub(crate) fn refuse<W: CallWire>(wire: &Arc<W>, request: RpcRequest, code: i64, message: &str) {
    wire.send(RpcResponse::error(Some(request.id), RpcError::new(code, message)).to_bytes());
}

/// The server has answered these calls, cancelled ones among them. A call of a legacy session that was parked with a
/// question was taken for the asking one: the question is another call's of that session, and goes there.
pub(crate) fn answered<W: CallWire>(wire: &Arc<W>, keys: &[u64]) {
    let table = wire.table();
    if table.ledger.has_cancelled() {
        table.ledger.answered(keys.iter().copied());
    }
    if !table.ledger.has_asked() {
        return;
    }
    for key in keys.iter().filter(|key| table.ledger.set_answered(**key)) {
        let Some((client, questions)) = table.context.parked.take_questions(table.id, *key) else { continue };
        for asked in questions {
            table.ledger.remove(&asked.request.id);
            route_question(wire, asked.request, Some(&client));
        }
    }
}

/// The server withdraws a question. It may be on its way to its call, which looks again when it is parked.
pub(crate) fn withdraw<W: CallWire>(wire: &Arc<W>, notification: &RpcNotification) {
    let table = wire.table();
    let id = notification::cancelled_id(notification).filter(|_| wire.era() == Era::Legacy);
    if let Some(id) = id.filter(|id| table.ledger.remove(id)) {
        table.context.parked.withdraw(table.id, &id);
    }
}

/// Tells the server that a call was given up, and remembers it for as long as the server may ask because of it. Without
/// an open question it keeps its turn until the server must have read the cancellation.
pub(crate) fn cancel<W: CallWire>(wire: &Arc<W>, key: u64, call: &Call, was_parked: bool, turn: Option<TurnPermit>) {
    if wire.era() == Era::Modern && wire.cancels_by_closing() {
        return;
    }
    let mut params = ObjectWriter::with_capacity(64);
    params.number("requestId", key);
    wire.send(RpcNotification::new(Method::Cancelled, Some(params.finish())).to_bytes());
    let table = wire.table();
    table.ledger.end(key, call, false);
    if wire.era() == Era::Modern || !table.ledger.may_ask(call) {
        return;
    }
    let now = Instant::now();
    // A server that is not known to ask is spared the ping.
    let barrier = (table.turnstile.is_on() && wire.is_ordered()).then(|| table.open_own().ok()).flatten();
    if let Some(barrier) = &barrier {
        wire.send(write_numbered(barrier.key(), Method::Ping.as_str(), None));
    }
    let suspect_until = now + if barrier.is_some() { PING_LIMIT } else { CANCEL_GRACE };
    let doubt_until = suspect_until.max(now + table.context.limits.idle_for(call).min(LONGEST_DOUBT));
    // The server got an error for the question of a parked call, and the next call comes after the ping: it may have the
    // turn at once. Any other call keeps its turn while a question of the next one could be taken for its own.
    let lingers = !(was_parked && barrier.is_some());
    let call = call.clone();
    table.ledger.cancel(CancelledCall { key, call, was_parked, barrier, suspect_until, doubt_until });
    if let (true, Some(turn), Ok(runtime)) = (lingers, turn, Handle::try_current()) {
        let wire = wire.clone();
        runtime.spawn(async move {
            while wire.table().ledger.suspect_until(key).is_some() {
                tokio::time::sleep(LINGER_STEP).await;
            }
            drop(turn);
        });
    }
}

/// The calls in flight whose server may ask. They are copied: the ledger's lock is never taken under the table's.
fn askable_calls<W: CallWire>(wire: &Arc<W>) -> Vec<(u64, Call)> {
    let mut calls = Vec::new();
    wire.table().pending.for_each(|key, call| {
        calls.extend(call.of_caller().filter(|call| call.method.may_ask()).map(|call| (key, call.clone())));
    });
    calls
}
