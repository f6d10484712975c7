//! Servers given by a flag or a variable, in the same form as those of a file.
//!
//! They go through the same checks, and a complaint points into the flag or the variable.

use url::Url;

use super::ConfigSelection;
use crate::config::document::{ConfigDocument, ConfigNode, NodeEntry, NodeValue, SourceSpan, SourceText};
use crate::config::env::MCP_URLS;
use crate::config::parse::tidy_name;
use crate::config::problem::{ConfigProblem, ConfigProblems, SourcePosition};

/// The server of `--command` or `--url`.
pub(super) fn from_flags(wish: &ConfigSelection) -> Result<ConfigDocument, ConfigProblems> {
    match (&wish.command, &wish.url) {
        (Some(command), None) => from_command(command),
        (None, Some(url)) => Ok(document("--url", url, vec![server(url_parts(url, 0), host(url))])),
        _ => Err(ConfigProblem::new("`--command` and `--url` cannot both name the server").into()),
    }
}

/// The servers of `MCP_URLS`; what `MCP_QUIET` names is quiet in each of them.
pub(super) fn from_urls(value: &str, quiet: &str) -> ConfigDocument {
    let mut start = 0;
    let mut urls = Vec::new();
    for part in value.split(',') {
        let offset = start + part.len() - part.trim_start().len();
        start += part.len() + 1;
        if !part.trim().is_empty() {
            urls.push((part.trim(), offset));
        }
    }
    let mut names: Vec<String> = Vec::new();
    for (url, _) in &urls {
        let name = name_among(url, &urls, &names);
        names.push(name);
    }
    let servers = urls.iter().zip(names).map(|((url, offset), name)| {
        let mut parts = url_parts(url, *offset);
        parts.extend(quiet_part(quiet, parts[0].node.span));
        server(parts, name)
    });
    document(MCP_URLS.name, value, servers.collect())
}

/// The tools that a server is quiet about; a complaint points at its address, where it belongs.
fn quiet_part(names: &str, span: SourceSpan) -> Option<NodeEntry> {
    let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
    let items: Vec<ConfigNode> = names.map(|name| scalar(name, span)).collect();
    (!items.is_empty()).then(|| entry("quietTools", ConfigNode { span, value: NodeValue::List(items) }))
}

/// The host; with its port where two have the same host; with a number where even that is taken.
fn name_among(url: &str, urls: &[(&str, usize)], taken: &[String]) -> String {
    let alone = urls.iter().filter(|(other, _)| host(other) == host(url)).count() == 1;
    let port = Url::parse(url).ok().and_then(|url| url.port_or_known_default());
    let name = match port {
        Some(port) if !alone => format!("{}-{port}", host(url)),
        _ => host(url),
    };
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains(name)).unwrap_or(name)
}

fn host(url: &str) -> String {
    let host = Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned));
    tidy_name(&host.unwrap_or_default())
}

fn from_command(line: &str) -> Result<ConfigDocument, ConfigProblems> {
    let whole = SourcePosition::find("--command".as_ref(), line, 0, line.len());
    let words = split(line)
        .ok_or_else(|| ConfigProblem::new("`--command` has a quote that is not closed").at(whole.clone()))?;
    let Some((program, args)) = words.split_first() else {
        return Err(ConfigProblem::new("`--command` names no program").at(whole).into());
    };
    let file_name = program.rsplit(['/', '\\']).next().unwrap_or_default();
    let name = tidy_name(file_name);
    let span = SourceSpan { start: 0, end: line.len() };
    let args = args.iter().map(|arg| scalar(arg, span)).collect();
    let parts =
        vec![entry("command", scalar(program, span)), entry("args", ConfigNode { span, value: NodeValue::List(args) })];
    Ok(document("--command", line, vec![server(parts, name)]))
}

/// Words as a shell splits them: blanks, quotes and backslashes, and nothing else. Nothing is expanded.
fn split(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(characters.next()),
            (None, _) if character.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

fn url_parts(url: &str, offset: usize) -> Vec<NodeEntry> {
    let span = SourceSpan { start: offset, end: offset + url.len() };
    let is_sse = Url::parse(url).is_ok_and(|url| url.path().trim_end_matches('/').ends_with("/sse"));
    let mut parts = vec![entry("url", scalar(url, span))];
    parts.extend(is_sse.then(|| entry("transport", scalar("sse", span))));
    parts
}

/// The shell has expanded a flag or variable already, so a dollar sign in it is an ordinary character.
fn scalar(text: &str, span: SourceSpan) -> ConfigNode {
    ConfigNode { span, value: NodeValue::Scalar(text.replace('$', "$$")) }
}

fn entry(key: &str, node: ConfigNode) -> NodeEntry {
    NodeEntry { key: key.to_owned(), key_span: node.span, node }
}

fn server(parts: Vec<NodeEntry>, name: String) -> ConfigNode {
    let span = parts.first().map(|part| part.node.span).unwrap_or_default();
    let mut entries = vec![entry("name", scalar(&name, span))];
    entries.extend(parts);
    ConfigNode { span, value: NodeValue::Map(entries) }
}

fn document(origin: &str, text: &str, servers: Vec<ConfigNode>) -> ConfigDocument {
    let span = SourceSpan { start: 0, end: text.len() };
    let servers = entry("servers", ConfigNode { span, value: NodeValue::List(servers) });
    ConfigDocument {
        source: SourceText { path: origin.into(), text: text.to_owned() },
        root: ConfigNode { span, value: NodeValue::Map(vec![servers]) },
    }
}
