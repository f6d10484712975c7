//! Attacks on the authorization response, each beside the response that is accepted.

use serde_json::{Value, json};
use tsugi_auth::code_flow::ResponseDefect;
use tsugi_auth::endpoint::PlainHttp;
use tsugi_auth::issuer_metadata::IssuerMetadata;
use tsugi_auth::scope::ScopeSet;

use super::{AuthorizationRequest, AuthorizationTerms};
use crate::failure::OauthFailure;
use crate::token_endpoint::TokenErrorCode;

const ISSUER: &str = "https://login.example";
const REDIRECT: &str = "http://127.0.0.1:4711/callback";

fn issuer(change: impl FnOnce(&mut Value)) -> IssuerMetadata {
    let mut document = json!({
        "issuer": ISSUER,
        "authorization_endpoint": "https://login.example/authorize?tenant=7",
        "token_endpoint": "https://login.example/token",
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
    });
    change(&mut document);
    IssuerMetadata::parse(document.to_string().as_bytes(), ISSUER, PlainHttp::Refused).unwrap()
}

fn begin_with(issuer: &IssuerMetadata, assume_pkce: bool) -> Result<AuthorizationRequest, OauthFailure> {
    let scope = ScopeSet::parse("mcp");
    let terms = AuthorizationTerms {
        client_id: "client",
        redirect: REDIRECT,
        scope: &scope,
        resource: Some("https://mcp.example/mcp"),
        assume_pkce,
    };
    AuthorizationRequest::new(issuer, &terms)
}

fn begin() -> (AuthorizationRequest, String) {
    let request = begin_with(&issuer(|_| {}), false).unwrap();
    let state = request.url.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
    (request, state)
}

/// The verdict on a response, in whose text `STATE` stands for the right state.
fn verdict(response: &str) -> Result<String, OauthFailure> {
    let (request, state) = begin();
    request.accept(&response.replace("STATE", &state)).map(|code| code.code.expose().to_owned())
}

fn defect(response: &str) -> ResponseDefect {
    match verdict(response) {
        Err(OauthFailure::ForgedResponse(defect)) => defect,
        other => panic!("{response}: {other:?}"),
    }
}

#[test]
fn the_request_has_what_the_specification_asks_for() {
    let (request, _) = begin();
    let names: Vec<String> = request.url.query_pairs().map(|(name, _)| name.into_owned()).collect();
    let expected =
        "tenant response_type client_id redirect_uri code_challenge code_challenge_method state resource scope";
    assert_eq!(names.join(" "), expected);
    assert!(request.url.as_str().starts_with("https://login.example/authorize?tenant=7&"));
}

#[test]
fn a_response_with_state_issuer_and_code_is_accepted() {
    let good = format!("{REDIRECT}?code=c0de&state=STATE&iss=https%3A%2F%2Flogin.example");
    assert_eq!(verdict(&good).as_deref(), Ok("c0de"));
}

#[test]
fn a_state_that_is_absent_foreign_or_of_another_sign_in_is_refused() {
    let (_, other) = begin();
    for state in ["", "&state=", "&state=x", &format!("&state={other}"), "&state=STATEx"] {
        let response = format!("{REDIRECT}?code=c{state}&iss={ISSUER}");
        assert_eq!(defect(&response), ResponseDefect::State, "{response}");
    }
}

#[test]
fn an_issuer_that_is_absent_other_or_normalized_is_refused() {
    assert_eq!(defect(&format!("{REDIRECT}?code=c&state=STATE")), ResponseDefect::IssuerMissing);
    for other in
        ["https://evil.example", "https://login.example/", "https://LOGIN.example", "https://login.example:443", ""]
    {
        let response = format!("{REDIRECT}?code=c&state=STATE&iss={other}");
        assert_eq!(defect(&response), ResponseDefect::IssuerDiffers, "{other}");
    }
    // Not announced and absent is fine; not announced and wrong is not.
    let quiet = issuer(|document| document["authorization_response_iss_parameter_supported"] = json!(false));
    for (iss, is_accepted) in [("", true), ("&iss=https://login.example", true), ("&iss=https://evil.example", false)] {
        let request = begin_with(&quiet, false).unwrap();
        let state = request.state.clone();
        let accepted = request.accept(&format!("{REDIRECT}?code=c&state={state}{iss}"));
        assert_eq!(accepted.is_ok(), is_accepted, "{iss}");
    }
}

