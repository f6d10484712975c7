//! Variables: where they come from, and how `${…}` in a value becomes text.

mod dotenv;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::problem::{ConfigProblem, ProblemReason};
use super::secret::{self, MaskedText, Secret};
use super::secret_command::SecretCommand;

/// The variables that a configuration may use. Tests make their own.
#[derive(Clone, Default)]
pub(crate) struct Environment {
    variables: BTreeMap<String, String>,
    /// Whether reading a configuration may run the programs of `secrets.commands`.
    may_run: bool,
}

/// A variable that tsugi itself reads.
pub(crate) struct KnownVariable {
    pub(crate) name: &'static str,
    pub(crate) meaning: &'static str,
}

/// The configuration file, where `--config` does not say it.
pub(crate) static TSUGI_CONFIG: KnownVariable =
    KnownVariable { name: "TSUGI_CONFIG", meaning: "The configuration file, where `--config` does not say it." };
/// Servers without a file (seed 003).
pub(crate) static MCP_URLS: KnownVariable = KnownVariable {
    name: "MCP_URLS",
    meaning: "Addresses of servers, separated by commas: a configuration of its own, used instead of a file that would be found. \
              Names come from the host, with the port where two are alike; an address that ends in `/sse` is spoken to over SSE.",
};
/// Tools that are not logged, for servers without a file (seed 003).
pub(crate) static MCP_QUIET: KnownVariable = KnownVariable {
    name: "MCP_QUIET",
    meaning: "Tools of the servers of `MCP_URLS` whose calls are not logged at info, separated by commas: what `quiet` is in a file.",
};
/// The timeout where no file gives one (seed 001).
pub(crate) static DEFAULT_TIMEOUT: KnownVariable = KnownVariable {
    name: "DEFAULT_TIMEOUT",
    meaning: "The timeout of calls where no file gives one; written like any duration.",
};
/// Where a user's configuration is.
pub(crate) static XDG_CONFIG_HOME: KnownVariable = KnownVariable {
    name: "XDG_CONFIG_HOME",
    meaning: "Where the user's own configuration is looked for, in `tsugi/`; `~/.config` if absent.",
};
/// Where a user's state is.
pub(crate) static XDG_STATE_HOME: KnownVariable = KnownVariable {
    name: "XDG_STATE_HOME",
    meaning: "Where tsugi keeps what it found out, in `tsugi/`; `~/.local/state` if absent.",
};
/// Which log lines are written.
pub(crate) static TSUGI_LOG: KnownVariable = KnownVariable {
    name: "TSUGI_LOG",
    meaning: "Which log lines go to stderr, such as `info` or `tsugi_client=debug`; it wins over `-v` and `-q`.",
};
/// What log lines look like.
pub(crate) static TSUGI_LOG_FORMAT: KnownVariable = KnownVariable {
    name: "TSUGI_LOG_FORMAT",
    meaning: "What log lines look like, where `--log-format` does not say it: `text`, or `json` for one object per line.",
};
/// Where the running gateway is.
pub(crate) static TSUGI_GATEWAY: KnownVariable = KnownVariable {
    name: "TSUGI_GATEWAY",
    meaning: "The address of the running gateway, where `--gateway` does not say it.",
};
/// The key to the running gateway.
pub(crate) static TSUGI_KEY: KnownVariable =
    KnownVariable { name: "TSUGI_KEY", meaning: "An admin key of the running gateway, where `--key` does not say it." };
/// No colours.
pub(crate) static NO_COLOR: KnownVariable = KnownVariable { name: "NO_COLOR", meaning: "Set to anything: no colours." };
/// Colours in any case.
pub(crate) static CLICOLOR_FORCE: KnownVariable = KnownVariable {
    name: "CLICOLOR_FORCE",
    meaning: "Set to anything but `0`: colours even if the output is not a terminal. `NO_COLOR` wins.",
};

/// All of them, in the order of the reference page.
pub(crate) static VARIABLES: &[&KnownVariable] = &[
    &TSUGI_CONFIG,
    &MCP_URLS,
    &MCP_QUIET,
    &DEFAULT_TIMEOUT,
    &XDG_CONFIG_HOME,
    &XDG_STATE_HOME,
    &TSUGI_LOG,
    &TSUGI_LOG_FORMAT,
    &TSUGI_GATEWAY,
    &TSUGI_KEY,
    &NO_COLOR,
    &CLICOLOR_FORCE,
];

/// What `${…}` is looked up in.
#[derive(Clone)]
pub(crate) struct VariableExpander {
    environment: Environment,
    /// Where relative paths of `${file:…}` begin: the directory of the configuration.
    directory: PathBuf,
    /// What `${command:…}` runs, by its name.
    commands: BTreeMap<String, SecretCommand>,
}

