//! Values that must never be printed, and how they are recognised.

use std::fmt;

use serde::{Serialize, Serializer};

/// What stands where a secret would.
pub(crate) const MASK: &str = "***";
/// A shorter value would mask ordinary text everywhere, so it is not searched for.
const SHORTEST: usize = 6;

/// A value that prints as `***`, however it is printed.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Secret(String);

/// A value of which some parts may be secret.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct MaskedText(Vec<TextPiece>);

#[derive(Clone, PartialEq, Eq, Hash)]
enum TextPiece {
    Plain(String),
    Secret(Secret),
}

impl Secret {
    pub(crate) fn new(value: impl Into<String>) -> Self {
        Secret(value.into())
    }

    /// The value itself, for the one place that needs it.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Whether the value can be searched for without masking ordinary text.
    pub(crate) fn is_searchable(&self) -> bool {
        // A short number may be a port, a year or a count.
        self.0.len() >= SHORTEST && !(self.0.len() < 10 && self.0.chars().all(|digit| digit.is_ascii_digit()))
    }

    /// The text with this value masked.
    pub(crate) fn mask(&self, text: &str) -> String {
        if self.is_searchable() { text.replace(&self.0, MASK) } else { text.to_owned() }
    }

    /// The text with this value masked, as wide as before.
    pub(crate) fn mask_keeping_width(&self, text: &str) -> String {
        if !self.is_searchable() {
            return text.to_owned();
        }
        let stars = "*".repeat(self.0.chars().count());
        self.0
            .lines()
            .next()
            .filter(|_| self.0.contains('\n'))
            .map_or_else(|| text.replace(&self.0, &stars), |line| text.replace(line, &"*".repeat(line.chars().count())))
    }
}

impl MaskedText {
    /// Text without a secret.
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        MaskedText(vec![TextPiece::Plain(text.into())])
    }

    /// Adds a part that may be shown.
    pub(crate) fn push_plain(&mut self, text: &str) {
        // Neighbours are merged, so that equal texts compare equal however they were built.
        match self.0.last_mut() {
            Some(TextPiece::Plain(last)) => last.push_str(text),
            _ => self.0.push(TextPiece::Plain(text.to_owned())),
        }
    }

    /// Adds a part that may not be shown.
    pub(crate) fn push_secret(&mut self, secret: Secret) {
        self.0.push(TextPiece::Secret(secret));
    }

    /// Adds all parts of another text.
    pub(crate) fn append(&mut self, other: MaskedText) {
        for piece in other.0 {
            match piece {
                TextPiece::Plain(text) => self.push_plain(&text),
                TextPiece::Secret(secret) => self.push_secret(secret),
            }
        }
    }

    /// The whole as one secret, for a value whose name says that it is one.
    pub(crate) fn into_secret(self) -> MaskedText {
        // An empty value shown as `***` would look as if it were set.
        if self.is_empty() { self } else { MaskedText(vec![TextPiece::Secret(Secret(self.expose()))]) }
    }

    /// Everything, for the one place that needs it.
    pub(crate) fn expose(&self) -> String {
        self.0.iter().map(TextPiece::expose).collect()
    }

    /// The secret parts.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &Secret> {
        self.0.iter().filter_map(|piece| match piece {
            TextPiece::Secret(secret) => Some(secret),
            TextPiece::Plain(_) => None,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|piece| piece.expose().is_empty())
    }
}

impl TextPiece {
    fn expose(&self) -> &str {
        match self {
            TextPiece::Plain(text) => text,
            TextPiece::Secret(secret) => secret.expose(),
        }
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(MASK)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(MASK)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(MASK)
    }
}

impl fmt::Display for MaskedText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|piece| match piece {
            TextPiece::Plain(text) => formatter.write_str(text),
            TextPiece::Secret(secret) => write!(formatter, "{secret}"),
        })
    }
}

impl fmt::Debug for MaskedText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.to_string())
    }
}

impl Serialize for MaskedText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Words that mark a variable, header or flag as secret.
const WORDS: &[&str] = &[
    "auth",
    "authorization",
    "bearer",
    "cookie",
    "credential",
    "credentials",
    "dsn",
    "jwt",
    "key",
    "keys",
    "passphrase",
    "passwd",
    "password",
    "pat",
    "secret",
    "secrets",
    "signature",
    "token",
    "tokens",
];
/// The same inside a longer word.
const PARTS: &[&str] = &["apikey", "credential", "passw", "secret", "token"];
/// How the tokens of well-known services begin.
const PREFIXES: &[&str] =
    &["AIza", "AKIA", "eyJ", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "sk-", "sk_live_", "xoxb-", "xoxp-"];

