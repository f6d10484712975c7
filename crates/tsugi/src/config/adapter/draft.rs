//! A server on its way from another program's file into ours.

use super::ImportedFile;
use super::translate::{literal, variable_name};
use super::tsugi_entry::is_ours;
use crate::config::document::{ConfigNode, NodeEntry, NodeValue};
use crate::config::known_remote::KnownSignIn;
use crate::config::parse::tidy_name;
use crate::config::secret::{self, Secret};

/// A server in our words, still as text.
#[derive(Debug)]
pub(super) struct ServerDraft {
    /// Its name in the program's file.
    pub(super) key: String,
    pub(super) name: String,
    pub(super) fields: Vec<(&'static str, DraftField)>,
    /// What is worth knowing, and no loss.
    pub(super) remarks: Vec<String>,
    pub(super) notes: DraftNotes,
    /// Why the person does not want it, where the program says so elsewhere than in the entry.
    pub(super) refusal: Option<String>,
    /// Secrets that stood in the file, by the variable that stands for them now.
    pub(super) secrets: Vec<(String, Secret)>,
}

/// What got lost or changed on the way, and what keeps the server from working here at all.
#[derive(Debug, Default)]
pub(super) struct DraftNotes {
    lost: Vec<String>,
    obstacle: Option<String>,
}

impl DraftNotes {
    /// Adds a note, once: the same variable may stand in several values.
    pub(super) fn push(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.lost.contains(&note) {
            self.lost.push(note);
        }
    }