/// A reference that cannot be replaced.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnresolvedReference {
    /// As written, so that it can be pointed at.
    pub(crate) reference: String,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    pub(crate) reason: ProblemReason,
}

/// Defaults may hold references, but not without end.
const DEEPEST: usize = 8;
/// Larger files are not values.
const LARGEST_FILE: u64 = 64 << 10;

impl Environment {
    /// The variables of this process; those that are not UTF-8 are left out.
    pub(crate) fn of_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Environment { variables: std::env::vars_os().filter_map(text).collect(), may_run: false }
    }

    /// These variables.
    pub(crate) fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Environment { variables: pairs.into_iter().map(owned).collect(), may_run: false }
    }

    /// The same for a configuration that may run programs for its secrets.
    pub(crate) fn running_programs(mut self) -> Self {
        self.may_run = true;
        self
    }

    /// A variable that is set, also if it is empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// A variable that is set and not empty.
    pub(crate) fn filled(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// Adds the variables of an environment file; what is set already wins.
    pub(crate) fn add_file(&mut self, text: &str) -> Result<(), ConfigProblem> {
        for (name, value) in dotenv::parse(text)? {
            self.variables.entry(name).or_insert(value);
        }
        Ok(())
    }

    /// The set variable whose name is nearest to this one.
    fn nearest(&self, name: &str) -> Option<&str> {
        // Case does not count: `github_token` most likely means `GITHUB_TOKEN`.
        let upper = name.to_uppercase();
        let score = |known: &String| strsim::jaro_winkler(&known.to_uppercase(), &upper);
        let best = self.variables.keys().max_by(|one, other| score(one).total_cmp(&score(other)))?;
        // Stricter than for keys, since an environment holds many names that are somewhat alike.
        (score(best) > 0.9).then_some(best.as_str())
    }
}

/// The variables of an environment file, in its order.
pub(crate) fn read_file(text: &str) -> Result<Vec<(String, String)>, ConfigProblem> {
    dotenv::parse(text)
}

/// A line of an environment file that reads back as this variable.
pub(crate) fn assignment(name: &str, value: &str) -> String {
    dotenv::line(name, value)
}

/// The names only: values may be secret.
impl std::fmt::Debug for Environment {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.variables.keys()).finish()
    }
}

