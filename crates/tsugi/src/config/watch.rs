//! Notices that the configuration changed, reads it again, and says what it is now.
//!
//! The directory is watched, not the file: editors write a new file and rename it over the old one.
//! Nothing is swapped here. The caller receives new settings, or the problems of a file that cannot be
//! used while the old settings stay in force.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{RecursiveMode, Watcher};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::env::Environment;
use super::layer;
use super::problem::{ConfigProblem, ConfigProblems};
use super::resolve::ResolvedConfig;
use super::settings::CheckedSettings;

/// A save is over when nothing happened for so long.
const QUIET: Duration = Duration::from_millis(150);
/// A directory that is never quiet is read anyway after so long.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often secrets are looked at that come from files and programs.
const SECRET_INTERVAL: Duration = Duration::from_secs(5);

/// What the file is now.
#[derive(Debug)]
pub(crate) enum ConfigChange {
    /// Other settings than before.
    Changed(Box<ResolvedConfig>),
    /// It cannot be used; what holds goes on holding.
    Invalid(ConfigProblems),
}

/// Watches one configuration file.
pub(crate) struct ConfigWatch {
    path: PathBuf,
    environment: Environment,
    signals: mpsc::Receiver<()>,
    /// Something happened that has not been looked at yet.
    is_stale: bool,
    last: Result<CheckedSettings, ConfigProblems>,
    /// Whether secrets come from elsewhere, where no event announces a change.
    has_sources: bool,
    /// The names of files that the configuration consists of besides itself.
    parts: Arc<Mutex<HashSet<PathBuf>>>,
    /// Directories that are watched for those files.
    directories: HashSet<PathBuf>,
    /// Watching ends when it is dropped.
    watcher: notify::RecommendedWatcher,
}

impl ConfigWatch {
    /// Watches the file whose settings are in force now.
    pub(crate) fn start(path: &Path, environment: Environment, now: CheckedSettings) -> Result<Self, ConfigProblems> {
        let (sender, signals) = mpsc::channel(1);
        let file = path.to_owned();
        let parts: Arc<Mutex<HashSet<PathBuf>>> = Arc::default();
        let known = parts.clone();
        let failed = |error: notify::Error| {
            let problem = ConfigProblem::new(format!("changes of `{}` cannot be noticed: {error}", path.display()));
            ConfigProblems::from(problem.with_hint("send the signal HUP to have the configuration read again"))
        };
        let on_event = move |event: notify::Result<notify::Event>| {
            if event.map_or(true, |event| concerns(&event, &file, &known.lock())) {
                // A signal that waits already says the same.
                let _ = sender.try_send(());
            }
        };
        let mut watcher = notify::recommended_watcher(on_event).map_err(failed)?;
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        watcher.watch(directory, RecursiveMode::NonRecursive).map_err(failed)?;
        let directories = HashSet::from([directory.to_owned()]);
        let has_sources = has_sources(path);
        let path = path.to_owned();
        let mut watch = ConfigWatch {
            path,
            environment,
            signals,
            is_stale: false,
            last: Ok(now),
            has_sources,
            parts,
            directories,
            watcher,
        };
        watch.follow_parts();
        Ok(watch)
    }

    /// Watches the files of the policy too, wherever they are. Those of settings that cannot be used are not known.
    fn follow_parts(&mut self) {
        let Ok(settings) = &self.last else { return };
        let files: HashSet<PathBuf> = settings.policy.iter().flat_map(|policy| policy.files.iter().cloned()).collect();
        for directory in files.iter().filter_map(|file| file.parent()) {
            if !self.directories.contains(directory) {
                match self.watcher.watch(directory, RecursiveMode::NonRecursive) {
                    Ok(()) => _ = self.directories.insert(directory.to_owned()),
                    Err(error) => {
                        tracing::warn!(directory = %directory.display(), %error, "changes of policy files cannot be noticed");
                    }
                }
            }
        }
        *self.parts.lock() = files;
    }

    /// Waits for the next change. Dropping the future loses nothing that has not been told yet.
    pub(crate) async fn next(&mut self) -> ConfigChange {
        loop {
            if !self.is_stale {
                tokio::select! {
                    // The watcher lives as long as we do, so there is always another signal to wait for.
                    Some(()) = self.signals.recv() => {}
                    () = tokio::time::sleep(SECRET_INTERVAL), if self.has_sources => match self.reread() {
                        Some(change) => return change,
                        None => continue,
                    },
                }
            }
            // The caller may drop this future while it waits. The next call then goes on from here.
            self.is_stale = true;
            self.settle().await;
            self.is_stale = false;
            if let Some(change) = self.reread() {
                return change;
            }
        }
    }

    /// Reads the file at once, as the signal HUP asks for; nothing if it means what it meant before.
    pub(crate) fn reread(&mut self) -> Option<ConfigChange> {
        self.has_sources = has_sources(&self.path);
        let now = layer::read(&self.path, &self.environment);
        let settings = now.as_ref().map(|resolved| resolved.settings.clone()).map_err(ConfigProblems::clone);
        if settings == self.last {
            return None;
        }
        self.last = settings;
        self.follow_parts();
        Some(match now {
            Ok(resolved) => ConfigChange::Changed(Box::new(resolved)),
            Err(problems) => ConfigChange::Invalid(problems),
        })
    }

