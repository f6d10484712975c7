//! Files that somebody removes or replaces while a server has them open: it notices, saves what it can, and says no.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tsugi_pm::action::Pm;
use tsugi_pm::action::create::CreateTask;
use tsugi_pm::action::list::ListTasks;
use tsugi_pm::domain::fault::{Code, PmFault};
use tsugi_pm::domain::id::ProjectId;
use tsugi_pm::store::{StoreLocation, StoreOptions};

use crate::child::Other;
use crate::world::{caller, folder, found};

const TASKS: usize = 30;

/// A server at work: what it acknowledged is still in the log.
struct Place {
    folder: TempDir,
    pm: Pm,
    project: ProjectId,
}

impl Place {
    async fn at_work() -> Self {
        Self::in_folder(folder()).await
    }

    async fn in_folder(folder: TempDir) -> Self {
        let pm = Pm::open(StoreOptions::new(StoreLocation::Sqlite(folder.path().join("pm.db")))).await.unwrap();
        let project = found(&pm).await;
        let place = Self { folder, pm, project };
        for _ in 0..TASKS {
            place.create().await.unwrap();
        }
        assert!(place.file("-wal").metadata().unwrap().len() > 0, "the log holds what was acknowledged");
        place
    }

    fn file(&self, suffix: &str) -> PathBuf {
        self.folder.path().join(format!("pm.db{suffix}"))
    }

    async fn create(&self) -> Result<String, PmFault> {
        let mut wish = CreateTask::titled(&self.project, "task");
        wish.task.similar_ok = true;
        self.pm.perform(&caller("manager"), wish).await.map(|made| made.task.reference)
    }

    async fn list(&self) -> Result<usize, PmFault> {
        self.pm.perform(&caller("vic"), ListTasks::default()).await.map(|found| found.tasks.len())
    }

    /// Both writing and reading are refused, and it is said what to do.
    async fn is_refused(&self) {
        let refused = [self.create().await.unwrap_err(), self.list().await.unwrap_err()];
        for fault in refused {
            assert_eq!(fault.code, Code::StorageReadonly, "{fault:?}");
            assert!(fault.hint.contains("start this server again"), "{fault:?}");
        }
    }
}

/// What a process sees that opens the database now.
fn newcomer(file: &Path) -> Other {
    let mut other = Other::start("hold", file, &["manager"]);
    assert_eq!(other.hear().as_deref(), Some("ready"));
    other
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_removed_while_open_costs_nothing_that_was_acknowledged() {
    for removed in [&["-wal"][..], &["-shm"], &["-wal", "-shm"]] {
        let place = Place::at_work().await;
        for suffix in removed {
            std::fs::remove_file(place.file(suffix)).unwrap();
        }
        place.is_refused().await;
        let mut next = newcomer(&place.file(""));
        assert_eq!(next.ask("count"), TASKS.to_string(), "{removed:?}");
        assert_eq!(next.ask(&format!("create {}", place.project)), format!("WEB-{}", TASKS + 1));
        place.is_refused().await;
        // The first server goes; it must not take the second one's log with it.
        let Place { folder, pm, .. } = place;
        drop(pm);
        assert_eq!((next.ask("count"), next.ask("verify")), ((TASKS + 1).to_string(), "[]".to_owned()), "{removed:?}");
        let mut last = newcomer(&folder.path().join("pm.db"));
        assert_eq!((last.ask("count"), last.ask("verify")), ((TASKS + 1).to_string(), "[]".to_owned()), "{removed:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_ends_after_its_log_was_removed_leaves_everything_in_the_file() {
    let place = Place::at_work().await;
    for suffix in ["-wal", "-shm"] {
        std::fs::remove_file(place.file(suffix)).unwrap();
    }
    let Place { folder, pm, .. } = place;
    drop(pm);
    let mut next = newcomer(&folder.path().join("pm.db"));
    assert_eq!((next.ask("count"), next.ask("verify")), (TASKS.to_string(), "[]".to_owned()));
}

/// The one case in which something is lost: the log is removed, and before the server's next call (or sign of life)
/// another process has begun a new one. Nothing is torn, and the server says that something may be missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_was_replaced_is_left_to_whoever_writes_it_now() {
    let place = Place::at_work().await;
    drop(place.pm);
    // What is in the file now is safe; the next server's words are only in the log.
    let pm = Pm::open(StoreOptions::new(StoreLocation::Sqlite(place.folder.path().join("pm.db")))).await.unwrap();
    let place = Place { pm, ..place };
    place.create().await.unwrap();
    for suffix in ["-wal", "-shm"] {
        std::fs::remove_file(place.file(suffix)).unwrap();
    }
    let mut next = newcomer(&place.file(""));
    assert_eq!(next.ask(&format!("create {}", place.project)), format!("WEB-{}", TASKS + 1));
    place.is_refused().await;
    let fault = place.create().await.unwrap_err();
    assert!(fault.message.contains("may be missing"), "{fault:?}");
    let Place { folder, pm, .. } = place;
    drop(pm);
    assert_eq!((next.ask("count"), next.ask("verify")), ((TASKS + 1).to_string(), "[]".to_owned()));
    let mut last = newcomer(&folder.path().join("pm.db"));
    assert_eq!((last.ask("count"), last.ask("verify")), ((TASKS + 1).to_string(), "[]".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_was_moved_away_is_not_written_any_more() {
    let place = Place::at_work().await;
    std::fs::rename(place.file(""), place.file(".old")).unwrap();
    place.is_refused().await;
    std::fs::write(place.file(""), b"").unwrap();
    place.is_refused().await;
}

/// Makes a file immutable, or writable again; false where the system does not let us.
#[cfg(target_os = "linux")]
fn set_immutable(path: &Path, is_immutable: bool) -> bool {
    use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
    let Ok(file) = std::fs::File::open(path) else { return false };
    let Ok(mut flags) = ioctl_getflags(&file) else { return false };
    flags.set(IFlags::IMMUTABLE, is_immutable);
    ioctl_setflags(&file, flags).is_ok()
}

/// SQLite maps its shared memory: a write to a page of an immutable file once ended the process with SIGBUS.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn shared_memory_that_was_made_immutable_is_a_refusal_that_names_the_file() {
    let place = Place::in_folder(tempfile::tempdir().unwrap()).await;
    let shared = place.file("-shm");
    if !set_immutable(&shared, true) {
        println!("skipped: this file system or this user cannot make files immutable");
        return;
    }
    let refused = [place.create().await.map(drop), place.list().await.map(drop), place.pm.health().await.map(drop)];
    assert!(set_immutable(&shared, false));
    for refused in refused {
        let fault = refused.unwrap_err();
        assert_eq!(fault.code, Code::StorageReadonly, "{fault:?}");
        assert!(fault.message.contains("pm.db-shm was made immutable"), "{fault:?}");
        assert!(fault.hint.contains("chattr -i"), "{fault:?}");
    }
    place.create().await.expect("it goes on when it is allowed to");
}