#[test]
fn an_error_counts_only_after_state_and_issuer_and_its_words_are_never_shown() {
    let markup =
        "error=access_denied&error_description=%3Cscript%3Ealert(1)%3C%2Fscript%3E&error_uri=https://evil.example";
    let response = format!("{REDIRECT}?{markup}&state=STATE&iss={ISSUER}");
    let refused = verdict(&response).unwrap_err();
    assert_eq!(refused, OauthFailure::SignInRefused(TokenErrorCode::AccessDenied));
    assert!(!refused.to_string().contains("script") && !refused.to_string().contains("evil"));
    assert_eq!(
        defect(&format!("{REDIRECT}?{markup}&state=STATE&iss=https://evil.example")),
        ResponseDefect::IssuerDiffers
    );
    assert_eq!(defect(&format!("{REDIRECT}?{markup}&iss={ISSUER}")), ResponseDefect::State);
    let unknown = verdict(&format!("{REDIRECT}?error=%3Cb%3E&state=STATE&iss={ISSUER}")).unwrap_err();
    assert!(!unknown.to_string().contains('<'));
}

#[test]
fn a_response_at_another_address_is_refused() {
    for other in [
        "http://127.0.0.1:4711/other",
        "http://127.0.0.1:4712/callback",
        "https://127.0.0.1:4711/callback",
        "http://127.0.0.1.evil.example:4711/callback",
        "http://user@127.0.0.1:4711/callback",
        "http://localhost:4711/callback",
        "http://127.0.0.1:4711//callback",
    ] {
        let response = format!("{other}?code=c&state=STATE&iss={ISSUER}");
        assert_eq!(defect(&response), ResponseDefect::OtherAddress, "{other}");
    }
    assert_eq!(defect("no address"), ResponseDefect::OtherAddress);
}

#[test]
fn a_parameter_that_occurs_twice_is_refused() {
    for twice in ["code=a&code=b&state=STATE", "code=a&state=STATE&state=STATE", "code=a&state=STATE&iss=x"] {
        let response = format!("{REDIRECT}?{twice}&iss={ISSUER}");
        assert_eq!(defect(&response), ResponseDefect::DuplicateParameter, "{twice}");
    }
    assert_eq!(defect(&format!("{REDIRECT}?state=STATE&iss={ISSUER}")), ResponseDefect::NoCode);
}

#[test]
fn no_sign_in_begins_without_pkce() {
    let plain = issuer(|document| document["code_challenge_methods_supported"] = json!(["plain"]));
    let silent = issuer(|document| drop(document.as_object_mut().unwrap().remove("code_challenge_methods_supported")));
    assert_eq!(begin_with(&plain, false).err(), Some(OauthFailure::NoPkce));
    assert_eq!(begin_with(&silent, false).err(), Some(OauthFailure::NoPkce));
    assert!(begin_with(&silent, true).is_ok(), "the operator vouches for the provider");
    assert_eq!(begin_with(&plain, true).err(), Some(OauthFailure::NoPkce), "its own word counts");
}

#[test]
fn an_endpoint_that_brings_our_parameters_is_refused() {
    for name in ["client_id", "redirect_uri", "state", "response_type", "resource"] {
        let address = format!("https://login.example/authorize?{name}=evil");
        let rigged = issuer(|document| document["authorization_endpoint"] = json!(address));
        assert_eq!(begin_with(&rigged, false).err(), Some(OauthFailure::EndpointParameter(name)));
    }
}