    /// Waits until the directory is quiet.
    async fn settle(&mut self) {
        let end = Instant::now() + PATIENCE;
        loop {
            let quiet = (Instant::now() + QUIET).min(end);
            let waited = timeout_at(quiet, self.signals.recv()).await;
            if waited.is_err() || Instant::now() >= end {
                return;
            }
        }
    }
}

/// Whether values of the file come from other files or from programs.
fn has_sources(path: &Path) -> bool {
    let names_source = |text: String| text.contains("${file:") || text.contains("${command:");
    std::fs::read_to_string(path).is_ok_and(names_source)
}

/// Whether an event is about the file, one of the policy's, an environment file beside it, or a swapped link (as in Kubernetes).
fn concerns(event: &notify::Event, file: &Path, parts: &HashSet<PathBuf>) -> bool {
    if event.kind.is_access() {
        return false;
    }
    event.paths.iter().any(|path| {
        let name = path.file_name().unwrap_or_default();
        let text = name.to_string_lossy();
        let is_part = parts.iter().any(|part| part.file_name() == Some(name));
        is_part || Some(name) == file.file_name() || text.ends_with(".env") || text.starts_with("..")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Far above what any machine needs, so that a failure shows instead of hanging.
    const LONG: Duration = Duration::from_secs(30);

    struct World {
        _directory: tempfile::TempDir,
        path: PathBuf,
        watch: ConfigWatch,
    }

    fn text(name: &str) -> String {
        format!("servers: [{{name: {name}, command: c}}]\n")
    }

    fn world() -> World {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tsugi.yaml");
        std::fs::write(&path, text("first")).unwrap();
        let now = layer::read(&path, &Environment::default()).unwrap().settings;
        let watch = ConfigWatch::start(&path, Environment::default(), now).unwrap();
        World { _directory: directory, path, watch }
    }

    async fn next(watch: &mut ConfigWatch) -> String {
        match tokio::time::timeout(LONG, watch.next()).await.expect("a change is noticed") {
            ConfigChange::Changed(resolved) => resolved.settings.servers[0].name.clone(),
            ConfigChange::Invalid(problems) => format!("invalid: {}", problems.0[0].message),
        }
    }

    #[tokio::test]
    async fn a_changed_file_is_read_again() {
        let mut world = world();
        std::fs::write(&world.path, text("second")).unwrap();
        assert_eq!(next(&mut world.watch).await, "second");
    }

    #[tokio::test]
    async fn a_file_renamed_over_the_old_one_is_read_again() {
        let mut world = world();
        let fresh = world.path.with_file_name("fresh.tmp");
        std::fs::write(&fresh, text("second")).unwrap();
        std::fs::rename(&fresh, &world.path).unwrap();
        assert_eq!(next(&mut world.watch).await, "second");
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_used_is_said_to_be_so_and_its_repair_too() {
        let mut world = world();
        std::fs::write(&world.path, "servers: [{name: a, comand: c}]\n").unwrap();
        assert!(next(&mut world.watch).await.starts_with("invalid: "));
        std::fs::write(&world.path, text("third")).unwrap();
        assert_eq!(next(&mut world.watch).await, "third");
    }

    #[tokio::test]
    async fn whoever_waits_may_be_called_away_and_come_back() {
        let mut world = world();
        std::fs::write(&world.path, text("second")).unwrap();
        while !world.watch.is_stale {
            // Much shorter than the quiet that ends a save.
            if tokio::time::timeout(QUIET / 10, world.watch.next()).await.is_ok() {
                return;
            }
        }
        assert_eq!(next(&mut world.watch).await, "second");
    }

    #[tokio::test]
    async fn a_file_that_means_the_same_is_no_change() {
        let mut world = world();
        std::fs::write(&world.path, format!("# a remark\n{}", text("first"))).unwrap();
        std::fs::write(world.path.with_file_name("other.txt"), "x").unwrap();
        assert!(world.watch.reread().is_none());
        std::fs::write(&world.path, text("second")).unwrap();
        assert_eq!(next(&mut world.watch).await, "second");
    }

    #[tokio::test]
    async fn a_secret_that_changed_in_its_file_is_a_change() {
        let directory = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (directory.path().join("tsugi.yaml"), tempfile::tempdir().unwrap());
        let secret = elsewhere.path().join("token");
        std::fs::write(&secret, "one").unwrap();
        let text = format!("servers: [{{name: 'n-${{file:{}}}', command: c}}]\n", secret.display());
        std::fs::write(&path, text).unwrap();
        let now = layer::read(&path, &Environment::default()).unwrap().settings;
        let mut watch = ConfigWatch::start(&path, Environment::default(), now).unwrap();
        std::fs::write(&secret, "two").unwrap();
        assert_eq!(next(&mut watch).await, "n-two");
    }

    #[tokio::test]
    async fn a_variable_changed_in_the_environment_file_is_a_change() {
        let mut world = world();
        let variables = world.path.with_file_name("x.env");
        std::fs::write(&variables, "NAME=one\n").unwrap();
        std::fs::write(&world.path, "envFile: x.env\nservers: [{name: '${NAME}', command: c}]\n").unwrap();
        assert_eq!(next(&mut world.watch).await, "one");
        std::fs::write(&variables, "NAME=two\n").unwrap();
        assert_eq!(next(&mut world.watch).await, "two");
    }
}
