//! What a protected resource says about itself (RFC 9728): written for our own addresses, read for those of servers.

use serde::{Deserialize, Serialize};
use url::Url;

use crate::endpoint::{PlainHttp, parse_endpoint};
use crate::strict_json;

/// The path below which the metadata of a resource is found.
pub const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
/// The largest document that is read.
pub const MAX_METADATA: usize = 64 * 1024;

/// The metadata of one resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceMetadata {
    pub resource: String,
    #[serde(default)]
    pub authorization_servers: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes_supported: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bearer_methods_supported: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_name: Option<String>,
}

/// Why a document is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ResourceProblem {
    #[error("the metadata is larger than 64 KiB")]
    TooLarge,
    #[error("the metadata is not one JSON object without duplicate members")]
    NotAnObject,
    #[error("a member of the metadata has a value of the wrong kind")]
    WrongKind,
    #[error("`resource` is not the address that was asked, nor one above it")]
    OtherResource,
    #[error("`authorization_servers` names none, or one that is not an https address")]
    UnsafeIssuer,
}

impl ResourceMetadata {
    /// Reads the metadata that belongs to the server at `address`.
    pub fn parse(document: &[u8], address: &Url, plain: PlainHttp) -> Result<Self, ResourceProblem> {
        if document.len() > MAX_METADATA {
            return Err(ResourceProblem::TooLarge);
        }
        let object = strict_json::parse_object(document).ok_or(ResourceProblem::NotAnObject)?;
        let metadata: Self =
            serde_json::from_value(serde_json::Value::Object(object)).map_err(|_| ResourceProblem::WrongKind)?;
        let resource = parse_endpoint(&metadata.resource, plain).ok_or(ResourceProblem::OtherResource)?;
        if !covers(&resource, address) {
            return Err(ResourceProblem::OtherResource);
        }
        let is_safe = |issuer: &String| parse_endpoint(issuer, plain).is_some();
        let has_issuers = !metadata.authorization_servers.is_empty();
        match has_issuers && metadata.authorization_servers.iter().all(is_safe) {
            true => Ok(metadata),
            false => Err(ResourceProblem::UnsafeIssuer),
        }
    }
}

/// Whether `resource` is `address` or an address above it: the same origin, and a path that ends at a `/` of the other.
/// `…/mcp` covers `…/mcp` and `…/mcp/a`, and not `…/mcp-evil`.
pub fn covers(resource: &Url, address: &Url) -> bool {
    let origin = |url: &Url| (url.scheme().to_owned(), url.host_str().map(str::to_owned), url.port_or_known_default());
    let above = resource.path().trim_end_matches('/');
    let is_within = address.path().strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    // A query names one of several resources at a path, so it is not above anything but itself.
    let same_query = resource.query().is_none() || resource.query() == address.query();
    origin(resource) == origin(address) && is_within && same_query
}

/// Where the metadata of the resource at `address` is, and at the root of its origin, in the order to ask.
pub fn metadata_addresses(address: &Url) -> Vec<Url> {
    let at = |path: &str| {
        let mut url = address.clone();
        url.set_fragment(None);
        url.set_path(path);
        url
    };
    let path = address.path().trim_end_matches('/');
    let mut addresses = vec![at(&format!("{WELL_KNOWN}{path}"))];
    if !path.is_empty() {
        let mut root = at(WELL_KNOWN);
        root.set_query(None);
        addresses.push(root);
    }
    addresses
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use url::Url;

    use super::{ResourceMetadata, ResourceProblem, covers, metadata_addresses};
    use crate::endpoint::PlainHttp;

    fn parse(document: &Value) -> Result<ResourceMetadata, ResourceProblem> {
        let address = Url::parse("https://mcp.example/a/mcp").unwrap();
        ResourceMetadata::parse(document.to_string().as_bytes(), &address, PlainHttp::Refused)
    }

    #[test]
    fn a_resource_is_the_address_itself_or_one_above_it() {
        let check =
            |resource: &str| covers(&Url::parse(resource).unwrap(), &Url::parse("https://m.example/a/mcp").unwrap());
        for good in [
            "https://m.example/a/mcp",
            "https://m.example/a/mcp/",
            "https://m.example/a",
            "https://m.example",
            "https://M.example:443/a/",
        ] {
            assert!(check(good), "{good}");
        }
        for bad in [
            "https://m.example/a/mc",
            "https://m.example/a/mcp-evil",
            "https://m.example/a/mcp/b",
            "https://m.example:8443/a/mcp",
            "http://m.example/a/mcp",
            "https://evil.example/a/mcp",
            "https://m.example/a/mcp?x",
        ] {
            assert!(!check(bad), "{bad}");
        }
    }

    #[test]
    fn metadata_is_read_only_for_its_own_resource_and_with_safe_issuers() {
        let good = json!({"resource": "https://mcp.example/a/mcp", "authorization_servers": ["https://login.example"]});
        assert_eq!(parse(&good).unwrap().authorization_servers, ["https://login.example"]);
        let with = |name: &str, value: Value| {
            let mut document = good.clone();
            document[name] = value;
            parse(&document)
        };
        assert_eq!(with("resource", json!("https://evil.example/a/mcp")), Err(ResourceProblem::OtherResource));
        assert_eq!(with("resource", json!("http://mcp.example/a/mcp")), Err(ResourceProblem::OtherResource));
        assert_eq!(with("authorization_servers", json!([])), Err(ResourceProblem::UnsafeIssuer));
        assert_eq!(with("authorization_servers", json!(["javascript:x"])), Err(ResourceProblem::UnsafeIssuer));
        assert_eq!(with("authorization_servers", json!("https://login.example")), Err(ResourceProblem::WrongKind));
    }

    #[test]
    fn the_address_of_the_metadata_keeps_the_path_and_ends_at_the_root() {
        let addresses = |text: &str| {
            let found = metadata_addresses(&Url::parse(text).unwrap());
            found.into_iter().map(String::from).collect::<Vec<_>>()
        };
        let root = "https://m.example/.well-known/oauth-protected-resource";
        assert_eq!(addresses("https://m.example/a/mcp"), [format!("{root}/a/mcp"), root.to_owned()]);
        assert_eq!(addresses("https://m.example/"), [root]);
    }
}
