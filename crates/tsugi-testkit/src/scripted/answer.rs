//! What a well-behaved server answers, in both eras; scripts change it from there.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::message::{Body, Request, VERSION_KEY, error};
use super::tools;
use super::turn::Turn;
use crate::script::{Eras, Paging, Script};

const MODERN: &str = "2026-07-28";

/// Requests whose results carry cache hints in the modern form.
const CACHEABLE: [&str; 6] =
    ["server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"];

impl Turn {
    /// The answer; `None` when there will be none.
    pub(super) fn answer(&self) -> Option<Body> {
        if let Some(refusal) = self.refusal() {
            return Some(refusal);
        }
        Some(match self.request.method.as_str() {
            "initialize" => self.initialize(),
            "server/discover" => self.discover(),
            "ping" | "logging/setLevel" => self.result("".into()),
            "tools/list" => self.list_tools(),
            "tools/call" => return tools::call(self),
            "resources/list" => self.list("resources", &json!([{"uri": "test://text", "name": "text", "mimeType": "text/plain"}, {"uri": "test://blob", "name": "blob"}])),
            "resources/templates/list" => self.list("resourceTemplates", &json!([{"uriTemplate": "test://item/{id}", "name": "item"}])),
            "resources/read" => self.read(),
            "resources/subscribe" => self.watch(true),
            "resources/unsubscribe" => self.watch(false),
            "prompts/list" => self.list("prompts", &json!([{"name": "greet", "arguments": [{"name": "name", "required": true}]}])),
            "prompts/get" => self.prompt(),
            "completion/complete" => self.complete(),
            "subscriptions/listen" => return self.listen(),
            other => error(-32601, &format!("Method not found: {other}")),
        })
    }

    fn script(&self) -> &Script {
        &self.server.script
    }

    /// True when this turn is served as the modern era serves.
    pub(super) fn is_modern(&self) -> bool {
        self.request.is_modern() && self.script().era != Eras::Legacy
    }

    /// Why the request cannot be answered in its era.
    fn refusal(&self) -> Option<Body> {
        let method = self.request.method.as_str();
        if self.is_modern() {
            let asked = self.request.meta(VERSION_KEY);
            let legacy_only = matches!(
                method,
                "initialize" | "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe"
            );
            return match asked == Some(&json!(MODERN)) {
                false => Some(unsupported(asked)),
                true => legacy_only.then(|| error(-32601, &format!("Method not found: {method}"))),
            };
        }
        if self.script().era == Eras::Modern {
            return Some(error(-32602, "every request must carry _meta; protocol versions spoken here: 2026-07-28"));
        }
        let is_early = self.session.client.lock().version.is_none() && !matches!(method, "initialize" | "ping");
        if is_early && self.script().needs_initialize {
            return Some(error(-32602, "Invalid request parameters"));
        }
        matches!(method, "server/discover" | "subscriptions/listen")
            .then(|| error(-32601, &format!("Method not found: {method}")))
    }

