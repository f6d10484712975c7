//! Reads `WWW-Authenticate` as RFC 9110 §11.6.1 defines it: several challenges in one header, quoted strings, token68.

/// The longest header that is read.
const MAX_HEADER: usize = 16 * 1024;
const MAX_CHALLENGES: usize = 32;
const MAX_PARAMETERS: usize = 32;

/// One challenge of a header.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuthChallenge {
    pub scheme: String,
    /// The single value of schemes such as `Negotiate`.
    pub token68: Option<String>,
    /// Names in lower case, values without quotes.
    pub parameters: Vec<(String, String)>,
}

/// Why a header is not a list of challenges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChallengeProblem {
    #[error("the challenge is longer than 16 KiB, or has more than 32 parts")]
    TooLong,
    #[error("the header does not follow RFC 9110")]
    Malformed,
    #[error("a parameter occurs twice in one challenge")]
    DuplicateParameter,
}

impl AuthChallenge {
    pub fn is_scheme(&self, name: &str) -> bool {
        self.scheme.eq_ignore_ascii_case(name)
    }

    /// The value of a parameter, whose name may be in any case.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// The challenges of one header value, in order.
pub fn parse_challenges(header: &str) -> Result<Vec<AuthChallenge>, ChallengeProblem> {
    if header.len() > MAX_HEADER {
        return Err(ChallengeProblem::TooLong);
    }
    let mut reader = HeaderReader { rest: header };
    let mut found: Vec<AuthChallenge> = Vec::new();
    loop {
        // Lists may have empty elements (RFC 9110 §5.6.1).
        while reader.take(',') || reader.take_space() {}
        if reader.rest.is_empty() {
            return Ok(found);
        }
        let word = reader.token().ok_or(ChallengeProblem::Malformed)?;
        // After a comma `name=` goes on with the challenge before it; a word alone begins the next one.
        match (reader.value(), found.last_mut()) {
            (Some(value), Some(challenge)) => challenge.add(word, value?)?,
            (Some(_), None) => return Err(ChallengeProblem::Malformed),
            (None, _) => {
                if found.len() == MAX_CHALLENGES {
                    return Err(ChallengeProblem::TooLong);
                }
                found.push(reader.challenge(word)?);
            }
        }
        while reader.take_space() {}
        if !reader.rest.is_empty() && !reader.take(',') {
            return Err(ChallengeProblem::Malformed);
        }
    }
}

impl AuthChallenge {
    fn add(&mut self, name: &str, value: String) -> Result<(), ChallengeProblem> {
        if self.token68.is_some() {
            return Err(ChallengeProblem::Malformed);
        }
        // With two values, one reader would take the first and another the last.
        if self.parameter(name).is_some() {
            return Err(ChallengeProblem::DuplicateParameter);
        }
        if self.parameters.len() == MAX_PARAMETERS {
            return Err(ChallengeProblem::TooLong);
        }
        self.parameters.push((name.to_ascii_lowercase(), value));
        Ok(())
    }
}

struct HeaderReader<'a> {
    rest: &'a str,
}

impl<'a> HeaderReader<'a> {
    /// What follows the scheme of a challenge: nothing, a token68, or its first parameter.
    fn challenge(&mut self, scheme: &str) -> Result<AuthChallenge, ChallengeProblem> {
        let mut challenge = AuthChallenge { scheme: scheme.to_owned(), ..AuthChallenge::default() };
        if !self.take_space() {
            return Ok(challenge);
        }
        while self.take_space() {}
        if let Some(token68) = self.token68() {
            challenge.token68 = Some(token68.to_owned());
            return Ok(challenge);
        }
        let before = self.rest;
        if let Some(name) = self.token() {
            match self.value() {
                Some(value) => challenge.add(name, value?)?,
                // Two words in a row are two challenges only if a comma stands between them.
                None => {
                    self.rest = before;
                    return Err(ChallengeProblem::Malformed);
                }
            }
        }
        Ok(challenge)
    }

