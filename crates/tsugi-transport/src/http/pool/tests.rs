//! When connections are used again, and when not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::{ConnectionPool, PoolError, PooledConnection, broken, exchange};
use crate::http::connector::UpstreamConnector;
use crate::http::{HttpClient, HttpTarget};

const WHOLE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
const BEGUN: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{}";

const EMPTY: &[u8] = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n";

/// A server that answers every request with the same bytes.
struct Server {
    accepted: AtomicUsize,
    asked: AtomicUsize,
    closed: Notify,
    answer: &'static [u8],
    /// Closes each connection after so many answers.
    answers: usize,
}

impl Server {
    async fn start(answer: &'static [u8], answers: usize) -> (Arc<Self>, HttpClient) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp?x=1", listener.local_addr().unwrap()).parse().unwrap();
        let (accepted, asked, closed) = (AtomicUsize::new(0), AtomicUsize::new(0), Notify::new());
        let server = Arc::new(Self { accepted, asked, closed, answer, answers });
        let serving = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                serving.accepted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serving.clone().serve(stream));
            }
        });
        (server, HttpClient::new(HttpTarget { url, headers: Default::default() }))
    }

    async fn serve(self: Arc<Self>, mut stream: TcpStream) {
        let mut buffer = vec![0; 4096];
        for _ in 0..self.answers {
            let Ok(length @ 1..) = stream.read(&mut buffer).await else { break };
            let head = String::from_utf8_lossy(&buffer[..length]).to_lowercase();
            assert!(head.starts_with("post /mcp?x=1 http/1.1\r\n"), "{head}");
            assert!(head.contains(&format!("\r\nhost: {}\r\n", stream.local_addr().unwrap())), "{head}");
            self.asked.fetch_add(1, Ordering::SeqCst);
            stream.write_all(self.answer).await.unwrap();
        }
        drop(stream);
        self.closed.notify_one();
    }

    fn counts(&self) -> (usize, usize) {
        (self.accepted.load(Ordering::SeqCst), self.asked.load(Ordering::SeqCst))
    }
}

async fn post(client: &HttpClient) -> Bytes {
    let response = client.post(Bytes::from_static(b"{}"), Default::default()).await.unwrap();
    response.bytes().await.unwrap()
}

#[tokio::test]
async fn calls_that_follow_each_other_use_one_connection() {
    let (server, client) = Server::start(WHOLE, usize::MAX).await;
    for _ in 0..3 {
        assert_eq!(&post(&client).await[..], b"{}");
    }
    assert_eq!(server.counts(), (1, 3));
}

#[tokio::test]
async fn calls_at_the_same_time_have_a_connection_each() {
    let (server, client) = Server::start(WHOLE, usize::MAX).await;
    futures_util::future::join_all((0..5).map(|_| post(&client))).await;
    assert_eq!(server.counts(), (5, 5));
    futures_util::future::join_all((0..5).map(|_| post(&client))).await;
    assert_eq!(server.counts(), (5, 10));
}

#[tokio::test]
async fn a_connection_that_the_server_closed_takes_no_request() {
    let (server, client) = Server::start(WHOLE, 1).await;
    for round in 1..4 {
        post(&client).await;
        server.closed.notified().await;
        assert_eq!(server.counts(), (round, round));
    }
}

#[tokio::test]
async fn an_answer_that_is_not_read_to_its_end_closes_its_connection() {
    let (server, client) = Server::start(BEGUN, usize::MAX).await;
    let response = client.post(Bytes::from_static(b"{}"), Default::default()).await.unwrap();
    drop(response);
    server.closed.notified().await;
    assert_eq!(server.counts(), (1, 1));
}

#[tokio::test]
async fn nothing_is_kept_once_the_client_is_gone() {
    let (server, client) = Server::start(WHOLE, usize::MAX).await;
    post(&client).await;
    drop(client);
    server.closed.notified().await;
}

#[tokio::test]
async fn however_many_calls_there_were_one_task_looks_after_kept_connections() {
    let (server, client) = Server::start(WHOLE, usize::MAX).await;
    post(&client).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for _ in 0..20 {
        post(&client).await;
    }
    assert_eq!((server.counts(), tasks()), ((1, 21), before));
}

#[tokio::test]
async fn an_answer_without_a_body_leaves_its_connection_to_others_unread() {
    let (server, client) = Server::start(EMPTY, usize::MAX).await;
    for _ in 0..3 {
        drop(client.post(Bytes::from_static(b"{}"), Default::default()).await.unwrap());
    }
    assert_eq!(server.counts(), (1, 3));
}

/// A connection that was used, was free a moment ago, and whose end has arrived but was not looked at.
async fn just_closed() -> (PooledConnection, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let mut connection = ConnectionPool::new(UpstreamConnector::new()).connect(uri).await.unwrap();
    let answering = async {
        let mut stream = listener.accept().await.unwrap().0;
        let _ = stream.read(&mut [0; 4096]).await.unwrap();
        stream.write_all(EMPTY).await.unwrap();
        stream
    };
    let (answered, mut stream) = tokio::join!(exchange(&mut connection, request()), answering);
    drop(answered.unwrap());
    assert!(connection.is_free());
    connection.driver.turn(&mut Context::from_waker(&connection.waker));
    connection.bell.has_rung.store(false, Ordering::SeqCst);
    stream.shutdown().await.unwrap();
    std::future::poll_fn(|task| {
        connection.bell.task.register(task.waker());
        if connection.bell.has_rung.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    (connection, stream)
}

fn request() -> Request<Full<Bytes>> {
    Request::new(Full::new(Bytes::from_static(b"{}")))
}

#[tokio::test]
async fn a_request_that_meets_the_end_of_its_connection_comes_back_unsent() {
    let (mut connection, _stream) = just_closed().await;
    let exchange = exchange(&mut connection, request());
    let answered = tokio::time::timeout(Duration::from_secs(20), exchange).await.expect("it does not hang");
    let failure = answered.unwrap_err();
    assert!(failure.1.is_some(), "{failure:?}");
    assert!(matches!(broken(failure), PoolError::Unsent(_)));
}