    /// A result with these members, dressed for its era.
    pub(super) fn result(&self, members: String) -> Body {
        if !self.is_modern() {
            return Body::Result(format!("{{{members}}}"));
        }
        let info = json!({"io.modelcontextprotocol/serverInfo": self.info()});
        let hints = match CACHEABLE.contains(&self.request.method.as_str()) {
            true => r#","ttlMs":0,"cacheScope":"private""#,
            false => "",
        };
        let comma = if members.is_empty() { "" } else { "," };
        Body::Result(format!(r#"{{"resultType":"complete","_meta":{info}{hints}{comma}{members}}}"#))
    }

    fn info(&self) -> Value {
        let version = self.script().version.clone().unwrap_or_else(|| self.server.launch.to_string());
        json!({"name": self.script().name, "version": version})
    }

    fn capabilities(&self) -> Value {
        self.script().claims_capabilities.clone().unwrap_or_else(|| {
            json!({"tools": {"listChanged": true}, "resources": {"listChanged": true, "subscribe": true},
                   "prompts": {"listChanged": true}, "completions": {}, "logging": {}})
        })
    }

    fn initialize(&self) -> Body {
        let params = &self.request.params;
        let versions = &self.script().versions;
        let asked = params["protocolVersion"].as_str().filter(|asked| versions.iter().any(|known| known == asked));
        let version = asked.or(versions.last().map(String::as_str)).unwrap_or(MODERN).to_owned();
        let mut client = self.session.client.lock();
        client.version = Some(version.clone());
        client.capabilities = params["capabilities"].clone();
        let claimed = self.script().claims_version.clone().unwrap_or(version);
        Body::Result(json!({"protocolVersion": claimed, "capabilities": self.capabilities(), "serverInfo": self.info(), "instructions": "Be kind."}).to_string())
    }

    fn discover(&self) -> Body {
        let claimed = self.script().claims_version.clone().unwrap_or_else(|| MODERN.into());
        self.result(format!(
            r#""supportedVersions":[{}],"capabilities":{},"instructions":"Be kind.""#,
            json!(claimed),
            self.capabilities()
        ))
    }

    pub(super) fn list(&self, key: &str, entries: &Value) -> Body {
        self.result(format!(r#""{key}":{entries}"#))
    }

    fn list_tools(&self) -> Body {
        let script = self.script();
        let has_extra = self.server.has_extra.load(Ordering::Acquire);
        let mut entries: Vec<String> =
            tools::described(&script.tools, has_extra).iter().map(Value::to_string).collect();
        entries.extend((0..script.extra_tools).map(|number| generated(&format!("tool_{number}"))));
        let cursor = self.request.params["cursor"].as_str();
        match script.paging {
            Paging::Honest => self.honest_page(&entries, cursor),
            Paging::Loop => self.page(&entries, Some(if cursor == Some("a") { "b" } else { "a" })),
            Paging::Endless => {
                let page: u64 = cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
                self.page(&[generated(&format!("page_{page}"))], Some(&(page + 1).to_string()))
            }
        }
    }

    fn honest_page(&self, entries: &[String], cursor: Option<&str>) -> Body {
        let start = match cursor.map(str::parse::<usize>) {
            None => 0,
            Some(Ok(start)) if start <= entries.len() => start,
            Some(_) => return error(-32602, "unknown cursor"),
        };
        let size = if self.script().page_size == 0 { entries.len() } else { self.script().page_size };
        let end = entries.len().min(start + size);
        let next = (end < entries.len()).then(|| end.to_string());
        self.page(&entries[start..end], next.as_deref())
    }

    fn page(&self, entries: &[String], next: Option<&str>) -> Body {
        let next = next.map(|next| format!(r#","nextCursor":{}"#, json!(next))).unwrap_or_default();
        self.result(format!(r#""tools":[{}]{next}"#, entries.join(",")))
    }

    fn read(&self) -> Body {
        let uri = self.request.params["uri"].as_str().unwrap_or_default();
        let contents = match uri {
            "test://text" => json!([{"uri": uri, "mimeType": "text/plain", "text": "some text"}]),
            "test://blob" => json!([{"uri": uri, "mimeType": "application/octet-stream", "blob": "AAEC"}]),
            _ if uri.starts_with("test://item/") => json!([{"uri": uri, "text": &uri[12..]}]),
            _ => {
                let code = if self.is_modern() { -32602 } else { -32002 };
                return Body::Error(json!({"code": code, "message": "Resource not found", "data": {"uri": uri}}));
            }
        };
        self.list("contents", &contents)
    }

    fn watch(&self, is_watched: bool) -> Body {
        let uri = self.request.params["uri"].as_str().unwrap_or_default().to_owned();
        let watched = &mut self.session.client.lock().watched;
        if is_watched {
            watched.insert(uri)
        } else {
            watched.remove(&uri)
        };
        self.result("".into())
    }

    fn prompt(&self) -> Body {
        let Request { params, .. } = &self.request;
        match (params["name"].as_str(), params["arguments"]["name"].as_str()) {
            (Some("greet"), Some(name)) => {
                let messages = json!([{"role": "user", "content": {"type": "text", "text": format!("Greet {name}.")}}]);
                self.list("messages", &messages)
            }
            (Some("greet"), None) => error(-32602, "the argument `name` is missing"),
            _ => error(-32602, "unknown prompt"),
        }
    }

    fn complete(&self) -> Body {
        let typed = self.request.params["argument"]["value"].as_str().unwrap_or_default();
        let values: Vec<&str> =
            ["alpha", "beta", "gamma"].into_iter().filter(|value| value.starts_with(typed)).collect();
        self.result(format!(r#""completion":{}"#, json!({"values": values, "total": values.len(), "hasMore": false})))
    }

    /// Opens a subscription. The answer only comes when the server ends it, which this one never does.
    fn listen(&self) -> Option<Body> {
        let filter = self.request.params["notifications"].clone();
        if !filter.is_object() {
            return Some(error(-32602, "`notifications` is missing"));
        }
        self.server.listen(&self.request.id, filter, self.voice.clone());
        None
    }
}

fn generated(name: &str) -> String {
    format!(r#"{{"name":"{name}","description":"One of very many.","inputSchema":{{"type":"object"}}}}"#)
}

fn unsupported(asked: Option<&Value>) -> Body {
    let data = json!({"supported": [MODERN], "requested": asked});
    Body::Error(json!({"code": -32022, "message": "Unsupported protocol version", "data": data}))
}
