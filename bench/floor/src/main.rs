//! What the gateway is measured against: servers that do no more than the wire itself asks for.
//!
//! `hello` answers every request with the same small text, `file` with the bytes of a file, and `relay` passes bodies
//! to a child's stdin and its lines back, without knowing what they mean.

mod relay;

use std::convert::Infallible;
use std::path::PathBuf;

use bytes::Bytes;
use clap::{Parser, Subcommand};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

#[derive(Parser)]
struct Args {
    /// Port on 127.0.0.1
    #[arg(long)]
    port: u16,
    #[command(subcommand)]
    floor: Floor,
}

#[derive(Subcommand)]
enum Floor {
    /// Answer everything with a text
    Hello {
        #[arg(long, default_value_t = 1024)]
        size: usize,
    },
    /// Answer everything with the bytes of a file
    File { path: PathBuf },
    /// Pass bodies to a program's stdin and its lines back
    Relay {
        program: String,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

#[tokio::main]
async fn main() {
    let args = Args::parse();
    let listener = TcpListener::bind(("127.0.0.1", args.port)).await.expect("the port is free");
    match args.floor {
        Floor::Hello { size } => serve_text(listener, Bytes::from("x".repeat(size))).await,
        Floor::File { path } => serve_text(listener, Bytes::from(std::fs::read(path).expect("a file"))).await,
        Floor::Relay { program, arguments } => {
            let relay = relay::Relay::start(&program, &arguments);
            serve(listener, move |request| relay.clone().answer(request)).await;
        }
    }
}

/// Answers every request with `text`, once the request's body has been read.
async fn serve_text(listener: TcpListener, text: Bytes) {
    serve(listener, move |request| {
        let text = text.clone();
        async move {
            let _ = request.into_body().collect().await;
            Response::new(Full::new(text))
        }
    })
    .await;
}

async fn serve<Answer, Answering, Out>(listener: TcpListener, answer: Answer)
where
    Answer: Fn(Request<Incoming>) -> Answering + Clone + Send + Sync + 'static,
    Answering: Future<Output = Response<Out>> + Send,
    Out: Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    loop {
        let (stream, _) = listener.accept().await.expect("connections come in");
        stream.set_nodelay(true).expect("a socket option");
        let answer = answer.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let answering = answer(request);
                async move { Ok::<_, Infallible>(answering.await) }
            });
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
