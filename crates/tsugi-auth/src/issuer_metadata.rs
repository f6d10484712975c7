//! What an issuer says about itself (RFC 8414, OpenID Connect Discovery), and where it says so.

use serde::Deserialize;
use url::Url;

use crate::endpoint::{PlainHttp, parse_endpoint};
use crate::strict_json;

/// The largest document that is read.
pub const MAX_METADATA: usize = 64 * 1024;

/// The members of the document that we use. Every address in it is one that we may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuerMetadata {
    pub issuer: String,
    pub key_set: Option<Url>,
    pub authorization: Option<Url>,
    pub token: Option<Url>,
    pub registration: Option<Url>,
    pub introspection: Option<Url>,
    pub revocation: Option<Url>,
    pub device_authorization: Option<Url>,
    pub end_session: Option<Url>,
    pub features: IssuerFeatures,
}

/// What the issuer supports. A list that it leaves out is empty here.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct IssuerFeatures {
    pub scopes_supported: Vec<String>,
    pub grant_types_supported: Vec<String>,
    pub token_endpoint_auth_methods_supported: Vec<String>,
    pub code_challenge_methods_supported: Vec<String>,
    pub authorization_grant_profiles_supported: Vec<String>,
    pub dpop_signing_alg_values_supported: Vec<String>,
    pub authorization_response_iss_parameter_supported: bool,
    pub client_id_metadata_document_supported: bool,
}

