//! The exit codes and their meanings, defined once.

use tsugi_pm::domain::fault::Code;
use tsugi_protocol::answer::{Fault, FaultCode};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandExit {
    Success,
    Failed,
    Usage,
    Unreachable,
    Timeout,
    Refused,
    InputRequired,
    Interrupted,
    /// `tsugi pm`: not found.
    NotFound,
    /// `tsugi pm`: the current state does not allow it.
    Conflict,
    /// `tsugi pm`: the database was locked; trying again may succeed.
    Busy,
    /// `tsugi pm mcp`: it could not start.
    CannotStart,
}

/// The codes and what they mean, in the order of the reference page.
pub(crate) const CODES: [(CommandExit, u8, &str); 8] = [
    (CommandExit::Success, 0, "Success."),
    (
        CommandExit::Failed,
        1,
        "The tool failed (`isError`), the server answered with an error, or something else went wrong.",
    ),
    (
        CommandExit::Usage,
        2,
        "The command line, the configuration or the arguments are invalid, or the server, tool or prompt does not exist. Nothing was sent.",
    ),
    (
        CommandExit::Unreachable,
        3,
        "The server could not be started or reached, or the connection was lost during the call.",
    ),
    (CommandExit::Timeout, 4, "The server did not answer in time."),
    (CommandExit::Refused, 5, "Refused: not allowed, rate limit exceeded, or overloaded."),
    (
        CommandExit::InputRequired,
        6,
        "The server requires an answer that the command cannot give: a model's answer, or roots without `--root`. Without a terminal, questions to the person are declined and the call goes on.",
    ),
    (CommandExit::Interrupted, 130, "Interrupted (Ctrl-C)."),
];

/// The codes of `tsugi pm` and `mcp-server-pm`, which use a database and no servers. 75 and 78 are those of `sysexits`.
pub(crate) const PM_CODES: [(CommandExit, u8, &str); 9] = [
    (CommandExit::Success, 0, "Success."),
    (
        CommandExit::Failed,
        1,
        "`verify` or `doctor` found something, the disk is full or read-only, or something else went wrong.",
    ),
    (CommandExit::Usage, 2, "The command line or an argument is invalid."),
    (
        CommandExit::NotFound,
        3,
        "The task, project, agent, session or database does not exist, or this agent may not see it.",
    ),
    (
        CommandExit::Conflict,
        4,
        "The current state does not allow it: the task is claimed, not ready or changed in between, or a session is required.",
    ),
    (CommandExit::Refused, 5, "This agent lacks permission, or a person has to approve first."),
    (CommandExit::Busy, 75, "The database was locked for too long; the same command may succeed later."),
    (
        CommandExit::CannotStart,
        // `EX_CONFIG` of sysexits.
        78,
        "The server for an agent (`tsugi pm mcp`, `mcp-server-pm`) could not start.",
    ),
    (CommandExit::Interrupted, 130, "Interrupted (Ctrl-C)."),
];

impl CommandExit {
    /// The number.
    pub(crate) fn code(self) -> u8 {
        // The first table wins, so that a shared exit has one number.
        let row = CODES.iter().chain(&PM_CODES).find(|(exit, _, _)| *exit == self);
        row.map(|(_, code, _)| *code).expect("every way to end has its row")
    }

    /// The exit code of a failed call. A call that was retried ends as its last try did.
    pub(crate) fn of_fault(fault: &Fault) -> Self {
        use FaultCode::*;
        match fault.code {
            ConfigInvalid | InvalidRequest | MethodNotFound | ToolNotFound | ResourceNotFound | TaskNotFound
            | InvalidParams | CannotExecute | ServerNotFound | ServerExists | MissingCapability | StateRejected
            | TooLarge => CommandExit::Usage,
            ServerNotRunning | ServerCrashed | ConnectionFailed | ConnectionLost => CommandExit::Unreachable,
            Timeout => CommandExit::Timeout,
            PermissionDenied | AuthRequired | ToolChanged | RateLimitExceeded | Overloaded | Draining
            | AuditUnavailable => CommandExit::Refused,
            InputRequired => CommandExit::InputRequired,
            Cancelled => CommandExit::Interrupted,
            // The last try says why, the retries only how often.
            MaxRetriesExceeded => fault.cause.as_deref().map_or(CommandExit::Failed, CommandExit::of_fault),
            // The server was reached, so it is not "unreachable".
            InvalidResponse | ExecutionFailed | InternalError => CommandExit::Failed,
        }
    }
}

impl From<Code> for CommandExit {
    /// How a refusal of the project management ends the command.
    fn from(code: Code) -> Self {
        use Code::*;
        match code {
            // The caller can correct these by typing something else.
            InvalidArgument | TooLarge => CommandExit::Usage,
            NotFound => CommandExit::NotFound,
            PermissionDenied | AgentInactive | ApprovalRequired | HandoffNotForYou => CommandExit::Refused,
            InvalidTransition | NotReady | AlreadyClaimed | ClaimLost | ClaimLimit | SessionRequired
            | SessionAmbiguous | SessionEnded | HandoffNotPending | DependencyCycle | VersionConflict
            | IdempotencyConflict | ProjectNotActive | SimilarExists | HandoffExists => CommandExit::Conflict,
            Busy => CommandExit::Busy,
            Internal | StorageFull | StorageReadonly | Outdated => CommandExit::Failed,
        }
    }
}

impl From<CommandExit> for std::process::ExitCode {
    fn from(exit: CommandExit) -> Self {
        exit.code().into()
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::path::Path;

    use super::*;

    fn page() -> String {
        let mut page = "# Exit codes\n\n<!-- Generated from `crates/tsugi/src/report/exit.rs`. `UPDATE_GOLDEN=1 cargo nextest run -p tsugi` updates it. -->\n\n\
                        Every subcommand of `tsugi` except `pm` ends with one of these.\n\
                        A call that was retried ends as its last try did; a batch ends as its first failed call did.\n\
                        A list without one of the servers is printed and ends with 3 for a server that failed, or 4 for one that was too slow.\n\
                        If the reader of the output closes the pipe (as in `tsugi tools | head`), the command ends with 0.\n\n\
"
            .to_owned();
        table(&mut page, &CODES);
        page.push_str(
            "\n## `tsugi pm` and `mcp-server-pm`\n\nThey use a database instead of servers, so some numbers have another meaning.\n\n",
        );
        table(&mut page, &PM_CODES);
        page
    }

    fn table(page: &mut String, codes: &[(CommandExit, u8, &str)]) {
        page.push_str("| code | meaning |\n| --- | --- |\n");
        for (_, code, meaning) in codes {
            writeln!(page, "| {code} | {meaning} |").unwrap();
        }
    }

    #[test]
    fn a_way_to_end_has_one_number_wherever_it_stands() {
        for (exit, code, _) in CODES.iter().chain(&PM_CODES) {
            assert_eq!(exit.code(), *code, "{exit:?}");
        }
    }

    #[test]
    fn the_reference_page_is_fresh() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/exit-codes.md");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, page()).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(page(), written, "UPDATE_GOLDEN=1 updates it");
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
            assert_eq!(CommandExit::of_fault(&Fault::new(code, "x")).code(), exit, "{code:?}");
        }
        let retried = Fault::new(FaultCode::MaxRetriesExceeded, "x").because(Fault::new(FaultCode::Timeout, "y"));
        assert_eq!(CommandExit::of_fault(&retried), CommandExit::Timeout);
    }
}
