//! A remote MCP server behind OAuth and its provider, on one loopback port, with everything that they were asked.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tsugi_testkit::fake::{Fake, Recorded, Steps, reply};

/// What every token of this provider holds, to search for it where it must not be.
pub(crate) const CANARY: &str = "c4nary-0f-a-t0ken";

#[derive(Default)]
struct ProviderState {
    issued: usize,
    /// Access tokens that the server takes.
    valid: HashSet<String>,
    /// The one refresh token that the provider takes: each is good for one use.
    refresh: Option<String>,
    /// Refresh tokens that came a second time.
    reused: usize,
    /// Changes the metadata before it is served.
    metadata: Option<fn(&mut Value)>,
    resource: Option<fn(&mut Value)>,
    /// Answers that the token endpoint gives instead of its own.
    token_answers: Vec<Steps>,
    is_device_approved: bool,
    calls: usize,
}

/// Both, for as long as this is kept.
pub(crate) struct Provider {
    pub(crate) fake: Fake,
    state: Arc<Mutex<ProviderState>>,
}

impl Provider {
    pub(crate) fn start() -> Self {
        let state: Arc<Mutex<ProviderState>> = Arc::default();
        let shared = state.clone();
        let fake = Fake::start(move |request| shared.lock().unwrap().answer(request));
        Self { fake, state }
    }

    pub(crate) fn url(&self) -> String {
        self.fake.url()
    }

    /// A configuration with the server `remote`.
    pub(crate) fn config(&self) -> String {
        json!({"servers": [{"name": "remote", "url": self.url()}], "outbound": {"insecureLoopback": true}}).to_string()
    }

    /// From now on the server takes none of the access tokens that were given.
    pub(crate) fn expire(&self) {
        self.state.lock().unwrap().valid.clear();
    }

    /// From now on the provider takes no token that it gave.
    pub(crate) fn revoke(&self) {
        let mut state = self.state.lock().unwrap();
        state.valid.clear();
        state.refresh = None;
    }

    pub(crate) fn change_resource(&self, change: fn(&mut Value)) {
        self.state.lock().unwrap().resource = Some(change);
    }

    pub(crate) fn change_metadata(&self, change: fn(&mut Value)) {
        self.state.lock().unwrap().metadata = Some(change);
    }

    /// The token endpoint does this once, before it goes on as usual.
    pub(crate) fn answer_token_once(&self, steps: Steps) {
        self.state.lock().unwrap().token_answers.push(steps);
    }

    pub(crate) fn forget_answers(&self) {
        self.state.lock().unwrap().token_answers.clear();
    }

    pub(crate) fn approve_device(&self) {
        self.state.lock().unwrap().is_device_approved = true;
    }

    /// How many tool calls reached the server.
    pub(crate) fn calls(&self) -> usize {
        self.state.lock().unwrap().calls
    }

    /// How many refresh tokens came twice.
    pub(crate) fn reused(&self) -> usize {
        self.state.lock().unwrap().reused
    }

    pub(crate) fn requests_to(&self, path: &str) -> Vec<Recorded> {
        self.fake.recorded().into_iter().filter(|request| request.path == path).collect()
    }

    /// The forms that reached the token endpoint with this grant.
    pub(crate) fn grants(&self, kind: &str) -> Vec<HashMap<String, String>> {
        let forms = self.requests_to("/token").into_iter().map(|request| form(&request));
        forms.filter(|form| form["grant_type"] == kind).collect()
    }
}

fn form(request: &Recorded) -> HashMap<String, String> {
    url::form_urlencoded::parse(&request.body).into_owned().collect()
}

