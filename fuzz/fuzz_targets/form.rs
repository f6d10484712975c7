//! Forms that a browser brings back, and answers of token endpoints: only the right state and issuer give a code.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tsugi_auth::code_flow::{AuthorizationResponse, CodeAnswer, CodeExpectation};
use tsugi_auth::login::ReturnPlace;
use tsugi_auth::login::token_exchange::{error_name, read_answer};
use url::form_urlencoded;

const STATE: &str = "s";
const ISSUER: &str = "https://a.example";

fuzz_target!(|data: &[u8]| {
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if let Some(name) = error_name(data) {
        assert!(is_name(&name), "nothing but a name gets into a log");
    }
    if let Ok(token) = read_answer(200, data) {
        let answer: serde_json::Value = serde_json::from_slice(data).expect("an answer with a token is JSON");
        assert_eq!(answer["id_token"], token.expose());
    }
    assert!(read_answer(400, data).is_err());
    let Ok(text) = std::str::from_utf8(data) else { return };
    let place = ReturnPlace::parse(text).address();
    assert!(place == "/" || place.starts_with("/#/") || place == "/board.html", "{place}");
    assert!(!place.contains(['"', '<', '>', '\'', '\n', '\r']), "{place}");
    let Ok(response) = AuthorizationResponse::parse(text) else { return };
    let pairs: Vec<(String, String)> = form_urlencoded::parse(data).into_owned().collect();
    let only = |wanted: &str| {
        let mut values = pairs.iter().filter(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
        let first = values.next();
        assert!(values.next().is_none(), "a parameter that occurs twice is refused");
        first
    };
    assert!(response.error_name().is_none_or(is_name));
    for announces_issuer in [false, true] {
        let expectation = CodeExpectation { state: STATE, issuer: ISSUER, announces_issuer };
        let Ok(answer) = expectation.accept(&response) else { continue };
        assert_eq!(only("state"), Some(STATE));
        assert!(only("iss").map_or(!announces_issuer, |issuer| issuer == ISSUER));
        match answer {
            CodeAnswer::Code(code) => assert_eq!((only("code"), only("error")), (Some(code), None)),
            CodeAnswer::Refused(error) => assert_eq!(only("error"), Some(error)),
        }
    }
});
