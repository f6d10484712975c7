//! What servers may send, what they may not, and which connections are used again.

use std::net::SocketAddr;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::error::{TransportError, TransportErrorKind};
use crate::http::{HttpClient, HttpTarget};

/// How a server's bytes are cut.
#[derive(Clone, Copy)]
enum Pace {
    Whole,
    ByteByByte,
}

async fn client() -> (TcpListener, HttpClient) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let url = format!("http://{address}/mcp").parse().unwrap();
    (listener, HttpClient::new(HttpTarget::new(url, Default::default())))
}

async fn post(client: &HttpClient) -> Result<(u16, Bytes), TransportError> {
    let response = client.post(Bytes::from_static(b"{}"), Default::default()).await?;
    let status = response.status.as_u16();
    Ok((status, response.bytes().await?))
}

/// Reads one small request, all of which comes at once.
async fn read_request(stream: &mut TcpStream) {
    let mut buffer = [0; 4096];
    let length = stream.read(&mut buffer).await.unwrap();
    assert!(buffer[..length].ends_with(b"\r\n\r\n{}"), "{:?}", String::from_utf8_lossy(&buffer[..length]));
}

async fn write(stream: &mut TcpStream, answer: &[u8], pace: Pace) {
    let step = match pace {
        Pace::Whole => answer.len().max(1),
        Pace::ByteByByte => 1,
    };
    for piece in answer.chunks(step) {
        // A client that has seen enough hangs up.
        if stream.write_all(piece).await.is_err() {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// What becomes of one answer, after which the server closes the connection.
async fn answered(answer: &[u8], pace: Pace) -> Result<(u16, Bytes), TransportError> {
    let (listener, client) = client().await;
    let serving = async {
        let mut stream = listener.accept().await.unwrap().0;
        stream.set_nodelay(true).unwrap();
        read_request(&mut stream).await;
        write(&mut stream, answer, pace).await;
    };
    tokio::join!(post(&client), serving).0
}

#[tokio::test]
async fn a_body_ends_where_its_head_says() {
    for (answer, status, body) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 200, "abc"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 3\r\n\r\nabcdef", 200, "abc"),
        ("HTTP/1.1 200 OK\r\n\r\nuntil the end", 200, "until the end"),
        ("HTTP/1.0 200 OK\r\n\r\nuntil the end", 200, "until the end"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=\"y\"\r\nde\r\n0\r\n\r\n", 200, "abcde"),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, Chunked\r\n\r\nA\r\n0123456789\r\n0\r\nx: y\r\n\r\n",
            200,
            "0123456789",
        ),
        // A length beside chunks does not count.
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 1\r\n\r\n2\r\nab\r\n0\r\n\r\n", 200, "ab"),
        ("HTTP/1.1 204 No Content\r\ncontent-length: 3\r\n\r\n", 204, ""),
        ("HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n", 202, ""),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nz",
            200,
            "z",
        ),
    ] {
        for pace in [Pace::Whole, Pace::ByteByByte] {
            let got = answered(answer.as_bytes(), pace).await.unwrap_or_else(|error| panic!("{answer:?}: {error}"));
            assert_eq!((got.0, &got.1[..]), (status, body.as_bytes()), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn a_response_that_cannot_be_read_is_a_failure_of_the_connection() {
    let many_headers = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(200));
    let large_head = format!("HTTP/1.1 200 OK\r\na: {}\r\n\r\n", "x".repeat(100 << 10));
    let long_line = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;{}", "x".repeat(8 << 10));
    let trailers =
        format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n{}\r\n", "a: b\r\n".repeat(8 << 10));
    for answer in [
        "",
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab",
        "HTTP/1.1 200 OK\r\ncontent-length: +3\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\ncontent-length: 3, 3\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
        "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\nabcd",
        "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nno\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "SSH-2.0-OpenSSH\r\n",
        &many_headers,
        &large_head,
        &long_line,
        &trailers,
    ] {
        let error = answered(answer.as_bytes(), Pace::Whole).await.expect_err(answer);
        assert_eq!((error.kind, error.may_be_sent), (TransportErrorKind::Lost, true), "{answer:?}");
    }
}

#[tokio::test]
async fn an_answer_above_the_limit_is_refused_before_it_is_read() {
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", 65 << 20);
    let error = answered(answer.as_bytes(), Pace::Whole).await.unwrap_err();
    assert_eq!((error.kind, error.may_be_sent), (TransportErrorKind::TooLarge, true));
}

/// How many connections three calls need whose answers are these.
async fn connections(answer: &'static [u8]) -> usize {
    let (listener, client) = client().await;
    let mut accepted = 0;
    let serving = async {
        loop {
            let mut stream = listener.accept().await.unwrap().0;
            accepted += 1;
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                while let Ok(1..) = stream.read(&mut buffer).await {
                    stream.write_all(answer).await.unwrap();
                }
            });
        }
    };
    tokio::select! {
        () = serving => {}
        () = async { for _ in 0..3 { post(&client).await.unwrap(); } } => {}
    }
    accepted
}

#[tokio::test]
async fn a_connection_is_used_again_unless_something_speaks_against_it() {
    for (answer, expected) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", 1),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 1),
        ("HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\ncontent-length: 2\r\n\r\n{}", 1),
        ("HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n{}", 3),
        ("HTTP/1.1 200 OK\r\nconnection: x, Close\r\ncontent-length: 2\r\n\r\n{}", 3),
        // Where its body ends is not certain.
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 3),
        // Bytes that belong to no request must not answer the next one.
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil", 3),
    ] {
        assert_eq!(connections(answer.as_bytes()).await, expected, "{answer:?}");
    }
}

#[tokio::test]
async fn an_answer_that_comes_before_the_request_was_taken_counts() {
    let (listener, client) = client().await;
    let request = Bytes::from(vec![b' '; 32 << 20]);
    let serving = async {
        let mut stream = listener.accept().await.unwrap().0;
        let _ = stream.read(&mut [0; 4096]).await.unwrap();
        stream.write_all(b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 2\r\n\r\n{}").await.unwrap();
        // Open, and not read any further.
        stream
    };
    let (answered, _stream) = tokio::join!(client.post(request, Default::default()), serving);
    assert_eq!(answered.unwrap().status, 413);
}

#[tokio::test]
async fn large_requests_and_answers_arrive_whole() {
    let (listener, client) = client().await;
    let sent: Vec<u8> = (0..3_000_000u32).map(|number| (number % 251) as u8).collect();
    let echoed = sent.clone();
    let serving = async {
        let mut stream = listener.accept().await.unwrap().0;
        for _ in 0..3 {
            let mut read = Vec::new();
            while !read.ends_with(&echoed) {
                stream.read_buf(&mut read).await.unwrap();
            }
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", echoed.len());
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(&echoed).await.unwrap();
        }
    };
    let asking = async {
        for _ in 0..3 {
            let response = client.post(sent.clone().into(), Default::default()).await.unwrap();
            assert!(response.bytes().await.unwrap() == sent);
        }
    };
    tokio::join!(asking, serving);
}
