//! Pages of tools (MCP Apps) and other addresses with a scheme of their own: each names its server wherever it is shown
//! ([MCP Apps](https://modelcontextprotocol.io/extensions/apps/overview)).

use tsugi_client::Server;
use tsugi_protocol::answer::{Call, CompletedResult, Outcome, Reply};
use tsugi_protocol::json::{JsonObject, ObjectWriter, RawJson};
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::extension::{APPS, SKILLS};

use super::extension::ServerExtensions;
use super::resource::keep_scheme;
use super::{Hub, task};

/// Where a tool names its page, in the form of drafts.
const FLAT_PAGE: &str = "ui/resourceUri";

/// The page that a tool is shown with.
pub(super) fn page_of(tool: &JsonObject) -> Option<String> {
    let meta = tool.get_object("_meta")?;
    let nested = meta.get_object("ui").and_then(|ui| ui.get_lossy("resourceUri"));
    nested.or_else(|| meta.get_lossy(FLAT_PAGE))
}

/// The same tool with the public address of its page. One without a page is not copied.
pub(super) fn with_public_page(tool: RawJson, server: &str) -> RawJson {
    let Some(object) = JsonObject::of(&tool) else { return tool };
    if page_of(&object).is_none() {
        return tool;
    }
    replaced(&object, "_meta", |meta| {
        let meta = JsonObject::of(meta)?;
        let meta = replaced_object(&meta, "ui", |ui| {
            Some(replaced(&JsonObject::of(ui)?, "resourceUri", |uri| public_address(server, uri)))
        });
        Some(replaced(&meta, FLAT_PAGE, |uri| public_address(server, uri)))
    })
}

fn public_address(server: &str, uri: &RawJson) -> Option<RawJson> {
    Some(RawJson::string(&keep_scheme(server, &uri.as_string()?)?))
}

/// The object with another value under a key, in its place, where `change` has one.
pub(super) fn replaced(object: &JsonObject, key: &str, change: impl Fn(&RawJson) -> Option<RawJson>) -> RawJson {
    replaced_object(object, key, change).raw()
}

fn replaced_object(object: &JsonObject, key: &str, change: impl Fn(&RawJson) -> Option<RawJson>) -> JsonObject {
    let Some(value) = object.get(key).and_then(|value| change(&value)) else { return object.clone() };
    let mut written = ObjectWriter::with_capacity(object.bytes().len() + 64);
    for member in object.members() {
        let own = object.key(*member);
        match own == key {
            true => written.raw(&own, &value),
            false => written.raw(&own, &object.value(*member)),
        };
    }
    written.finish_object()
}

/// An array with each item changed, where `change` has another.
pub(super) fn each(items: &RawJson, change: impl Fn(&JsonObject) -> RawJson) -> Option<RawJson> {
    let items = items.items()?;
    let changed: Vec<RawJson> =
        items.iter().map(|item| JsonObject::of(item).map_or_else(|| item.clone(), |object| change(&object))).collect();
    Some(RawJson::array(&changed))
}

/// The same object with the public address of its server's under `uri`.
pub(super) fn with_public_uri(object: &JsonObject, server: &str) -> RawJson {
    replaced(object, "uri", |uri| public_address(server, uri))
}

/// Changes the addresses in a server's results to those that callers can read.
pub(super) struct AddressEdit {
    server: String,
}

impl AddressEdit {
    /// For a call whose result may hold addresses of a kept scheme.
    pub(super) fn of_call(
        hub: &Hub,
        server: &Server,
        extensions: Option<&ServerExtensions>,
        call: &Call,
        asked: Option<&str>,
    ) -> Option<Self> {
        let has_pages = || extensions.is_some_and(|all| all.has(APPS) || all.has(SKILLS));
        let is_meant = match call.method {
            Method::ToolsCall => has_pages(),
            Method::ResourcesRead => asked.is_some_and(|uri| keep_scheme("", uri).is_some()),
            _ => false,
        };
        (is_meant && hub.snapshot().has_several_servers()).then(|| Self { server: server.name().to_owned() })
    }

    pub(super) fn apply(self, reply: Reply) -> Reply {
        task::edited(reply, move |outcome| match outcome {
            Outcome::Complete(complete) => {
                let body = self.edit(&complete.body);
                Outcome::Complete(CompletedResult { body, ..complete })
            }
            other => other,
        })
    }

    fn edit(&self, body: &JsonObject) -> JsonObject {
        let body = replaced_object(body, "content", |blocks| each(blocks, |block| self.block(block)));
        replaced_object(&body, "contents", |contents| each(contents, |content| with_public_uri(content, &self.server)))
    }

    /// A block of content: a link to a resource, or one that is embedded.
    fn block(&self, block: &JsonObject) -> RawJson {
        match block.get_str("type").as_deref() {
            Some("resource_link") => with_public_uri(block, &self.server),
            Some("resource") => {
                replaced(block, "resource", |inner| Some(with_public_uri(&JsonObject::of(inner)?, &self.server)))
            }
            _ => block.raw(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: serde_json::Value) -> RawJson {
        RawJson::from(json)
    }

    #[test]
    fn a_tools_page_names_its_server_in_both_forms_and_nothing_else_changes() {
        let tool = raw(serde_json::json!({"name": "t", "_meta": {
            "ui": {"resourceUri": "ui://clock/page.html", "visibility": ["model", "app"]},
            "ui/resourceUri": "ui://clock/page.html", "x": [1]
        }}));
        let shown: serde_json::Value = with_public_page(tool, "time").to().unwrap();
        assert_eq!(
            shown,
            serde_json::json!({"name": "t", "_meta": {
                "ui": {"resourceUri": "ui://time/clock/page.html", "visibility": ["model", "app"]},
                "ui/resourceUri": "ui://time/clock/page.html", "x": [1]
            }})
        );
        let plain = raw(serde_json::json!({"name": "t", "_meta": {"ui": 7}}));
        assert_eq!(with_public_page(plain.clone(), "time"), plain);
    }

    #[test]
    fn links_and_embedded_resources_of_kept_schemes_are_rewritten() {
        let edit = AddressEdit { server: "time".to_owned() };
        let body = JsonObject::from(serde_json::json!({"content": [
            {"type": "resource_link", "uri": "ui://a/b", "name": "b"},
            {"type": "resource", "resource": {"uri": "skill://a/SKILL.md", "text": "x"}},
            {"type": "resource_link", "uri": "file:///a", "name": "a"}, {"type": "text", "text": "ui://a/b"}
        ], "isError": false}));
        let edited: serde_json::Value = edit.edit(&body).raw().to().unwrap();
        assert_eq!(
            edited,
            serde_json::json!({"content": [
            {"type": "resource_link", "uri": "ui://time/a/b", "name": "b"},
            {"type": "resource", "resource": {"uri": "skill://time/a/SKILL.md", "text": "x"}},
            {"type": "resource_link", "uri": "file:///a", "name": "a"}, {"type": "text", "text": "ui://a/b"}
        ], "isError": false})
        );
    }
}
