//! Opening a SQLite file: the right version, the right settings, the right schema, or a clear refusal.

use std::cell::Cell;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::run::fault;
use crate::domain::fault::PmFault;
use crate::store::clock::{SystemClock, TimeSource};
use crate::store::migrate::{self, STEPS};
use crate::store::{LONGEST_WAIT, StoreOpenError, StoreOptions};

/// Versions before this one can corrupt a database when a write-ahead log is reset.
const OLDEST_SQLITE: i32 = 3_051_003;
/// Statements kept prepared per connection; the use-cases have about this many different ones.
const PREPARED: usize = 160;

/// `trusted_schema` and `cell_size_check` keep a damaged or hostile file from being taken at its word; `FULL` syncs
/// every commit, without which a power cut could take back a claim that two agents then both hold.
const SETTINGS: &str = "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF; \
                        PRAGMA cell_size_check = ON; PRAGMA journal_size_limit = 67108864; PRAGMA wal_autocheckpoint = 1000; \
                        PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY";

/// The connections of an open file; without a writer the file is read-only.
pub(super) struct OpenedDatabase {
    pub(super) writer: Option<Connection>,
    pub(super) reader: ReadConnection,
    pub(super) watcher: Connection,
}

/// How further connections are made that only read.
pub(super) struct ReadConnection {
    path: PathBuf,
    vfs: Option<String>,
}

impl ReadConnection {
    pub(super) fn connect(&self) -> Result<Connection, PmFault> {
        connect(&self.path, self.vfs.as_deref(), OpenFlags::SQLITE_OPEN_READ_ONLY)
    }
}

/// Opens and migrates a file.
pub(super) fn open(path: &Path, options: &StoreOptions) -> Result<OpenedDatabase, StoreOpenError> {
    if rusqlite::version_number() < OLDEST_SQLITE {
        return Err(StoreOpenError::OldSqlite { found: rusqlite::version().to_owned() });
    }
    if !options.allow_network_file_system {
        check_file_system(path)?;
    }
    let reader = ReadConnection { path: path.to_owned(), vfs: options.vfs.clone() };
    let write_flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let writer = match connect(path, options.vfs.as_deref(), write_flags) {
        Ok(writer) if !writer.is_readonly("main").unwrap_or(false) => writer,
        // Where nothing at all can be written, SQLite has no place for its shared memory and cannot even begin.
        Err(fault) if !is_write_refused(path) => return Err(fault.into()),
        Ok(_) | Err(_) => return open_read_only(reader, options),
    };
    // Before the migration: it must not run under a rollback journal.
    use_write_ahead_log(&writer)?;
    migrate_file(&writer, path, options.known_migrations)?;
    let watcher = reader.connect()?;
    Ok(OpenedDatabase { writer: Some(writer), reader, watcher })
}

/// A file on a disk that cannot be written can still be read. Where SQLite cannot even make its shared memory, the file
/// is taken for immutable; but only without a log beside it, whose newer contents would silently be missed.
fn open_read_only(reader: ReadConnection, options: &StoreOptions) -> Result<OpenedDatabase, StoreOpenError> {
    let usable = reader.connect().and_then(|first| taken(&first).map(|_| first));
    let (reader, watcher) = match usable {
        Ok(first) => (reader, first),
        Err(fault) if has_log(&reader.path) => return Err(fault.into()),
        Err(_) => {
            let reader = ReadConnection { path: immutable(&reader.path), ..reader };
            let first = reader.connect()?;
            (reader, first)
        }
    };
    migrate::check(&taken(&watcher)?, options.known_migrations, |step| step.sqlite)?;
    Ok(OpenedDatabase { writer: None, reader, watcher })
}

/// Whether the file is there and may not be written.
fn is_write_refused(path: &Path) -> bool {
    let opened = std::fs::OpenOptions::new().write(true).open(path);
    opened.is_err_and(|error| matches!(error.kind(), ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied))
}

fn has_log(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).is_ok_and(|metadata| metadata.len() > 0)
}

fn immutable(path: &Path) -> PathBuf {
    format!("file:{}?immutable=1", path.display().to_string().replace('?', "%3f").replace('#', "%23")).into()
}

fn connect(path: &Path, vfs: Option<&str>, flags: OpenFlags) -> Result<Connection, PmFault> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let opened = match vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs),
        None => Connection::open_with_flags(path, flags),
    };
    let mut connection = opened.map_err(|error| fault(&error))?;
    connection.set_prepared_statement_cache_capacity(PREPARED);
    // Without this SQLite looks at the values when it plans, and plans again for every call.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(|error| fault(&error))?;
    connection.busy_handler(Some(wait)).map_err(|error| fault(&error))?;
    retry_busy(|| connection.execute_batch(SETTINGS))?;
    Ok(connection)
}

thread_local!(static UNTIL: Cell<Option<Instant>> = const { Cell::new(None) });

/// From here on statements of this thread wait for another process's lock until then, and no longer.
pub(super) fn wait_until(due: Instant) {
    UNTIL.set(Some(due));
}

/// Waits a random moment for another process's lock, if this thread still has time to wait.
///
/// SQLite's own handler makes everybody wait equally long, and then the same process wins again and again: with it,
/// ten to fifteen of sixteen processes never got a turn.
fn wait(tries: i32) -> bool {
    if UNTIL.get().is_none_or(|due| due <= Instant::now()) {
        return false;
    }
    let longest_us = if tries < 10 { 2_000 } else { 8_000 };
    std::thread::sleep(Duration::from_micros(rand::random_range(200..longest_us)));
    true
}

