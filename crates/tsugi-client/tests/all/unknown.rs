//! What no revision defines survives on its way through the client: generated messages with unknown members
//! everywhere go to a server in this process and back, and both sides compare what arrives byte for byte.

mod generate;
mod mirror;

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use tsugi_client::config::own_profile;
use tsugi_client::{Manager, Server};
use tsugi_protocol::answer::{Answer, Call, CallFailure, CallNote, Outcome};
use tsugi_protocol::json::{JsonObject, RawJson};
use tsugi_protocol::mcp::meta::RequestMeta;
use tsugi_protocol::mcp::{ClientCapabilities, Method};

use crate::outcome::notes_of;
use crate::world::{LIMIT, config, options};
use generate::{Ending, Exchange, exchange, object_text};
use mirror::{Kind, Mirror};

pub(super) fn object(text: &str) -> JsonObject {
    JsonObject::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
}

fn raw(text: &str) -> RawJson {
    RawJson::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
}

fn written(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The members of an object as they were written, but those with these keys.
fn members_but(object: &JsonObject, keys: &[&str]) -> Vec<String> {
    let others = object.members().iter().filter(|member| !keys.contains(&&*object.key(**member)));
    others.map(|member| written(object.written(*member))).collect()
}

/// The call as its caller makes it.
fn call(exchange: &Exchange) -> Call {
    let mut call = Call::new(Method::from(exchange.method), object(&object_text(exchange.params.clone())));
    call.meta = RequestMeta::of_client(Arc::new(own_profile(ClientCapabilities::all())));
    call.meta.rest = object(&object_text(exchange.meta.clone()));
    call.meta.progress_token = Some(RawJson::string("mine"));
    call
}

/// One exchange through a server of this kind.
async fn passes(kind: Kind, exchange: Exchange) {
    let mirror = Arc::new(Mirror::new(kind, exchange.clone()));
    let manager = Manager::new(options());
    let server = manager.register(config("mirror", mirror.target())).unwrap();
    server.ready(LIMIT).await.unwrap();
    the_tool_arrived(&server, &exchange);
    let (notes, outcome) = notes_of(server.answer(call(&exchange)), LIMIT).await.expect("the call ends");
    the_request_arrived(&mirror, &exchange);
    the_notes_arrived(&notes, &exchange);
    the_ending_arrived(kind, &outcome, &exchange);
    manager.stop().await;
}

fn the_tool_arrived(server: &Server, exchange: &Exchange) {
    let catalog = server.catalog().unwrap();
    let tool = catalog.tool("tool").expect("the tool is listed");
    assert_eq!(written(tool.object().bytes()), object_text(exchange.tool.clone()));
}

fn the_request_arrived(mirror: &Mirror, exchange: &Exchange) {
    let (params, meta) = mirror.received();
    assert_eq!(members_but(&params, &["_meta"]), exchange.params);
    let meta = members_but(&meta, &[]);
    for member in &exchange.meta {
        assert!(meta.contains(member), "{member} is not in {meta:?}");
    }
}

fn the_notes_arrived(notes: &[CallNote], exchange: &Exchange) {
    let expected: Vec<Vec<String>> = exchange.notes.clone();
    let found: Vec<Vec<String>> =
        notes.iter().map(|note| members_but(&note.params_object(), &["progressToken"])).collect();
    assert_eq!(found, expected);
}

fn the_ending_arrived(kind: Kind, outcome: &Outcome, exchange: &Exchange) {
    match (outcome, &exchange.ending) {
        (Outcome::Complete(complete), Ending::Result(members)) => {
            assert_eq!(written(complete.body.bytes()), object_text(kind.result(members)));
        }
        (Outcome::Failed(CallFailure::Upstream(error)), Ending::Error(members)) => {
            assert_eq!(error.raw(), raw(&object_text(members.clone())));
        }
        (outcome, ending) => panic!("{outcome:?} is not {ending:?}"),
    }
}

fn run(kind: Kind, exchange: Exchange) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(passes(kind, exchange));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn unknown_members_survive_to_and_from_a_legacy_server(exchange in exchange()) {
        run(Kind::Legacy, exchange);
    }

    #[test]
    fn unknown_members_survive_to_and_from_a_modern_server(exchange in exchange()) {
        run(Kind::Modern, exchange);
    }

    #[test]
    fn unknown_members_survive_to_and_from_a_server_without_a_wire(exchange in exchange()) {
        run(Kind::InProcess, exchange);
    }
}
