//! Every feature through a gateway in front of a legacy and a modern server, reported as `interop/clients/run.py` reads it.

use std::time::Duration;

use rmcp::model::{ClientRequest, Request};
use rmcp::service::PeerRequestOptions;
use serde_json::{Value, json};

use crate::client::{Client, Era, typed, value};

/// How long a feature may take.
const LIMIT: Duration = Duration::from_secs(30);

/// Tries all of them; the first that fails ends the program with its reason.
pub(crate) async fn try_all(url: &str, era: Era) {
    let mut client = Client::of_url(url, era).await;
    for feature in ["list", "call", "read", "get", "progress", "elicit", "cancel"] {
        for server in ["old", "new"] {
            tokio::time::timeout(LIMIT, attempt(&mut client, feature, server)).await.expect("it hangs");
        }
        println!("{}", json!({"feature": feature}));
    }
    client.service.cancel().await.unwrap();
}

async fn attempt(client: &mut Client, feature: &str, server: &str) {
    match feature {
        "list" => list(client, server).await,
        "call" => {
            let said = client.said(&format!("{server}__echo"), json!({"message": "hi"})).await;
            assert_eq!(said, "hi");
        }
        "read" => {
            let uri = json!({"uri": format!("{server}://text")});
            let read = value(&client.service.read_resource(typed(uri)).await.unwrap());
            assert_eq!(read["contents"][0]["text"], format!("some {server} text"));
        }
        "get" => {
            let prompt = json!({"name": format!("{server}__greet"), "arguments": {"name": "Ann"}});
            let got = value(&client.service.get_prompt(typed(prompt)).await.unwrap());
            assert_eq!(got["messages"][0]["content"]["text"], "Greet Ann.");
        }
        "progress" => progress(client, server).await,
        "elicit" => assert_eq!(client.said(&format!("{server}__ask"), json!({})).await, "hello Ann"),
        "cancel" => cancel(client, server).await,
        other => panic!("nobody knows {other}"),
    }
}

async fn list(client: &Client, server: &str) {
    let has = |list: Value, key: &str, wanted: String| {
        assert!(list.as_array().unwrap().iter().any(|item| item[key] == wanted), "no {wanted} in {list}");
    };
    has(value(&client.service.list_all_tools().await.unwrap()), "name", format!("{server}__echo"));
    has(value(&client.service.list_all_resources().await.unwrap()), "uri", format!("{server}://text"));
    has(value(&client.service.list_all_prompts().await.unwrap()), "name", format!("{server}__greet"));
}

async fn progress(client: &mut Client, server: &str) {
    assert_eq!(client.said(&format!("{server}__count"), json!({"steps": 3})).await, "done");
    for step in 1..=3 {
        let heard = client.progress.recv().await.unwrap();
        assert_eq!((heard.progress, heard.total), (f64::from(step), Some(3.0)));
    }
}

/// A call that has begun is given up, and the server hears of it.
async fn cancel(client: &mut Client, server: &str) {
    let given_up = format!("{server}__given_up");
    let before = client.said(&given_up, json!({})).await;
    let params = typed(json!({"name": format!("{server}__wait"), "arguments": {}}));
    let request = ClientRequest::CallToolRequest(Request::new(params));
    let peer = client.service.peer();
    let handle = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await.unwrap();
    let begun = client.progress.recv().await.unwrap();
    assert_eq!(begun.progress_token, handle.progress_token);
    handle.cancel(Some("enough".to_owned())).await.unwrap();
    while client.said(&given_up, json!({})).await == before {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
