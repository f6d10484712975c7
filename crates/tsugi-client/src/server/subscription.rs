//! Asks servers for notifications: a modern one by a listen call, a legacy one by subscribe requests.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tsugi_protocol::answer::{Answer, Call, CallFailure, Outcome, Reply, ReplyEvent};
use tsugi_protocol::json::ObjectWriter;
use tsugi_protocol::mcp::meta::RequestMeta;
use tsugi_protocol::mcp::subscription::SubscriptionFilter;
use tsugi_protocol::mcp::{Era, Method};
use tsugi_protocol::rpc::code;

use super::Instance;
use crate::connection::ServerConnection;
use crate::connection::notice::ServerNotice;

/// What the server was asked to tell.
#[derive(Default)]
pub(super) struct UpstreamSubscription {
    listener: Option<AbortHandle>,
    subscribed: Vec<String>,
}

impl UpstreamSubscription {
    /// Asks for what is watched now. `false` when the server did not take all of it, and may later.
    pub(super) async fn renew(&mut self, instance: &Arc<Instance>, connection: &ServerConnection) -> bool {
        let uris = instance.watches.uris();
        match connection.identity().version.era() {
            Era::Modern => {
                self.listen(instance, connection, uris);
                true
            }
            Era::Legacy => self.subscribe(&instance.taken(), connection, uris).await,
        }
    }

    fn listen(&mut self, instance: &Arc<Instance>, connection: &ServerConnection, uris: Vec<String>) {
        if let Some(listener) = self.listener.take() {
            listener.abort();
        }
        let filter = SubscriptionFilter::offered_by(&connection.identity().capabilities, uris);
        if !filter.is_empty() {
            self.listener = Some(tokio::spawn(listen(instance.clone(), connection.clone(), filter)).abort_handle());
        }
    }

    async fn subscribe(&mut self, taken: &SubscribedUris, connection: &ServerConnection, uris: Vec<String>) -> bool {
        // Even a server that did not declare it is asked: some can, and the others refuse.
        if !connection.identity().capabilities.has("resources") {
            return true;
        }
        let (kept, gone) = std::mem::take(&mut self.subscribed).into_iter().partition(|uri| uris.contains(uri));
        // Only differences are sent: subscribing again would make some servers send everything again.
        self.subscribed = kept;
        let gone: Vec<String> = gone;
        for uri in gone {
            taken.forget(&uri);
            ask(connection, Method::ResourcesUnsubscribe, &uri).await;
        }
        let mut is_done = true;
        for uri in uris {
            if self.subscribed.contains(&uri) {
                continue;
            }
            if taken.has(&uri) || ask(connection, Method::ResourcesSubscribe, &uri).await {
                self.subscribed.push(uri);
            } else {
                is_done = false;
            }
        }
        is_done
    }
}

/// How many subscriptions of callers are remembered for one connection.
const TAKEN: usize = 4096;

/// The resources that a server took a caller's own subscription of, over one connection. Callers may ask a server for
/// that which does not say it can be subscribed to; it is asked once for all of them.
#[derive(Clone, Default)]
pub(super) struct SubscribedUris(Arc<Mutex<HashSet<String>>>);

impl SubscribedUris {
    /// Passes a caller's subscription on, unless the server has taken it already.
    pub(super) fn subscribe(&self, connection: &ServerConnection, call: Call) -> Reply {
        let Some(uri) = call.subject().map(|uri| uri.into_owned()) else { return connection.answer(call) };
        if self.has(&uri) {
            let done = tsugi_protocol::json::JsonObject::from(serde_json::json!({"resultType": "complete"}));
            return Reply::ready(Outcome::complete(done));
        }
        let (taken, connection) = (self.clone(), connection.clone());
        Reply::from_future(async move {
            let outcome = connection.answer(call).outcome().await;
            if let Outcome::Complete(_) = outcome {
                taken.add(uri);
            }
            outcome
        })
    }

    fn add(&self, uri: String) {
        let mut taken = self.0.lock();
        // One that is not remembered is asked for twice, which servers do not mind.
        if taken.len() < TAKEN {
            taken.insert(uri);
        }
    }

    fn has(&self, uri: &str) -> bool {
        self.0.lock().contains(uri)
    }

    fn forget(&self, uri: &str) {
        self.0.lock().remove(uri);
    }

    /// The server has forgotten them all.
    pub(super) fn forget_all(&self) {
        self.0.lock().clear();
    }
}

impl Instance {
    /// What the server took over the connection that there is.
    pub(super) fn taken(&self) -> SubscribedUris {
        self.live.load().as_ref().map(|live| live.taken.clone()).unwrap_or_default()
    }
}

impl Drop for UpstreamSubscription {
    fn drop(&mut self) {
        if let Some(listener) = &self.listener {
            listener.abort();
        }
    }
}

/// Whether asking again is of no use: the server did it, or it never will.
async fn ask(connection: &ServerConnection, method: Method, uri: &str) -> bool {
    let mut params = ObjectWriter::with_capacity(uri.len() + 16);
    params.string("uri", uri);
    let asking = connection.answer(Call::new(method, params.finish_object())).outcome();
    // A server that does not answer must not hold up the supervisor.
    match tokio::time::timeout(Duration::from_secs(5), asking).await {
        Ok(Outcome::Failed(CallFailure::Upstream(error))) => error.code() == code::METHOD_NOT_FOUND,
        Ok(Outcome::Complete(_)) => true,
        Ok(_) | Err(_) => false,
    }
}

/// Listens to a modern server, again and again while the connection lives. Changes between two streams are missed, so
/// a gap is reported.
async fn listen(instance: Arc<Instance>, connection: ServerConnection, filter: SubscriptionFilter) {
    let mut wait = Duration::from_millis(100);
    let mut has_gap = false;
    loop {
        let mut params = ObjectWriter::with_capacity(128);
        params.raw("notifications", &filter.to_raw());
        let mut call = Call::new(Method::Listen, params.finish_object());
        call.meta = RequestMeta::of_client(instance.options.profile.clone());
        let mut reply = connection.answer(call);
        while let ReplyEvent::Note(note) = reply.next().await {
            wait = Duration::from_millis(100);
            if std::mem::take(&mut has_gap) {
                instance.context.publish(ServerNotice::Missed);
            }
            if let Some(notice) = ServerNotice::of(&note) {
                instance.context.publish(notice);
            }
        }
        // Changes between two streams are lost, so the next stream begins with a look at everything.
        has_gap = true;
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(Duration::from_secs(30));
    }
}
