//! Many legacy sessions that nobody uses: what a gateway holds for each is seen in its memory.

use crate::{http, Mode, Target};
use clap::Args;
use serde_json::json;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

#[derive(Args, Clone)]
pub struct Sessions {
    #[command(flatten)]
    target: Target,
    /// How many in all
    #[arg(long, default_value_t = 10_000)]
    count: usize,
    /// Over how many connections they are opened; the connections stay open too
    #[arg(short, long, default_value_t = 16)]
    conc: usize,
}

/// Opens them, says so, and waits for the end of stdin.
pub async fn hold(s: Sessions) -> bool {
    if s.target.mode != Mode::Legacy {
        println!("{}", json!({"fatal": "only the legacy mode has sessions"}));
        return false;
    }
    let began = Instant::now();
    let left = Rc::new(Cell::new(s.count));
    let workers: Vec<_> = (0..s.conc).map(|i| tokio::task::spawn_local(open(s.target.clone(), i, left.clone()))).collect();
    let (mut opened, mut clients, mut first_error) = (0, Vec::new(), None);
    for worker in workers {
        let Ok((client, n, error)) = worker.await else { continue };
        opened += n;
        clients.push(client);
        first_error = first_error.or(error);
    }
    let secs = began.elapsed().as_secs_f64();
    println!("{}", json!({"opened": opened, "asked": s.count, "secs": secs, "first_error": first_error}));
    // Read on a thread: the connections go on answering meanwhile.
    let _ = tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink())).await;
    opened == s.count
}

/// Opens sessions over one connection until none are left to open or one fails.
async fn open(target: Target, i: usize, left: Rc<Cell<usize>>) -> (Option<http::Client>, usize, Option<String>) {
    let (mut client, mut n) = (None::<http::Client>, 0);
    while left.get() > 0 {
        left.set(left.get() - 1);
        let opened = match &mut client {
            Some(client) => client.initialize().await,
            None => http::Client::open(&target, i, None).await.map(|opened| client = Some(opened)),
        };
        match opened {
            Ok(()) => n += 1,
            Err(error) => return (client, n, Some(error)),
        }
    }
    (client, n, None)
}
