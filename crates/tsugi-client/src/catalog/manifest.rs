//! What servers offered last time, kept on disk: lists answer before a server is up, and while one is started again.

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tsugi_protocol::era::session;
use tsugi_protocol::json::{Object, Raw, Splice};
use tsugi_protocol::mcp::freshness::Freshness;
use tsugi_protocol::mcp::prompt::Prompt;
use tsugi_protocol::mcp::resource::Resource;
use tsugi_protocol::mcp::tool::Tool;
use tsugi_protocol::mcp::{ServerIdentity, Version};

use super::{Catalog, Listing};
use crate::config::Target;
use crate::connection::memory::fingerprint_of_account;

/// Larger lists are not kept.
const LARGEST: usize = 8 << 20;
/// How many servers are remembered; the one that was seen longest ago makes room.
const MOST: usize = 200;

/// The manifests. Without a directory nothing is kept.
#[derive(Debug)]
pub(crate) struct Manifests(Option<PathBuf>);

impl Manifests {
    /// In this state directory.
    pub(crate) fn open(state_dir: Option<&PathBuf>) -> Self {
        Self(state_dir.map(|directory| directory.join("manifests")))
    }

    /// What this server offered when it was last connected.
    pub(crate) fn load(&self, name: &str, target: &Target) -> Option<Catalog> {
        let bytes = std::fs::read(self.file(name, target)?).ok().filter(|bytes| bytes.len() <= LARGEST)?;
        read(&Object::parse(bytes.into()).ok()?)
    }

    /// Keeps what a server offers. A list that could not be fetched is not kept, and what cannot be written is fetched
    /// again next time.
    pub(crate) fn save(&self, name: &str, target: &Target, catalog: &Catalog) {
        let Some(file) = self.file(name, target) else { return };
        let text = write(catalog);
        let is_known = || std::fs::read(&file).is_ok_and(|known| known == *text.bytes());
        if text.bytes().len() > LARGEST || catalog.faults().next().is_some() || is_known() {
            return;
        }
        if let Err(error) = replace(&file, text.bytes()) {
            tracing::debug!(%error, "what a server offers could not be kept");
        }
        make_room(file.parent().unwrap_or(&file));
    }

    /// A file for each name and target, so that another account or another version is another server.
    fn file(&self, name: &str, target: &Target) -> Option<PathBuf> {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name: String = name.chars().map(plain).take(64).collect();
        Some(self.0.as_ref()?.join(format!("{name}-{}.json", fingerprint_of_account(target)?)))
    }
}

fn write(catalog: &Catalog) -> Raw {
    let mut manifest = Splice::with_capacity(4096);
    manifest.raw("identity", &session::discover_result(&catalog.identity).raw());
    manifest.string("version", catalog.identity.version.as_str());
    manifest.raw("tools", &catalog.tools.result.raw());
    manifest.raw("resources", &catalog.resources.result.raw());
    manifest.raw("templates", &catalog.templates.result.raw());
    manifest.raw("prompts", &catalog.prompts.result.raw());
    manifest.finish()
}

fn read(manifest: &Object) -> Option<Catalog> {
    let identity = session::read_discover_result(&manifest.get_object("identity")?).ok()?;
    let version = Version::parse(&manifest.get_str("version")?)?;
    let identity = Arc::new(ServerIdentity { version, ..identity });
    Some(Catalog {
        tools: listing(manifest, "tools", "tools", Tool::from_raw)?,
        resources: listing(manifest, "resources", "resources", Resource::from_raw)?,
        templates: listing(manifest, "templates", "resourceTemplates", Resource::template_from_raw)?,
        prompts: listing(manifest, "prompts", "prompts", Prompt::from_raw)?,
        ..Catalog::empty(identity)
    })
}

