//! Changes of the files that hold certificates and keys.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tsugi_tls::error::TlsFileError;
use tsugi_tls::server::{ReloadEffect, ServerTls};

use crate::app::App;
use crate::config::problem::ConfigProblem;
use crate::report;

/// A pair is written completely when nothing happened for so long.
const QUIET: Duration = Duration::from_millis(200);

pub(super) struct CertificateWatcher {
    signals: mpsc::Receiver<()>,
    /// Something happened that has not been looked at yet.
    is_stale: bool,
    /// The problem that was reported last, so that it is reported once.
    last: Option<String>,
    /// Dropping it ends the watch.
    _watcher: Option<RecommendedWatcher>,
}

impl CertificateWatcher {
    pub(super) fn new(app: &App, tls: Option<&ServerTls>) -> Self {
        let (sender, signals) = mpsc::channel(1);
        let paths: Vec<PathBuf> = tls.iter().flat_map(|tls| tls.files().paths()).map(Path::to_owned).collect();
        let watcher = if paths.is_empty() { None } else { watch(app, paths, sender) };
        Self { signals, is_stale: false, last: None, _watcher: watcher }
    }

    /// Waits until files were replaced and nothing more happens to them. Safe to drop.
    pub(super) async fn changed(&mut self) {
        if !self.is_stale && self.signals.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
        self.is_stale = true;
        // Certificate and key are two files, and most programs write one after the other.
        while tokio::time::timeout(QUIET, self.signals.recv()).await.is_ok_and(|signal| signal.is_some()) {}
        self.is_stale = false;
    }

    /// What to say of a reload; nothing when it is known already.
    pub(super) fn report(
        &mut self,
        reloaded: Result<ReloadEffect, TlsFileError>,
    ) -> Option<Result<&'static str, ConfigProblem>> {
        let problem = reloaded.as_ref().err().map(ToString::to_string);
        let is_known = problem.is_some() && problem == self.last;
        self.last.clone_from(&problem);
        match (reloaded, problem) {
            (Ok(ReloadEffect::Replaced), _) => Some(Ok("the certificates were replaced")),
            (_, Some(problem)) if !is_known => {
                let hint = "the old certificates stay in use; put the right files there, or send the signal HUP";
                Some(Err(ConfigProblem::new(format!("cannot use `gateway.tls`: {problem}")).with_hint(hint)))
            }
            _ => None,
        }
    }
}

/// Watches the directories: files are replaced by renaming, and in Kubernetes a link beside them is.
fn watch(app: &App, paths: Vec<PathBuf>, sender: mpsc::Sender<()>) -> Option<RecommendedWatcher> {
    let parent = |path: &PathBuf| path.parent().filter(|parent| !parent.as_os_str().is_empty()).map(Path::to_owned);
    let directories: BTreeSet<PathBuf> =
        paths.iter().map(|path| parent(path).unwrap_or_else(|| PathBuf::from("."))).collect();
    let concerns = move |event: &notify::Event| {
        let is_link = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".."));
        let is_ours = |path: &PathBuf| paths.iter().any(|own| own.file_name() == path.file_name());
        !event.kind.is_access() && event.paths.iter().any(|path| is_ours(path) || is_link(path))
    };
    let on_event = move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| concerns(&event)) {
            // A pending signal covers this change too.
            let _ = sender.try_send(());
        }
    };
    let started = notify::recommended_watcher(on_event).and_then(|mut watcher| {
        for directory in &directories {
            watcher.watch(directory, RecursiveMode::NonRecursive)?;
        }
        Ok(watcher)
    });
    started.inspect_err(|error| app.output.message(|paint| report::warnings(&[unnoticed(error)], paint))).ok()
}

fn unnoticed(error: &notify::Error) -> ConfigProblem {
    ConfigProblem::new(format!("changes of the certificates cannot be noticed: {error}"))
        .with_hint("send the signal HUP to have them read again")
}
