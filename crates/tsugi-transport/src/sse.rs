//! The two-endpoint HTTP+SSE wire of 2024-11-05: a stream of events down, one POST per message up.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tsugi_protocol::mcp::Method;
use tsugi_protocol::rpc::{RequestId, RpcMessage, RpcNotification, response_id};
use url::Url;

use crate::error::{TransportError, TransportErrorKind};
use crate::http::{BodyKind, EventStream, HttpClient, HttpResponse, HttpTarget};
use crate::link::{Inbox, Link, LinkEvent, Outbox};

/// How long the `endpoint` event may take. Servers that send none get `/sse` → `/messages`.
const ENDPOINT_LIMIT: Duration = Duration::from_secs(3);
/// How long the server may take to begin its stream.
const OPEN_LIMIT: Duration = Duration::from_secs(10);
/// How long the server may take to accept a message that is not a request.
const ACCEPT_LIMIT: Duration = Duration::from_secs(10);
/// How many requests may be on their way at once.
const MAX_POSTS: usize = 64;
/// How many more may wait for that.
const MAX_WAITING: usize = 1024;
const QUEUE: usize = 256;

/// Opens the stream and finds out where to post.
pub async fn connect(target: HttpTarget) -> Result<Link, TransportError> {
    let client = HttpClient::new(target);
    let opening = tokio::time::timeout(OPEN_LIMIT, client.get(HeaderMap::new()));
    let response = opening.await.map_err(|_| {
        TransportError::unsent(TransportErrorKind::Connect, "the server did not begin its event stream within 10 s")
    })??;
    let mut events = expect_events(response)?;
    let (endpoint, first) = match tokio::time::timeout(ENDPOINT_LIMIT, first_of(&mut events)).await {
        Ok(SseOpening::Endpoint(data)) => (resolve(client.url(), &data)?, None),
        Ok(SseOpening::Message(data)) => (conventional(client.url())?, Some(data)),
        Ok(SseOpening::Broken(error)) => return Err(error),
        Err(_) => (conventional(client.url())?, None),
    };
    // Posts carry our headers, which may hold credentials. They must not reach another origin.
    let poster = client.at(endpoint).ok_or_else(|| {
        TransportError::unsent(TransportErrorKind::Protocol, "the server names an address of another origin to post to")
    })?;
    Ok(start(poster, events, first))
}

/// What a stream begins with.
enum SseOpening {
    Endpoint(Bytes),
    /// A message, so that the server will not say where to post.
    Message(Bytes),
    Broken(TransportError),
}

/// Reads on to the first event that means something. Servers say before it how often to connect again, give ids to
/// nothing, or show that they are alive.
async fn first_of(events: &mut EventStream) -> SseOpening {
    loop {
        match events.next().await {
            Some(Ok(event)) if event.event.as_deref() == Some("endpoint") => return SseOpening::Endpoint(event.data),
            Some(Ok(event)) if event.is_message() && !event.data.is_empty() => return SseOpening::Message(event.data),
            Some(Ok(_)) => {}
            Some(Err(error)) => return SseOpening::Broken(error),
            None => {
                let why = "the event stream ended before it said where to post messages";
                return SseOpening::Broken(TransportError::unsent(TransportErrorKind::Protocol, why));
            }
        }
    }
}

fn expect_events(response: HttpResponse) -> Result<EventStream, TransportError> {
    if !response.status.is_success() {
        return Err(response.status_error());
    }
    if response.kind() != BodyKind::Events {
        return Err(TransportError::unsent(TransportErrorKind::Protocol, "the server's answer is not an event stream"));
    }
    response.events()
}

fn resolve(base: &Url, data: &Bytes) -> Result<Url, TransportError> {
    let text = String::from_utf8_lossy(data);
    base.join(text.trim()).map_err(|error| {
        TransportError::unsent(
            TransportErrorKind::Protocol,
            format!("the endpoint {text:?} is not an address: {error}"),
        )
    })
}

