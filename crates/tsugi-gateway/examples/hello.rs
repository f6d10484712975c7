//! A bare hyper server that answers every request with 1 KiB: the floor that the gateway is measured against.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;

#[tokio::main]
async fn main() {
    let port = std::env::args().nth(1).expect("usage: hello PORT");
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await.expect("the port is free");
    let text = Bytes::from(format!("{{\"success\":true,\"result\":\"{}\"}}", "x".repeat(1024)));
    loop {
        let (stream, _) = listener.accept().await.expect("connections come in");
        stream.set_nodelay(true).expect("a socket option");
        let text = text.clone();
        tokio::spawn(async move {
            let service = service_fn(|request: Request<Incoming>| {
                let text = text.clone();
                async move {
                    let _ = request.into_body().collect().await;
                    Ok::<_, Infallible>(Response::new(Full::new(text)))
                }
            });
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