    fn take(&mut self, sign: char) -> bool {
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn take_space(&mut self) -> bool {
        self.take(' ') || self.take('\t')
    }

    fn token(&mut self) -> Option<&'a str> {
        let length = self.rest.bytes().take_while(|byte| is_token_byte(*byte)).count();
        let (token, rest) = self.rest.split_at(length);
        self.rest = rest;
        (!token.is_empty()).then_some(token)
    }

    /// A token68 that is the whole rest of this challenge, such as `YII=`. `name=value` is not one.
    fn token68(&mut self) -> Option<&'a str> {
        let is_sign =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'+' | b'/');
        let body = self.rest.bytes().take_while(is_sign).count();
        let padding = self.rest[body..].bytes().take_while(|byte| *byte == b'=').count();
        let (token, rest) = self.rest.split_at(body + padding);
        let ends = rest.trim_start_matches([' ', '\t']);
        if body == 0 || !(ends.is_empty() || ends.starts_with(',')) {
            return None;
        }
        self.rest = rest;
        Some(token)
    }

    /// `= value` after a name, with the spaces that RFC 9110 tolerates. `None` when there is no `=`.
    fn value(&mut self) -> Option<Result<String, ChallengeProblem>> {
        let before = self.rest;
        while self.take_space() {}
        if !self.take('=') {
            self.rest = before;
            return None;
        }
        while self.take_space() {}
        Some(match self.take('"') {
            true => self.quoted(),
            false => self.token().map(str::to_owned).ok_or(ChallengeProblem::Malformed),
        })
    }

    /// The rest of a quoted string, whose backslashes protect one character each.
    fn quoted(&mut self) -> Result<String, ChallengeProblem> {
        let mut text = String::new();
        let mut characters = self.rest.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(text);
                }
                '\\' => text.extend(characters.next().map(|(_, protected)| protected)),
                other => text.push(other),
            }
        }
        Err(ChallengeProblem::Malformed)
    }
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::{AuthChallenge, ChallengeProblem, parse_challenges};

    fn challenge(scheme: &str, token68: Option<&str>, parameters: &[(&str, &str)]) -> AuthChallenge {
        let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        AuthChallenge { scheme: scheme.to_owned(), token68: token68.map(str::to_owned), parameters }
    }

    #[test]
    fn challenges_are_split_where_the_next_scheme_begins() {
        // The example of RFC 9110 §11.6.1.
        let header = "Basic realm=\"simple\", Newauth realm=\"apps\", type=1, title=\"Login to \\\"apps\\\"\"";
        let expected = [
            challenge("Basic", None, &[("realm", "simple")]),
            challenge("Newauth", None, &[("realm", "apps"), ("type", "1"), ("title", "Login to \"apps\"")]),
        ];
        assert_eq!(parse_challenges(header).as_deref(), Ok(&expected[..]));
    }

    #[test]
    fn schemes_without_parameters_and_with_token68_are_read() {
        let expected = [
            challenge("Negotiate", Some("YIIabc+/="), &[]),
            challenge("Basic", None, &[]),
            challenge("Bearer", None, &[("a", "b, Basic c=\"d"), ("e", "f")]),
        ];
        let header = ", Negotiate YIIabc+/= ,, Basic , Bearer a = \"b, Basic c=\\\"d\" , E=f ,";
        assert_eq!(parse_challenges(header).as_deref(), Ok(&expected[..]));
        assert_eq!(parse_challenges("").as_deref(), Ok(&[][..]));
    }

    #[test]
    fn malformed_headers_are_refused() {
        for header in [
            "realm=x",
            "Bearer \"x\"",
            "Bearer a=\"x",
            "Bearer a=b c=d",
            "Bearer a=b;c=d",
            "Bearer a=,b=c",
            "Bearer a=b, c=",
            "\u{e9}",
        ] {
            assert_eq!(parse_challenges(header), Err(ChallengeProblem::Malformed), "{header}");
        }
        assert_eq!(parse_challenges("Bearer a=b, A=c"), Err(ChallengeProblem::DuplicateParameter));
        assert_eq!(parse_challenges(&"Basic,".repeat(40)), Err(ChallengeProblem::TooLong));
        assert_eq!(parse_challenges(&"x".repeat(20_000)), Err(ChallengeProblem::TooLong));
    }
}
