//! How names and addresses are compared, so that what is forbidden stays so under every spelling of it.

use std::borrow::Cow;

use globset::{Glob, GlobBuilder, GlobMatcher};

/// How closely a pattern must fit. What opens a door must fit exactly, what closes one may fit more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatternReading {
    Exact,
    AnySpelling,
}

/// A pattern of server names.
pub fn server_glob(pattern: &str) -> Result<GlobMatcher, globset::Error> {
    Ok(Glob::new(pattern)?.compile_matcher())
}

/// A pattern of names or addresses.
pub fn name_glob(pattern: &str, reading: PatternReading) -> Result<GlobMatcher, globset::Error> {
    let pattern = with_lower_authority(pattern);
    let glob = match reading {
        PatternReading::Exact => Glob::new(&pattern)?,
        PatternReading::AnySpelling => GlobBuilder::new(&pattern.to_lowercase()).case_insensitive(true).build()?,
    };
    Ok(glob.compile_matcher())
}

/// A name as careless servers read it: without spaces and dots at its ends, and in lower case where that takes more than
/// ignoring the case of ASCII letters, which the patterns do.
pub fn plain_spelling(name: &str) -> Cow<'_, str> {
    let bare = name.trim().trim_end_matches('.').trim_end();
    if bare.is_ascii() { Cow::Borrowed(bare) } else { Cow::Owned(bare.to_lowercase()) }
}

/// An address as patterns read it: scheme and host in lower case, characters that need no percent-encoding without it
/// ([RFC 3986](https://www.rfc-editor.org/rfc/rfc3986#section-6.2.2)). `None` when it has dot segments: where it leads is
/// for the server to say.
pub fn canonical_uri(uri: &str) -> Option<String> {
    let decoded = decode_unreserved(uri);
    let path = decoded.split(['?', '#']).next().unwrap_or_default();
    // Some servers take a backslash for a slash.
    let has_dots = path.split(['/', '\\']).any(|segment| matches!(segment, "." | ".."));
    (!has_dots).then(|| with_lower_authority(&decoded))
}

/// Tries what an address may mean to a server that joins segments, decodes slashes, or drops query and fragment, beside
/// what it says. True as well when one of these readings has dot segments.
pub fn any_reading(canonical: &str, is_meant: impl Fn(&str) -> bool) -> bool {
    is_meant(canonical)
        || canonical_uri(&loose_uri(canonical)).is_none_or(|loose| is_meant(&loose))
        || is_meant(canonical.split(['?', '#']).next().unwrap_or_default())
}

/// An address as a careless server reads it: encoded slashes, question marks and number signs decoded, backslashes as
/// slashes, no empty segments, no query, no fragment and no slash at the end.
fn loose_uri(uri: &str) -> String {
    let mut decoded = uri.replace('\\', "/");
    for (escape, sign) in [("%2f", "/"), ("%5c", "/"), ("%3f", "?"), ("%23", "#")] {
        decoded = decoded.replace(escape, sign).replace(&escape.to_ascii_uppercase(), sign);
    }
    let path = decoded.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = path.split_once("://").map_or(("", path), |(scheme, rest)| (scheme, rest));
    // The authority may be empty, as in `file:///`, so the slash after it stays.
    let mut joined = String::with_capacity(path.len());
    for (at, segment) in rest.split('/').enumerate() {
        if at == 0 {
            joined.push_str(segment);
        } else if !segment.is_empty() {
            joined.push('/');
            joined.push_str(segment);
        }
    }
    if scheme.is_empty() { joined } else { format!("{scheme}://{joined}") }
}

/// The text with scheme and host in lower case, when it is an address.
fn with_lower_authority(text: &str) -> String {
    let Some(scheme) = text.find("://") else { return text.to_owned() };
    let authority = scheme + "://".len();
    let end = text[authority..].find(['/', '?', '#']).map_or(text.len(), |at| authority + at);
    text[..end].to_ascii_lowercase() + &text[end..]
}

/// The text with every `%XX` decoded that stands for a letter, a digit or one of `-._~`.
fn decode_unreserved(text: &str) -> String {
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        decoded.push_str(&rest[..at]);
        let byte = rest.get(at + 1..at + 3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte.filter(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(byte)) {
            Some(byte) => {
                decoded.push(char::from(byte));
                rest = &rest[at + 3..];
            }
            None => {
                decoded.push('%');
                rest = &rest[at + 1..];
            }
        }
    }
    decoded + rest
}