fn listing<T>(manifest: &Object, list: &str, key: &str, read: fn(&Raw) -> Option<T>) -> Option<Listing<T>> {
    let result = manifest.get_object(list)?;
    let items: Vec<Raw> = match result.get(key) {
        Some(items) => items.to().ok()?,
        None => Vec::new(),
    };
    let items = items.iter().filter_map(read).collect();
    Some(Listing { items, freshness: Freshness::of(&result), result, ..Listing::default() })
}

/// Nobody else may read what a person's servers offer.
fn replace(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(file.parent().unwrap_or(file))?;
    let temporary = file.with_extension(format!("{}.tmp", std::process::id()));
    let mut open = std::fs::OpenOptions::new();
    open.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?.write_all(bytes)?;
    std::fs::rename(temporary, file)
}

fn make_room(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    let dated = |entry: std::fs::DirEntry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()));
    let mut files: Vec<_> = entries.flatten().filter_map(dated).collect();
    files.sort();
    for (_, path) in files.iter().take(files.len().saturating_sub(MOST)) {
        let _ = std::fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use tsugi_process::Command;
    use tsugi_protocol::json::Object;

    use super::*;

    fn catalog() -> Catalog {
        let discover = r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"x","version":"1"}}}"#;
        let identity = session::read_discover_result(&Object::parse(discover.into()).unwrap()).unwrap();
        let list =
            r#"{"resultType":"complete","tools":[{"name":"a","inputSchema":{"type":"object"},"odd":1}],"ttlMs":0}"#;
        let manifest = Object::parse(format!(r#"{{"tools":{list}}}"#).into()).unwrap();
        let tools = listing(&manifest, "tools", "tools", Tool::from_raw).unwrap();
        Catalog { tools, ..Catalog::empty(Arc::new(identity)) }
    }

    #[test]
    fn what_a_server_offered_is_read_again_byte_for_byte_and_only_for_the_same_server() {
        let folder = tempfile::tempdir().unwrap();
        let manifests = Manifests::open(Some(&folder.path().to_owned()));
        let target = Target::stdio(Command::new("server").arg("--token=hunter2"));
        manifests.save("one", &target, &catalog());
        let read = manifests.load("one", &target).expect("it was kept");
        assert_eq!(read.tools.result.bytes(), catalog().tools.result.bytes());
        assert_eq!((read.tools.items.len(), read.tools.items[0].name()), (1, "a"));
        assert_eq!(read.identity.display_name().as_deref(), Some("x"));
        assert!(manifests.load("two", &target).is_none());
        assert!(manifests.load("one", &Target::stdio(Command::new("server"))).is_none());
        let names: Vec<String> = std::fs::read_dir(folder.path().join("manifests"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert!(names.len() == 1 && !names[0].contains("hunter2"), "{names:?}");
    }

    #[test]
    fn another_account_is_another_server() {
        let folder = tempfile::tempdir().unwrap();
        let manifests = Manifests::open(Some(&folder.path().to_owned()));
        let program = |token: &str| Target::stdio(Command::new("server").env("TOKEN", token));
        let address = |token: &'static str| {
            let mut value = http::HeaderValue::from_static(token);
            value.set_sensitive(true);
            let headers = http::HeaderMap::from_iter([(http::header::AUTHORIZATION, value)]);
            Target::url("http://127.0.0.1:1/mcp".parse().unwrap(), headers).unwrap()
        };
        for (ann, bob) in [(program("ann"), program("bob")), (address("ann"), address("bob"))] {
            manifests.save("one", &ann, &catalog());
            assert!(manifests.load("one", &ann).is_some());
            assert!(manifests.load("one", &bob).is_none());
        }
    }

    #[test]
    fn a_damaged_manifest_counts_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let manifests = Manifests::open(Some(&folder.path().to_owned()));
        let target = Target::stdio(Command::new("server"));
        manifests.save("one", &target, &catalog());
        let file = manifests.file("one", &target).unwrap();
        for text in ["", "{", "{}", "[]", r#"{"identity":{},"tools":{"tools":7}}"#] {
            std::fs::write(&file, text).unwrap();
            assert!(manifests.load("one", &target).is_none(), "{text}");
        }
    }
}
