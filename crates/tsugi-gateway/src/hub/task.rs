//! Whose a task is: its name is sealed on the way out, and only its owner's requests find the way back.

use std::pin::Pin;
use std::task::{Context, Poll};

use tsugi_client::seal::TaskTicket;
use tsugi_client::{Server, not_found};
use tsugi_policy::question::NameKind;
use tsugi_protocol::answer::{Call, CompletedResult, Fault, FaultCode, Outcome, Reply, ReplyEvent, ReplySource};
use tsugi_protocol::era::notification;
use tsugi_protocol::mcp::extension::{self, PrefixMatch, TASKS};
use tsugi_protocol::mcp::{Era, Method, task};

use super::Hub;
use super::access::denied;
use super::extension::ServerExtensions;
use super::snapshot::HubSnapshot;
use crate::guard::caller_access::CallerAccess;
use crate::guard::oauth::scope_rules::ScopeSubject;

/// True for further methods of tasks. They are never passed on: such as `tasks/list`, they may be about the tasks of
/// other callers.
pub(super) fn is_task_method(method: &str) -> bool {
    let is_known = Method::from(method).is_about_task();
    !is_known && matches!(PrefixMatch::of(method, TASKS), Some(PrefixMatch::Whole | PrefixMatch::Name))
}

/// True for a subscription to tasks, or to what only an extension knows.
pub(super) fn wants_extensions(call: &Call) -> bool {
    let wanted = notification::requested_filter(&call.params);
    wanted.is_some_and(|wanted| !wanted.tasks.is_empty() || !wanted.others.is_empty())
}

/// The error for a client that does not declare tasks.
pub(super) fn undeclared() -> Fault {
    let message = "this client does not declare the extension for tasks";
    Fault::new(FaultCode::MissingCapability, message).with_details(extension::required(TASKS))
}

/// The server of the task that a call is about. Another caller's task, one whose tool the caller may no longer use, and
/// none at all read the same.
pub(super) fn find(
    hub: &Hub,
    snapshot: &HubSnapshot,
    call: &Call,
    access: &CallerAccess,
    only: Option<&str>,
) -> Result<(Server, TaskTicket), Fault> {
    let method_name = call.method.as_str();
    let found = call.subject().and_then(|name| open(hub, snapshot, call, access, &name));
    let found = found.filter(|(server, _)| only.is_none_or(|only| only == server.name()));
    if found.is_none() && access.is_restricted() {
        return Err(denied("method", method_name));
    }
    // Legacy callers never see a task, so there is no such method for them.
    if call.options.era == Some(Era::Legacy) || !snapshot.extensions.has(TASKS) {
        return Err(Fault::new(FaultCode::MethodNotFound, format!("method not found: {method_name}")));
    }
    if !call.meta.client.capabilities.has_extension(TASKS) {
        return Err(undeclared());
    }
    let (server, ticket) = found.ok_or_else(not_found::task)?;
    access.expect_scopes(server.name(), ScopeSubject::Name(&ticket.tool))?;
    access.expect_scopes(server.name(), ScopeSubject::Method(method_name))?;
    Ok((server, ticket))
}

/// The task with this name, where it is the caller's and the caller may still use its tool.
pub(super) fn open(
    hub: &Hub,
    snapshot: &HubSnapshot,
    call: &Call,
    access: &CallerAccess,
    name: &str,
) -> Option<(Server, TaskTicket)> {
    let ticket = hub.manager().options().sealer.open_task(call.caller.owner(), name)?;
    let server = snapshot.servers.iter().find(|server| server.name() == ticket.server)?;
    let is_permitted = || access.expect_policy(call, server.name(), NameKind::Tool, &ticket.tool).is_ok();
    let is_open = access.allows_task(server.name(), &ticket.tool, &call.method) && is_permitted();
    is_open.then(|| (server.clone(), ticket))
}

/// What is changed in a reply of a server with tasks.
pub(super) enum TaskReplyEdit {
    /// A task that is handed out gets a name that only its owner can use.
    Seal { hub: Hub, call: Call, server: String, takes_tasks: bool },
    /// The task keeps the name that the caller has for it.
    Rename(String),
}

impl TaskReplyEdit {
    /// For a call that may be answered with a task.
    pub(super) fn of_call(hub: &Hub, server: &Server, extensions: &ServerExtensions, call: &Call) -> Option<Self> {
        // Where the caller is of another era, the task is waited for further in.
        if call.method != Method::ToolsCall || call.options.era == Some(Era::Legacy) || !extensions.has(TASKS) {
            return None;
        }
        let takes_tasks = call.meta.client.capabilities.has_extension(TASKS);
        Some(Self::Seal { hub: hub.clone(), call: call.clone(), server: server.name().to_owned(), takes_tasks })
    }

    /// For a call about a task, with the name that its caller has for it.
    pub(super) fn same(call: &Call) -> Option<Self> {
        call.subject().map(|name| Self::Rename(name.into_owned()))
    }

    pub(super) fn apply(self, reply: Reply) -> Reply {
        edited(reply, move |outcome| self.edit(outcome))
    }

    fn edit(&self, outcome: Outcome) -> Outcome {
        let Outcome::Complete(complete) = outcome else { return outcome };
        let name = match self {
            Self::Rename(name) if complete.body.has(task::TASK_ID) => Some(name.clone()),
            Self::Rename(_) => None,
            Self::Seal { hub, call, server, takes_tasks } => match task::created(&complete.body) {
                Some(_) if !takes_tasks => {
                    let message = "the server answered with a task, which this client did not declare";
                    return Outcome::fault(Fault::new(FaultCode::InvalidResponse, message).on_server(server));
                }
                Some(id) => {
                    let tool = call.subject().unwrap_or_default().into_owned();
                    let ticket = TaskTicket { server: server.clone(), tool, id };
                    Some(hub.manager().options().sealer.seal_task(call.caller.owner(), ticket))
                }
                None => None,
            },
        };
        Outcome::Complete(match name {
            Some(name) => CompletedResult { body: task::with_id(&complete.body, &name), ..complete },
            None => complete,
        })
    }
}

/// A reply whose outcome is changed on its way.
pub(super) fn edited(reply: Reply, edit: impl Fn(Outcome) -> Outcome + Send + Unpin + 'static) -> Reply {
    match reply.into_ready() {
        Ok(outcome) => Reply::ready(edit(outcome)),
        Err(reply) => Reply::from_source(EditedReply { reply, edit }),
    }
}

struct EditedReply<F> {
    reply: Reply,
    edit: F,
}

impl<F: Fn(Outcome) -> Outcome + Send + Unpin> ReplySource for EditedReply<F> {
    fn poll_event(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ReplyEvent> {
        Poll::Ready(match std::task::ready!(self.reply.poll_event(context)) {
            ReplyEvent::Done(outcome) => ReplyEvent::Done((self.edit)(outcome)),
            note => note,
        })
    }

    fn is_in_line(&self) -> bool {
        self.reply.is_in_line()
    }
}
