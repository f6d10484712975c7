//! The official Rust SDK signs in and calls: rmcp-sign-in URL WORD legacy|modern
//!
//! The address to open in a browser is printed as {"open": ADDRESS}; how the call went as {"said": TEXT}.

use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::auth::{AuthClient, AuthorizationRequest, OAuthState};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

struct Program {
    is_legacy: bool,
}

impl ClientHandler for Program {
    fn get_info(&self) -> ClientConfig {
        let mut config = ClientConfig::new(ClientCapabilities::default(), Implementation::new("rmcp", "3"));
        if self.is_legacy {
            config.protocol_version = ProtocolVersion::V_2025_11_25;
        }
        config
    }
}

/// Answers the browser that was redirected here, and gives the address that it asked for.
async fn redirected(listener: TcpListener, redirect: &str) -> String {
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line).await.expect("a request");
        let page = "<title>Signed in</title><h1>Signed in: this window may be closed</h1>";
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}",
            page.len()
        );
        stream.write_all(answer.as_bytes()).await.expect("an answer");
        let query = line.split_whitespace().nth(1).and_then(|path| path.split_once('?'));
        if let Some((_, query)) = query.filter(|(_, query)| query.contains("code=")) {
            return format!("{redirect}?{query}");
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, word, era] = arguments.as_slice() else { panic!("say URL WORD ERA") };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let redirect = format!("http://{}/callback", listener.local_addr().expect("an address"));
    let mut state = OAuthState::new(url.as_str(), None).await.expect("a state");
    let mut request = AuthorizationRequest::new(redirect.as_str());
    request.client_name = Some("tsugi sign-in test".to_owned());
    request.application_type = Some("native".to_owned());
    state.start_authorization(request).await.expect("a provider");
    let address = state.get_authorization_url().await.expect("an address");
    println!("{}", json!({"open": address}));
    let callback = redirected(listener, &redirect).await;
    state.handle_callback_url(&callback).await.expect("a token");
    let manager = state.into_authorization_manager().expect("a signed-in person");
    let client = AuthClient::new(reqwest::Client::default(), manager);
    let config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
    let transport = StreamableHttpClientTransport::with_client(client, config);
    let is_legacy = era == "legacy";
    let lifecycle = match is_legacy {
        true => ClientLifecycleMode::Initialize,
        false => ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] },
    };
    let service = Program { is_legacy }.serve_with_lifecycle(transport, lifecycle).await.expect("a connection");
    let params = json!({"name": "desk__echo", "arguments": {"message": word}});
    let result = service.call_tool(serde_json::from_value(params).expect("parameters")).await.expect("a result");
    let result = serde_json::to_value(&result).expect("a result is JSON");
    println!("{}", json!({"said": result["content"][0]["text"]}));
    service.cancel().await.expect("an end");
}