/// `…/sse` becomes `…/messages`, as servers that never say where to post expect.
fn conventional(base: &Url) -> Result<Url, TransportError> {
    let path = base.path().strip_suffix("/sse").map(|front| format!("{front}/messages"));
    let Some(path) = path else {
        return Err(TransportError::unsent(
            TransportErrorKind::Protocol,
            "the server never said where to post messages",
        ));
    };
    let mut url = base.clone();
    url.set_path(&path);
    Ok(url)
}

fn start(poster: HttpClient, events: EventStream, first: Option<Bytes>) -> Link {
    let (outbox, outgoing) = mpsc::channel(QUEUE);
    let (incoming, inbox) = mpsc::channel(QUEUE);
    let posts = PendingPosts::default();
    tokio::spawn(async move {
        // Each direction ends the other: half a link is of no use.
        tokio::select! {
            () = receive(events, first, incoming.clone(), posts.clone()) => {}
            () = post_all(poster, outgoing, incoming, posts.clone()) => {}
        }
    });
    Link { outbox: Outbox::Queue(outbox), inbox: Inbox::Posting(inbox), job: None }
}

type IncomingSender = mpsc::Sender<Result<LinkEvent, TransportError>>;

async fn receive(mut events: EventStream, first: Option<Bytes>, incoming: IncomingSender, posts: PendingPosts) {
    if let Some(data) = first {
        let _ = incoming.send(Ok(LinkEvent::Message(data))).await;
    }
    while let Some(event) = events.next().await {
        let is_end = event.is_err();
        let message = match event {
            Ok(event) if event.data.is_empty() || !event.is_message() => continue,
            Ok(event) => {
                if let Some(id) = response_id::response_id(&event.data) {
                    posts.end(id, PostEnd::Answered);
                }
                Ok(LinkEvent::Message(event.data))
            }
            Err(error) => Err(error),
        };
        if incoming.send(message).await.is_err() || is_end {
            return;
        }
    }
}

/// The posts of requests that are on their way, so that their end can be told to them.
#[derive(Clone, Default)]
struct PendingPosts(Arc<Mutex<HashMap<u64, oneshot::Sender<PostEnd>>>>);

/// Why a post does not matter any more.
enum PostEnd {
    /// The request was answered on the stream.
    Answered,
    /// The call was given up.
    Cancelled,
}

impl PendingPosts {
    fn begin(&self, id: u64) -> oneshot::Receiver<PostEnd> {
        let (sender, over) = oneshot::channel();
        self.0.lock().insert(id, sender);
        over
    }

    fn forget(&self, id: u64) {
        self.0.lock().remove(&id);
    }

    fn end(&self, id: u64, why: PostEnd) {
        if let Some(sender) = self.0.lock().remove(&id) {
            let _ = sender.send(why);
        }
    }
}

/// Posts messages. Requests go side by side, since a server may hold the answer to the POST until it is
/// done. Notifications and responses go one after the other, so that their order is kept, and overtake requests that
/// wait: among them are those that give requests up. What is on its way ends with the stream.
async fn post_all(
    poster: HttpClient,
    mut outgoing: mpsc::Receiver<Bytes>,
    incoming: IncomingSender,
    posts: PendingPosts,
) {
    let mut posting = JoinSet::new();
    let room = Arc::new(Semaphore::new(MAX_POSTS));
    let (aside, waiting) = mpsc::channel(QUEUE);
    posting.spawn(post_aside(poster.clone(), waiting));
    while let Some(message) = outgoing.recv().await {
        // Finished posts leave the set, so that its length counts only those that run or wait.
        while posting.try_join_next().is_some() {}
        match RpcMessage::parse(message.clone()) {
            Ok(RpcMessage::Request(_)) if posting.len() >= MAX_WAITING => {
                let full = TransportError::unsent(TransportErrorKind::Lost, "the server does not accept messages");
                let _ = incoming.try_send(Ok(LinkEvent::Undelivered(message, full)));
            }
            Ok(RpcMessage::Request(request)) => {
                let id = request.id.as_u64().expect("the requests of a connection are numbered");
                let over = posts.begin(id);
                let (poster, incoming, posts, room) = (poster.clone(), incoming.clone(), posts.clone(), room.clone());
                posting.spawn(async move {
                    post_request(poster, message, incoming, room, over).await;
                    posts.forget(id);
                });
            }
            // Requests must not come before it.
            Ok(RpcMessage::Notification(note)) if note.method == Method::Initialized => accept(&poster, message).await,
            Ok(RpcMessage::Notification(note)) if note.method == Method::Cancelled => {
                cancelled(&note).inspect(|id| posts.end(*id, PostEnd::Cancelled));
                let _ = aside.try_send(message);
            }
            // A server that has not accepted so many gets no more.
            _ => drop(aside.try_send(message)),
        }
    }
}