    /// Says why the server cannot be taken over.
    pub(super) fn block(&mut self, obstacle: impl Into<String>) {
        // One reason is enough to report, so the first one stays.
        self.obstacle.get_or_insert(obstacle.into());
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &str> {
        self.lost.iter().map(String::as_str)
    }

    pub(super) fn obstacle(&self) -> Option<&str> {
        self.obstacle.as_deref()
    }
}

/// The value of a key, in our syntax.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum DraftField {
    Text(String),
    List(Vec<String>),
    Map(Vec<(String, String)>),
    /// Keys with lists or words, as `sandbox` has them.
    Lists(Vec<(&'static str, Vec<String>)>),
}

/// What differs between programs: how variables are written, and what their own keys mean.
pub(super) trait ClientDialect {
    /// A text in our syntax; what gets lost goes into `notes`.
    fn translate(&self, text: &str, notes: &mut DraftNotes) -> String;

    /// Whether the program would replace a part of the text. A dollar sign alone does not make a reference.
    fn has_reference(&self, text: &str) -> bool {
        self.translate(text, &mut DraftNotes::default()) != literal(text)
    }

    /// Reads a key in this program's own way; `false` leaves it to the common way.
    fn field(&self, draft: &mut ServerDraft, key: &str, node: &ConfigNode) -> bool;
}

/// Reads every server of a map.
pub(super) fn read_all(servers: &ConfigNode, dialect: &dyn ClientDialect, imported: &mut ImportedFile) {
    for entry in servers.entries().unwrap_or_default() {
        // As a server of its own configuration, tsugi would start itself.
        if is_ours(entry) {
            imported.notes.push(format!("`{}` is tsugi itself and was left out", entry.key));
            continue;
        }
        let draft = ServerDraft::read(entry, dialect);
        let has = |key: &str| draft.get(key).is_some();
        if has("command") && has("url") {
            let why = "it has both a command and an address";
            imported.notes.push(format!("the server `{}` was left out: {why}", entry.key));
        } else if !has("command") && !has("url") {
            // A note may say why there is no address, such as a scheme that is not supported.
            let why = draft.notes.all().collect::<Vec<_>>().join("; ");
            let why = if why.is_empty() { "it has neither a command nor an address".to_owned() } else { why };
            imported.notes.push(format!("the server `{}` was left out: {why}", entry.key));
        } else {
            imported.servers.push(draft);
        }
    }
}

impl ServerDraft {
    fn read(entry: &NodeEntry, dialect: &dyn ClientDialect) -> Self {
        let name = tidy_name(&entry.key);
        let remarks = (name != entry.key).then(|| format!("called `{}` there", entry.key)).into_iter().collect();
        let mut draft = ServerDraft {
            key: entry.key.clone(),
            name,
            fields: Vec::new(),
            remarks,
            notes: DraftNotes::default(),
            refusal: None,
            secrets: Vec::new(),
        };
        for field in entry.node.entries().unwrap_or_default() {
            // The program's own meaning of a key comes before the common one.
            let read =
                dialect.field(&mut draft, &field.key, &field.node) || draft.common(dialect, &field.key, &field.node);
            if !read {
                draft.lost(&field.key);
            }
        }
        draft
    }

    /// The keys that mean the same everywhere.
    fn common(&mut self, dialect: &dyn ClientDialect, key: &str, node: &ConfigNode) -> bool {
        match key {
            "command" => self.text("command", dialect, node),
            "cwd" => self.text("cwd", dialect, node),
            "envFile" => self.text("envFile", dialect, node),
            "url" | "serverUrl" => self.address(dialect, node),
            "args" => self.args(dialect, node),
            "env" => self.map("env", dialect, node),
            "headers" => self.map("headers", dialect, node),
            "type" | "transport" => self.transport(node),
            "disabled" => self.disabled(node.text() == Some("true")),
            "enabled" => self.disabled(node.text() == Some("false")),
            "autoApprove" | "alwaysAllow" | "trust" => {
                self.note(format!("`{key}` grants approval to the program that calls, which tsugi does not decide"));
            }
            _ => return false,
        }
        true
    }

    pub(super) fn get(&self, key: &str) -> Option<&DraftField> {
        self.fields.iter().find(|(name, _)| *name == key).map(|(_, field)| field)
    }

    pub(super) fn set(&mut self, key: &'static str, field: DraftField) {
        // `url` and `serverUrl` fill the same key, and the later one wins.
        self.fields.retain(|(name, _)| *name != key);
        self.fields.push((key, field));
    }

    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Says that a key has no equivalent.
    pub(super) fn lost(&mut self, key: &str) {
        self.note(format!("`{key}` has no equivalent and was left out"));
    }

    pub(super) fn text(&mut self, key: &'static str, dialect: &dyn ClientDialect, node: &ConfigNode) {
        if let Some(text) = node.text() {
            let text = dialect.translate(text, &mut self.notes);
            self.set(key, DraftField::Text(text));
        }
    }

    pub(super) fn disabled(&mut self, disabled: bool) {
        if disabled {
            self.set("disabled", DraftField::Text("true".to_owned()));
        }
    }

    /// Whether the program does not use it.
    pub(super) fn is_switched_off(&self) -> bool {
        matches!(self.get("disabled"), Some(DraftField::Text(text)) if text == "true")
    }

    /// Why only the program may be able to connect: a remote server for which the file has no key is often one that the
    /// program has signed in to. No connection is made to find out, since a configuration is read without the network.
    pub(super) fn sign_in(&self, name: &str) -> Option<String> {
        let Some(DraftField::Text(url)) = self.get("url") else { return None };
        // An address that was hidden as a whole holds its own key.
        let url = url::Url::parse(url).ok()?;
        let host = url.host_str()?.trim_matches(['[', ']']).to_ascii_lowercase();
        let is_local = host == "localhost"
            || host.ends_with(".localhost")
            || host.ends_with(".local")
            || !host.contains(['.', ':'])
            || host.parse::<std::net::IpAddr>().is_ok_and(|address| match address {
                std::net::IpAddr::V4(address) => {
                    address.is_loopback() || address.is_private() || address.is_unspecified()
                }
                std::net::IpAddr::V6(address) => address.is_loopback() || address.is_unspecified(),
            });
        let has_key = match self.get("headers") {
            Some(DraftField::Map(pairs)) => pairs.iter().any(|(name, _)| secret::is_secret_name(name)),
            _ => false,
        };
        let why = || match KnownSignIn::of(&url) {
            Some(known) => format!("{}: {}", known.sentence(), known.advice(name)),
            None => {
                "it has no key here and was not tried: it may be open to everyone, or need a sign-in in the browser \
                     (OAuth); `tsugi servers --url` with its address shows which"
                    .to_owned()
            }
        };
        (!is_local && !has_key).then(why)
    }

    pub(super) fn transport(&mut self, node: &ConfigNode) {
        match node.text() {
            Some("stdio") | None => {}
            Some("http" | "streamable-http" | "streamableHttp") => {
                self.set("transport", DraftField::Text("http".into()))
            }
            Some("sse") => self.set("transport", DraftField::Text("sse".into())),
            Some("ws" | "websocket") => self.set("transport", DraftField::Text("websocket".into())),
            Some(other) => self.note(format!("the transport `{other}` is not known; it will be found out")),
        }
    }

    /// An address; one that holds a password or a key becomes a variable as a whole.
    pub(super) fn address(&mut self, dialect: &dyn ClientDialect, node: &ConfigNode) {
        let Some(text) = node.text() else { return };
        // An address may be a variable as a whole, whose scheme is not known here.
        if !text.starts_with("http") && !text.starts_with("ws") && !text.starts_with('$') {
            let scheme = text.split(':').next().unwrap_or_default().to_owned();
            return self.note(format!("addresses that begin with `{scheme}:` are not supported"));
        }
        let is_secret = secret::conceal(text) != text && !dialect.has_reference(text);
        let ours = if is_secret { self.hide("URL", text) } else { dialect.translate(text, &mut self.notes) };
        self.set("url", DraftField::Text(ours));
    }

    pub(super) fn args(&mut self, dialect: &dyn ClientDialect, node: &ConfigNode) {
        let mut args: Vec<String> = Vec::new();
        for text in strings(node) {
            // In `--token VALUE` the argument before the secret names it.
            let flag = args.last().filter(|last| last.starts_with('-') && secret::is_secret_name(last)).cloned();
            let argument = match (flag, text.split_once('=')) {
                (Some(flag), _) => self.secret_value(flag.trim_start_matches('-'), text, dialect),
                (_, Some((flag, value))) if flag.starts_with('-') && secret::is_secret_name(flag) => {
                    format!("{flag}={}", self.secret_value(flag.trim_start_matches('-'), value, dialect))
                }
                _ if secret::is_secret_value(text) => self.secret_value("ARGUMENT", text, dialect),
                _ => dialect.translate(text, &mut self.notes),
            };
            args.push(argument);
        }
        self.set("args", DraftField::List(args));
    }

    /// A map of variables or headers; secrets that stand there become variables.
    pub(super) fn map(&mut self, key: &'static str, dialect: &dyn ClientDialect, node: &ConfigNode) {
        for entry in node.entries().unwrap_or_default() {
            let text = entry.node.text().unwrap_or_default();
            let is_secret = secret::is_secret_name(&entry.key) || secret::is_secret_value(text);
            let value = match is_secret {
                true => self.secret_value(&entry.key, text, dialect),
                false => dialect.translate(text, &mut self.notes),
            };
            self.add_pair(key, &entry.key, value);
        }
    }

    /// A value that is secret as far as it is written out. `Bearer ${TOKEN}` stays as it is. In `abc123…${SUFFIX}` only
    /// the part that looks like a token is taken out.
    fn secret_value(&mut self, name: &str, text: &str, dialect: &dyn ClientDialect) -> String {
        if text.is_empty() {
            return String::new();
        }
        if !dialect.has_reference(text) {
            return self.hide(name, text);
        }
        let ours = dialect.translate(text, &mut self.notes);
        let (mut result, mut rest) = (String::new(), ours.as_str());
        while !rest.is_empty() {
            // A reference is copied; text between references is looked at word by word.
            let length = match rest.strip_prefix("${").and_then(|inner| inner.find('}')) {
                Some(end) => end + 3,
                None => rest
                    .char_indices()
                    .skip(1)
                    .find(|(at, _)| rest[*at..].starts_with("${"))
                    .map_or(rest.len(), |(at, _)| at),
            };
            let (piece, after) = rest.split_at(length);
            if piece.starts_with("${") {
                result.push_str(piece);
            } else {
                for word in piece.split_inclusive(' ') {
                    let bare = word.trim_end();
                    match secret::looks_like_token(bare) {
                        true => result.push_str(&word.replace(bare, &self.hide(name, bare))),
                        false => result.push_str(word),
                    }
                }
            }
            rest = after;
        }
        result
    }

    pub(super) fn add_pair(&mut self, key: &'static str, name: &str, value: String) {
        let mut pairs = match self.get(key) {
            Some(DraftField::Map(pairs)) => pairs.clone(),
            _ => Vec::new(),
        };
        pairs.push((name.to_owned(), value));
        self.set(key, DraftField::Map(pairs));
    }

    pub(super) fn list(&mut self, key: &'static str, node: &ConfigNode) {
        self.set(key, DraftField::List(strings(node).map(str::to_owned).collect()));
    }

    /// A number of seconds or milliseconds as a duration with its unit.
    pub(super) fn duration(&mut self, key: &'static str, node: &ConfigNode, unit: &str) {
        if let Some(number) = node.text().filter(|text| text.parse::<f64>().is_ok()) {
            self.set(key, DraftField::Text(format!("{number}{unit}")));
        }
    }

    /// Takes a secret out of the file; the reference to the variable that stands for it.
    fn hide(&mut self, name: &str, value: &str) -> String {
        let (server, name) = (variable_name(&self.name), variable_name(name));
        // `GITHUB_TOKEN` of the server `github` keeps its name instead of becoming `GITHUB_GITHUB_TOKEN`.
        let base = if name.starts_with(&server) { name } else { format!("{server}_{name}") };
        let taken = |candidate: &String| self.secrets.iter().any(|(name, _)| name == candidate);
        // Two arguments of one server may ask for the same variable.
        let numbered = (2..).map(|number| format!("{base}_{number}"));
        let variable = std::iter::once(base.clone()).chain(numbered).find(|name| !taken(name)).unwrap_or(base);
        let reference = format!("${{{variable}}}");
        self.secrets.push((variable, Secret::new(value)));
        reference
    }
}

/// The single values of a list; one value alone is a list of one.
pub(super) fn strings(node: &ConfigNode) -> impl Iterator<Item = &str> {
    let items = match &node.value {
        NodeValue::List(items) => items.as_slice(),
        NodeValue::Scalar(_) => std::slice::from_ref(node),
        _ => &[],
    };
    items.iter().filter_map(ConfigNode::text)
}
