//! Prompts and resources of all servers: rendered and read by name or address, as text that an agent can use.

use serde::Serialize;
use serde_json::{Map, Value, json};
use tsugi_protocol::answer::{Answer, Call, CallFailure, Fault, FaultCode, Outcome};
use tsugi_protocol::json::{JsonObject, RawJson};
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::meta::RequestMeta;

use super::Manager;
use crate::catalog::Catalog;
use crate::not_found;
use crate::result::code_of_rpc;
use crate::server::Server;

/// What a resource holds.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ResourceReadResult {
    /// The result as the server wrote it.
    pub raw: JsonObject,
}

impl ResourceReadResult {
    /// The text of all its parts, one after the other; `None` when it has none, as an image.
    pub fn text(&self) -> Option<String> {
        let texts: Vec<String> =
            self.contents().iter().filter_map(|part| Some(part["text"].as_str()?.to_owned())).collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }

    /// Its parts, each with `uri`, perhaps `mimeType`, and `text` or `blob`.
    pub fn contents(&self) -> Vec<Value> {
        self.raw.get("contents").and_then(|contents| contents.to_lossy().ok()).unwrap_or_default()
    }
}

impl Manager {
    /// Renders a prompt and returns the text of its messages, with a blank line between two. Arguments that are not
    /// strings are sent as their JSON text, since MCP knows only strings here. `server` may be left out when only one
    /// server has the prompt.
    pub async fn execute_prompt<T: Serialize + ?Sized>(
        &self,
        server: Option<&str>,
        prompt: &str,
        arguments: &T,
    ) -> Result<String, Fault> {
        let arguments = prompt_arguments(prompt, arguments)?;
        let server = self.find_prompt(server, prompt).await?;
        let params = json!({"name": prompt, "arguments": arguments});
        let result = self.ask(&server, Method::PromptsGet, params).await?;
        Ok(message_text(&result))
    }

    /// Reads a resource. `server` may be left out: the server that lists the address or a template for it is asked, or
    /// the only server that has resources at all.
    pub async fn read_resource(&self, server: Option<&str>, uri: &str) -> Result<ResourceReadResult, Fault> {
        let server = self.find_resource(server, uri).await?;
        let raw = self.ask(&server, Method::ResourcesRead, json!({"uri": uri})).await?;
        Ok(ResourceReadResult { raw })
    }

    async fn find_prompt(&self, server: Option<&str>, prompt: &str) -> Result<Server, Fault> {
        if let Some(name) = server {
            return self.server(name).ok_or_else(|| self.no_server(name));
        }
        let has = |catalog: &Catalog| catalog.prompts.items.iter().any(|known| known.name() == prompt);
        let mut found = self.find_with(has).await;
        match found.len() {
            1 => Ok(found.remove(0)),
            0 => Err(not_found::prompt(prompt)),
            _ => {
                let names: Vec<&str> = found.iter().map(Server::name).collect();
                Err(not_found::ambiguous("prompt", prompt, &names))
            }
        }
    }

    async fn find_resource(&self, server: Option<&str>, uri: &str) -> Result<Server, Fault> {
        if let Some(name) = server {
            return self.server(name).ok_or_else(|| self.no_server(name));
        }
        let lists = |catalog: &Catalog| catalog.resources.items.iter().any(|known| known.uri() == uri);
        let fits = |catalog: &Catalog| catalog.templates.items.iter().any(|known| could_make(known.uri(), uri));
        let mut found = self.find_with(|catalog| lists(catalog) || fits(catalog)).await;
        // An address that is listed word for word is surer than a template that fits many.
        found.sort_by_key(|server| !server.catalog().is_some_and(|catalog| lists(&catalog)));
        if found.is_empty() {
            found = self.find_with(|catalog| catalog.identity.capabilities.has("resources")).await;
            // With several candidates, guessing would send the address to the wrong server.
            found.truncate(if found.len() == 1 { 1 } else { 0 });
        }
        found.into_iter().next().ok_or_else(|| not_found::resource(uri))
    }

    /// Makes a call as this client and returns its result.
    async fn ask(&self, server: &Server, method: Method, params: Value) -> Result<JsonObject, Fault> {
        let mut call = Call::new(method, JsonObject::from(params));
        call.meta = RequestMeta::of_client(self.options().profile.clone());
        let fault = |code, message: String| Fault::new(code, message).on_server(server.name());
        match server.answer(call).outcome().await {
            Outcome::Complete(complete) => Ok(complete.body),
            Outcome::Failed(CallFailure::Fault(fault)) => Err(*fault),
            Outcome::Failed(CallFailure::Upstream(error)) => {
                Err(fault(code_of_rpc(&error), error.message()).with_details(RawJson::from(error.details())))
            }
            Outcome::InputRequired(_) => Err(fault(FaultCode::InputRequired, "the server asks for input".to_owned())),
        }
    }
}

