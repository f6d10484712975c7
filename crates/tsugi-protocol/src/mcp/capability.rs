//! The capabilities of a client or a server, kept raw and read on demand.

use crate::json::{JsonObject, ObjectWriter, RawJson};

use super::extension::{self, EXTENSIONS};
use super::version::ProtocolVersion;

/// Who the client is and what it can do, as it said in `initialize` or in a request's `_meta`.
#[derive(Debug, Clone)]
pub struct ClientProfile {
    /// The revision it speaks.
    pub version: ProtocolVersion,
    /// `clientInfo`, when it said.
    pub info: Option<RawJson>,
    pub capabilities: ClientCapabilities,
}

impl Default for ClientProfile {
    fn default() -> Self {
        Self { version: ProtocolVersion::LATEST, info: None, capabilities: ClientCapabilities::none() }
    }
}

/// A client's capabilities as it wrote them. Unknown ones and extensions survive.
#[derive(Debug, Clone)]
pub struct ClientCapabilities {
    object: JsonObject,
    announces_roots: bool,
    /// Looked up once: every call asks.
    has_extensions: bool,
}

impl ClientCapabilities {
    pub fn none() -> Self {
        Self::from_object(JsonObject::empty())
    }

    pub fn from_object(object: JsonObject) -> Self {
        let has_extensions = object.has(EXTENSIONS);
        Self { object, announces_roots: false, has_extensions }
    }

    /// Everything a server may ask a client for.
    pub fn all() -> Self {
        Self::from_object(JsonObject::from(serde_json::json!({
            "elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}, "context": {}}, "roots": {}
        })))
    }

    pub fn raw(&self) -> RawJson {
        self.object.raw()
    }

    pub fn object(&self) -> &JsonObject {
        &self.object
    }

    /// True when the client can show a form. `elicitation: {}` means forms, as 2025-06-18 wrote it.
    pub(crate) fn has_form_elicitation(&self) -> bool {
        // An empty object is the form of 2025-06-18, which knew forms only.
        self.object.get_object("elicitation").is_some_and(|modes| modes.has("form") || !modes.has("url"))
    }

    /// True when the client can send the user to an address.
    pub(crate) fn has_url_elicitation(&self) -> bool {
        self.object.get_object("elicitation").is_some_and(|modes| modes.has("url"))
    }

    /// True when the client lends its model.
    pub(crate) fn has_sampling(&self) -> bool {
        self.object.has("sampling")
    }

    /// True when the client lends its model together with tools.
    pub(crate) fn has_sampling_tools(&self) -> bool {
        self.object.get_object("sampling").is_some_and(|settings| settings.has("tools"))
    }

    /// True when the client tells its roots.
    pub fn has_roots(&self) -> bool {
        self.object.has("roots")
    }

    /// The same, of a client that says when its roots change. It is kept apart from the object because only the legacy
    /// era has words for it, and only a server that is told may read them.
    pub fn announcing_roots(self, announces_roots: bool) -> Self {
        Self { announces_roots: announces_roots && self.has_roots(), ..self }
    }

    /// True when the client says when its roots change.
    pub fn announces_roots(&self) -> bool {
        self.announces_roots
    }

    /// True when the client declares extensions, whichever.
    pub fn has_extensions(&self) -> bool {
        self.has_extensions
    }

    /// True when the client declares this extension.
    pub fn has_extension(&self, id: &str) -> bool {
        self.has_extensions && extension::is_declared(&self.object, id)
    }

    /// The same with one more extension, without settings.
    pub fn with_extension(&self, id: &str) -> Self {
        if self.has_extension(id) {
            return self.clone();
        }
        let mut declared = ObjectWriter::with_capacity(128);
        if let Some(others) = self.object.get_object(EXTENSIONS) {
            declared.all_members(&others);
        }
        declared.raw(id, &RawJson::literal("{}"));
        self.replacing_extensions(declared)
    }

