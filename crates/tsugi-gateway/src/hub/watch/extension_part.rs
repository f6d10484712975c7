//! Subscriptions to what extensions announce: asked of the servers themselves, and joined to the rest.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Sleep;
use tsugi_client::Server;
use tsugi_policy::question::NameKind;
use tsugi_protocol::answer::{Call, Reply, ReplyEvent, ReplySource};
use tsugi_protocol::era::notification;
use tsugi_protocol::json::RawJson;
use tsugi_protocol::mcp::extension::TASKS;
use tsugi_protocol::mcp::subscription::SubscriptionFilter;
use tsugi_protocol::mcp::{Method, task};
use tsugi_protocol::rpc::RpcNotification;

use crate::hub::{Hub, extension};

/// How long a server may take to say what it agrees to.
const AGREE_LIMIT: Duration = Duration::from_secs(5);

/// One server's part of a subscription.
struct ExtensionPart {
    reply: Option<Reply>,
    /// The server's own name of each task, and the caller's.
    tasks: Vec<(String, String)>,
    /// What the server agreed to, once it has said so.
    agreed: Option<SubscriptionFilter>,
}

/// A subscription of which a part is the servers' own. `base` is the reply for the rest, or the call's only answer.
pub(super) struct JoinedListener {
    base: Reply,
    base_agreed: Option<SubscriptionFilter>,
    parts: Vec<ExtensionPart>,
    deadline: Pin<Box<Sleep>>,
    is_acknowledged: bool,
}

/// Opens the parts of a subscription that extensions know, at `only` or at every server. `base` listens to the rest.
pub(super) fn join(hub: &Hub, call: Call, only: Option<&str>, base: impl FnOnce(Call) -> Reply) -> Reply {
    let wanted = notification::read_filter(&call.params);
    if !wanted.tasks.is_empty() && !call.meta.client.capabilities.has_extension(TASKS) {
        return Reply::fault(crate::hub::task::undeclared());
    }
    let parts = open_parts(hub, &call, &wanted, only);
    let mut rest = call;
    let plain = SubscriptionFilter { tasks: Default::default(), others: Vec::new(), ..wanted };
    rest.params = notification::listen_params(&plain);
    Reply::from_source(JoinedListener {
        base: base(rest),
        base_agreed: None,
        parts,
        deadline: Box::pin(tokio::time::sleep(AGREE_LIMIT)),
        is_acknowledged: false,
    })
}

fn open_parts(hub: &Hub, call: &Call, wanted: &SubscriptionFilter, only: Option<&str>) -> Vec<ExtensionPart> {
    let (snapshot, access) = (hub.snapshot(), hub.access(&call.caller));
    // A task that is not the caller's is not watched, and not said to be.
    let mine = |name: &String| {
        let (server, ticket) = crate::hub::task::open(hub, &snapshot, call, &access, name)?;
        Some((server.name().to_owned(), ticket.id, name.clone()))
    };
    let tasks: Vec<(String, String, String)> = wanted.tasks.iter().filter_map(mine).collect();
    let mut parts = Vec::new();
    for server in snapshot.servers.iter().filter(|server| only.is_none_or(|only| only == server.name())) {
        let Some(extensions) = snapshot.extensions.of(server.name()) else { continue };
        let of_server = tasks.iter().filter(|(name, ..)| name == server.name());
        let tasks: Vec<(String, String)> = of_server.map(|(_, own, public)| (own.clone(), public.clone())).collect();
        let is_open = access.allows_method(server.name(), &Method::Listen)
            && access.expect_policy(call, server.name(), NameKind::Method, Method::Listen.as_str()).is_ok();
        let others = match is_open {
            true => wanted.others.clone(),
            false => Vec::new(),
        };
        let filter = SubscriptionFilter {
            tasks: tasks.iter().map(|(own, _)| own.clone()).collect(),
            others,
            ..SubscriptionFilter::default()
        };
        if !filter.is_empty() {
            let mut part = call.clone();
            part.params = notification::listen_params(&filter);
            extension::narrow(&mut part, Some(extensions));
            parts.push(ExtensionPart::new(server, part, tasks));
        }
    }
    parts
}

