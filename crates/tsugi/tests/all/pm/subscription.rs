//! Changes reach those who asked for them, in both eras, also when another process made them.

use serde_json::{Value, json};

use super::{Framing, Server, asked, modern, place};

/// Reads messages until one tells of this address.
fn hears(server: &mut Server, uri: &str) -> Value {
    loop {
        let message = server.receive();
        if message["method"] == "notifications/resources/updated" && message["params"]["uri"] == uri {
            return message;
        }
    }
}

#[test]
fn a_legacy_client_hears_of_what_another_process_did() {
    let folder = place();
    let mut server = Server::start(folder.path(), Framing::Lines);
    server.initialize();
    server.ask("resources/subscribe", json!({"uri": "task://WEB-1"}));
    asked(folder.path(), &["claim", "WEB-1", "--agent", "agt_b"]);
    hears(&mut server, "task://WEB-1");
    server.ask("resources/unsubscribe", json!({"uri": "task://WEB-1"}));
}

#[test]
fn a_modern_client_hears_of_what_another_process_did() {
    let folder = place();
    let mut server = Server::start(folder.path(), Framing::Lines);
    let board = asked(folder.path(), &["show", "WEB-1"])["task"]["project_id"].as_str().unwrap().to_owned();
    let uris = ["claim://WEB-1".to_owned(), format!("project://{board}/board")];
    let wish = json!({"notifications": {"resourceSubscriptions": uris}, "_meta": modern()});
    server.send(&json!({"jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen", "params": wish}));
    let acknowledged = server.receive();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged", "{acknowledged}");
    asked(folder.path(), &["claim", "WEB-1", "--agent", "agt_b"]);
    let mut open: Vec<&String> = uris.iter().collect();
    while !open.is_empty() {
        let message = server.receive();
        assert_eq!(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7, "{message}");
        open.retain(|uri| message["params"]["uri"] != **uri);
    }
}