/// Whether a variable, header or flag of this name usually holds a secret.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    words(name).iter().any(|word| WORDS.contains(&word.as_str())) || PARTS.iter().any(|part| lower.contains(part))
}

/// Whether a value looks secret whatever its name: a well-known service's token, or an address with a password or a
/// token in it.
pub(crate) fn is_secret_value(value: &str) -> bool {
    is_token(value) || (value.contains("://") && conceal(value) != value)
}

/// Whether a word could be a token of an unknown service: long, and of letters and digits in no order that a person
/// would choose. Used for segments of addresses, where some services keep a whole credential.
pub(crate) fn looks_like_token(word: &str) -> bool {
    if is_token(word) || is_uuid(word) {
        return true;
    }
    // A name such as `my-server-2025` consists of short runs. A token has a long one.
    let longest = word.split(['-', '_', '.', '~', '=']).max_by_key(|run| run.len()).unwrap_or_default();
    let digits = longest.chars().filter(char::is_ascii_digit).count();
    let letters = longest.chars().filter(char::is_ascii_alphabetic).count();
    let is_plain = longest.chars().all(|character| character.is_ascii_alphanumeric());
    let is_mixed = longest.chars().any(|c| c.is_ascii_lowercase()) && longest.chars().any(|c| c.is_ascii_uppercase());
    is_plain && longest.len() >= SHORTEST_TOKEN && digits > 0 && letters > 0 && (digits > 2 || is_mixed)
}

/// Shorter words occur as names.
const SHORTEST_TOKEN: usize = 16;

fn is_uuid(word: &str) -> bool {
    let lengths = word.split('-').map(str::len);
    lengths.eq([8, 4, 4, 4, 12]) && word.chars().all(|character| character == '-' || character.is_ascii_hexdigit())
}

/// Variables that say where and as whom a program runs. Their values are no secrets, and occur in every other message.
const ORDINARY_VARIABLES: [&str; 12] =
    ["HOME", "HOSTNAME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TERM", "TMPDIR", "TZ", "USER", "USERNAME"];

/// Whether the value of a variable is masked: always, except where it cannot be a secret. A path is not one unless a part
/// of it looks like a token; masking paths would make most error messages useless.
pub(crate) fn is_secret_variable(name: &str, value: &str) -> bool {
    if is_secret_name(name) || is_secret_value(value) {
        return true;
    }
    let is_path = value.starts_with('/') && !value.split('/').any(looks_like_token);
    !is_path && !ORDINARY_VARIABLES.contains(&name) && !name.starts_with("XDG_")
}

/// Headers that describe a request. Their values are not shown, but not searched for either: `application/json` occurs
/// in ordinary text.
const ORDINARY_HEADERS: [&str; 5] = ["accept", "accept-encoding", "accept-language", "content-type", "user-agent"];

/// Secrets of a header's value: the whole of it, and what follows a scheme such as `Bearer`, which may appear alone.
pub(crate) fn header_secrets(name: &str, value: &str) -> Vec<Secret> {
    if ORDINARY_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
        return Vec::new();
    }
    let credential = value.split_once(' ').map(|(_, credential)| credential.trim());
    std::iter::once(value).chain(credential).map(Secret::new).collect()
}

fn is_token(value: &str) -> bool {
    value.len() >= 16 && !value.contains(char::is_whitespace) && PREFIXES.iter().any(|prefix| value.starts_with(prefix))
}

/// The words of `API_KEY`, `x-api-key` or `apiKey`, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_small = false;
    for character in name.chars() {
        // A capital after a small letter begins a word, as in `apiKey`.
        if !character.is_alphanumeric() || (after_small && character.is_uppercase()) {
            words.push(String::new());
        }
        after_small = character.is_lowercase();
        if let (true, Some(word)) = (character.is_alphanumeric(), words.last_mut()) {
            word.extend(character.to_lowercase());
        }
    }
    words
}

/// The text without control characters, so that a file cannot write to the terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .map(|character| if character.is_control() && character != '\n' { '\u{fffd}' } else { character })
        .collect()
}

