//! The two-endpoint HTTP+SSE wire of 2024-11-05: a stream of events down, one POST per message up.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tsugi_protocol::rpc::Message;
use url::Url;

use crate::error::{ErrorKind, TransportError};
use crate::http::{EventStream, HttpClient, HttpResponse, HttpTarget, Kind};
use crate::link::{Inbox, Link, Outbox, Received};

/// How long the `endpoint` event may take. Servers that send none get `/sse` → `/messages`.
const ENDPOINT_LIMIT: Duration = Duration::from_secs(3);
/// How long the server may take to begin its stream.
const OPEN_LIMIT: Duration = Duration::from_secs(10);
/// How long the server may take to accept a message that is no request.
const ACCEPT_LIMIT: Duration = Duration::from_secs(10);
/// How many requests may be on their way at once.
const MAX_POSTS: usize = 64;
const QUEUE: usize = 256;

/// Opens the stream and finds out where to post.
pub async fn connect(target: HttpTarget) -> Result<Link, TransportError> {
    let client = HttpClient::new(target);
    let opening = tokio::time::timeout(OPEN_LIMIT, client.get(HeaderMap::new()));
    let response = opening.await.map_err(|_| {
        TransportError::unsent(ErrorKind::Connect, "the server did not begin its event stream within 10 s")
    })??;
    let mut events = expect_events(response)?;
    let mut first = None;
    let endpoint = match tokio::time::timeout(ENDPOINT_LIMIT, events.next()).await {
        Ok(Some(Ok(event))) if event.event.as_deref() == Some("endpoint") => resolve(client.url(), &event.data)?,
        Ok(Some(Ok(event))) => {
            first = Some(event.data);
            conventional(client.url())?
        }
        Ok(Some(Err(error))) => return Err(error),
        Ok(None) => return Err(TransportError::unsent(ErrorKind::Protocol, "the event stream ended at once")),
        Err(_) => conventional(client.url())?,
    };
    let poster = client.at(endpoint).ok_or_else(|| {
        TransportError::unsent(ErrorKind::Protocol, "the server names an address of another origin to post to")
    })?;
    Ok(start(poster, events, first))
}

fn expect_events(response: HttpResponse) -> Result<EventStream, TransportError> {
    if !response.status.is_success() {
        return Err(response.status_error());
    }
    if response.kind() != Kind::Events {
        return Err(TransportError::unsent(ErrorKind::Protocol, "the server's answer is not an event stream"));
    }
    response.events()
}

fn resolve(base: &Url, data: &Bytes) -> Result<Url, TransportError> {
    let text = String::from_utf8_lossy(data);
    base.join(text.trim()).map_err(|error| {
        TransportError::unsent(ErrorKind::Protocol, format!("the endpoint {text:?} is no address: {error}"))
    })
}

/// `…/sse` becomes `…/messages`, as servers that never say where to post expect.
fn conventional(base: &Url) -> Result<Url, TransportError> {
    let path = base.path().strip_suffix("/sse").map(|front| format!("{front}/messages"));
    let Some(path) = path else {
        return Err(TransportError::unsent(ErrorKind::Protocol, "the server never said where to post messages"));
    };
    let mut url = base.clone();
    url.set_path(&path);
    Ok(url)
}

fn start(poster: HttpClient, events: EventStream, first: Option<Bytes>) -> Link {
    let (outbox, outgoing) = mpsc::channel(QUEUE);
    let (incoming, inbox) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        tokio::select! {
            () = receive(events, first, incoming.clone()) => {}
            () = post_all(poster, outgoing, incoming) => {}
        }
    });
    Link { outbox: Outbox::Queue(outbox), inbox: Inbox::Posting(inbox), job: None }
}

type Incoming = mpsc::Sender<Result<Received, TransportError>>;

async fn receive(mut events: EventStream, first: Option<Bytes>, incoming: Incoming) {
    if let Some(data) = first.filter(|data| !data.is_empty()) {
        let _ = incoming.send(Ok(Received::Message(data))).await;
    }
    while let Some(event) = events.next().await {
        let is_end = event.is_err();
        let message = match event {
            Ok(event) if event.data.is_empty() || event.event.as_deref().is_some_and(|kind| kind != "message") => {
                continue;
            }
            Ok(event) => Ok(Received::Message(event.data)),
            Err(error) => Err(error),
        };
        if incoming.send(message).await.is_err() || is_end {
            return;
        }
    }
}

/// Posts messages. Requests go side by side, since a server may hold the answer to the POST until it is
/// done; notifications and responses go one after the other, so that their order is kept. What is on its way
/// ends with the stream.
async fn post_all(poster: HttpClient, mut outgoing: mpsc::Receiver<Bytes>, incoming: Incoming) {
    let mut posting = JoinSet::new();
    while let Some(message) = outgoing.recv().await {
        while posting.try_join_next().is_some() {}
        if !matches!(Message::parse(message.clone()), Ok(Message::Request(_))) {
            // A server that does not even accept must not hold up what comes after.
            let _ = tokio::time::timeout(ACCEPT_LIMIT, post(&poster, message)).await;
            continue;
        }
        if posting.len() >= MAX_POSTS {
            posting.join_next().await;
        }
        posting.spawn(post_request(poster.clone(), message, incoming.clone()));
    }
}

async fn post_request(poster: HttpClient, message: Bytes, incoming: Incoming) {
    if let Err(error) = post(&poster, message.clone()).await {
        let _ = incoming.send(Ok(Received::Undelivered(message, error))).await;
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
