//! Servers that were added or removed over HTTP, written into the configuration file as `tsugi add` would, so that
//! neither a reload nor a restart forgets them.

use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tsugi_gateway::backend::PersistResult;

use crate::app::App;
use crate::atomic_file;
use crate::config::document::ConfigDocument;
use crate::config::edit::{self, NewServer};
use crate::config::layer::{ConfigOrigin, LoadedConfig};
use crate::config::problem::ConfigProblems;
use crate::config::settings::{ServerSettings, ServerTarget};
use crate::config::{file, secret};

/// What holds where nothing was configured, with room for more.
const BEGINNING: &str = "\
# The servers of tsugi. `tsugi check` checks this file, and a running gateway follows its changes.
servers:
";

/// Writes down what changes while the gateway runs.
pub(crate) struct ServerPersistence {
    place: PersistTarget,
    /// Servers that no file has: they stay until the gateway stops.
    only_here: Mutex<Vec<ServerSettings>>,
    /// One change of the file at a time.
    turn: Mutex<()>,
}

enum PersistTarget {
    File(PathBuf),
    /// There is none yet; the built-in servers that run are written into it too.
    New(PathBuf, Vec<ServerSettings>),
    Nowhere(&'static str),
}

impl ServerPersistence {
    /// For a gateway with these settings.
    pub(crate) fn new(app: &App, loaded: &LoadedConfig) -> Self {
        let place = match &loaded.origin {
            ConfigOrigin::Named(path) | ConfigOrigin::WorkingDirectory(path) | ConfigOrigin::User(path) => {
                PersistTarget::File(path.clone())
            }
            ConfigOrigin::Nothing => {
                PersistTarget::New(app.context.directory.join(file::NAMES[0]), loaded.settings.servers.clone())
            }
            ConfigOrigin::AdHoc => {
                PersistTarget::Nowhere("this gateway was started with --command or --url and has no file")
            }
            ConfigOrigin::Variable => {
                PersistTarget::Nowhere("this gateway takes its servers from MCP_URLS and has no file")
            }
        };
        ServerPersistence { place, only_here: Mutex::default(), turn: Mutex::default() }
    }

    /// The directory of the file; empty if there is none.
    pub(crate) fn directory(&self) -> &Path {
        self.path().ok().and_then(Path::parent).unwrap_or(Path::new(""))
    }

    /// Writes down a server that was posted, as it was posted.
    pub(crate) fn add(&self, settings: &ServerSettings, definition: &Value, has_secrets: bool) -> PersistResult {
        let _turn = self.turn.lock();
        let written = self.write(settings, definition, has_secrets);
        // Otherwise the next reload would remove the server, since no file names it.
        if written.is_err() {
            self.only_here.lock().push(settings.clone());
        }
        kept(written)
    }

    /// Strikes out a server, wherever it stands.
    pub(crate) fn remove(&self, name: &str) -> PersistResult {
        let _turn = self.turn.lock();
        let mut only_here = self.only_here.lock();
        let before = only_here.len();
        only_here.retain(|server| server.name != name);
        // It was in no file, so there is nothing to strike out.
        if only_here.len() < before {
            return PersistResult::default();
        }
        kept(self.strike(name))
    }

    /// Adds the servers that no file has to those that a file names.
    pub(crate) fn complete(&self, mut loaded: LoadedConfig) -> LoadedConfig {
        let servers = &mut loaded.settings.servers;
        let missing = self.only_here.lock().clone();
        // The file wins: the server may have been written into it by hand since.
        let is_new = |server: &ServerSettings| servers.iter().all(|known| known.name != server.name);
        let missing: Vec<ServerSettings> = missing.into_iter().filter(is_new).collect();
        servers.extend(missing);
        loaded
    }

    fn write(&self, settings: &ServerSettings, definition: &Value, has_secrets: bool) -> Result<&Path, String> {
        let server = new_server(settings, definition);
        let path = self.path()?;
        // The file is refused and not made private, since its owner decides who reads it.
        if has_secrets && is_open(path) {
            return Err(format!(
                "it has a secret, and others can read {0}: `chmod 600 {0}` and add it again",
                path.display()
            ));
        }
        let text = match &self.place {
            // The file may have been created since the gateway started. Then it is edited like any other.
            PersistTarget::New(_, builtin) if !path.exists() => beginning(builtin) + &edit_block(&server),
            _ => edit::add(&read(path)?, &server).map_err(|problems| told(&problems))?,
        };
        replace(path, &text, has_secrets)?;
        Ok(path)
    }