impl ExtensionPart {
    fn new(server: &Server, call: Call, tasks: Vec<(String, String)>) -> Self {
        Self { reply: Some(server.listen_directly(call)), tasks, agreed: None }
    }

    /// The next notification, but for the acknowledgment, which is kept.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<RpcNotification> {
        while let Some(reply) = &mut self.reply {
            match std::task::ready!(reply.poll_event(context)) {
                ReplyEvent::Note(note) if note.method == Method::SubscriptionAcknowledged => {
                    self.agreed = Some(notification::read_filter(&note.params_object()));
                    // Woken at once, so that the acknowledgment goes out.
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                ReplyEvent::Note(note) => {
                    if let Some(note) = self.public(note) {
                        return Poll::Ready(note);
                    }
                }
                ReplyEvent::Done(_) => self.reply = None,
            }
        }
        Poll::Pending
    }

    /// The notification under the caller's name for the task; `None` for a task that was not asked for.
    fn public(&self, note: RpcNotification) -> Option<RpcNotification> {
        let params = note.params_object();
        let Some(id) = params.get_str(task::TASK_ID).filter(|_| note.method == Method::TaskChanged) else {
            return Some(note);
        };
        let (_, public) = self.tasks.iter().find(|(own, _)| *own == id)?;
        Some(note.with_params(Some(task::with_id(&params, public).raw())))
    }

    fn has_answered(&self) -> bool {
        self.agreed.is_some() || self.reply.is_none()
    }
}

impl JoinedListener {
    fn acknowledgment(&self) -> RpcNotification {
        let mut granted = self.base_agreed.clone().unwrap_or_default();
        for part in &self.parts {
            let Some(agreed) = &part.agreed else { continue };
            let public = part.tasks.iter().filter(|(own, _)| agreed.tasks.contains(own));
            granted.tasks.extend(public.map(|(_, public)| public.clone()));
            for (key, value) in &agreed.others {
                match granted.others.iter_mut().find(|(known, _)| known == key) {
                    Some((_, known)) => *known = together(known, value),
                    None => granted.others.push((key.clone(), value.clone())),
                }
            }
        }
        let params = notification::listen_params(&granted).raw();
        RpcNotification::new(Method::SubscriptionAcknowledged, Some(params))
    }
}

/// What two servers agreed to: the items of both, or what one of them says.
fn together(one: &RawJson, other: &RawJson) -> RawJson {
    match (one.items(), other.items()) {
        (Some(mut items), Some(others)) => {
            items.extend(others.into_iter().filter(|item| !one.items().unwrap_or_default().contains(item)));
            RawJson::array(&items)
        }
        _ if one.as_str() == "false" => other.clone(),
        _ => one.clone(),
    }
}

impl ReplySource for JoinedListener {
    fn poll_event(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ReplyEvent> {
        let this = &mut *self;
        if !this.is_acknowledged {
            if this.base_agreed.is_none() {
                match std::task::ready!(this.base.poll_event(context)) {
                    ReplyEvent::Note(note) => this.base_agreed = Some(notification::read_filter(&note.params_object())),
                    done => return Poll::Ready(done),
                }
            }
            for part in this.parts.iter_mut().filter(|part| !part.has_answered()) {
                // A notification before the acknowledgment breaks the rules, and there is no place for it.
                while part.poll(context).is_ready() {}
            }
            let is_late = this.deadline.as_mut().poll(context).is_ready();
            if !is_late && !this.parts.iter().all(ExtensionPart::has_answered) {
                return Poll::Pending;
            }
            this.is_acknowledged = true;
            return Poll::Ready(ReplyEvent::Note(this.acknowledgment()));
        }
        for part in &mut this.parts {
            if let Poll::Ready(note) = part.poll(context) {
                return Poll::Ready(ReplyEvent::Note(note));
            }
        }
        this.base.poll_event(context)
    }
}