impl VariableExpander {
    pub(crate) fn new(environment: Environment, directory: &Path) -> Self {
        VariableExpander { environment, directory: directory.to_owned(), commands: BTreeMap::new() }
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    pub(crate) fn environment_mut(&mut self) -> &mut Environment {
        &mut self.environment
    }

    /// The directory that relative paths are meant from.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The text with every reference replaced. What came from a file or a variable stays marked as secret.
    pub(crate) fn expand(&self, text: &str) -> Result<MaskedText, Vec<UnresolvedReference>> {
        let mut faults = Vec::new();
        let expanded = self.expand_at(text, 0, &mut faults);
        if faults.is_empty() { Ok(expanded) } else { Err(faults) }
    }

    fn expand_at(&self, text: &str, depth: usize, faults: &mut Vec<UnresolvedReference>) -> MaskedText {
        let mut result = MaskedText::default();
        let mut rest = text;
        while let Some(index) = rest.find('$') {
            result.push_plain(&rest[..index]);
            rest = &rest[index..];
            // `$$` is the escape for one dollar sign.
            if let Some(after) = rest.strip_prefix("$$") {
                result.push_plain("$");
                rest = after;
            } else if rest.starts_with("${") {
                let end = reference_end(rest);
                match end.map_or_else(|| Err(unclosed(rest)), |end| self.reference(&rest[..end], depth, faults)) {
                    Ok(value) => result.append(value),
                    Err(fault) => faults.push(fault),
                }
                // After an unclosed brace no further reference can be told apart, so reading ends there.
                rest = &rest[end.unwrap_or(rest.len())..];
            } else {
                result.push_plain("$");
                rest = &rest[1..];
            }
        }
        result.push_plain(rest);
        result
    }

    /// The value of one `${…}`.
    fn reference(
        &self,
        reference: &str,
        depth: usize,
        faults: &mut Vec<UnresolvedReference>,
    ) -> Result<MaskedText, UnresolvedReference> {
        let body = &reference[2..reference.len() - 1];
        if let Some(path) = body.strip_prefix("file:") {
            return self.file(reference, path);
        }
        if let Some(name) = body.strip_prefix("command:") {
            return self.command(reference, name);
        }
        // `${env:NAME}` is how some other programs write it.
        let body = body.strip_prefix("env:").unwrap_or(body);
        let (name, operator) = split_name(body);
        if name.is_empty() {
            return Err(fault(reference, format!("`{reference}` does not name a variable")));
        }
        match (self.environment.get(name), operator.get(..2), operator.get(2..)) {
            (Some(value), None, _) if operator.is_empty() => Ok(of_variable(name, value)),
            (None, None, _) if operator.is_empty() => Err(self.missing(reference, name)),
            // As in a shell, the colon makes an empty variable count as unset.
            (Some(value), Some(":-" | ":?"), _) if !value.is_empty() => Ok(of_variable(name, value)),
            (_, Some(":-"), Some(default)) if depth < DEEPEST => {
                Ok(of_default(name, self.expand_at(default, depth + 1, faults)))
            }
            (_, Some(":?"), Some(message)) => Err(required(reference, name, message)),
            _ => Err(unknown_form(reference)),
        }
    }

    fn missing(&self, reference: &str, name: &str) -> UnresolvedReference {
        let hint = match self.environment.nearest(name) {
            Some(near) => format!("did you mean `{near}`? a default is written ${{{name}:-value}}"),
            None => format!("set {name}, or give a default: ${{{name}:-value}}"),
        };
        UnresolvedReference { hint: Some(hint), ..unset(reference, format!("the variable `{name}` is not set")) }
    }

    /// Adds a program for `${command:NAME}`.
    pub(crate) fn add_command(&mut self, name: &str, command: SecretCommand) {
        self.commands.insert(name.to_owned(), command);
    }

    fn command(&self, reference: &str, name: &str) -> Result<MaskedText, UnresolvedReference> {
        let Some(command) = self.commands.get(name) else {
            let hint = format!("write `secrets: {{ commands: {{ {name}: {{ run: [PROGRAM, ARGUMENT] }} }} }}`");
            let unknown = fault(reference, format!("there is no command `{name}` in `secrets.commands`"));
            return Err(UnresolvedReference { hint: Some(hint), ..unknown });
        };
        if !self.environment.may_run {
            let message = "a configuration that was found in the current directory runs no programs by being read";
            let hint = "if you trust the file, name it with --config".to_owned();
            // As with a variable that is not set, other commands may edit the file.
            return Err(UnresolvedReference { hint: Some(hint), ..unset(reference, message.to_owned()) });
        }
        let secret =
            command.secret().map_err(|why| fault(reference, format!("the command `{name}` gives no secret: {why}")))?;
        let mut text = MaskedText::default();
        text.push_secret(secret);
        Ok(text)
    }

    fn file(&self, reference: &str, path: &str) -> Result<MaskedText, UnresolvedReference> {
        let place = match (path.strip_prefix("~/"), self.environment.filled("HOME")) {
            (Some(below), Some(home)) => Path::new(home).join(below),
            _ => self.directory.join(path),
        };
        let failed = |why: String| fault(reference, format!("the file `{path}` cannot be read: {why}"));
        // The size is checked first, so that a large file is not read at all.
        let size = std::fs::metadata(&place).map_err(|error| failed(error.to_string()))?.len();
        if size > LARGEST_FILE {
            return Err(failed(format!("it is larger than {LARGEST_FILE} bytes")));
        }
        let content = std::fs::read_to_string(&place).map_err(|error| failed(error.to_string()))?;
        let mut text = MaskedText::default();
        // Most tools end a file with a line break, which is not part of the secret.
        text.push_secret(Secret::new(content.trim_end_matches(['\n', '\r'])));
        Ok(text)
    }
}

/// Where the reference at the beginning of the text ends, after its closing brace.
fn reference_end(text: &str) -> Option<usize> {
    let mut open = 0usize;
    for (index, character) in text.char_indices() {
        match character {
            '{' => open += 1,
            '}' if open == 1 => return Some(index + 1),
            '}' => open -= 1,
            _ => {}
        }
    }
    None
}

fn split_name(body: &str) -> (&str, &str) {
    let is_name = |(index, character): (usize, char)| {
        character == '_' || character.is_ascii_alphabetic() || (index > 0 && character.is_ascii_digit())
    };
    let end = body.char_indices().find(|place| !is_name(*place)).map_or(body.len(), |(index, _)| index);
    body.split_at(end)
}

/// The value of a variable, which is secret unless it cannot be.
fn of_variable(name: &str, value: &str) -> MaskedText {
    let text = MaskedText::plain(value);
    if secret::is_secret_variable(name, value) { text.into_secret() } else { text }
}

/// The default of a reference. It stands in the file for everyone to read, so it is secret only if it looks so.
fn of_default(name: &str, value: MaskedText) -> MaskedText {
    let is_secret = secret::is_secret_name(name) || secret::is_secret_value(&value.expose());
    if is_secret { value.into_secret() } else { value }
}

fn fault(reference: &str, message: String) -> UnresolvedReference {
    UnresolvedReference { reference: reference.to_owned(), message, hint: None, reason: ProblemReason::Other }
}

fn unset(reference: &str, message: String) -> UnresolvedReference {
    UnresolvedReference { reason: ProblemReason::UnsetVariable, ..fault(reference, message) }
}

fn required(reference: &str, name: &str, message: &str) -> UnresolvedReference {
    let message = if message.is_empty() { "is required and not set" } else { message };
    unset(reference, format!("the variable `{name}` is not set: {message}"))
}

fn unclosed(text: &str) -> UnresolvedReference {
    // The beginning is enough to find the place. The rest may be a long text.
    let start: String = text.chars().take(20).collect();
    let hint = Some("a dollar sign that is meant as such is written $$".to_owned());
    UnresolvedReference { hint, ..fault(&start, "`${` has no closing brace".to_owned()) }
}

fn unknown_form(reference: &str) -> UnresolvedReference {
    let hint = "known are ${NAME}, ${NAME:-default}, ${NAME:?message}, ${env:NAME}, ${file:path}, ${command:name}; $$ is a dollar sign";
    UnresolvedReference {
        hint: Some(hint.to_owned()),
        ..fault(reference, "this kind of reference is not known here".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expander() -> VariableExpander {
        let pairs = [("ROOT", "/srv"), ("EMPTY", ""), ("API_KEY", "canary-value")];
        VariableExpander::new(Environment::from_pairs(pairs), Path::new("/nowhere"))
    }

    fn check(text: &str, expected: &str) {
        assert_eq!(expander().expand(text).unwrap().expose(), expected, "{text}");
    }

    #[test]
    fn references_become_their_values() {
        check("${ROOT}/x", "/srv/x");
        check("${env:ROOT}", "/srv");
        check("${NONE:-d}${EMPTY:-e}${ROOT:-f}", "de/srv");
        check("${NONE:-${ROOT}/deep}", "/srv/deep");
        check("${NONE:-}", "");
        check("${ROOT:?needed}", "/srv");
        check("[${EMPTY}]", "[]");
    }

    #[test]
    fn a_dollar_sign_that_is_no_reference_stays() {
        check("$$", "$");
        check("$${ROOT}", "${ROOT}");
        check("$ROOT costs 5$", "$ROOT costs 5$");
    }

    fn fails(text: &str, message: &str) {
        let faults = expander().expand(text).unwrap_err();
        assert!(faults.iter().any(|fault| fault.message.contains(message)), "{text}: {faults:?}");
    }

    #[test]
    fn what_cannot_be_replaced_is_said_with_its_name() {
        fails("${NONE}", "`NONE` is not set");
        fails("${NONE:?run login first}", "run login first");
        fails("${EMPTY:?}", "`EMPTY`");
        fails("${ROOT", "no closing brace");
        fails("${}", "does not name a variable");
        fails("${input:token}", "not known here");
        fails("${ROOT%x}", "not known here");
        fails("${file:nothing-here}", "cannot be read");
        assert_eq!(expander().expand("${A} ${B}").unwrap_err().len(), 2);
    }

    #[test]
    fn a_default_within_defaults_without_end_is_refused() {
        let deep = format!("{}x{}", "${N:-".repeat(50), "}".repeat(50));
        assert!(expander().expand(&deep).is_err());
    }

    #[test]
    fn a_misspelt_variable_is_recognised() {
        let faults = expander().expand("${APIKEY}").unwrap_err();
        assert!(faults[0].hint.as_deref().unwrap().contains("did you mean `API_KEY`"));
    }

    #[test]
    fn values_of_secret_variables_and_of_files_are_marked() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("t"), "canary-file\n").unwrap();
        let home = directory.path().to_str().unwrap();
        let environment = Environment::from_pairs([("API_KEY", "canary-value"), ("ROOT", "/srv"), ("HOME", home)]);
        let expander = VariableExpander::new(environment, directory.path());
        let text = expander.expand("${ROOT} ${API_KEY} ${file:t} ${file:~/t}").unwrap();
        assert_eq!(text.to_string(), "/srv *** *** ***");
        assert_eq!(text.expose(), "/srv canary-value canary-file canary-file");
        assert!(!format!("{:?}", expander.environment).contains("canary"));
    }

    #[test]
    fn an_environment_file_adds_but_does_not_overrule() {
        let mut environment = Environment::from_pairs([("A", "process")]);
        environment.add_file("A=file\nB='x y'\n").unwrap();
        assert_eq!((environment.get("A"), environment.get("B")), (Some("process"), Some("x y")));
    }
}