    /// The same with those extensions only that `is_kept` names.
    pub fn keeping_extensions(&self, is_kept: impl Fn(&str) -> bool) -> Self {
        let Some(all) = self.object.get_object(EXTENSIONS).filter(|_| self.has_extensions) else { return self.clone() };
        let mut kept = ObjectWriter::with_capacity(all.bytes().len());
        kept.members(&all, is_kept);
        self.replacing_extensions(kept)
    }

    fn replacing_extensions(&self, extensions: ObjectWriter) -> Self {
        let mut object = ObjectWriter::with_capacity(self.object.bytes().len() + 64);
        object.members_except(&self.object, &[EXTENSIONS]);
        if !extensions.is_empty() {
            object.raw(EXTENSIONS, &extensions.finish());
        }
        Self::from_object(object.finish_object()).announcing_roots(self.announces_roots)
    }

    /// What the client can be asked for.
    pub fn askable(&self) -> AskableInputs {
        // Most clients declare nothing.
        if self.object.is_empty() {
            return AskableInputs::default();
        }
        AskableInputs([
            self.has_form_elicitation(),
            self.has_url_elicitation(),
            self.has_sampling(),
            self.has_sampling_tools(),
            self.object.get_object("sampling").is_some_and(|settings| settings.has("context")),
            self.has_roots(),
        ])
    }

