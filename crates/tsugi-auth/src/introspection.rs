//! Asking the issuer about an opaque token (RFC 7662): the form that is sent, and the answer.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

use crate::secret::SecretText;
use crate::strict_json;
use crate::token::{TokenRefusal, TokenRules, VerifiedToken};

/// The largest answer that is read.
pub const MAX_INTROSPECTION: usize = 64 * 1024;

/// The body of the request, as a form.
pub fn request_form(token: &str) -> String {
    url::form_urlencoded::Serializer::new(String::new())
        .append_pair("token", token)
        .append_pair("token_type_hint", "access_token")
        .finish()
}

/// The value of `Authorization` by which a resource shows who it is (RFC 7662 §2.1, RFC 6749 §2.3.1): both halves are
/// encoded as in a form before they are joined, so that a colon in either is not taken for the one between them.
pub fn basic_credentials(client: &str, secret: &str) -> SecretText {
    let encode = |text: &str| -> String { url::form_urlencoded::byte_serialize(text.as_bytes()).collect() };
    let joined = SecretText::new(format!("{}:{}", encode(client), encode(secret)));
    SecretText::new(format!("Basic {}", BASE64_STANDARD.encode(joined.expose())))
}

/// Checks an answer as the claims of a signed token are checked; `now` is in seconds since 1970.
pub fn check_answer(document: &[u8], rules: &TokenRules, now: u64) -> Result<VerifiedToken, TokenRefusal> {
    check_claims(check_active(document, rules)?, rules, now)
}

/// Checks the claims of an answer that says that the token is active.
pub fn check_claims(claims: ActiveAnswer, rules: &TokenRules, now: u64) -> Result<VerifiedToken, TokenRefusal> {
    rules.check_claims(claims.0, now)
}

/// The members of an answer that says that the token is active.
#[derive(Debug, Clone)]
pub struct ActiveAnswer(Map<String, Value>);

/// Reads an answer that must say that the token is active, and by the issuer that was asked. For a signed token this is
/// all that an answer can add.
pub fn check_active(document: &[u8], rules: &TokenRules) -> Result<ActiveAnswer, TokenRefusal> {
    if document.len() > MAX_INTROSPECTION {
        return Err(TokenRefusal::TooLong);
    }
    let claims = strict_json::parse_object(document).ok_or(TokenRefusal::ClaimsNotStrict)?;
    match claims.get("active") {
        Some(Value::Bool(true)) => {}
        Some(Value::Bool(false)) => return Err(TokenRefusal::Inactive),
        // `"true"` is not true: an issuer that is misread must not let a revoked token in.
        _ => return Err(TokenRefusal::BadClaim("active")),
    }
    // The issuer was asked itself, so it need not say who it is. If it does, it must be the one that was asked.
    if claims.get("iss").is_some_and(|issuer| issuer.as_str() != Some(rules.issuer.as_str())) {
        return Err(TokenRefusal::UnknownIssuer);
    }
    let is_bearer = |kind: &Value| kind.as_str().is_some_and(|kind| kind.eq_ignore_ascii_case("bearer"));
    if claims.get("token_type").is_some_and(|kind| !is_bearer(kind)) {
        return Err(TokenRefusal::SenderConstrained);
    }
    Ok(ActiveAnswer(claims))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{basic_credentials, check_active, check_answer, request_form};
    use crate::token::{TokenRefusal, TokenRules};

    fn check(answer: &Value) -> Result<String, TokenRefusal> {
        let rules = TokenRules { issuer: "https://login.example".to_owned(), algorithms: Vec::new(), skew: 60 };
        let token = check_answer(answer.to_string().as_bytes(), &rules, 1_000)?;
        token.for_audience(|audience| audience == "https://mcp.example/mcp").map(|claims| claims.subject.clone())
    }

    fn good() -> Value {
        json!({"active": true, "sub": "alice", "aud": "https://mcp.example/mcp", "exp": 2_000, "token_type": "bearer"})
    }

    fn with(name: &str, value: Value) -> Value {
        let mut answer = good();
        answer[name] = value;
        answer
    }

    #[test]
    fn an_active_token_is_checked_like_a_signed_one() {
        assert_eq!(check(&good()).as_deref(), Ok("alice"));
        assert_eq!(check(&with("iss", json!("https://login.example"))).as_deref(), Ok("alice"));
        assert_eq!(check(&with("active", json!(false))), Err(TokenRefusal::Inactive));
        assert_eq!(check(&with("active", json!("true"))), Err(TokenRefusal::BadClaim("active")));
        assert_eq!(check(&with("active", json!(1))), Err(TokenRefusal::BadClaim("active")));
        assert_eq!(check(&with("exp", json!(900))), Err(TokenRefusal::Expired));
        assert_eq!(check(&with("aud", json!("https://mcp.example"))), Err(TokenRefusal::WrongAudience));
        assert_eq!(check(&with("iss", json!("https://login.example/"))), Err(TokenRefusal::UnknownIssuer));
        assert_eq!(check(&with("cnf", json!({"jkt": "x"}))), Err(TokenRefusal::SenderConstrained));
        assert_eq!(check(&with("token_type", json!("DPoP"))), Err(TokenRefusal::SenderConstrained));
        assert_eq!(check(&json!({})), Err(TokenRefusal::BadClaim("active")));
    }

    #[test]
    fn a_signed_token_needs_only_to_be_active() {
        let rules = TokenRules { issuer: "https://login.example".to_owned(), algorithms: Vec::new(), skew: 60 };
        let check = |answer: Value| check_active(answer.to_string().as_bytes(), &rules).map(drop);
        assert_eq!(check(json!({"active": true})), Ok(()));
        assert_eq!(check(json!({"active": false})), Err(TokenRefusal::Inactive));
        assert_eq!(check(json!({"active": "true"})), Err(TokenRefusal::BadClaim("active")));
        assert_eq!(check(json!({"active": true, "iss": "https://other.example"})), Err(TokenRefusal::UnknownIssuer));
        assert!(check_active(br#"{"active":false,"active":true}"#, &rules).is_err(), "two readers, two answers");
    }

    #[test]
    fn credentials_are_encoded_before_they_are_joined() {
        // `a:b` and `c d%` as a form writes them: `a%3Ab:c+d%25`.
        assert_eq!(basic_credentials("a:b", "c d%").expose(), "Basic YSUzQWI6YytkJTI1");
    }

    #[test]
    fn the_form_carries_any_token() {
        assert_eq!(request_form("a&b=c d"), "token=a%26b%3Dc+d&token_type_hint=access_token");
    }
}
