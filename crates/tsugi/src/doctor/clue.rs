//! What programs, package runners and wires say when they fail, recognised.

use serde_json::Value;

use super::cause::FailureCause;

/// Signs that a program needs another Node.
const NODE: [&str; 8] = [
    "EBADENGINE",
    "Unsupported engine",
    "The engine \"node\" is incompatible",
    "requires Node",
    "Node.js version",
    "node version",
    "ERR_UNKNOWN_BUILTIN_MODULE",
    "is not defined in ES module scope",
];

/// Signs that a program needs another Python.
const PYTHON: [&str; 6] = [
    "Requires-Python",
    "requires-python",
    "requires a different Python",
    "current Python version",
    "Python>=",
    "requires Python",
];

/// Signs that a package or a module is not there.
const PACKAGE: [&str; 10] = [
    "E404",
    "404 Not Found",
    "is not in this registry",
    "ETARGET",
    "could not determine executable to run",
    "was not found in the package registry",
    "No matching distribution found",
    "ModuleNotFoundError",
    "Cannot find module",
    "Cannot find package",
];

/// Signs that a variable is wanted.
const WANTED: [&str; 9] = [
    "not set",
    "is required",
    "are required",
    "must be set",
    "must be provided",
    "missing",
    "undefined",
    "environment variable",
    "KeyError",
];

/// Words in capitals that are no variables.
const NO_VARIABLES: [&str; 12] =
    ["ERROR", "WARN", "WARNING", "INFO", "DEBUG", "FATAL", "MCP", "API", "JSON", "HTTP", "URL", "CRITICAL"];

/// What a file that may not be had is called, or one in a place that may only be read.
const DENIED: [&str; 9] = [
    "EACCES",
    "EPERM",
    "EROFS",
    "Permission denied",
    "permission denied",
    "Operation not permitted",
    "PermissionError",
    "Read-only file system",
    "read-only file system",
];

/// A line that has one of these signs.
fn line_with<'a>(lines: &'a [String], signs: &[&str]) -> Option<&'a String> {
    lines.iter().find(|line| signs.iter().any(|sign| line.contains(sign)))
}

/// The program does not run with this Node or this Python.
pub(super) fn wrong_version(lines: &[String]) -> Option<FailureCause> {
    let node = line_with(lines, &NODE).map(|line| FailureCause::WrongNode { line: short(line) });
    node.or_else(|| line_with(lines, &PYTHON).map(|line| FailureCause::WrongPython { line: short(line) }))
}

/// The package or the module is not there.
pub(super) fn no_package(lines: &[String], package: Option<&str>) -> Option<FailureCause> {
    let line = line_with(lines, &PACKAGE)?;
    let is_module = line.contains("ModuleNotFoundError") || line.contains("Cannot find");
    let named = quoted(line).filter(|_| is_module);
    let package = named.or(package.map(str::to_owned)).unwrap_or_else(|| "(unnamed)".to_owned());
    Some(FailureCause::PackageMissing { package, line: short(line) })
}

/// A file that could not be had: its path, where it is named. Nothing if no file was denied.
pub(super) fn denied(lines: &[String]) -> Option<Option<String>> {
    line_with(lines, &DENIED).map(|line| path(line))
}

/// The variable that is asked for.
pub(super) fn variable(lines: &[String]) -> Option<String> {
    let wanting = lines.iter().filter(|line| WANTED.iter().any(|sign| line.contains(sign)));
    wanting.filter_map(|line| variable_in(line)).next()
}

fn variable_in(line: &str) -> Option<String> {
    let words = line.split(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'));
    let is_variable = |word: &&str| {
        word.len() >= 4
            && word.starts_with(|c: char| c.is_ascii_uppercase())
            && !NO_VARIABLES.contains(word)
            && (word.contains('_') || line.contains("variable") || line.contains("KeyError") || line.contains("env"))
    };
    words.filter(is_variable).max_by_key(|word| word.contains('_')).map(str::to_owned)
}

/// Something is missing in the very folder that npx filled: it was interrupted, and takes the folder for complete.
pub(super) fn broken_cache(lines: &[String]) -> Option<FailureCause> {
    let line = line_with(lines, &["ERR_MODULE_NOT_FOUND", "Cannot find module", "Cannot find package"])?;
    let start = line.find("/_npx/")?;
    let end = start + "/_npx/".len();
    let hash = line[end..].split('/').next()?;
    let begin = line[..start].rfind([' ', '\'', '"', '(']).map_or(0, |place| place + 1);
    let folder = line[begin..end + hash.len()].trim_start_matches("file://").to_owned();
    Some(FailureCause::CacheBroken { folder })
}

/// Our own project server said in one line of JSON why it does not start.
pub(super) fn project_server(lines: &[String]) -> Option<FailureCause> {
    let told = lines.iter().find_map(|line| serde_json::from_str::<Value>(line.trim()).ok()?.get("error").cloned())?;
    let (message, hint) = (told["message"].as_str()?, told["hint"].as_str().filter(|hint| !hint.is_empty()));
    Some(match message.strip_prefix("Agent not found: ") {
        Some(agent) => FailureCause::AgentUnknown { agent: short(agent) },
        None => FailureCause::ProjectServer { message: short(message), hint: hint.map(short) },
    })
}

/// The port that the program wants to listen on is taken.
pub(super) fn taken_port(lines: &[String]) -> Option<FailureCause> {
    let signs = ["EADDRINUSE", "address already in use", "Address already in use"];
    line_with(lines, &signs).map(|line| FailureCause::PortTaken { line: short(line) })
}

/// The program cannot reach something that it depends on.
pub(super) fn unreachable(lines: &[String]) -> Option<FailureCause> {
    let signs = ["ECONNREFUSED", "Connection refused", "connection refused", "ENOTFOUND", "EAI_AGAIN"];
    line_with(lines, &signs).map(|line| FailureCause::CannotReach { line: short(line) })
}

/// What is wrong with an address or with who answers there.
pub(super) fn of_wire(message: &str) -> Option<FailureCause> {
    let has = |sign: &str| message.contains(sign);
    Some(match () {
        () if has("NotValidForName") || has("not valid for name") => FailureCause::TlsName,
        () if has("Expired") || has("certificate expired") || has("NotValidYet") => FailureCause::TlsExpired,
        () if has("UnknownIssuer") || has("invalid peer certificate") => FailureCause::TlsUntrusted,
        () if has("answered 401") => FailureCause::Unauthorized,
        () if has("answered 403") => FailureCause::Forbidden,
        () if has("refused") && has("onnect") => FailureCause::Refused,
        () if has("dns error") || has("failed to lookup") || has("Name or service not known") => {
            FailureCause::NoSuchHost
        }
        () if has("the server answered ") => {
            let status = message.split("the server answered ").nth(1).unwrap_or_default();
            FailureCause::NotMcp { status: status.split([',', ';', ':']).next().unwrap_or_default().trim().to_owned() }
        }
        () => return None,
    })
}

/// The first thing in quotes.
fn quoted(line: &str) -> Option<String> {
    let start = line.find(['\'', '"', '`'])?;
    let quote = line[start..].chars().next()?;
    let rest = &line[start + 1..];
    rest.find(quote).map(|end| rest[..end].to_owned())
}

/// The last path that a line names: the first one is often the program that speaks.
fn path(line: &str) -> Option<String> {
    let is_end = |c: char| c.is_whitespace() || "'\"`:,;()".contains(c);
    line.split(is_end).rfind(|word| word.starts_with('/')).map(str::to_owned)
}

/// A line that fits into a sentence.
fn short(line: &str) -> String {
    line.trim().chars().take(160).collect()
}
