//! Starts `tsugi` under its own name: called `mcp-server-pm`, that is the project-management server.
//!
//! A second program with the same code would double what is built and installed, so this one only finds its neighbour.
//! The wheel has a copy of it called `tsugi-mcp`, after the package, which is plain `tsugi`.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    // Resolves symbolic links, so a link to this program elsewhere still finds its neighbour.
    let neighbour =
        std::env::current_exe().and_then(|path| path.canonicalize()).map(|path| path.with_file_name("tsugi"));
    let error = match neighbour {
        // `exec` returns only when it fails. The process keeps its id, so signals and supervisors see one program.
        Ok(tsugi) => {
            #[expect(clippy::disallowed_methods, reason = "no child is started: this process becomes that program")]
            let error = Command::new(&tsugi).arg0(own_name()).args(std::env::args_os().skip(1)).exec();
            format!("cannot start {}: {error}", tsugi.display())
        }
        Err(error) => format!("cannot find the directory of this program: {error}"),
    };
    #[expect(clippy::print_stderr, reason = "this program has no other way to report")]
    {
        eprintln!("mcp-server-pm: {error}\nhint: install `tsugi` beside it");
    }
    ExitCode::FAILURE
}

/// The name that this program was called by. A caller that gives none means the name that it is installed under.
fn own_name() -> PathBuf {
    let called = std::env::args_os().next().map(PathBuf::from);
    called.and_then(|path| path.file_name().map(PathBuf::from)).unwrap_or_else(|| PathBuf::from("mcp-server-pm"))
}
