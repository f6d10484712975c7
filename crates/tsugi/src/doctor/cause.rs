//! What can be wrong with a server: a stable word for programs, a sentence for people, and what to try.

/// Why a server does not work, or not as well as it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FailureCause {
    ProgramMissing { program: String },
    NotExecutable { program: String },
    InterpreterMissing { program: String },
    DirectoryMissing { directory: String },
    WrongNode { line: String },
    WrongPython { line: String },
    PackageMissing { package: String, line: String },
    CacheBroken { folder: String },
    NoNetwork { runner: &'static str },
    NeedsVariable { name: String, is_set_here: bool },
    SandboxDenies { path: Option<String> },
    AgentUnknown { agent: String },
    ProjectServer { message: String, hint: Option<String> },
    PortTaken { line: String },
    CannotReach { line: String },
    Banner { line: String, is_fatal: bool },
    Refused,
    NoSuchHost,
    TlsName,
    TlsUntrusted,
    TlsExpired,
    Unauthorized,
    Forbidden,
    NotMcp { status: String },
    Hangs { runner: Option<&'static str> },
    Crashes { status: String },
    Unknown { message: String },
}

impl FailureCause {
    /// The word by which programs know it.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            FailureCause::ProgramMissing { .. } => "program-missing",
            FailureCause::NotExecutable { .. } => "program-not-executable",
            FailureCause::InterpreterMissing { .. } => "interpreter-missing",
            FailureCause::DirectoryMissing { .. } => "directory-missing",
            FailureCause::WrongNode { .. } => "wrong-node",
            FailureCause::WrongPython { .. } => "wrong-python",
            FailureCause::PackageMissing { .. } => "package-not-found",
            FailureCause::CacheBroken { .. } => "cache-broken",
            FailureCause::NoNetwork { .. } => "no-network",
            FailureCause::NeedsVariable { .. } => "needs-variable",
            FailureCause::SandboxDenies { .. } => "sandbox-denies",
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
            FailureCause::Forbidden => "forbidden",
            FailureCause::NotMcp { .. } => "not-mcp",
            FailureCause::Hangs { .. } => "hangs",
            FailureCause::Crashes { .. } => "crashes",
            FailureCause::Unknown { .. } => "unknown",
        }
    }

    /// Whether the server can be used all the same.
    pub(crate) fn is_blemish(&self) -> bool {
        matches!(self, FailureCause::Banner { is_fatal: false, .. })
    }

    /// What is wrong, in a sentence.
    pub(crate) fn sentence(&self) -> String {
        match self {
            FailureCause::ProgramMissing { program } => format!("the program `{program}` is not there"),
            FailureCause::NotExecutable { program } => format!("`{program}` may not be executed"),
            FailureCause::InterpreterMissing { program } => format!("the interpreter of `{program}` is not there"),
            FailureCause::DirectoryMissing { directory } => format!("its directory `{directory}` is not there"),
            FailureCause::WrongNode { line } => format!("it does not run with this version of Node: {line}"),
            FailureCause::WrongPython { line } => format!("it does not run with this version of Python: {line}"),
            FailureCause::PackageMissing { package, line } => {
                format!("there is no package or module `{package}`: {line}")
            }
            FailureCause::CacheBroken { folder } => {
                format!("what npx downloaded is not whole, as after an interrupted download: `{folder}`")
            }
            FailureCause::NoNetwork { runner } => {
                format!("{runner} asks its registry at every start, and the sandbox lets it reach nobody")
            }
            FailureCause::NeedsVariable { name, .. } => format!("it needs the variable {name}, which it is not given"),
            FailureCause::SandboxDenies { path: Some(path) } => format!("its sandbox keeps it from `{path}`"),
            FailureCause::SandboxDenies { path: None } => "its sandbox keeps it from a file".to_owned(),
            FailureCause::AgentUnknown { agent } => format!("its database knows no agent `{agent}`"),
            FailureCause::ProjectServer { message, .. } => format!("the project server cannot start: {message}"),
            FailureCause::PortTaken { line } => format!("the port that it wants is taken: {line}"),
            FailureCause::CannotReach { line } => format!("it cannot reach what it depends on: {line}"),
            FailureCause::Banner { line, .. } => {
                format!("it writes to its standard output what is no message: `{line}`")
            }
            FailureCause::Refused => "nothing listens at its address: the connection was refused".to_owned(),
            FailureCause::NoSuchHost => "the host of its address is not known".to_owned(),
            FailureCause::TlsName => "its certificate is for another name than that of its address".to_owned(),
            FailureCause::TlsUntrusted => "its certificate was signed by nobody whom this machine trusts".to_owned(),
            FailureCause::TlsExpired => "its certificate does not hold at this time".to_owned(),
            FailureCause::Unauthorized => {
                "it wants to know who asks, and what it was sent is not enough (401)".to_owned()
            }
            FailureCause::Forbidden => "it knows who asks, and refuses (403)".to_owned(),
            FailureCause::NotMcp { status } => format!("something answers at its address, but not with MCP ({status})"),
            FailureCause::Hangs { .. } => "it runs, but does not answer to the handshake".to_owned(),
            FailureCause::Crashes { status } => format!("it ends before it answers ({status})"),
            FailureCause::Unknown { message } => message.clone(),
        }
    }

    /// What to try.
    pub(crate) fn advice(&self) -> String {
        match self {
            FailureCause::ProgramMissing { program } => missing_program(program),
            FailureCause::NotExecutable { program } => format!("chmod +x {program} (`tsugi doctor --fix` does it for a script of your own)"),
            FailureCause::InterpreterMissing { program } => format!("look at the first line of {program}, and install what it names"),
            FailureCause::DirectoryMissing { .. } => "create it, or correct `cwd` in its entry".to_owned(),
            FailureCause::WrongNode { .. } => "install the version that it names, and name that program in `command`, such as /opt/node22/bin/npx; `node --version` shows yours".to_owned(),
            FailureCause::WrongPython { .. } => "install the version that it names; with uvx, add `--python 3.13` before the package; `python3 --version` shows yours".to_owned(),
            FailureCause::PackageMissing { .. } => "look for a misspelling in `args`, or for a registry that needs to be named; running the command by hand shows all of it".to_owned(),
            FailureCause::CacheBroken { folder } => format!("rm -r {folder} and try again: it is a cache, and npx fills it anew"),
            FailureCause::NoNetwork { .. } => "take `net: none` out of its `sandbox`, or install the package and name its own program in `command`".to_owned(),
            FailureCause::NeedsVariable { name, is_set_here: true } => {
                format!("it is set here, but servers get only what their entry names: add `env: {{{name}: \"${{{name}}}\"}}` to it (`tsugi doctor --fix` does)")
            }
            FailureCause::NeedsVariable { name, .. } => {
                format!("add `env: {{{name}: \"${{{name}}}\"}}` to its entry, and set {name} in the environment or in an envFile")
            }
            FailureCause::SandboxDenies { path } => {
                let path = path.as_deref().unwrap_or("the path that it names");
                format!("if it should have it, add {path} to `sandbox.write` (or `sandbox.read`) of its entry")
            }
            FailureCause::AgentUnknown { agent } => format!("look for a misspelling in `--agent-id`; if it is new, add `--create-agent` to `args`, or run `tsugi pm agent add {agent}` with the same --db"),
            FailureCause::ProjectServer { hint, .. } => hint.clone().unwrap_or_else(|| "look at `--db` and `--agent-id` in `args`; `tsugi pm doctor` looks at the database".to_owned()),
            FailureCause::PortTaken { .. } => "stop what holds the port, or give it another one in `args` or `env`".to_owned(),
            FailureCause::CannotReach { .. } => "start what it depends on, or correct the address that it is given".to_owned(),
            FailureCause::Banner { is_fatal: true, .. } => "have it write logs to standard error; often a flag such as --quiet or --stdio, or another start script, does it".to_owned(),
            FailureCause::Banner { .. } => "tsugi skips such lines, but other clients stop at them: have it write logs to standard error".to_owned(),
            FailureCause::Refused => "start it, or correct `url`; in a container, 127.0.0.1 is the container itself".to_owned(),
            FailureCause::NoSuchHost => "look for a misspelling in `url`, and whether this machine can resolve names".to_owned(),
            FailureCause::TlsName => "use the name in `url` that the certificate has, not an address or an alias".to_owned(),
            FailureCause::TlsUntrusted => "add its authority to the system's certificates, or name it in SSL_CERT_FILE".to_owned(),
            FailureCause::TlsExpired => "renew the certificate, and look at the clock of this machine".to_owned(),
            FailureCause::Unauthorized => "give a key: `headers: {Authorization: \"Bearer ${TOKEN}\"}` in its entry; an old one may have expired".to_owned(),
            FailureCause::Forbidden => "ask its owner for access, or use another key".to_owned(),
            FailureCause::NotMcp { .. } => "look at the path in `url`: most servers answer at /mcp or /sse".to_owned(),
            FailureCause::Hangs { runner: Some(runner) } => format!("{runner} may still be downloading it: wait for it with --timeout 10m, or run the command once by hand; if that is not it, some servers want a word such as `stdio` or `mcp` in `args`"),
            FailureCause::Hangs { runner: None } => "does it speak MCP on standard output? some want a word such as `stdio` or `mcp` in `args`; others wait for a lock or a login, which standard error tells".to_owned(),
            FailureCause::Crashes { .. } => "what it said last is above; run the command by hand with the same variables to see more".to_owned(),
            FailureCause::Unknown { .. } => "run it again with -vv, or look at `tsugi logs`".to_owned(),
        }
    }
}

fn missing_program(program: &str) -> String {
    match program.rsplit('/').next().unwrap_or_default() {
        "npx" | "node" | "npm" => {
            "install Node.js (https://nodejs.org), or name the whole path in `command`".to_owned()
        }
        "uvx" | "uv" => "install uv (https://docs.astral.sh/uv), or name the whole path in `command`".to_owned(),
        "python" => "many systems have only `python3`: write that, or install Python".to_owned(),
        "docker" => "install Docker, or name the whole path in `command`".to_owned(),
        _ => "install it, or name the whole path in `command`; programs are looked for in PATH".to_owned(),
    }
}
