//! The pattern of a resource template, matched against an address.

/// A URI template of the forms that servers use: `{name}` (up to the next `/`, `?` or `#`), `{+name}`
/// (anything) and `{?a,b}` (query parameters, all optional, at the end).
/// See [RFC 6570](https://www.rfc-editor.org/rfc/rfc6570).
#[derive(Debug, Clone)]
pub(super) struct UriTemplate {
    parts: Vec<TemplatePart>,
    query: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    Literal(String),
    Segment(String),
    Anything(String),
}

impl UriTemplate {
    /// Reads a template; `None` for forms that are not known here.
    pub(super) fn parse(template: &str) -> Option<Self> {
        let mut pattern = UriTemplate { parts: Vec::new(), query: Vec::new() };
        let mut rest = template;
        while let Some(open) = rest.find('{') {
            pattern.literal(&rest[..open])?;
            let close = open + rest[open..].find('}')?;
            pattern.expression(&rest[open + 1..close])?;
            rest = &rest[close + 1..];
        }
        pattern.literal(rest)?;
        Some(pattern)
    }

    fn literal(&mut self, text: &str) -> Option<()> {
        if text.is_empty() {
            return Some(());
        }
        if text.contains('}') || !self.query.is_empty() {
            return None;
        }
        self.parts.push(TemplatePart::Literal(text.to_owned()));
        Some(())
    }

    fn expression(&mut self, text: &str) -> Option<()> {
        let is_name =
            |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if let Some(names) = text.strip_prefix('?') {
            self.query = names.split(',').map(str::to_owned).collect();
            return self.query.iter().all(|name| is_name(name)).then_some(());
        }
        // Two variables side by side could be split anywhere.
        if matches!(self.parts.last(), Some(TemplatePart::Segment(_) | TemplatePart::Anything(_)))
            || !self.query.is_empty()
        {
            return None;
        }
        let (name, part): (_, fn(String) -> TemplatePart) = match text.strip_prefix('+') {
            Some(name) => (name, TemplatePart::Anything),
            None => (text, TemplatePart::Segment),
        };
        self.parts.push(part(name.to_owned()));
        is_name(name).then_some(())
    }

    /// The variables of `uri`, percent-decoded, in order; `None` when it does not match. A variable is never
    /// empty and ends where the text after it first begins (the last one: where it last begins).
    pub(super) fn matches(&self, uri: &str) -> Option<Vec<(String, String)>> {
        let (path, query) = match uri.split_once('?') {
            Some((path, query)) if !self.query.is_empty() => (path, query),
            _ => (uri, ""),
        };
        let mut variables = Vec::new();
        let mut rest = path;
        for (index, part) in self.parts.iter().enumerate() {
            rest = match part {
                TemplatePart::Literal(text) => rest.strip_prefix(text.as_str())?,
                TemplatePart::Segment(name) | TemplatePart::Anything(name) => {
                    let value = &rest[..self.value_end(index, rest)?];
                    let is_too_wide = matches!(part, TemplatePart::Segment(_)) && value.contains(['/', '?', '#']);
                    if value.is_empty() || is_too_wide {
                        return None;
                    }
                    variables.push((name.clone(), decode(value)?));
                    &rest[value.len()..]
                }
            };
        }
        rest.is_empty().then_some(())?;
        variables.extend(self.query_of(query));
        Some(variables)
    }

    fn value_end(&self, index: usize, rest: &str) -> Option<usize> {
        match self.parts.get(index + 1) {
            Some(TemplatePart::Literal(text)) if index + 2 == self.parts.len() => {
                rest.strip_suffix(text.as_str()).map(str::len)
            }
            Some(TemplatePart::Literal(text)) => rest.find(text.as_str()),
            _ => Some(rest.len()),
        }
    }

    fn query_of(&self, query: &str) -> Vec<(String, String)> {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let known = pairs.filter(|(name, _)| self.query.iter().any(|wanted| wanted == name));
        known.filter_map(|(name, value)| Some((name.to_owned(), decode(value)?))).collect()
    }
}

/// Percent-decodes; `None` when the bytes are not UTF-8 or an escape is broken.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        let digits =
            std::str::from_utf8(&digits).ok().filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(template: &str, uri: &str, expected: Option<&[(&str, &str)]>) {
        let found = UriTemplate::parse(template).unwrap().matches(uri);
        let expected: Option<Vec<(String, String)>> =
            expected.map(|pairs| pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect());
        assert_eq!(found, expected, "{template} against {uri}");
    }

    #[test]
    fn addresses_match_and_give_their_variables() {
        check("task://{id}", "task://7", Some(&[("id", "7")]));
        check("task://{id}", "task://7/8", None);
        check("task://{id}", "task://", None);
        check("project://{id}/board", "project://p1/board", Some(&[("id", "p1")]));
        check("project://{id}/board", "project://p1/ready", None);
        check("file:///{+path}", "file:///a/b%20c.txt", Some(&[("path", "a/b c.txt")]));
        check("x:{+path}/edit", "x:a/edit/b/edit", Some(&[("path", "a/edit/b")]));
        check("u://{a}-{b}.x", "u://1-2-3.x", Some(&[("a", "1"), ("b", "2-3")]));
    }

    #[test]
    fn a_query_is_optional_and_only_its_own_names_are_read() {
        check("events://{p}{?since,to}", "events://a", Some(&[("p", "a")]));
        check("events://{p}{?since,to}", "events://a?x=1&since=5", Some(&[("p", "a"), ("since", "5")]));
    }

    #[test]
    fn broken_escapes_do_not_match() {
        for uri in ["task://%", "task://%4", "task://%zz", "task://%ff", "task://%+1"] {
            check("task://{id}", uri, None);
        }
    }

    #[test]
    fn unknown_forms_are_refused() {
        for template in ["a:{/x}", "a:{x*}", "a:{x", "a:x}", "a:{x}{y}", "a:{?x}y", "a:{}"] {
            assert!(UriTemplate::parse(template).is_none(), "{template}");
        }
    }
}
