//! Roots of a legacy client that change: who hears of it, what was promised, and what a server gets that asks.

use std::sync::Arc;

use serde_json::{Value, json};
use tsugi_client::config::{InstancePolicy, own_profile};
use tsugi_client::{EraChoice, Manager, Server};
use tsugi_protocol::answer::{Answer, Call, Caller, Outcome};
use tsugi_protocol::mcp::meta::RequestMeta;
use tsugi_protocol::mcp::{ClientCapabilities, ClientProfile, Method, ProtocolVersion};
use tsugi_testkit::journal::Journal;
use tsugi_testkit::script::{Action, Rule, Script};
use tsugi_testkit::scripted::{HttpServer, Scripted};
use tsugi_testkit::wait;

use crate::outcome::{asked, end_of};
use crate::world::{LIMIT, Peer, config, options};

/// A legacy server that asks for the roots whenever it hears that they have changed.
fn curious() -> Script {
    let asks = Action::Ask { method: "roots/list".into(), params: json!({}), wait: false };
    Script::legacy().rule(Rule::on("notifications/roots/list_changed").act(asks))
}

async fn server(peer: &impl Peer, instances: InstancePolicy) -> (Manager, Server) {
    let mut config = config("tested", peer.target());
    (config.instances, config.era) = (instances, EraChoice::Legacy);
    let manager = Manager::new(options());
    let server = manager.register(config).unwrap();
    server.ready(LIMIT).await.unwrap();
    (manager, server)
}

/// A call of a legacy client that has roots, and says when they change or not.
fn of(name: &str, announces_roots: bool, call: Call) -> Call {
    let capabilities = ClientCapabilities::all().announcing_roots(announces_roots);
    let profile = ClientProfile { version: ProtocolVersion::LATEST_LEGACY, ..own_profile(capabilities) };
    let mut call = call.from_caller(Caller::of_key(name));
    call.meta = RequestMeta::of_client(Arc::new(profile));
    call
}

fn changed(name: &str) -> Call {
    of(name, true, Call::bare(Method::RootsChanged))
}

async fn outcome(server: &Server, call: Call) -> Outcome {
    end_of(server.answer(call), LIMIT).await.expect("the call ends")
}

async fn echo(server: &Server, name: &str, announces_roots: bool) {
    let outcome = outcome(server, of(name, announces_roots, Call::tool("echo", Some(&json!({}).into())))).await;
    assert!(matches!(outcome, Outcome::Complete(_)), "{outcome:?}");
}

fn roots(uri: &str) -> Value {
    json!({"roots": {"roots": [{"uri": uri}]}})
}

/// What was declared of roots in each `initialize`.
fn declared(received: &[Value]) -> Vec<Value> {
    received.iter().map(|entry| entry["params"]["capabilities"]["roots"].clone()).collect()
}

/// Ann, who promises to say so, and bob, who does not, have a server each; then ann's roots change.
async fn roots_change(server: &Server, journal: &Journal) {
    echo(server, "ann", true).await;
    echo(server, "bob", false).await;
    let promised = declared(&journal.received("initialize"));
    assert_eq!(promised, [json!({}), json!({"listChanged": true}), json!({})]);
    let first = outcome(server, changed("ann")).await;
    assert_eq!(asked(&first).questions()[0].method, Method::RootsList);
    let told = changed("ann").retry_with(Some(&roots("file:///new").into()), None);
    assert!(matches!(outcome(server, told).await, Outcome::Complete(_)));
    let heard = || journal.received("notifications/roots/list_changed").len();
    assert!(wait::until(|| heard() > 0).await, "{:?}", journal.entries());
    assert_eq!(heard(), 1, "ann's alone");
}

#[tokio::test]
async fn a_server_of_ones_own_hears_that_the_roots_changed_and_gets_the_new_ones() {
    let peer = Scripted::new(curious());
    let (_manager, server) = server(&peer, InstancePolicy::PerSession).await;
    roots_change(&server, &peer.journal()).await;
    assert!(wait::until(|| peer.journal().of("told").len() == 1).await, "{:?}", peer.journal().entries());
    let told = peer.journal().of("told");
    assert_eq!(told[0]["result"], json!({"roots": [{"uri": "file:///new"}]}), "no call was in flight");
}

#[tokio::test]
async fn a_server_of_ones_own_over_http_hears_that_the_roots_changed() {
    let peer = HttpServer::start(&Script::legacy());
    let (_manager, server) = server(&peer, InstancePolicy::PerSession).await;
    roots_change(&server, &peer.journal()).await;
}

#[tokio::test]
async fn nobody_is_asked_for_roots_that_no_server_was_promised_to_hear_of() {
    let peer = Scripted::new(curious());
    let (_manager, server) = server(&peer, InstancePolicy::Shared).await;
    echo(&server, "ann", true).await;
    let outcome = outcome(&server, changed("ann")).await;
    assert!(matches!(outcome, Outcome::Complete(_)), "{outcome:?}");
    assert_eq!(declared(&peer.journal().received("initialize")), [json!({})]);
    assert!(peer.journal().received("notifications/roots/list_changed").is_empty());
}