fn cancelled(note: &RpcNotification) -> Option<u64> {
    RequestId::from_raw(note.params_object().get("requestId")?)?.as_u64()
}

async fn post_aside(poster: HttpClient, mut waiting: mpsc::Receiver<Bytes>) {
    while let Some(message) = waiting.recv().await {
        accept(&poster, message).await;
    }
}

/// Posts a message that is not a request. A server that does not even accept must not hold up what comes after.
async fn accept(poster: &HttpClient, message: Bytes) {
    let _ = tokio::time::timeout(ACCEPT_LIMIT, post(poster, message)).await;
}

/// Posts a request, as long as its call lasts.
async fn post_request(
    poster: HttpClient,
    message: Bytes,
    incoming: IncomingSender,
    room: Arc<Semaphore>,
    mut over: oneshot::Receiver<PostEnd>,
) {
    let permit = tokio::select! {
        permit = room.acquire_owned() => permit,
        _ = &mut over => return,
    };
    let mut posting = pin!(post(&poster, message.clone()));
    let posted = tokio::select! {
        posted = &mut posting => posted,
        why = &mut over => {
            drop(permit);
            // The server may be about to accept what it has answered; the connection is then used again.
            if let Ok(PostEnd::Answered) = why {
                let _ = tokio::time::timeout(ACCEPT_LIMIT, posting).await;
            }
            return;
        }
    };
    if let Err(error) = posted {
        let _ = incoming.send(Ok(LinkEvent::Undelivered(message, error))).await;
    }
}

async fn post(poster: &HttpClient, message: Bytes) -> Result<(), TransportError> {
    let response = poster.post(message, HeaderMap::new()).await?;
    if !response.status.is_success() {
        return Err(response.status_error());
    }
    // The body is "Accepted" or nothing; reading it gives the connection back to the pool.
    response.bytes().await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().expect("an address")
    }

    #[test]
    fn without_an_endpoint_the_end_of_the_address_is_replaced() {
        let posts_to = |text: &str| conventional(&url(text)).map(String::from).map_err(|error| error.to_string());
        assert_eq!(posts_to("http://body-cli:8000/sse").as_deref(), Ok("http://body-cli:8000/messages"));
        assert_eq!(posts_to("http://h/a/sse?key=1").as_deref(), Ok("http://h/a/messages?key=1"));
        assert!(posts_to("http://h/events").is_err());
    }

    #[test]
    fn an_endpoint_is_read_relative_to_the_stream() {
        let base = url("http://h:1/a/sse");
        let endpoint = |text: &'static str| resolve(&base, &Bytes::from_static(text.as_bytes())).map(String::from);
        assert_eq!(endpoint("/messages?session=7\n").expect("an address"), "http://h:1/messages?session=7");
        assert_eq!(endpoint("post").expect("an address"), "http://h:1/a/post");
        assert!(endpoint("http://[").is_err());
    }
}
