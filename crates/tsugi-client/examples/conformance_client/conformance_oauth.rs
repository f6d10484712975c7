//! Signs in to the suite's servers: the library's OAuth client with a browser that follows redirects by itself.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tsugi_auth::endpoint::PlainHttp;
use tsugi_auth::jose::algorithm::SigningAlgorithm;
use tsugi_auth::jose::signer::JwsSigner;
use tsugi_auth::secret::SecretText;
use tsugi_oauth::OauthFailure;
use tsugi_oauth::assertion::{AssertionFn, AssertionSource};
use tsugi_oauth::browser::{SignInBrowser, SignInWindow};
use tsugi_oauth::client_auth::ClientKey;
use tsugi_oauth::credential::OauthCredential;
use tsugi_oauth::credential::options::{
    EnterpriseLogin, GrantChoice, OauthOptions, ProviderQuirks, SignInNeed, SignInWay,
};
use tsugi_oauth::discovery::DiscoveryRules;
use tsugi_oauth::record::{CredentialKey, CredentialOwner};
use tsugi_oauth::registration::{ClientChoice, ConfiguredClient};
use tsugi_oauth::store::MemoryStore;
use tsugi_outbound::{OutboundGuard, OutboundRules};
use tsugi_transport::guarded_fetch::GuardedFetch;
use tsugi_transport::http::TargetCredential;
use url::{Position, Url};

/// The address that the suite expects as our identifier; it serves no document there.
const CLIENT_DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";
/// Nothing listens there: the browser reads the redirect without following it.
const REDIRECT: &str = "http://127.0.0.1:9/callback";

/// The credentials for a scenario, from what the suite says in its context.
pub(super) fn credential(server: &Url, scenario: &str, context: &Value) -> Result<TargetCredential, super::Failure> {
    let text = |name: &str| context[name].as_str().map(str::to_owned);
    let key = text("private_key_pem").map(|pem| client_key(&pem, context)).transpose()?;
    let configured = text("client_id").map(|id| ConfiguredClient {
        id,
        secret: text("client_secret").map(SecretText::new),
        key,
        issuer: None,
    });
    let grant = match scenario {
        "auth/client-credentials-jwt" | "auth/client-credentials-basic" => GrantChoice::ClientCredentials,
        "auth/wif-jwt-bearer" => GrantChoice::Workload(fixed(text("valid_jwt"))),
        "auth/enterprise-managed-authorization" => GrantChoice::Enterprise(Arc::new(EnterpriseLogin {
            issuer: text("idp_issuer").unwrap_or_default(),
            client_id: text("idp_client_id").unwrap_or_default(),
            client_secret: None,
            subject: fixed(text("idp_id_token")),
        })),
        _ => GrantChoice::SignIn(SignInWay::Browser(Arc::new(RedirectReader))),
    };
    let options = OauthOptions {
        key: CredentialKey { server: server.to_string(), owner: CredentialOwner::Everyone },
        discovery: DiscoveryRules {
            server: server.clone(),
            issuer: None,
            legacy: true,
            plain: PlainHttp::LoopbackOnly,
        },
        grant,
        client: ClientChoice { configured, document: Some(CLIENT_DOCUMENT.to_owned()), name: "tsugi".to_owned() },
        scopes: None,
        quirks: ProviderQuirks::default(),
        need: SignInNeed::Always,
        advice: None,
    };
    let rules = OutboundRules { insecure_loopback: true, ..OutboundRules::default() };
    let fetch = GuardedFetch::new(OutboundGuard::new(rules));
    let store = Arc::new(MemoryStore::default());
    Ok(TargetCredential::new(OauthCredential::new(options, fetch, store)))
}

fn client_key(pem: &str, context: &Value) -> Result<ClientKey, super::Failure> {
    let name = context["signing_algorithm"].as_str().unwrap_or("ES256");
    let algorithm = SigningAlgorithm::parse(name).ok_or("an unknown algorithm")?;
    Ok(ClientKey { signer: Arc::new(JwsSigner::from_pem(pem, algorithm)?), key_id: None })
}

fn fixed(token: Option<String>) -> Arc<dyn AssertionSource> {
    Arc::new(AssertionFn(move || token.clone().map(SecretText::new)))
}

/// Visits the sign-in page and reads where it redirects to.
struct RedirectReader;

impl SignInBrowser for RedirectReader {
    fn prepare(&self) -> BoxFuture<'_, Result<Box<dyn SignInWindow>, OauthFailure>> {
        Box::pin(async { Ok(Box::new(RedirectReader) as Box<dyn SignInWindow>) })
    }
}

impl SignInWindow for RedirectReader {
    fn redirect_uri(&self) -> &str {
        REDIRECT
    }

    fn visit(self: Box<Self>, page: Url) -> BoxFuture<'static, Result<String, OauthFailure>> {
        Box::pin(async move { location(&page).await.ok_or(OauthFailure::SignInAborted("no redirect")) })
    }
}

/// The `Location` that a page answers with.
async fn location(page: &Url) -> Option<String> {
    let host = page.host_str()?;
    let mut stream = TcpStream::connect((host, page.port_or_known_default()?)).await.ok()?;
    let target = &page[Position::BeforePath..Position::AfterQuery];
    let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let line = answer.lines().find(|line| line.to_ascii_lowercase().starts_with("location:"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
