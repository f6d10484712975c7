//! What changes while a server's stream of changes is broken is noticed when the stream is there again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tsugi_protocol::mcp::{Era, Method};
use tsugi_testkit::fake::{Fake, Recorded, Step, Steps, reply};
use tsugi_testkit::wait;

use super::session::{heard, listen};
use super::{ERAS, good, response, result};
use crate::world::Bench;

/// A server whose first stream of changes breaks, and which has one more tool from then on. It tells nobody.
fn breaking(era: Era) -> Fake {
    let streams = Arc::new(AtomicUsize::new(0));
    Fake::start(move |request| {
        let message = request.json();
        if request.method == "GET" || message["method"] == "subscriptions/listen" {
            let is_first = streams.fetch_add(1, Ordering::AcqRel) == 0;
            return stream(request, is_first);
        }
        match message["method"].as_str() {
            Some("server/discover" | "initialize") => match result(era, &message) {
                Some(mut result) => {
                    result["capabilities"] = json!({"tools": {"listChanged": true}});
                    reply::json(&response(request, &result))
                }
                None => good(era, request),
            },
            Some("tools/list") if streams.load(Ordering::Acquire) > 1 => {
                let mut result = result(era, &message).unwrap();
                let tools = result["tools"].as_array_mut().unwrap();
                tools.push(json!({"name": "extra", "inputSchema": {"type": "object"}}));
                reply::json(&response(request, &result))
            }
            _ => good(era, request),
        }
    })
}

fn stream(request: &Recorded, is_first: bool) -> Steps {
    let end = if is_first { vec![Step::Wait(700), Step::Close] } else { vec![Step::Hold] };
    let first: Vec<String> =
        if request.method == "GET" { Vec::new() } else { vec![acknowledgement(request).to_string()] };
    let first: Vec<&str> = first.iter().map(String::as_str).collect();
    [reply::sse_open(&first), end].concat()
}

fn acknowledgement(request: &Recorded) -> Value {
    let meta = json!({"io.modelcontextprotocol/subscriptionId": request.json()["id"]});
    let params = json!({"_meta": meta, "notifications": {"toolsListChanged": true}});
    json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params})
}

#[tokio::test]
async fn h15_what_changed_while_a_stream_was_broken_is_noticed_when_it_is_there_again() {
    for era in ERAS {
        let bench = Bench::of(breaking(era));
        bench.settle().await;
        let mut listening = listen(&bench.server, json!({"toolsListChanged": true}));
        let has_extra = || bench.server.catalog().is_some_and(|catalog| catalog.tool("extra").is_some());
        assert!(wait::until(has_extra).await, "{era:?}");
        heard(&mut listening, &Method::ToolsChanged).await;
        bench.finish().await;
    }
}
