//! The causes of failure: a stable word for programs, a sentence for people, and what to try.

use tsugi_protocol::answer::FaultDiagnosis;

/// Why a server does not work, or not as well as it should.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureCause {
    ProgramMissing {
        program: String,
    },
    NotExecutable {
        program: String,
    },
    InterpreterMissing {
        program: String,
    },
    DirectoryMissing {
        directory: String,
    },
    ScriptMissing {
        script: String,
    },
    WrongNode {
        line: String,
    },
    WrongPython {
        line: String,
    },
    PackageMissing {
        package: String,
        line: String,
    },
    CacheBroken {
        folder: String,
    },
    NoNetwork {
        runner: &'static str,
    },
    NeedsVariable {
        name: String,
        is_set_here: bool,
    },
    /// The server was denied a file while it ran.
    SandboxDenies {
        path: Option<String>,
    },
    /// The server did not find a file that exists outside its sandbox.
    SandboxHides {
        path: String,
    },
    /// The program itself is out of the sandbox's reach, so it was not started.
    SandboxForbidsProgram {
        message: String,
        hint: Option<String>,
    },
    AgentUnknown {
        agent: String,
    },
    ProjectServer {
        message: String,
        hint: Option<String>,
    },
    PortTaken {
        line: String,
    },
    CannotReach {
        line: String,
    },
    Banner {
        line: String,
        is_fatal: bool,
    },
    Refused,
    NoSuchHost,
    TlsName,
    TlsUntrusted,
    TlsExpired,
    Unauthorized,
    /// It wants a sign-in that was not made.
    SignInMissing {
        server: String,
    },
    /// The sign-in has ended, or its provider refuses it.
    SignInEnded {
        server: String,
    },
    SignInScope {
        message: String,
        hint: Option<String>,
    },
    /// No sign-in can be made or used, as things are.
    SignInRefused {
        message: String,
        hint: Option<String>,
    },
    Forbidden,
    NotMcp {
        what: String,
    },
    Hangs {
        runner: Option<&'static str>,
    },
    Crashes {
        status: String,
        is_silent: bool,
    },
    Unknown {
        message: String,
    },
}

