//! Recognises what programs and package runners print when they fail.

use serde_json::Value;

use super::cause::FailureCause;

/// Signs that a program needs another Node, the most telling first: that line is quoted.
const NODE: [&str; 9] = [
    "No such built-in module",
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

/// Signs that a package or a module does not exist.
const PACKAGE: [&str; 11] = [
    "E404",
    "404 Not Found",
    "is not in this registry",
    "ETARGET",
    "could not determine executable to run",
    "was not found in the package registry",
    "No matching distribution found",
    "ModuleNotFoundError",
    // Python says so without an exception when it is started with `-m`.
    NO_MODULE,
    "Cannot find module",
    "Cannot find package",
];

const NO_MODULE: &str = "No module named ";

/// Signs that a file does not exist.
const ABSENT: [&str; 5] = ["ENOENT", "No such file", "no such file", "can't open file", "Cannot find module"];

/// Signs that a variable is missing.
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

/// Words in capitals that are not variables.
const NO_VARIABLES: [&str; 12] =
    ["ERROR", "WARN", "WARNING", "INFO", "DEBUG", "FATAL", "MCP", "API", "JSON", "HTTP", "URL", "CRITICAL"];

/// Signs that a file may not be read or written.
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

/// The line with the first of these signs that occurs.
fn line_with<'a>(lines: &'a [String], signs: &[&str]) -> Option<&'a String> {
    signs.iter().find_map(|sign| lines.iter().find(|line| line.contains(sign)))
}

/// The program does not run with this Node or this Python.
pub(super) fn wrong_version(lines: &[String]) -> Option<FailureCause> {
    // Node first: npx prints Python versions of node-gyp too.
    let node = line_with(lines, &NODE).map(|line| FailureCause::WrongNode { line: short(line) });
    node.or_else(|| line_with(lines, &PYTHON).map(|line| FailureCause::WrongPython { line: short(line) }))
}

/// The package or the module does not exist.
pub(super) fn no_package(lines: &[String], package: Option<&str>) -> Option<FailureCause> {
    let line = line_with(lines, &PACKAGE)?;
    let is_module = line.contains("ModuleNotFoundError") || line.contains("Cannot find");
    let unquoted = || line.split_once(NO_MODULE).map(|(_, name)| name.trim().to_owned());
    let named = quoted(line).filter(|_| is_module).or_else(unquoted);
    let package = named.or(package.map(str::to_owned)).unwrap_or_else(|| "(unnamed)".to_owned());
    Some(FailureCause::PackageMissing { package, line: short(line) })
}

/// The interpreter did not find the script it was started with.
pub(super) fn missing_script(lines: &[String], script: &str) -> Option<FailureCause> {
    let name = script.trim_start_matches("./");
    let is_about_script = |line: &&String| ABSENT.iter().any(|sign| line.contains(sign)) && line.contains(name);
    lines.iter().find(is_about_script).map(|_| FailureCause::ScriptMissing { script: script.to_owned() })
}

/// A path that the program did not find.
pub(super) fn absent_path(lines: &[String]) -> Option<String> {
    line_with(lines, &ABSENT).and_then(|line| path(line))
}

/// A file that was denied, with its path if the line names one. `None` if no file was denied.
pub(super) fn denied(lines: &[String]) -> Option<Option<String>> {
    line_with(lines, &DENIED).map(|line| path(line))
}

/// The name of the missing variable.
pub(super) fn variable(lines: &[String]) -> Option<String> {
    let wanting = lines.iter().filter(|line| WANTED.iter().any(|sign| line.contains(sign)));
    wanting.filter_map(|line| variable_in(line)).next()
}

fn variable_in(line: &str) -> Option<String> {
    let words = line.split(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'));
    let is_variable = |word: &&str| {
        // Shorter words in capitals are usually abbreviations.
        word.len() >= 4
            && word.starts_with(|c: char| c.is_ascii_uppercase())
            && !NO_VARIABLES.contains(word)
            && (word.contains('_') || line.contains("variable") || line.contains("KeyError") || line.contains("env"))
    };
    // A name with an underscore is more likely a variable than a single word.
    words.filter(is_variable).max_by_key(|word| word.contains('_')).map(str::to_owned)
}

/// A module is missing in the folder that npx filled: the download was interrupted, and npx takes it for complete.
pub(super) fn broken_cache(lines: &[String]) -> Option<FailureCause> {
    let line = line_with(lines, &["ERR_MODULE_NOT_FOUND", "Cannot find module", "Cannot find package"])?;
    let start = line.find("/_npx/")?;
    let end = start + "/_npx/".len();
    let hash = line[end..].split('/').next()?;
    // The path begins after the last quote, space or parenthesis before it.
    let begin = line[..start].rfind([' ', '\'', '"', '(']).map_or(0, |place| place + 1);
    let folder = line[begin..end + hash.len()].trim_start_matches("file://").to_owned();
    Some(FailureCause::CacheBroken { folder })
}

/// The line of JSON in which our project server reports why it cannot start.
pub(super) fn project_server(lines: &[String], agent: Option<&str>) -> Option<FailureCause> {
    let error = lines.iter().find_map(|line| serde_json::from_str::<Value>(line.trim()).ok()?.get("error").cloned())?;
    let (message, hint) = (error["message"].as_str()?, error["hint"].as_str().filter(|hint| !hint.is_empty()));
    Some(match agent {
        // Nothing else is looked up before it serves.
        Some(agent) if error["code"] == "not_found" => FailureCause::AgentUnknown { agent: short(agent) },
        _ => FailureCause::ProjectServer { message: short(message), hint: hint.map(short) },
    })
}

/// The program cannot listen on its port.
pub(super) fn taken_port(lines: &[String]) -> Option<FailureCause> {
    let signs = ["EADDRINUSE", "address already in use", "Address already in use"];
    line_with(lines, &signs).map(|line| FailureCause::PortTaken { line: short(line) })
}

/// The program cannot reach a service it depends on.
pub(super) fn unreachable(lines: &[String]) -> Option<FailureCause> {
    let signs = ["ECONNREFUSED", "Connection refused", "connection refused", "ENOTFOUND", "EAI_AGAIN"];
    line_with(lines, &signs).map(|line| FailureCause::CannotReach { line: short(line) })
}

/// The first thing in quotes.
fn quoted(line: &str) -> Option<String> {
    let start = line.find(['\'', '"', '`'])?;
    let quote = line[start..].chars().next()?;
    let rest = &line[start + 1..];
    rest.find(quote).map(|end| rest[..end].to_owned())
}

/// The last path in a line: the first one is often the program itself.
fn path(line: &str) -> Option<String> {
    let is_end = |c: char| c.is_whitespace() || "'\"`:,;()".contains(c);
    line.split(is_end).rfind(|word| word.starts_with('/')).map(str::to_owned)
}

/// A line short enough for a sentence.
fn short(line: &str) -> String {
    line.trim().chars().take(160).collect()
}