impl ProviderState {
    fn answer(&mut self, request: &Recorded) -> Steps {
        let origin = format!("http://{}", request.header("host").unwrap_or_default());
        match request.path.as_str() {
            "/.well-known/oauth-protected-resource/mcp" => {
                let mut document = json!({
                    "resource": format!("{origin}/mcp"), "authorization_servers": [origin], "scopes_supported": ["mcp"],
                });
                if let Some(change) = self.resource {
                    change(&mut document);
                }
                reply::json(&document.to_string())
            }
            "/.well-known/oauth-authorization-server" => {
                let mut document = json!({
                    "issuer": origin, "authorization_endpoint": format!("{origin}/authorize"),
                    "token_endpoint": format!("{origin}/token"), "registration_endpoint": format!("{origin}/register"),
                    "revocation_endpoint": format!("{origin}/revoke"),
                    "device_authorization_endpoint": format!("{origin}/device"),
                    "code_challenge_methods_supported": ["S256"],
                    "token_endpoint_auth_methods_supported": ["none"],
                    "authorization_response_iss_parameter_supported": true,
                });
                if let Some(change) = self.metadata {
                    change(&mut document);
                }
                reply::json(&document.to_string())
            }
            "/register" => reply::status(
                201,
                &[("Content-Type", "application/json")],
                &json!({"client_id": "registered", "token_endpoint_auth_method": "none"}).to_string(),
            ),
            "/device" => reply::json(
                &json!({"device_code": "d3vice", "user_code": "ABCD-EFGH", "verification_uri": format!("{origin}/go"),
                        "expires_in": 60, "interval": 1})
                .to_string(),
            ),
            "/token" => self.token(&form(request)),
            "/revoke" => {
                self.valid.clear();
                self.refresh = None;
                reply::status(200, &[], "")
            }
            "/mcp" => self.mcp(request, &origin),
            _ => reply::status(404, &[], ""),
        }
    }

    fn token(&mut self, form: &HashMap<String, String>) -> Steps {
        let answer =
            |status, body: Value| reply::status(status, &[("Content-Type", "application/json")], &body.to_string());
        if !self.token_answers.is_empty() {
            return self.token_answers.remove(0);
        }
        let refused = |code: &str| answer(400, json!({"error": code}));
        match form["grant_type"].as_str() {
            "authorization_code" if form.get("code").map(String::as_str) != Some("c0de") => {
                return refused("invalid_grant");
            }
            "refresh_token" if self.refresh.is_none() || form.get("refresh_token") != self.refresh.as_ref() => {
                self.reused += usize::from(self.refresh.is_some());
                return refused("invalid_grant");
            }
            grant if grant.ends_with("device_code") && !self.is_device_approved => {
                return refused("authorization_pending");
            }
            _ => {}
        }
        self.issued += 1;
        let access = format!("{CANARY}-access-{}", self.issued);
        let refresh = format!("{CANARY}-refresh-{}", self.issued);
        self.valid.insert(access.clone());
        self.refresh = Some(refresh.clone());
        let body =
            json!({"access_token": access, "token_type": "Bearer", "expires_in": 3600, "refresh_token": refresh});
        answer(200, body)
    }

    fn mcp(&mut self, request: &Recorded, origin: &str) -> Steps {
        let token = request.header("authorization").and_then(|text| text.strip_prefix("Bearer "));
        if !token.is_some_and(|token| self.valid.contains(token)) {
            let metadata = format!("{origin}/.well-known/oauth-protected-resource/mcp");
            let challenge = format!("Bearer resource_metadata=\"{metadata}\", scope=\"mcp\"");
            return reply::status(401, &[("WWW-Authenticate", &challenge)], "");
        }
        let message = request.json();
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "protected", "version": "1"},
            }),
            "tools/list" => json!({"tools": [{"name": "touch", "inputSchema": {"type": "object"}}]}),
            "tools/call" => {
                self.calls += 1;
                json!({"content": [{"type": "text", "text": "touched"}]})
            }
            "ping" => json!({}),
            method if method.starts_with("notifications/") => return reply::status(202, &[], ""),
            _ => {
                let error = json!({"code": -32601, "message": "unknown method"});
                return reply::json(&json!({"jsonrpc": "2.0", "id": message["id"], "error": error}).to_string());
            }
        };
        reply::json(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string())
    }
}