impl FailureCause {
    /// The word by which programs know it.
    pub fn word(&self) -> &'static str {
        match self {
            FailureCause::ProgramMissing { .. } => "program-missing",
            FailureCause::NotExecutable { .. } => "program-not-executable",
            FailureCause::InterpreterMissing { .. } => "interpreter-missing",
            FailureCause::DirectoryMissing { .. } => "directory-missing",
            FailureCause::ScriptMissing { .. } => "script-missing",
            FailureCause::WrongNode { .. } => "wrong-node",
            FailureCause::WrongPython { .. } => "wrong-python",
            FailureCause::PackageMissing { .. } => "package-not-found",
            FailureCause::CacheBroken { .. } => "cache-broken",
            FailureCause::NoNetwork { .. } => "no-network",
            FailureCause::NeedsVariable { .. } => "needs-variable",
            FailureCause::SandboxDenies { .. }
            // One word for all three: programs act on them alike.
            | FailureCause::SandboxHides { .. }
            | FailureCause::SandboxForbidsProgram { .. } => "sandbox-denies",
            FailureCause::AgentUnknown { .. } => "agent-unknown",
            FailureCause::ProjectServer { .. } => "pm-cannot-start",
            FailureCause::PortTaken { .. } => "port-taken",
            FailureCause::CannotReach { .. } => "cannot-reach",
            FailureCause::Banner { .. } => "banner-on-stdout",
            FailureCause::Refused => "port-refused",
            FailureCause::NoSuchHost => "no-such-host",
            FailureCause::TlsName => "tls-wrong-name",
            FailureCause::TlsUntrusted => "tls-untrusted",
            FailureCause::TlsExpired => "tls-expired",
            FailureCause::Unauthorized => "unauthorized",
            FailureCause::SignInMissing { .. } => "oauth-required",
            FailureCause::SignInEnded { .. } => "sign-in-ended",
            FailureCause::SignInScope { .. } => "sign-in-scope",
            FailureCause::SignInRefused { .. } => "sign-in-refused",
            FailureCause::Forbidden => "forbidden",
            FailureCause::NotMcp { .. } => "not-mcp",
            FailureCause::Hangs { .. } => "hangs",
            FailureCause::Crashes { .. } => "crashes",
            FailureCause::Unknown { .. } => "unknown",
        }
    }

    /// Whether the server can be used all the same.
    pub fn is_blemish(&self) -> bool {
        // All other causes keep a server from working.
        matches!(self, FailureCause::Banner { is_fatal: false, .. })
    }

    /// What is wrong, in a sentence, with what the server printed about it.
    pub fn sentence(&self) -> String {
        match (self, self.quotation()) {
            (FailureCause::Crashes { status, .. }, _) => format!("{} ({status})", self.summary()),
            (_, Some(quotation)) => format!("{}: {quotation}", self.summary()),
            (_, None) => self.summary(),
        }
    }

    /// The same without the server's output, which only those who run the server may read.
    pub fn summary(&self) -> String {
        match self {
            FailureCause::ProgramMissing { program } => format!("program `{program}` not found"),
            FailureCause::NotExecutable { program } => format!("`{program}` is not executable"),
            FailureCause::InterpreterMissing { program } => format!("the interpreter of `{program}` does not exist"),
            FailureCause::DirectoryMissing { directory } => {
                format!("its working directory `{directory}` does not exist")
            }
            FailureCause::ScriptMissing { script } => format!("the script `{script}` does not exist"),
            FailureCause::WrongNode { .. } => "it does not run with the installed version of Node".to_owned(),
            FailureCause::WrongPython { .. } => "it does not run with the installed version of Python".to_owned(),
            FailureCause::PackageMissing { package, .. } => format!("package or module `{package}` not found"),
            FailureCause::CacheBroken { .. } => "the npx download is incomplete, as after an interruption".to_owned(),
            FailureCause::NoNetwork { runner } => {
                format!("{runner} needs its registry to start, and the sandbox allows no network")
            }
            FailureCause::NeedsVariable { name, is_set_here: false } => format!("the variable `{name}` is not set"),
            FailureCause::NeedsVariable { name, .. } => format!("the variable `{name}` is not passed to it"),
            FailureCause::SandboxDenies { .. } => "its sandbox denies access to a file".to_owned(),
            FailureCause::SandboxHides { .. } => "a file that it needs exists, but not inside its sandbox".to_owned(),
            // The process layer names program and path already.
            FailureCause::SandboxForbidsProgram { message, .. } => message.clone(),
            FailureCause::AgentUnknown { agent } => format!("agent `{agent}` is not in its database"),
            FailureCause::ProjectServer { .. } => "the project server cannot start".to_owned(),
            FailureCause::PortTaken { .. } => "the port it listens on is taken".to_owned(),
            FailureCause::CannotReach { .. } => "it cannot reach a service it depends on".to_owned(),
            FailureCause::Banner { .. } => "it writes lines to standard output that are not messages".to_owned(),
            FailureCause::Refused => "connection refused: nothing listens at its address".to_owned(),
            FailureCause::NoSuchHost => "the host name of its address cannot be resolved".to_owned(),
            FailureCause::TlsName => "its certificate is for another host name".to_owned(),
            FailureCause::TlsUntrusted => {
                "its certificate is not signed by an authority this machine trusts".to_owned()
            }
            FailureCause::TlsExpired => "its certificate has expired or is not valid yet".to_owned(),
            FailureCause::Unauthorized => "it requires credentials, or rejects those it was sent (401)".to_owned(),
            FailureCause::SignInMissing { .. } => "it requires a sign-in, and there is none".to_owned(),
            FailureCause::SignInEnded { .. } => {
                "its sign-in has ended: the provider takes neither token any more".to_owned()
            }
            FailureCause::SignInScope { message, .. } => message.clone(),
            FailureCause::SignInRefused { message, .. } => format!("no sign-in is possible: {message}"),
            FailureCause::Forbidden => "it rejects these credentials (403)".to_owned(),
            FailureCause::NotMcp { what } => format!("something answers at its address, but not with MCP ({what})"),
            FailureCause::Hangs { .. } => "it runs, but does not answer the handshake".to_owned(),
            FailureCause::Crashes { .. } => "it exits before it answers".to_owned(),
            // Better the raw message than a guess.
            FailureCause::Unknown { message } => message.clone(),
        }
    }

    /// What the server itself printed about it.
    pub fn quotation(&self) -> Option<&str> {
        match self {
            FailureCause::WrongNode { line }
            | FailureCause::WrongPython { line }
            | FailureCause::PackageMissing { line, .. }
            | FailureCause::PortTaken { line }
            | FailureCause::CannotReach { line }
            | FailureCause::Banner { line, .. } => Some(line),
            // Paths are read from its output, and tell how this machine is laid out.
            FailureCause::SandboxHides { path } | FailureCause::CacheBroken { folder: path } => Some(path),
            FailureCause::SandboxDenies { path } => path.as_deref(),
            FailureCause::ProjectServer { message, .. } => Some(message),
            _ => None,
        }
    }

    /// Everything that is reported about it, with secrets masked.
    pub fn diagnosis(&self, mask: &dyn Fn(String) -> String) -> FaultDiagnosis {
        FaultDiagnosis {
            cause: self.word(),
            message: mask(self.summary()),
            quotation: self.quotation().map(|quotation| mask(quotation.to_owned())),
            advice: mask(self.advice()),
        }
    }

    /// What to try.
    pub fn advice(&self) -> String {
        match self {
            FailureCause::ProgramMissing { program } => missing_program(program),
            FailureCause::NotExecutable { program } => format!("chmod +x {program} (`tsugi doctor --fix` does it for your own scripts)"),
            FailureCause::InterpreterMissing { program } => format!("install the interpreter that the first line of {program} names"),
            FailureCause::DirectoryMissing { .. } => "create it, or correct `cwd` in its entry".to_owned(),
            FailureCause::ScriptMissing { .. } => "correct the path in `args`; a relative one starts at `cwd`, or at the directory of the configuration file".to_owned(),
            FailureCause::WrongNode { .. } => "install the version it requires and name that program in `command`, such as /opt/node22/bin/npx; `node --version` shows the installed one".to_owned(),
            FailureCause::WrongPython { .. } => "install the version it requires; with uvx, add `--python 3.13` before the package; `python3 --version` shows the installed one".to_owned(),
            FailureCause::PackageMissing { .. } => "check the spelling in `args`, and whether the package needs another registry; run the command by hand to see all output".to_owned(),
            FailureCause::CacheBroken { folder } => format!("rm -r {folder} and try again: it is a cache that npx fills again"),
            FailureCause::NoNetwork { .. } => "remove `net: none` from its `sandbox`, or install the package and name its program in `command`".to_owned(),
            // This case is the one that `--fix` repairs.
            FailureCause::NeedsVariable { name, is_set_here: true } => {
                format!("it is set here, but servers get only the variables that their entry names: add `env: {{{name}: \"${{{name}}}\"}}` to it (`tsugi doctor --fix` does)")
            }
            FailureCause::NeedsVariable { name, .. } => {
                format!("add `env: {{{name}: \"${{{name}}}\"}}` to its entry, and set {name} in the environment or in an envFile")
            }
            FailureCause::SandboxDenies { path } => {
                let path = path.as_deref().unwrap_or("the path");
                format!("to allow it, add {path} to `sandbox.write` (or `sandbox.read`) of its entry")
            }
            FailureCause::SandboxHides { path } if path.starts_with("/tmp/") => {
                format!("the sandbox has its own /tmp: move the file elsewhere, or add {path} to `sandbox.read` of its entry")
            }
            FailureCause::SandboxHides { path } => format!("to allow it, add {path} to `sandbox.read` of its entry"),
            FailureCause::SandboxForbidsProgram { hint, .. } => hint.clone().unwrap_or_else(|| "add its folder to `sandbox.read` of its entry".to_owned()),
            FailureCause::AgentUnknown { agent } => format!("check the spelling of `--agent-id`; for a new agent, add `--create-agent` to `args`, or run `tsugi pm agent add {agent}` with the same --db"),
            FailureCause::ProjectServer { hint, .. } => hint.clone().unwrap_or_else(|| "check `--db` and `--agent-id` in `args`; `tsugi pm doctor` checks the database".to_owned()),
            FailureCause::PortTaken { .. } => "stop the program that holds the port, or choose another port in `args` or `env`".to_owned(),
            FailureCause::CannotReach { .. } => "start the service, or correct the address it is given".to_owned(),
            // Not necessarily fatal by itself, but the server did not answer either.
            FailureCause::Banner { is_fatal: true, .. } => "have it log to standard error; often a flag such as --quiet or --stdio, or another start script, does it".to_owned(),
            FailureCause::Banner { .. } => "tsugi skips such lines, but other clients fail: have it log to standard error".to_owned(),
            FailureCause::Refused => "start it, or correct `url`; in a container, 127.0.0.1 is the container itself".to_owned(),
            FailureCause::NoSuchHost => "check the spelling of `url`, and whether this machine can resolve names".to_owned(),
            FailureCause::TlsName => "use the host name of the certificate in `url`, not an address or an alias".to_owned(),
            FailureCause::TlsUntrusted => {
                "name the file of its authority in `tls.ca` of the entry, or add it to the system's certificates".to_owned()
            }
            FailureCause::TlsExpired => "renew the certificate, and check the clock of this machine".to_owned(),
            FailureCause::Unauthorized => "give a key: `headers: {Authorization: \"Bearer ${TOKEN}\"}` in its entry; an old one may have expired; `tsugi login NAME` if it takes a sign-in".to_owned(),
            FailureCause::SignInMissing { server } | FailureCause::SignInEnded { server } => format!("tsugi login {server}"),
            FailureCause::SignInScope { hint, .. } | FailureCause::SignInRefused { hint, .. } => hint.clone().unwrap_or_else(|| "ask the owner of the server which sign-in it takes; a key goes into `headers` of its entry".to_owned()),
            FailureCause::Forbidden => "ask its owner for access, or use another key".to_owned(),
            FailureCause::NotMcp { .. } => "check the path: most servers answer at /mcp or /sse, and a tsugi gateway answers MCP at its address followed by /mcp".to_owned(),
            // The first start of a package can take minutes.
            FailureCause::Hangs { runner: Some(runner) } => format!("{runner} may still be downloading it: wait longer with --timeout 10m, or run the command once by hand; otherwise, some servers need a word such as `stdio` or `mcp` in `args`"),
            FailureCause::Hangs { runner: None } => "does it speak MCP on standard output? some servers need a word such as `stdio` or `mcp` in `args`; others wait for a lock or a login, as their standard error tells".to_owned(),
            FailureCause::Crashes { is_silent: true, .. } => "it printed nothing to standard error; run the command by hand with the same variables".to_owned(),
            FailureCause::Crashes { .. } => "its last output is above; run the command by hand with the same variables to see more".to_owned(),
            FailureCause::Unknown { .. } => "run it again with -vv, or look at `tsugi logs`".to_owned(),
        }
    }
}

fn missing_program(program: &str) -> String {
    match program.rsplit('/').next().unwrap_or_default() {
        // These come together, and people know the installer by this name.
        "npx" | "node" | "npm" => "install Node.js (https://nodejs.org), or give the full path in `command`".to_owned(),
        "uvx" | "uv" => "install uv (https://docs.astral.sh/uv), or give the full path in `command`".to_owned(),
        "python" => "many systems have only `python3`: use that, or install Python".to_owned(),
        "docker" => "install Docker, or give the full path in `command`".to_owned(),
        _ if program.contains('/') => "check the path; a relative one is taken from `cwd`".to_owned(),
        _ => "install it, or give its full path".to_owned(),
    }
}
