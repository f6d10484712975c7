//! Descendants of a scripted server: ones that sleep, ones that run away, and the launcher above it.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;

use crate::journal::Writer;

/// The flag after which a role is named.
pub(super) const ROLE_FLAG: &str = "--role";

/// What a descendant does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Sleeps for ten minutes.
    Sleep,
    /// Leaves its session, starts a sleeper and ends: nobody above can name the sleeper.
    Detach,
    /// Starts two of its kind with half of the number each, then sleeps.
    Multiply(usize),
}

impl Role {
    /// Reads a role from a command line.
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once(':') {
            None if text == "sleep" => Some(Role::Sleep),
            None if text == "detach" => Some(Role::Detach),
            Some(("multiply", count)) => count.parse().ok().map(Role::Multiply),
            _ => None,
        }
    }

    fn text(self) -> String {
        match self {
            Role::Sleep => "sleep".into(),
            Role::Detach => "detach".into(),
            Role::Multiply(count) => format!("multiply:{count}"),
        }
    }
}

/// Plays a role to its end.
pub fn play(role: Role) {
    match role {
        Role::Sleep => {}
        Role::Detach => {
            rustix::process::setsid().ok();
            return start(Role::Sleep);
        }
        Role::Multiply(count) => {
            // Bounded, because this is a test of limits and not an attack on the machine.
            let left = count.min(100).saturating_sub(1);
            for share in [left / 2, left - left / 2] {
                if share > 0 {
                    start(Role::Multiply(share));
                }
            }
        }
    }
    std::thread::sleep(Duration::from_secs(600));
}

/// Starts a descendant that holds none of our pipes. It is not waited for: that is the point.
#[allow(clippy::disallowed_methods, clippy::zombie_processes, reason = "what is left behind is what the test is about")]
pub(super) fn start(role: Role) {
    let Ok(program) = std::env::current_exe() else { return };
    let null = std::process::Stdio::null;
    let mut command = std::process::Command::new(program);
    command.args([ROLE_FLAG, &role.text()]).stdin(null()).stdout(null()).stderr(null());
    match command.spawn() {
        // The first of a double fork ends at once; waiting for it makes the second an orphan already now.
        Ok(mut child) if role == Role::Detach => _ = child.wait(),
        _ => {}
    }
}

/// Starts the same command without `--launcher`, with the same streams, and waits for it. It is in the journal,
/// so that a test can end it before its child.
#[allow(clippy::disallowed_methods, reason = "the launcher stands for npx and uvx, which know nothing of jobs")]
pub fn run_launcher(folder: Option<&Path>) -> Result<ExitCode, String> {
    Writer::new(folder).map_err(|error| error.to_string())?.write("launcher", Value::Null);
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let arguments = std::env::args().skip(1).filter(|argument| argument != "--launcher");
    let status = std::process::Command::new(program).args(arguments).status().map_err(|error| error.to_string())?;
    Ok(ExitCode::from(status.code().unwrap_or(1) as u8))
}