/// A source line with every value masked that its key marks as secret, as wide as before.
///
/// This works on bare text, because a file that cannot be parsed must not leak either.
pub(crate) fn conceal(line: &str) -> String {
    let characters: Vec<char> = line.chars().collect();
    let mut hidden = vec![false; characters.len()];
    let mut index = 0;
    while index < characters.len() {
        let end = word_end(&characters, index);
        if end == index {
            index += 1;
            continue;
        }
        let word: String = characters[index..end].iter().collect();
        // A well-known token is hidden even where no key announces it.
        if is_token(&word) {
            hidden[index..end].fill(true);
        } else if let Some(value) = value_start(&characters, end, &word).filter(|_| is_secret_name(&word)) {
            index = hide_value(&characters, value, &mut hidden);
            continue;
        } else if word.contains("://") || characters[end..].starts_with(&[':', '/', '/']) {
            hide_password(&characters, end, &mut hidden);
            hide_segments(&characters, end, &mut hidden);
        }
        index = end;
    }
    let shown = characters.iter().zip(hidden).map(|(character, hidden)| if hidden { '*' } else { *character });
    shown.map(|character| if character.is_control() && character != '\t' { '\u{fffd}' } else { character }).collect()
}

fn word_end(characters: &[char], start: usize) -> usize {
    let is_word = |character: &char| character.is_alphanumeric() || matches!(character, '_' | '-' | '.');
    start + characters[start..].iter().take_while(|character| is_word(character)).count()
}

/// Where the value of a key begins: after `key:`, `"key":`, `key=`, `--key ` and `"--key",`.
fn value_start(characters: &[char], end: usize, word: &str) -> Option<usize> {
    let mut index = end;
    if matches!(characters.get(index), Some('"' | '\'')) {
        index += 1;
    }
    let blanks = |from: usize| characters[from..].iter().take_while(|character| **character == ' ').count();
    let gap = blanks(index);
    match characters.get(index + gap) {
        Some(':' | '=') => index += gap + 1,
        // In a list, a flag and its value are two items.
        Some(',') if word.starts_with('-') => index += gap + 1,
        Some(_) if word.starts_with('-') && gap > 0 => index += gap,
        _ => return None,
    }
    index += blanks(index);
    // A map is searched further, because its own keys say what is secret in it.
    let opens_map = characters.get(index) == Some(&'{') || characters[index..].starts_with(&['[', '{']);
    (index < characters.len() && !opens_map).then_some(index)
}

/// Hides a value, except the `${NAME}` in it, and says where it ends.
fn hide_value(characters: &[char], start: usize, hidden: &mut [bool]) -> usize {
    let quote = characters[start];
    let quoted = matches!(quote, '"' | '\'');
    let first = if quoted { start + 1 } else { start };
    let close = |from: usize| characters[from..].iter().position(|character| *character == quote);
    // Without quotes the end of the value is not certain, so the rest of the line is hidden.
    let end = if quoted { close(first).map_or(characters.len(), |length| first + length) } else { characters.len() };
    let mut index = first;
    while index < end {
        if characters[index..end].starts_with(&['$', '{']) {
            let name =
                index + 2 + characters[index + 2..end].iter().take_while(|c| c.is_alphanumeric() || **c == '_').count();
            index = if characters.get(name) == Some(&'}') { name + 1 } else { name };
        }
        if index < end {
            hidden[index] = characters[index] != ' ';
        }
        index += 1;
    }
    end
}

/// Hides the password of `scheme://user:password@host`, even if the rest is still missing.
fn hide_password(characters: &[char], end: usize, hidden: &mut [bool]) {
    let start = (end + 3).min(characters.len());
    let length = characters[start..].iter().take_while(|c| !matches!(c, '/' | '?' | '#' | '"' | '\'' | ' ')).count();
    let authority = &characters[start..start + length];
    // A password may contain `@` itself, so the last one ends it.
    let at = authority.iter().rposition(|character| *character == '@');
    let Some(colon) = authority.iter().position(|character| *character == ':') else { return };
    let until = at.unwrap_or(length);
    let is_port = at.is_none() && authority[colon + 1..].iter().all(char::is_ascii_digit);
    let is_address = authority.first() == Some(&'[');
    if colon < until && !is_port && !is_address {
        hidden[start + colon + 1..start + until].fill(true);
    }
}

