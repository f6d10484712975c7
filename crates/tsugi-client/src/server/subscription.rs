//! What a server is asked to tell us: a modern one by a listen call, a legacy one by subscribe requests.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tsugi_protocol::answer::{Answer, Call, Event};
use tsugi_protocol::json::Splice;
use tsugi_protocol::mcp::meta::RequestMeta;
use tsugi_protocol::mcp::subscription::Filter;
use tsugi_protocol::mcp::{Era, Method};

use super::Inner;
use crate::connection::Connection;
use crate::connection::context::Notice;

/// What the server was asked to tell.
#[derive(Default)]
pub(super) struct Subscription {
    listener: Option<AbortHandle>,
    subscribed: Vec<String>,
}

impl Subscription {
    /// Asks for what is watched now.
    pub(super) async fn renew(&mut self, inner: &Arc<Inner>, connection: &Connection) {
        let uris = inner.watches.uris();
        match connection.identity().version.era() {
            Era::Modern => self.listen(inner, connection, uris),
            Era::Legacy => self.subscribe(connection, uris).await,
        }
    }

    fn listen(&mut self, inner: &Arc<Inner>, connection: &Connection, uris: Vec<String>) {
        if let Some(listener) = self.listener.take() {
            listener.abort();
        }
        let capabilities = connection.identity().capabilities.clone();
        let filter = Filter {
            tools: capabilities.has_list_changed("tools"),
            prompts: capabilities.has_list_changed("prompts"),
            resources: capabilities.has_list_changed("resources"),
            uris: uris.into_iter().filter(|_| capabilities.has_resource_subscriptions()).collect(),
        };
        if !filter.is_empty() {
            self.listener = Some(tokio::spawn(listen(inner.clone(), connection.clone(), filter)).abort_handle());
        }
    }

    async fn subscribe(&mut self, connection: &Connection, uris: Vec<String>) {
        // Also a server that says it cannot: somebody watches because it did, or it will say no.
        if !connection.identity().capabilities.has("resources") {
            return;
        }
        for uri in self.subscribed.iter().filter(|uri| !uris.contains(uri)) {
            ask(connection, Method::ResourcesUnsubscribe, uri).await;
        }
        for uri in uris.iter().filter(|uri| !self.subscribed.contains(uri)) {
            ask(connection, Method::ResourcesSubscribe, uri).await;
        }
        self.subscribed = uris;
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(listener) = &self.listener {
            listener.abort();
        }
    }
}

async fn ask(connection: &Connection, method: Method, uri: &str) {
    let mut params = Splice::with_capacity(uri.len() + 16);
    params.string("uri", uri);
    let asking = connection.answer(Call::new(method, params.finish_object())).outcome();
    let _ = tokio::time::timeout(Duration::from_secs(5), asking).await;
}

/// Listens to a modern server, again and again while the connection lives.
async fn listen(inner: Arc<Inner>, connection: Connection, filter: Filter) {
    let mut wait = Duration::from_millis(100);
    loop {
        let mut params = Splice::with_capacity(128);
        params.raw("notifications", &filter.to_raw());
        let mut call = Call::new(Method::Listen, params.finish_object());
        call.meta = RequestMeta::of_client(inner.options.profile.clone());
        let mut reply = connection.answer(call);
        while let Event::Note(note) = reply.next().await {
            wait = Duration::from_millis(100);
            if let Some(notice) = Notice::of(&note) {
                inner.context.tell(notice);
            }
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(Duration::from_secs(30));
    }
}
