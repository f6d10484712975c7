//! The codes with which the command ends, once, with their meaning.

use tsugi_protocol::answer::{Fault, FaultCode};

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Success,
    Failed,
    Usage,
    Unreachable,
    Timeout,
    Refused,
    InputRequired,
    Interrupted,
    /// A code of its own: `tsugi pm` has those of its reference page.
    Other(u8),
}

/// The codes and what they mean, in the order of the reference page.
pub(crate) const CODES: [(Exit, u8, &str); 8] = [
    (Exit::Success, 0, "All went well."),
    (
        Exit::Failed,
        1,
        "The tool ran and failed (`isError`), the server answered with an error, or something else went wrong.",
    ),
    (
        Exit::Usage,
        2,
        "The command line, the configuration or the arguments cannot be used; there is no such server, tool, prompt or resource. Nothing was sent.",
    ),
    (Exit::Unreachable, 3, "The server could not be started or reached, or was lost during the call."),
    (Exit::Timeout, 4, "The server did not answer in time."),
    (Exit::Refused, 5, "Not allowed, too often, or too much at once."),
    (Exit::InputRequired, 6, "The tool asks for input, and nobody is there to be asked."),
    (Exit::Interrupted, 130, "Interrupted by the person (Ctrl-C)."),
];

impl Exit {
    /// The number.
    pub(crate) fn code(self) -> u8 {
        if let Exit::Other(code) = self {
            return code;
        }
        let row = CODES.iter().find(|(exit, _, _)| *exit == self);
        row.map(|(_, code, _)| *code).expect("every way to end has its row")
    }

    /// How a failed call ends the command. Tried in vain, it ends as the last try did.
    pub(crate) fn of_fault(fault: &Fault) -> Self {
        use FaultCode::*;
        match fault.code {
            ConfigInvalid | InvalidRequest | MethodNotFound | ToolNotFound | ResourceNotFound | InvalidParams
            | CannotExecute | ServerNotFound | MissingCapability | StateRejected | TooLarge => Exit::Usage,
            ServerNotRunning | ServerCrashed | ConnectionFailed | ConnectionLost => Exit::Unreachable,
            Timeout => Exit::Timeout,
            PermissionDenied | RateLimitExceeded | Overloaded | Draining => Exit::Refused,
            InputRequired => Exit::InputRequired,
            Cancelled => Exit::Interrupted,
            MaxRetriesExceeded => fault.cause.as_deref().map_or(Exit::Failed, Exit::of_fault),
            InvalidResponse | ExecutionFailed | InternalError => Exit::Failed,
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::path::Path;

    use super::*;

    fn page() -> String {
        let mut page = "# Exit codes\n\n<!-- Generated from `crates/tsugi/src/report/exit.rs`. `UPDATE_GOLDEN=1 cargo nextest run -p tsugi` writes it anew. -->\n\n\
                        Every subcommand of `tsugi` ends with one of these.\n\
                        A call that was tried several times ends as its last try did; of a batch, the first failure counts.\n\
                        When whoever reads our output goes away (as in `tsugi tools | head`), the command ends quietly with 0.\n\n\
                        | code | meaning |\n| --- | --- |\n"
            .to_owned();
        for (_, code, meaning) in CODES {
            writeln!(page, "| {code} | {meaning} |").unwrap();
        }
        page
    }

    #[test]
    fn the_reference_page_is_fresh() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/exit-codes.md");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, page()).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(page(), written, "UPDATE_GOLDEN=1 writes it anew");
    }

    #[test]
    fn each_kind_of_failure_ends_with_its_code() {
        for (code, exit) in [
            (FaultCode::ConfigInvalid, 2),
            (FaultCode::ToolNotFound, 2),
            (FaultCode::ConnectionFailed, 3),
            (FaultCode::Timeout, 4),
            (FaultCode::PermissionDenied, 5),
            (FaultCode::InputRequired, 6),
            (FaultCode::ExecutionFailed, 1),
            (FaultCode::Cancelled, 130),
        ] {
            assert_eq!(Exit::of_fault(&Fault::new(code, "x")).code(), exit, "{code:?}");
        }
        let retried = Fault::new(FaultCode::MaxRetriesExceeded, "x").because(Fault::new(FaultCode::Timeout, "y"));
        assert_eq!(Exit::of_fault(&retried), Exit::Timeout);
    }
}
