//! Finding the server's program, and building it when a test needs a newer one.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

const NAME: &str = "tsugi-testkit-server";

/// The program. Cargo does not build the programs of a dependency, so it is built here when it is missing or
/// older than its sources. `TSUGI_TESTKIT_SERVER` names another one.
///
/// # Panics
/// When it cannot be built.
pub fn server_program() -> PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| std::env::var_os("TSUGI_TESTKIT_SERVER").map_or_else(find_or_build, PathBuf::from)).clone()
}

fn find_or_build() -> PathBuf {
    let program = beside_the_test().unwrap_or_else(|| workspace().join("target/debug")).join(NAME);
    if !is_fresh(&program) {
        build(&program);
    }
    program
}

/// `target/debug` of `target/debug/deps/some_test-0123`.
fn beside_the_test() -> Option<PathBuf> {
    let test = std::env::current_exe().ok()?;
    let folder = test.parent()?;
    if folder.ends_with("deps") || folder.ends_with("examples") {
        folder.parent().map(Path::to_owned)
    } else {
        Some(folder.to_owned())
    }
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn is_fresh(program: &Path) -> bool {
    let built = std::fs::metadata(program).and_then(|metadata| metadata.modified());
    let Ok(built) = built else { return false };
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Without sources there is nothing to be older than.
    newest(&manifest.join("src")).is_none_or(|changed| changed <= built)
}

fn newest(folder: &Path) -> Option<SystemTime> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    entries
        .filter_map(|entry| match entry.file_type().ok()?.is_dir() {
            true => newest(&entry.path()),
            false => entry.metadata().ok()?.modified().ok(),
        })
        .max()
}

#[allow(clippy::disallowed_methods, reason = "cargo is no server; it is waited for right here")]
fn build(program: &Path) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = std::process::Command::new(cargo);
    command.args(["build", "--quiet", "--offline", "-p", "tsugi-testkit", "--bin", NAME]).current_dir(workspace());
    if program.parent().is_some_and(|folder| folder.ends_with("release")) {
        command.arg("--release");
    }
    if let Some(target) = program.parent().and_then(Path::parent) {
        command.arg("--target-dir").arg(target);
    }
    let status = command.status().expect("cargo can be started");
    assert!(status.success() && program.exists(), "cargo could not build {NAME}");
    // Cargo leaves an untouched program as old as it was, and then every test would ask again.
    std::fs::File::options().append(true).open(program).and_then(|file| file.set_modified(SystemTime::now())).ok();
}
