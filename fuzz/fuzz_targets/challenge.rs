//! `WWW-Authenticate`: reading never fails badly, is bounded, and reads back what was written.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tsugi_auth::challenge::{AuthChallenge, BearerChallenge, ChallengeError, parse_challenges};
use tsugi_auth::scope::ScopeSet;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    ours_reads_back(text);
    let Ok(challenges) = parse_challenges(text) else { return };
    assert!(challenges.len() <= 32 && challenges.iter().all(|challenge| challenge.parameters.len() <= 32));
    // What was read means the same when it is written in full.
    let written = challenges.iter().map(write).collect::<Vec<_>>().join(", ");
    assert_eq!(parse_challenges(&written).as_ref(), Ok(&challenges), "{written:?}");
});

fn write(challenge: &AuthChallenge) -> String {
    let quote = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"");
    let parameters = challenge.parameters.iter().map(|(name, value)| format!("{name}=\"{}\"", quote(value)));
    let parameters = parameters.collect::<Vec<_>>().join(", ");
    match &challenge.token68 {
        Some(token) => format!("{} {token}", challenge.scheme),
        None => format!("{} {parameters}", challenge.scheme).trim_end().to_owned(),
    }
}

/// No text can add a parameter to a challenge of ours.
fn ours_reads_back(text: &str) {
    let scope = ScopeSet::parse(text);
    let challenge = BearerChallenge {
        error: Some(ChallengeError::InvalidToken),
        description: Some(text),
        scope: Some(&scope),
        resource_metadata: text,
    };
    let written = challenge.to_string();
    assert!(written.bytes().all(|byte| matches!(byte, 0x20..=0x7e)));
    let Ok(read) = parse_challenges(&written) else {
        assert!(written.len() > 16 * 1024);
        return;
    };
    assert_eq!(read.len(), 1);
    assert_eq!(read[0].parameters.len(), if scope.is_empty() { 3 } else { 4 });
    assert_eq!(read[0].parameter("error"), Some("invalid_token"));
    assert_eq!(read[0].parameter("scope").unwrap_or_default(), scope.to_string());
}