/// Hides the segments of an address's path that look like tokens.
fn hide_segments(characters: &[char], end: usize, hidden: &mut [bool]) {
    let start = (end + 3).min(characters.len());
    let is_end = |c: &char| matches!(c, '?' | '#' | '"' | '\'' | ' ' | ',' | '}' | ']');
    let length = characters[start..].iter().take_while(|c| !is_end(c)).count();
    let mut from = start;
    for (index, segment) in characters[start..start + length].split(|character| *character == '/').enumerate() {
        // The first one is the host.
        if index > 0 && looks_like_token(&segment.iter().collect::<String>()) {
            hidden[from..from + segment.len()].fill(true);
        }
        from += segment.len() + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_prints_as_stars_in_every_way() {
        let secret = Secret::new("canary-value");
        let shown = format!("{secret} {secret:?} {}", serde_json::to_string(&secret).unwrap());
        assert_eq!(shown, "*** *** \"***\"");
    }

    #[test]
    fn a_text_shows_its_plain_parts_only() {
        let mut text = MaskedText::plain("Bearer ");
        text.push_secret(Secret::new("canary-value"));
        assert_eq!(
            format!("{text} {text:?} {}", serde_json::to_string(&text).unwrap()),
            "Bearer *** \"Bearer ***\" \"Bearer ***\""
        );
        assert_eq!(text.expose(), "Bearer canary-value");
    }

    #[test]
    fn names_that_hold_secrets_are_recognised() {
        for name in [
            "API_KEY",
            "x-api-key",
            "Authorization",
            "githubToken",
            "MY_SECRET_2",
            "DB_PASSWORD",
            "GITHUB_PAT",
            "APIKEY",
            "--token",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["PATH", "PWD", "HOME", "MONKEY", "KEYBOARD", "Content-Type", "author", "PROJECT_ROOT", "NODE_ENV"]
        {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn values_that_are_secret_whatever_their_name_are_recognised() {
        for value in ["ghp_0123456789abcdef", "postgres://me:pass@db/x", "https://h/?api_key=x"] {
            assert!(is_secret_value(value), "{value}");
        }
        for value in ["ghp_", "https://h:80/x?page=2", "sk-8", "plain text"] {
            assert!(!is_secret_value(value), "{value}");
        }
    }

    #[test]
    fn a_source_line_keeps_its_width_and_its_references_but_not_its_secrets() {
        for (line, shown) in [
            ("    Authorization: Bearer canary", "    Authorization: ****** ******"),
            ("{ \"API_KEY\": \"canary\", \"x\": 1 }", "{ \"API_KEY\": \"******\", \"x\": 1 }"),
            ("API_KEY: ${API_KEY}", "API_KEY: ${API_KEY}"),
            ("API_KEY: ${API_KEY:-canary}", "API_KEY: ${API_KEY*********"),
            ("args: [\"--token\", \"canary\"]", "args: [\"--token\", \"******\"]"),
            ("args: [--token=canary]", "args: [--token=*******"),
            ("auth: { keys: [{ name: x, key: canary }] }", "auth: { keys: [{ name: x, key: ****** ** *"),
            ("url: http://me:canary@host/x", "url: http://me:******@host/x"),
            ("url: http://me:canary", "url: http://me:******"),
            ("url: http://host:8080/x http://[::1]:80/", "url: http://host:8080/x http://[::1]:80/"),
            ("name: ghp_0123456789abcdef", "name: ********************"),
            ("timeout: 30000", "timeout: 30000"),
            ("url: https://h/s/aB3dE5fG7hJ9kL1m/mcp", "url: https://h/s/****************/mcp"),
            ("url: https://h/api/v2/my-server-2025/mcp", "url: https://h/api/v2/my-server-2025/mcp"),
        ] {
            assert_eq!(conceal(line), shown);
        }
    }

    #[test]
    fn words_that_look_like_tokens_are_told_from_names() {
        for token in [
            "NTk4YjA1NmUtZDcw",
            "123e4567-e89b-12d3-a456-426614174000",
            "9f86d081884c7d659a2feaa0c55ad015",
            "ghp_0123456789abcdef",
        ] {
            assert!(looks_like_token(token), "{token}");
        }
        for name in ["mcp", "server-filesystem", "my-server-2025-11-25", "internationalization", "v1", "2026-07-28"] {
            assert!(!looks_like_token(name), "{name}");
        }
    }

    #[test]
    fn values_of_variables_are_secret_unless_they_cannot_be() {
        for (name, value) in
            [("PLAIN", "canary"), ("REGION", "eu-west"), ("ROOT", "/srv/9f86d081884c7d659a2feaa0c55ad015")]
        {
            assert!(is_secret_variable(name, value), "{name}");
        }
        for (name, value) in [("HOME", "/home/me"), ("USER", "me"), ("ROOT", "/srv/project"), ("XDG_DATA_HOME", "x")] {
            assert!(!is_secret_variable(name, value), "{name}");
        }
    }

    #[test]
    fn short_or_numeric_values_are_not_searched_for() {
        assert_eq!(Secret::new("1234").mask("port 1234"), "port 1234");
        assert_eq!(Secret::new("canary-value").mask("x canary-value"), "x ***");
    }
}