    fn strike(&self, name: &str) -> Result<&Path, String> {
        let path = self.path()?;
        let text = match &self.place {
            PersistTarget::New(_, builtin) if !path.exists() => {
                // Without a file the built-in servers run, so removing one means naming the others.
                let rest: Vec<ServerSettings> = builtin.iter().filter(|server| server.name != name).cloned().collect();
                beginning(&rest)
            }
            _ => edit::remove(&read(path)?, name).map_err(|problems| told(&problems))?,
        };
        // No secret is added, so the mode of the file stays as it is.
        replace(path, &text, false)?;
        Ok(path)
    }

    fn path(&self) -> Result<&Path, String> {
        match &self.place {
            PersistTarget::File(path) | PersistTarget::New(path, _) => Ok(path),
            PersistTarget::Nowhere(why) => Err((*why).to_owned()),
        }
    }
}

fn kept(written: Result<&Path, String>) -> PersistResult {
    match written {
        Ok(path) => PersistResult { file: Some(path.display().to_string()), why_not: None },
        Err(why) => PersistResult { file: None, why_not: Some(why) },
    }
}

fn new_server(settings: &ServerSettings, definition: &Value) -> NewServer {
    let members = definition.as_object().cloned().unwrap_or_default();
    let fields = members.into_iter().filter(|(key, _)| key != "name").map(|(key, value)| (key, literal(value)));
    let mut fields: Map<String, Value> = fields.collect();
    // What a client posted stays a client's word after a restart, when it stands in the operator's file.
    if matches!(settings.target, ServerTarget::Remote(_)) {
        fields.insert("guarded".to_owned(), true.into());
    }
    NewServer { name: settings.name.clone(), fields }
}

/// As it was posted, where no variable of ours was expanded: a file must not expand one either.
fn literal(value: Value) -> Value {
    match value {
        Value::String(text) => text.replace('$', "$$").into(),
        Value::Array(items) => items.into_iter().map(literal).collect(),
        Value::Object(members) => {
            Value::Object(members.into_iter().map(|(key, value)| (key, literal(value))).collect::<Map<_, _>>())
        }
        other => other,
    }
}

fn beginning(builtin: &[ServerSettings]) -> String {
    let entries = builtin.iter().filter_map(|server| match &server.target {
        ServerTarget::Builtin(target) => {
            let word = serde_json::to_value(target.builtin).ok()?;
            let fields = Map::from_iter([("builtin".to_owned(), word)]);
            Some(edit_block(&NewServer { name: server.name.clone(), fields }))
        }
        _ => None,
    });
    let entries: String = entries.collect();
    if entries.is_empty() { BEGINNING.replace("servers:", "servers: []") } else { BEGINNING.to_owned() + &entries }
}

fn edit_block(server: &NewServer) -> String {
    server.block_item("  ")
}

fn read(path: &Path) -> Result<ConfigDocument, String> {
    file::read(path).map_err(|problems| told(&problems))
}

/// A file that is new and has a secret is its owner's alone.
fn replace(path: &Path, text: &str, has_secrets: bool) -> Result<(), String> {
    let written = match has_secrets && !path.exists() {
        true => atomic_file::write_private(path, text.as_bytes()),
        false => atomic_file::replace(path, text.as_bytes()),
    };
    written.map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

fn told(problems: &ConfigProblems) -> String {
    problems.0.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>().join("; ")
}

/// Whether others can read a file.
fn is_open(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o044 != 0)
}

/// Whether a posted server brings a secret, which others must not be able to read.
pub(super) fn has_secrets(definition: &Value) -> bool {
    let pairs = ["env", "headers"].into_iter().filter_map(|key| definition[key].as_object()).flatten();
    let is_secret = |name: &str, value: &str| secret::is_secret_name(name) || secret::is_secret_value(value);
    let in_url = definition["url"].as_str().is_some_and(secret::is_secret_value);
    let in_pairs = pairs.into_iter().any(|(name, value)| is_secret(name, value.as_str().unwrap_or_default()));
    let words = definition["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    // Only flags have names that announce a secret. A path such as `/srv/token-service/config.json` has none.
    let is_flag = |word: &str| word.starts_with('-') && secret::is_secret_name(word);
    in_url || in_pairs || words.into_iter().any(|word| is_flag(word) || secret::is_secret_value(word))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_with_a_suspicious_word_in_it_is_no_secret() {
        let with_args = |args: &[&str]| has_secrets(&json!({"name": "x", "command": "run", "args": args}));
        for args in [
            &["/srv/token-service/config.json"][..],
            &["--config", "/etc/secrets-manager.yaml"],
            &["./my-api-key-server/index.js"],
            &["tokenizer"],
        ] {
            assert!(!with_args(args), "{args:?}");
        }
        for args in [
            &["--token", "abc"][..],
            &["--api-key=abc"],
            &["ghp_0123456789abcdefghij"],
            &["postgres://ann:pass@host/db"],
        ] {
            assert!(with_args(args), "{args:?}");
        }
    }

    fn keeper(place: PersistTarget) -> ServerPersistence {
        ServerPersistence { place, only_here: Mutex::default(), turn: Mutex::default() }
    }

    fn posted(definition: &Value, directory: &Path) -> ServerSettings {
        let document = ConfigDocument::parse(
            Path::new("(request)"),
            definition.to_string(),
            crate::config::document::DocumentFormat::Json,
        )
        .unwrap();
        let options = crate::config::resolve::resolve_nothing(&Default::default()).unwrap().settings.options;
        crate::config::resolve::resolve_posted(&document, true, &options, &Default::default(), directory).unwrap()
    }

    #[test]
    fn a_posted_server_is_written_beside_the_comments_of_the_file_and_means_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tsugi.yaml");
        std::fs::write(&path, "# ours\nservers:\n  - name: a # the first\n    command: x\n").unwrap();
        let keeper = keeper(PersistTarget::File(path.clone()));
        let definition = json!({"name": "b", "command": "y", "args": ["$HOME", "a b"],
            "env": {"LEVEL": "2"}, "sandbox": {"net": "none", "required": false}, "tools": {"t": {"hidden": true}}});
        let settings = posted(&definition, folder.path());
        let kept = keeper.add(&settings, &definition, false);
        assert_eq!(kept.file.as_deref(), path.to_str());
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("# ours\nservers:\n  - name: a # the first\n"), "{text}");
        let document = file::read(&path).unwrap();
        let resolved = crate::config::resolve::resolve(&document, &Default::default()).unwrap();
        assert_eq!(resolved.settings.servers[1], settings);
        assert_eq!(keeper.remove("b").file.as_deref(), path.to_str());
        assert!(!std::fs::read_to_string(&path).unwrap().contains("name: b"));
    }