/// Arguments as an object of strings.
fn prompt_arguments<T: Serialize + ?Sized>(prompt: &str, arguments: &T) -> Result<Map<String, Value>, Fault> {
    let invalid = |problem: &str| {
        let message = format!("the arguments for {prompt:?} cannot be sent: {problem}");
        Fault::new(FaultCode::InvalidParams, message).with_hint("give an object with a name for each argument")
    };
    let text = |value: Value| match value {
        Value::String(text) => Value::String(text),
        // A number stays as it was written, and `true` is "true".
        other => Value::String(other.to_string()),
    };
    match serde_json::to_value(arguments).map_err(|error| invalid(&error.to_string()))? {
        Value::Null => Ok(Map::new()),
        Value::Object(members) => Ok(members.into_iter().map(|(name, value)| (name, text(value))).collect()),
        _ => Err(invalid("they are not an object")),
    }
}

/// The text of a prompt's messages.
fn message_text(result: &JsonObject) -> String {
    let messages: Vec<Value> = result.get("messages").and_then(|list| list.to_lossy().ok()).unwrap_or_default();
    let of_block = |block: &Value| Some(block["text"].as_str().or(block["resource"]["text"].as_str())?.to_owned());
    let of_message = |message: &Value| match &message["content"] {
        Value::Array(blocks) => blocks.iter().filter_map(of_block).collect::<Vec<_>>().join("\n"),
        block => of_block(block).unwrap_or_default(),
    };
    messages.iter().map(of_message).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
}

/// Whether a template could make this address: its literal parts occur in order.
fn could_make(template: &str, uri: &str) -> bool {
    let mut rest = uri;
    let mut literals = template.split('{').map(|part| part.split_once('}').map_or(part, |(_, literal)| literal));
    let Some(mut rest_after) = literals.next().and_then(|first| rest.strip_prefix(first)) else { return false };
    for literal in literals {
        rest = rest_after;
        match rest.find(literal) {
            Some(at) => rest_after = &rest[at + literal.len()..],
            None => return false,
        }
    }
    // A template that ends with a variable takes everything that is left.
    template.ends_with('}') || rest_after.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConnectTarget, ManagerOptions, ServerConfig};
    use std::sync::Arc;
    use tsugi_protocol::answer::Reply;

    /// A server with a prompt, a resource and a template.
    struct Library;

    impl Answer for Library {
        fn answer(&self, call: Call) -> Reply {
            let result = match call.method {
                Method::Discover => json!({"supportedVersions": ["2026-07-28"],
                    "capabilities": {"prompts": {}, "resources": {}}}),
                Method::PromptsList => json!({"prompts": [{"name": "greet", "arguments": [{"name": "name"}]}]}),
                Method::ResourcesList => json!({"resources": [{"uri": "book://1", "name": "one"}]}),
                Method::TemplatesList => {
                    json!({"resourceTemplates": [{"uriTemplate": "page://{book}/{n}", "name": "p"}]})
                }
                Method::PromptsGet => {
                    let params: Value = call.params.raw().to().unwrap();
                    let text = format!("Hello {}, {}", params["arguments"]["name"], params["arguments"]["times"]);
                    json!({"messages": [{"role": "user", "content": {"type": "text", "text": text}},
                        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image", "data": ""}]}]})
                }
                Method::ResourcesRead => {
                    let uri = call.params.get_str("uri").unwrap().into_owned();
                    json!({"contents": [{"uri": uri, "text": "first"}, {"uri": uri, "text": "second"}]})
                }
                _ => json!({}),
            };
            Reply::ready(Outcome::complete(JsonObject::from(result)))
        }
    }

    fn manager() -> Manager {
        let manager = Manager::new(ManagerOptions::default());
        manager.register(ServerConfig::new("library", ConnectTarget::InProcess(Arc::new(Library)))).unwrap();
        manager
    }

    #[tokio::test]
    async fn a_prompt_is_rendered_to_the_text_of_its_messages_and_its_arguments_are_strings() {
        let manager = manager();
        let text = manager.execute_prompt(None, "greet", &json!({"name": "Ada", "times": 2})).await.unwrap();
        assert_eq!(text, "Hello \"Ada\", \"2\"\n\na");
        let unknown = manager.execute_prompt(None, "nope", &json!({})).await.unwrap_err();
        assert!(unknown.message.contains("nope"), "{unknown}");
        let list = manager.execute_prompt(None, "greet", &json!([1])).await.unwrap_err();
        assert_eq!(list.code, FaultCode::InvalidParams);
        manager.stop().await;
    }

    #[tokio::test]
    async fn a_resource_is_read_from_the_server_that_lists_it_or_has_a_template_for_it() {
        let manager = manager();
        for uri in ["book://1", "page://2/7"] {
            let contents = manager.read_resource(None, uri).await.unwrap();
            assert_eq!(contents.text().as_deref(), Some("first\nsecond"));
            assert_eq!(contents.contents()[0]["uri"], uri);
        }
        let missing = manager.read_resource(Some("nowhere"), "book://1").await.unwrap_err();
        assert_eq!(missing.code, FaultCode::ServerNotFound);
        manager.stop().await;
    }

    #[test]
    fn a_template_makes_addresses_with_its_literal_parts_in_order() {
        assert!(could_make("page://{book}/{n}", "page://2/7") && could_make("x://{a}", "x://anything/at/all"));
        assert!(could_make("x://{a}.txt", "x://a.txt") && could_make("x://fixed", "x://fixed"));
        assert!(!could_make("x://{a}.txt", "x://a.md") && !could_make("x://fixed", "x://fixed/more"));
        assert!(!could_make("page://{book}/{n}", "page://2"));
    }
}