/// Some statements answer "locked" without asking the handler, to avoid a deadlock; here waiting is safe.
fn retry_busy<T>(mut attempt: impl FnMut() -> rusqlite::Result<T>) -> Result<T, PmFault> {
    wait_until(Instant::now() + LONGEST_WAIT);
    let mut tries = 0;
    loop {
        match attempt() {
            Err(error) if is_busy(&error) && wait(tries) => tries += 1,
            other => return other.map_err(|error| fault(&error)),
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn use_write_ahead_log(writer: &Connection) -> Result<(), StoreOpenError> {
    let mode: String = retry_busy(|| writer.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)))?;
    if mode == "wal" {
        return Ok(());
    }
    Err(PmFault::internal(format!("sqlite refuses write-ahead logging here (mode {mode})")).into())
}

/// The steps a file has taken; none when it is new.
fn taken(connection: &Connection) -> Result<Vec<(i64, String)>, PmFault> {
    let exists: bool = retry_busy(|| {
        connection
            .query_row("SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'migration')", [], |row| row.get(0))
    })?;
    if !exists {
        return Ok(Vec::new());
    }
    retry_busy(|| {
        let mut statement = connection.prepare(migrate::READ_RECORD)?;
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    })
}

/// Takes the missing steps, each in a transaction that begins with the write lock.
fn migrate_file(writer: &Connection, path: &Path, known: usize) -> Result<(), StoreOpenError> {
    let mut done = migrate::check(&taken(writer)?, known, |step| step.sqlite)?;
    if done > 0 && done < known {
        back_up(writer, path, done)?;
    }
    while done < known {
        retry_busy(|| writer.execute_batch("BEGIN IMMEDIATE"))?;
        let step = step_forward(writer, known);
        let end = if step.is_ok() { "COMMIT" } else { "ROLLBACK" };
        retry_busy(|| writer.execute_batch(end))?;
        done = step?;
    }
    Ok(())
}

/// Takes the next step, as seen under the lock; another process may have taken it already.
fn step_forward(writer: &Connection, known: usize) -> Result<usize, StoreOpenError> {
    let storage = |error: rusqlite::Error| StoreOpenError::Storage(fault(&error));
    let at = migrate::check(&taken(writer)?, known, |step| step.sqlite)?;
    if at >= known {
        return Ok(at);
    }
    writer.execute_batch(migrate::CREATE_RECORD).map_err(storage)?;
    writer.execute_batch(STEPS[at].sqlite).map_err(storage)?;
    let (version, name, checksum) = migrate::record(at, STEPS[at].sqlite);
    let insert = "INSERT INTO migration (version, name, checksum, applied_at) VALUES (?1, ?2, ?3, ?4)";
    writer.execute(insert, (version, name, checksum, SystemClock.now().0)).map_err(storage)?;
    Ok(at + 1)
}

/// Copies the file before its schema changes, under a name that says which schema it has.
fn back_up(writer: &Connection, path: &Path, version: usize) -> Result<(), StoreOpenError> {
    let backup = format!("{}.schema-{version}.backup", path.display());
    if Path::new(&backup).exists() {
        return Ok(());
    }
    // Renamed when it is complete, so that a backup with the final name is whole.
    let partial = format!("{backup}.{}", std::process::id());
    let _ = std::fs::remove_file(&partial);
    let copied = retry_busy(|| writer.execute("VACUUM INTO ?1", [&partial])).map(drop);
    let named = copied.and_then(|()| {
        std::fs::rename(&partial, &backup)
            .map_err(|error| PmFault::internal(format!("cannot name the backup: {error}")))
    });
    if named.is_err() {
        // On a full disk half a copy only takes space.
        for suffix in ["", "-journal"] {
            let _ = std::fs::remove_file(format!("{partial}{suffix}"));
        }
    }
    Ok(named?)
}

/// Refuses file systems whose locks or shared memory cannot be trusted between machines.
#[cfg(target_os = "linux")]
fn check_file_system(path: &Path) -> Result<(), StoreOpenError> {
    const NETWORK: &[(u64, &str)] = &[
        (0x6969, "NFS"),
        (0x517b, "SMB"),
        (0xff53_4d42, "CIFS"),
        (0xfe53_4d42, "SMB2"),
        (0x0102_1997, "9p"),
        (0x6573_5546, "FUSE"),
        (0x5346_414f, "AFS"),
        (0x00c3_6400, "Ceph"),
    ];
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A folder that does not exist gives a better message when the file is opened.
    let Ok(found) = rustix::fs::statfs(folder) else { return Ok(()) };
    // The type is signed on some architectures.
    let magic = found.f_type as u64 & 0xffff_ffff;
    match NETWORK.iter().find(|(number, _)| *number == magic) {
        Some((_, kind)) => Err(StoreOpenError::NetworkFileSystem { path: path.to_owned(), kind }),
        None => Ok(()),
    }
}

/// Elsewhere the operating system does not tell in a way we know.
#[cfg(not(target_os = "linux"))]
fn check_file_system(_path: &Path) -> Result<(), StoreOpenError> {
    Ok(())
}
