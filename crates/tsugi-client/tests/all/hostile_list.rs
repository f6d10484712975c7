//! A tool whose schema is nested without end costs that tool, and neither its neighbours nor anybody's time.

use serde_json::json;
use tsugi_client::{ConnectTarget, Manager, Server};
use tsugi_process::JobCommand;
use tsugi_protocol::answer::{Answer, FaultCode};

use crate::outcome::{fault, text};
use crate::world::{LIMIT, call, config, options};

/// A legacy server in a few lines of shell: the scripted one reads its script as JSON, which cannot be that deep.
/// It writes with spaces, as Python does, so that answers are not recognised by how they begin.
fn server(manager: &Manager, list: &str) -> Server {
    let script = r#"
        say() { printf '{"jsonrpc": "2.0", "id": %s, "result": %s}\n' "$id" "$1"; }
        while read -r line; do
            id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
            case "$line" in
                *'"initialize"'*) say '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}' ;;
                *'"tools/list"'*) say "$LIST" ;;
                *'"tools/call"'*) say '{"content":[{"type":"text","text":"called"}]}' ;;
                *'"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
            esac
        done"#;
    let command = JobCommand::new("sh").arg("-c").arg(script).env("LIST", list);
    manager.register(config("hostile", ConnectTarget::stdio(command))).unwrap()
}

fn deep(levels: usize) -> String {
    format!("{}1{}", r#"{"properties":{"a":"#.repeat(levels), "}}".repeat(levels))
}

#[tokio::test]
async fn a_tool_that_is_nested_too_deeply_is_left_out_with_a_reason_and_the_others_stay() {
    let manager = Manager::new(options());
    let list = format!(
        r#"{{"tools":[{{"name":"good","inputSchema":{{"type":"object","required":["n"]}}}},{{"name":"bad","inputSchema":{}}}]}}"#,
        deep(200)
    );
    let server = server(&manager, &list);
    let catalog = server.ready(LIMIT).await.unwrap();
    assert_eq!(catalog.tools.items.iter().map(|tool| tool.name()).collect::<Vec<_>>(), ["good"]);
    assert_eq!(catalog.tools.left_out[0].name, "bad");
    assert!(catalog.tools.left_out[0].reason.contains("levels deep"), "{:?}", catalog.tools.left_out);
    assert_eq!(text(&server.answer(call("good", json!({"n": 1}))).outcome().await), "called");
    assert_eq!(fault(&server.answer(call("good", json!({}))).outcome().await).code, FaultCode::InvalidParams);
    let refused = fault(&server.answer(call("bad", json!({}))).outcome().await);
    assert_eq!(refused.code, FaultCode::CannotExecute, "{refused}");
    assert!(refused.message.contains("levels deep"), "{refused}");
    assert_eq!(server.unusable_tools()[0].name, "bad");
}

#[tokio::test]
async fn a_list_that_is_too_deep_elsewhere_fails_at_once_and_says_so() {
    let manager = Manager::new(options());
    let server = server(&manager, &format!(r#"{{"tools":[],"more":{}}}"#, deep(200)));
    let catalog = server.ready(LIMIT).await.unwrap();
    let failed = catalog.faults().next().expect("the list cannot be read");
    assert_eq!(failed.code, FaultCode::InvalidResponse);
    assert!(failed.message.contains("nested too deeply"), "{failed}");
}
