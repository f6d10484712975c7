//! What servers offered last time, kept on disk: lists answer before a server is up, and while one is started again.

use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tsugi_protocol::era::session;
use tsugi_protocol::json::{JsonObject, ObjectWriter, RawJson};
use tsugi_protocol::mcp::cache_hints::CacheHints;
use tsugi_protocol::mcp::prompt::PromptDescription;
use tsugi_protocol::mcp::resource::ResourceDescription;
use tsugi_protocol::mcp::tool::ToolDescription;
use tsugi_protocol::mcp::{ProtocolVersion, ServerIdentity};

use super::{Catalog, CatalogList};
use crate::config::ConnectTarget;
use crate::connection::era_cache::fingerprint_of_account;

/// Larger lists are not kept.
const LARGEST: usize = 8 << 20;
/// How many servers are remembered; the one that was seen longest ago makes room.
const MOST: usize = 200;

/// The manifests. Without a directory nothing is kept.
#[derive(Debug)]
pub(crate) struct ManifestStore(Option<PathBuf>);

impl ManifestStore {
    /// In this state directory.
    pub(crate) fn open(state_dir: Option<&PathBuf>) -> Self {
        Self(state_dir.map(|directory| directory.join("manifests")))
    }

    /// What this server offered when it was last connected.
    pub(crate) fn load(&self, name: &str, target: &ConnectTarget) -> Option<Catalog> {
        let bytes = std::fs::read(self.file(name, target)?).ok().filter(|bytes| bytes.len() <= LARGEST)?;
        read(&JsonObject::parse(bytes.into()).ok()?)
    }

    /// Keeps what a server offers. A list that could not be fetched is not kept, and what cannot be written is fetched
    /// again next time.
    pub(crate) fn save(&self, name: &str, target: &ConnectTarget, catalog: &Catalog) {
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
    fn file(&self, name: &str, target: &ConnectTarget) -> Option<PathBuf> {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name: String = name.chars().map(plain).take(64).collect();
        Some(self.0.as_ref()?.join(format!("{name}-{}.json", fingerprint_of_account(target)?)))
    }
}

fn write(catalog: &Catalog) -> RawJson {
    let mut manifest = ObjectWriter::with_capacity(4096);
    manifest.raw("identity", &session::discover_result(&catalog.identity).raw());
    manifest.string("version", catalog.identity.version.as_str());
    manifest.raw("tools", &catalog.tools.result.raw());
    manifest.raw("resources", &catalog.resources.result.raw());
    manifest.raw("templates", &catalog.templates.result.raw());
    manifest.raw("prompts", &catalog.prompts.result.raw());
    manifest.finish()
}

fn read(manifest: &JsonObject) -> Option<Catalog> {
    let identity = session::read_discover_result(&manifest.get_object("identity")?).ok()?;
    let version = ProtocolVersion::parse(&manifest.get_str("version")?)?;
    let identity = Arc::new(ServerIdentity { version, ..identity });
    Some(Catalog {
        tools: listing(manifest, "tools", "tools", ToolDescription::from_raw)?,
        resources: listing(manifest, "resources", "resources", ResourceDescription::from_raw)?,
        templates: listing(manifest, "templates", "resourceTemplates", ResourceDescription::template_from_raw)?,
        prompts: listing(manifest, "prompts", "prompts", PromptDescription::from_raw)?,
        ..Catalog::empty(identity)
    })
}

fn listing<T>(manifest: &JsonObject, list: &str, key: &str, read: fn(&RawJson) -> Option<T>) -> Option<CatalogList<T>> {
    let result = manifest.get_object(list)?;
    let items: Vec<RawJson> = match result.get(key) {
        Some(items) => items.to().ok()?,
        None => Vec::new(),
    };
    let items = items.iter().filter_map(read).collect();
    Some(CatalogList { items, freshness: CacheHints::of(&result), result, ..CatalogList::default() })
}

/// Readable for its owner only: what a person's servers offer is private.
fn replace(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(file.parent().unwrap_or(file))?;
    let mut fresh = tempfile::NamedTempFile::new_in(file.parent().unwrap_or(file))?;
    fresh.write_all(bytes)?;
    fresh.persist(file)?;
    Ok(())
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
    use tsugi_process::JobCommand;
    use tsugi_protocol::json::JsonObject;

    use super::*;

    fn catalog() -> Catalog {
        let discover = r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"x","version":"1"}}}"#;
        let identity = session::read_discover_result(&JsonObject::parse(discover.into()).unwrap()).unwrap();
        let list =
            r#"{"resultType":"complete","tools":[{"name":"a","inputSchema":{"type":"object"},"odd":1}],"ttlMs":0}"#;
        let manifest = JsonObject::parse(format!(r#"{{"tools":{list}}}"#).into()).unwrap();
        let tools = listing(&manifest, "tools", "tools", ToolDescription::from_raw).unwrap();
        Catalog { tools, ..Catalog::empty(Arc::new(identity)) }
    }

    #[test]
    fn what_a_server_offered_is_read_again_byte_for_byte_and_only_for_the_same_server() {
        let folder = tempfile::tempdir().unwrap();
        let manifests = ManifestStore::open(Some(&folder.path().to_owned()));
        let target = ConnectTarget::stdio(JobCommand::new("server").arg("--token=hunter2"));
        manifests.save("one", &target, &catalog());
        let read = manifests.load("one", &target).expect("it was kept");
        assert_eq!(read.tools.result.bytes(), catalog().tools.result.bytes());
        assert_eq!((read.tools.items.len(), read.tools.items[0].name()), (1, "a"));
        assert_eq!(read.identity.display_name().as_deref(), Some("x"));
        assert!(manifests.load("two", &target).is_none());
        assert!(manifests.load("one", &ConnectTarget::stdio(JobCommand::new("server"))).is_none());
        let names: Vec<String> = std::fs::read_dir(folder.path().join("manifests"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert!(names.len() == 1 && !names[0].contains("hunter2"), "{names:?}");
    }

    #[test]
    fn another_account_is_another_server() {
        let folder = tempfile::tempdir().unwrap();
        let manifests = ManifestStore::open(Some(&folder.path().to_owned()));
        let program = |token: &str| ConnectTarget::stdio(JobCommand::new("server").env("TOKEN", token));
        let address = |token: &'static str| {
            let mut value = http::HeaderValue::from_static(token);
            value.set_sensitive(true);
            let headers = http::HeaderMap::from_iter([(http::header::AUTHORIZATION, value)]);
            ConnectTarget::url("http://127.0.0.1:1/mcp".parse().unwrap(), headers).unwrap()
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
        let manifests = ManifestStore::open(Some(&folder.path().to_owned()));
        let target = ConnectTarget::stdio(JobCommand::new("server"));
        manifests.save("one", &target, &catalog());
        let file = manifests.file("one", &target).unwrap();
        for text in ["", "{", "{}", "[]", r#"{"identity":{},"tools":{"tools":7}}"#] {
            std::fs::write(&file, text).unwrap();
            assert!(manifests.load("one", &target).is_none(), "{text}");
        }
    }
}