/// Why a document is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MetadataProblem {
    #[error("the metadata is larger than 64 KiB")]
    TooLarge,
    #[error("the metadata is not one JSON object without duplicate members")]
    NotAnObject,
    #[error("the metadata is of another issuer: `issuer` must equal the configured issuer byte for byte")]
    OtherIssuer,
    #[error("`{0}` has a value of the wrong kind")]
    WrongKind(&'static str),
    #[error("`{0}` is not an https address")]
    UnsafeAddress(&'static str),
    #[error("the issuer has no authorization endpoint")]
    NoAuthorizationEndpoint,
    #[error("the issuer does not say that it supports PKCE with S256")]
    NoPkce,
    #[error("the authorization endpoint already has the parameter `{0}`")]
    EndpointParameter(&'static str),
}

/// The addresses where an issuer's metadata may be, in the order in which MCP wants them tried. `None` when the issuer is
/// not an https address without query and fragment (RFC 8414 §2).
pub fn discovery_addresses(issuer: &str, plain: PlainHttp) -> Option<Vec<Url>> {
    let url = parse_endpoint(issuer, plain).filter(|url| url.query().is_none())?;
    // RFC 8414 §3.1: a terminating slash goes before the well-known part is inserted.
    let path = url.path().trim_end_matches('/').to_owned();
    let at = |path: &str| {
        let mut address = url.clone();
        address.set_path(path);
        address
    };
    let mut addresses = vec![
        at(&format!("/.well-known/oauth-authorization-server{path}")),
        at(&format!("/.well-known/openid-configuration{path}")),
    ];
    if !path.is_empty() {
        addresses.push(at(&format!("{path}/.well-known/openid-configuration")));
    }
    Some(addresses)
}

impl IssuerMetadata {
    /// Reads the metadata of `issuer`. A document of another issuer, or one with an address that we may not call, is not
    /// used at all.
    pub fn parse(document: &[u8], issuer: &str, plain: PlainHttp) -> Result<Self, MetadataProblem> {
        if document.len() > MAX_METADATA {
            return Err(MetadataProblem::TooLarge);
        }
        let object = strict_json::parse_object(document).ok_or(MetadataProblem::NotAnObject)?;
        if object.get("issuer").and_then(|value| value.as_str()) != Some(issuer) {
            return Err(MetadataProblem::OtherIssuer);
        }
        let endpoint = |name: &'static str| match object.get(name) {
            None | Some(serde_json::Value::Null) => Ok(None),
            Some(serde_json::Value::String(text)) => match parse_endpoint(text, plain) {
                Some(url) => Ok(Some(url)),
                None => Err(MetadataProblem::UnsafeAddress(name)),
            },
            Some(_) => Err(MetadataProblem::WrongKind(name)),
        };
        Ok(Self {
            issuer: issuer.to_owned(),
            key_set: endpoint("jwks_uri")?,
            authorization: endpoint("authorization_endpoint")?,
            token: endpoint("token_endpoint")?,
            registration: endpoint("registration_endpoint")?,
            introspection: endpoint("introspection_endpoint")?,
            revocation: endpoint("revocation_endpoint")?,
            device_authorization: endpoint("device_authorization_endpoint")?,
            end_session: endpoint("end_session_endpoint")?,
            features: serde_json::from_value(serde_json::Value::Object(object))
                .map_err(|_| MetadataProblem::WrongKind("a list of supported values"))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{IssuerMetadata, MetadataProblem, discovery_addresses};
    use crate::endpoint::PlainHttp;

    const ISSUER: &str = "https://login.example/tenant";

    fn parse(document: &Value) -> Result<IssuerMetadata, MetadataProblem> {
        IssuerMetadata::parse(document.to_string().as_bytes(), ISSUER, PlainHttp::Refused)
    }

    #[test]
    fn addresses_are_tried_in_the_order_that_mcp_gives() {
        let addresses = |issuer: &str| {
            let found = discovery_addresses(issuer, PlainHttp::LoopbackOnly)?;
            Some(found.into_iter().map(String::from).collect::<Vec<_>>())
        };
        let plain = [
            "https://a.example/.well-known/oauth-authorization-server",
            "https://a.example/.well-known/openid-configuration",
        ];
        assert_eq!(addresses("https://a.example").unwrap(), plain);
        assert_eq!(addresses("https://a.example/").unwrap(), plain);
        assert_eq!(
            addresses("https://a.example/t/1").unwrap(),
            [
                "https://a.example/.well-known/oauth-authorization-server/t/1",
                "https://a.example/.well-known/openid-configuration/t/1",
                "https://a.example/t/1/.well-known/openid-configuration",
            ]
        );
        for bad in ["http://a.example", "https://a.example?x", "https://a.example#x", "ftp://a.example", "a.example"] {
            assert_eq!(addresses(bad), None, "{bad}");
        }
    }

    #[test]
    fn metadata_counts_only_if_it_is_of_the_issuer_that_was_asked() {
        let read =
            parse(&json!({"issuer": ISSUER, "jwks_uri": "https://keys.example/jwks", "scopes_supported": ["a"]}));
        let read = read.unwrap();
        assert_eq!(read.key_set.unwrap().as_str(), "https://keys.example/jwks");
        assert_eq!(read.features.scopes_supported, ["a"]);
        assert_eq!(read.token, None);
        for other in ["https://login.example/tenant/", "https://LOGIN.example/tenant", "https://evil.example", ""] {
            assert_eq!(parse(&json!({"issuer": other})), Err(MetadataProblem::OtherIssuer), "{other}");
        }
        assert_eq!(parse(&json!({})), Err(MetadataProblem::OtherIssuer));
        assert_eq!(parse(&json!([])), Err(MetadataProblem::NotAnObject));
    }

    #[test]
    fn one_unsafe_address_spoils_the_document() {
        for bad in ["http://login.example/jwks", "javascript:alert(1)", "https://user@login.example/jwks", "jwks"] {
            let read = parse(&json!({"issuer": ISSUER, "jwks_uri": bad}));
            assert_eq!(read, Err(MetadataProblem::UnsafeAddress("jwks_uri")), "{bad}");
        }
        let read = parse(&json!({"issuer": ISSUER, "token_endpoint": 7}));
        assert_eq!(read, Err(MetadataProblem::WrongKind("token_endpoint")));
        assert!(parse(&json!({"issuer": ISSUER, "scopes_supported": "a b"})).is_err());
    }

    #[test]
    fn a_large_document_is_not_read() {
        let document = format!("{{\"issuer\":\"{ISSUER}\",\"x\":\"{}\"}}", "x".repeat(70_000));
        let read = IssuerMetadata::parse(document.as_bytes(), ISSUER, PlainHttp::Refused);
        assert_eq!(read, Err(MetadataProblem::TooLarge));
    }
}