    /// The capability a question needs, when this client lacks it: its name under `requiredCapabilities`.
    pub fn missing_for(&self, question: &super::Method, params: Option<&JsonObject>) -> Option<RawJson> {
        use super::Method;
        let is_url = params.and_then(|params| params.get_str("mode")).as_deref() == Some("url");
        let has_tools = params.is_some_and(|params| params.has("tools") || params.has("toolChoice"));
        let (has, needed) = match question {
            Method::Elicit if is_url => (self.has_url_elicitation(), r#"{"elicitation":{"url":{}}}"#),
            Method::Elicit => (self.has_form_elicitation(), r#"{"elicitation":{"form":{}}}"#),
            // Tools inside sampling need a capability beside sampling itself.
            Method::CreateMessage if has_tools => (self.has_sampling_tools(), r#"{"sampling":{"tools":{}}}"#),
            Method::CreateMessage => (self.has_sampling(), r#"{"sampling":{}}"#),
            Method::RootsList => (self.has_roots(), r#"{"roots":{}}"#),
            // No capability allows other questions.
            _ => (false, "{}"),
        };
        (!has).then(|| RawJson::literal(needed))
    }
}

/// What a client can be asked for, however it wrote that, and nothing else of what it said: forms, addresses,
/// sampling, sampling with tools, sampling with context, roots. Two clients that compare equal are the same client
/// to a legacy server that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AskableInputs([bool; 6]);

impl AskableInputs {
    /// The capabilities of a client that can be asked for exactly this.
    pub fn to_capabilities(self) -> ClientCapabilities {
        let [form, url, sampling, tools, context, roots] = self.0;
        // Always in this order, so that equal sets are equal bytes.
        let settings = |all: &[(&str, bool)]| {
            let mut settings = ObjectWriter::with_capacity(32);
            for (key, _) in all.iter().filter(|(_, is_there)| *is_there) {
                settings.raw(key, &RawJson::literal("{}"));
            }
            settings.finish()
        };
        let mut capabilities = ObjectWriter::with_capacity(96);
        if form || url {
            capabilities.raw("elicitation", &settings(&[("form", form), ("url", url)]));
        }
        if sampling {
            capabilities.raw("sampling", &settings(&[("tools", tools), ("context", context)]));
        }
        if roots {
            capabilities.raw("roots", &RawJson::literal("{}"));
        }
        ClientCapabilities::from_object(capabilities.finish_object())
    }
}

/// Who a server is, as it said in `initialize` or `server/discover`.
#[derive(Debug, Clone)]
pub struct ServerIdentity {
    /// `serverInfo`.
    pub info: Option<RawJson>,
    /// The revision spoken with it.
    pub version: ProtocolVersion,
    /// What it can do.
    pub capabilities: ServerCapabilities,
    /// What it tells the model about itself.
    pub instructions: Option<String>,
    /// Further members of its answer, such as extensions.
    pub supported_versions: Vec<String>,
}

impl ServerIdentity {
    /// The name it gives itself, for people.
    pub fn display_name(&self) -> Option<String> {
        let info = JsonObject::of(self.info.as_ref()?)?;
        info.get_lossy("title").or_else(|| info.get_lossy("name"))
    }
}

/// A server's capabilities as it wrote them.
#[derive(Debug, Clone)]
pub struct ServerCapabilities(JsonObject);

impl ServerCapabilities {
    pub fn none() -> Self {
        Self(JsonObject::empty())
    }

    pub fn from_object(object: JsonObject) -> Self {
        Self(object)
    }

    pub fn raw(&self) -> RawJson {
        self.0.raw()
    }

    pub fn object(&self) -> &JsonObject {
        &self.0
    }

    /// True when the server offers `feature`: `tools`, `resources`, `prompts`, `completions`, `logging`.
    pub fn has(&self, feature: &str) -> bool {
        self.0.has(feature)
    }

    /// True when the server says that it announces changes of `feature`.
    pub fn has_list_changed(&self, feature: &str) -> bool {
        self.flag(feature, "listChanged")
    }

    /// True when single resources can be watched.
    pub fn has_resource_subscriptions(&self) -> bool {
        self.flag("resources", "subscribe")
    }

    /// True when the server declares this extension.
    pub fn has_extension(&self, id: &str) -> bool {
        extension::is_declared(&self.0, id)
    }

    /// The extensions that the server declares, each with its settings.
    pub fn extensions(&self) -> Vec<(String, RawJson)> {
        extension::declared(&self.0)
    }

    /// The same with these extensions in the place of its own.
    pub fn with_extensions(&self, extensions: &[(String, RawJson)]) -> Self {
        let mut object = ObjectWriter::with_capacity(self.0.bytes().len() + 64);
        object.members_except(&self.0, &[EXTENSIONS]);
        if !extensions.is_empty() {
            object.object(EXTENSIONS, |all| {
                for (id, settings) in extensions {
                    all.raw(id, settings);
                }
            });
        }
        Self(object.finish_object())
    }

    fn flag(&self, feature: &str, flag: &str) -> bool {
        self.0.get_object(feature).is_some_and(|settings| settings.get_bytes(flag) == Some(b"true"))
    }

    /// What several servers can do together: a feature is there when one has it, and so is each of its
    /// settings. Unknown capabilities and extensions of every server are kept, the first one's value wins.
    pub fn union<'a>(all: impl IntoIterator<Item = &'a ServerCapabilities>) -> Self {
        let mut merged: Vec<(String, Vec<JsonObject>, RawJson)> = Vec::new();
        for capabilities in all {
            for member in capabilities.0.members() {
                let key = capabilities.0.key(*member).into_owned();
                let value = capabilities.0.value(*member);
                match merged.iter_mut().find(|(known, ..)| *known == key) {
                    Some((_, settings, _)) => settings.extend(JsonObject::of(&value)),
                    None => merged.push((key, JsonObject::of(&value).into_iter().collect(), value)),
                }
            }
        }
        let mut union = ObjectWriter::with_capacity(256);
        for (key, settings, first) in merged {
            match settings.is_empty() {
                true => union.raw(&key, &first),
                false => union.raw(&key, &merge_settings(&settings)),
            };
        }
        Self(union.finish_object())
    }
}

fn merge_settings(all: &[JsonObject]) -> RawJson {
    let mut keys: Vec<(String, RawJson)> = Vec::new();
    for settings in all {
        for member in settings.members() {
            let key = settings.key(*member).into_owned();
            let value = settings.value(*member);
            match keys.iter_mut().find(|(known, _)| *known == key) {
                // `true` on any server makes the union true.
                Some((_, known)) if known.as_str() == "false" => *known = value,
                Some(_) => {}
                None => keys.push((key, value)),
            }
        }
    }
    let mut merged = ObjectWriter::with_capacity(64);
    for (key, value) in &keys {
        merged.raw(key, value);
    }
    merged.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(json: serde_json::Value) -> ServerCapabilities {
        ServerCapabilities::from_object(JsonObject::from(json))
    }

    #[test]
    fn an_empty_elicitation_capability_means_forms() {
        let client = |json| ClientCapabilities::from_object(JsonObject::from(json));
        assert!(client(serde_json::json!({"elicitation": {}})).has_form_elicitation());
        assert!(!client(serde_json::json!({"elicitation": {"url": {}}})).has_form_elicitation());
        assert!(client(serde_json::json!({"elicitation": {"url": {}}})).has_url_elicitation());
        assert!(!ClientCapabilities::none().has_form_elicitation());
    }

    #[test]
    fn extensions_are_added_and_left_out_one_by_one() {
        let client = ClientCapabilities::from_object(JsonObject::from(serde_json::json!({
            "roots": {}, "extensions": {"a/b": {"x": [1]}, "c/d": {}}
        })));
        assert!(client.has_extension("a/b") && !client.has_extension("a"));
        let kept = client.keeping_extensions(|id| id == "a/b");
        assert_eq!(kept.raw().as_str(), r#"{"roots":{},"extensions":{"a/b":{"x":[1]}}}"#);
        assert_eq!(client.keeping_extensions(|_| false).raw().as_str(), r#"{"roots":{}}"#);
        let more = ClientCapabilities::none().with_extension("a/b");
        assert_eq!(more.raw().as_str(), r#"{"extensions":{"a/b":{}}}"#);
        assert_eq!(client.with_extension("a/b").raw().as_str(), client.raw().as_str(), "its settings stay");
    }

    #[test]
    fn clients_that_can_be_asked_for_the_same_are_equal_however_they_wrote_it() {
        let client = |json| ClientCapabilities::from_object(JsonObject::from(json)).askable();
        let one = client(serde_json::json!({"elicitation": {}, "sampling": {"tools": {}}, "experimental": {"x": {}}}));
        assert_eq!(one, client(serde_json::json!({"sampling": {"tools": {"a": 1}}, "elicitation": {"form": {}}})));
        assert_ne!(one, client(serde_json::json!({"sampling": {}, "elicitation": {}})));
        assert_eq!(one.to_capabilities().raw().as_str(), r#"{"elicitation":{"form":{}},"sampling":{"tools":{}}}"#);
        let all = ClientCapabilities::all();
        assert_eq!(all.askable().to_capabilities().raw().as_str(), all.raw().as_str());
        assert!(ClientCapabilities::none().askable().to_capabilities().object().is_empty());
    }

    #[test]
    fn a_question_with_tools_needs_a_client_that_lends_them() {
        let client = ClientCapabilities::from_object(JsonObject::from(serde_json::json!({"sampling": {}})));
        let with_tools = JsonObject::from(serde_json::json!({"tools": []}));
        let lacks = |params| client.missing_for(&crate::mcp::Method::CreateMessage, params);
        assert!(lacks(None).is_none());
        assert_eq!(lacks(Some(&with_tools)).unwrap().as_str(), r#"{"sampling":{"tools":{}}}"#);
    }

    #[test]
    fn a_union_has_what_any_server_has() {
        let one = server(serde_json::json!({"tools": {"listChanged": false}, "x": 1}));
        let two = server(
            serde_json::json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}, "logging": {}}),
        );
        let union = ServerCapabilities::union([&one, &two]);
        assert!(union.has_list_changed("tools") && union.has_resource_subscriptions() && union.has("logging"));
        assert_eq!(
            union.raw().as_str(),
            r#"{"tools":{"listChanged":true},"x":1,"resources":{"subscribe":true},"logging":{}}"#
        );
    }
}