    #[test]
    fn without_a_file_one_is_begun_with_the_built_in_servers_that_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tsugi.yaml");
        let builtin = posted(&json!({"name": "demo", "builtin": "demo"}), folder.path());
        let keeper = keeper(PersistTarget::New(path.clone(), vec![builtin.clone()]));
        let definition = json!({"name": "far", "url": "http://h/mcp"});
        keeper.add(&posted(&definition, folder.path()), &definition, false);
        let document = file::read(&path).unwrap();
        let servers = crate::config::resolve::resolve(&document, &Default::default()).unwrap().settings.servers;
        assert_eq!(servers, [builtin, posted(&definition, folder.path())]);
    }

    #[test]
    fn a_secret_is_not_written_where_others_can_read_it_and_the_server_stays_over_a_reload() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tsugi.yaml");
        std::fs::write(&path, "servers: []\n").unwrap();
        let keeper = keeper(PersistTarget::File(path.clone()));
        let definition = json!({"name": "far", "url": "http://h/mcp", "headers": {"Authorization": "Bearer canary"}});
        assert!(has_secrets(&definition));
        let kept = keeper.add(&posted(&definition, folder.path()), &definition, true);
        assert!(kept.why_not.unwrap().contains("chmod 600") && kept.file.is_none());
        assert!(!std::fs::read_to_string(&path).unwrap().contains("canary"));
        let resolved = crate::config::resolve::resolve(&file::read(&path).unwrap(), &Default::default()).unwrap();
        let loaded = LoadedConfig {
            settings: resolved.settings,
            warnings: Vec::new(),
            dormant: Vec::new(),
            origin: ConfigOrigin::Nothing,
        };
        assert_eq!(keeper.complete(loaded).settings.servers[0].name, "far");
        keeper.remove("far");
        assert!(keeper.only_here.lock().is_empty());
    }
}
