//! A server behind OAuth, its issuer, and a person who always agrees.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::HeaderMap;
use serde_json::{Value, json};
use tsugi_auth::endpoint::PlainHttp;
use tsugi_oauth::OauthFailure;
use tsugi_oauth::browser::{SignInBrowser, SignInWindow};
use tsugi_oauth::credential::OauthCredential;
use tsugi_oauth::credential::options::{GrantChoice, OauthOptions, ProviderQuirks, SignInNeed, SignInWay};
use tsugi_oauth::discovery::DiscoveryRules;
use tsugi_oauth::record::{CredentialKey, CredentialOwner};
use tsugi_oauth::registration::ClientChoice;
use tsugi_oauth::store::{CredentialStore, MemoryStore};
use tsugi_outbound::{OutboundGuard, OutboundRules};
use tsugi_transport::guarded_fetch::GuardedFetch;
use tsugi_transport::http::{HttpClient, HttpTarget, TargetCredential};
use url::Url;

use crate::site::{Site, SiteAnswer, SiteRequest, visit};

pub(crate) const REDIRECT: &str = "http://127.0.0.1:9/callback";
const RESOURCE_METADATA: &str = "/.well-known/oauth-protected-resource/mcp";

/// What the token endpoint answers; `None` for the usual answer.
type TokenAnswer = Arc<dyn Fn(&SiteRequest) -> Option<SiteAnswer> + Send + Sync>;

/// What both sites do. Tests change it before and while they run.
pub(crate) struct Plan {
    pub(crate) issuer: String,
    /// Changes the documents before they are served; `Null` means 404.
    pub(crate) resource: fn(&mut Value),
    pub(crate) metadata: fn(&mut Value),
    /// Whether the challenge names the metadata.
    pub(crate) names_metadata: bool,
    /// What tokens must have been issued with; another one is refused.
    pub(crate) token_prefix: String,
    /// The answer of the server to a request with a good token.
    pub(crate) judge: fn(&SiteRequest) -> Option<SiteAnswer>,
    /// The answer of the token endpoint, where it is not the usual one.
    pub(crate) token: TokenAnswer,
    pub(crate) lifetime: u64,
    pub(crate) rotates: bool,
    pub(crate) challenge_scope: &'static str,
}

pub(crate) struct SignInWorld {
    pub(crate) server: Site,
    pub(crate) issuer: Site,
    pub(crate) plan: Arc<Mutex<Plan>>,
}

impl SignInWorld {
    pub(crate) async fn start() -> Self {
        let plan = Arc::new(Mutex::new(Plan {
            issuer: String::new(),
            resource: |_| {},
            metadata: |_| {},
            names_metadata: true,
            token_prefix: "token-".to_owned(),
            judge: |_| None,
            token: Arc::new(|_| None),
            lifetime: 3600,
            rotates: false,
            challenge_scope: "mcp:basic",
        }));
        let issuer = start_issuer(plan.clone(), "a").await;
        plan.lock().unwrap().issuer = issuer.url.clone();
        let shared = plan.clone();
        let server = Site::start(|url| move |request: &SiteRequest| answer_server(&url, &shared, request)).await;
        Self { server, issuer, plan }
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Plan)) {
        change(&mut self.plan.lock().unwrap());
    }

    pub(crate) fn url(&self) -> Url {
        format!("{}/mcp", self.server.url).parse().unwrap()
    }

    pub(crate) fn options(&self) -> OauthOptions {
        OauthOptions {
            key: CredentialKey { server: self.url().into(), owner: CredentialOwner::Everyone },
            discovery: DiscoveryRules {
                server: self.url(),
                issuer: None,
                legacy: true,
                plain: PlainHttp::LoopbackOnly,
            },
            grant: GrantChoice::SignIn(SignInWay::Browser(Arc::new(AgreeingBrowser))),
            client: ClientChoice { configured: None, document: None, name: "tsugi".to_owned() },
            scopes: None,
            quirks: ProviderQuirks::default(),
            need: SignInNeed::Always,
            advice: None,
        }
    }

    pub(crate) fn credential(&self, options: OauthOptions, store: Arc<dyn CredentialStore>) -> Arc<OauthCredential> {
        OauthCredential::new(options, fetch(), store)
    }

    /// A credential with the usual options.
    pub(crate) fn usual(&self) -> Arc<OauthCredential> {
        self.credential(self.options(), Arc::new(MemoryStore::default()))
    }

    /// One call: the status of the server's answer, or why there is none.
    pub(crate) async fn call(&self, credential: &Arc<OauthCredential>) -> Result<u16, String> {
        let target = HttpTarget::new(self.url(), HeaderMap::new());
        let client = HttpClient::new(target.with_credential(TargetCredential::new(credential.clone())));
        let answer = client.post(Bytes::from_static(b"{}"), HeaderMap::new()).await;
        answer.map(|answer| answer.status.as_u16()).map_err(|error| error.message)
    }
}

pub(crate) fn fetch() -> GuardedFetch {
    GuardedFetch::new(OutboundGuard::new(OutboundRules { insecure_loopback: true, ..OutboundRules::default() }))
}

/// An issuer whose clients and tokens carry `name`.
pub(crate) async fn start_issuer(plan: Arc<Mutex<Plan>>, name: &'static str) -> Site {
    let issued = AtomicUsize::new(0);
    Site::start(|url| move |request: &SiteRequest| answer_issuer(&url, name, &issued, &plan, request)).await
}

fn answer_server(url: &str, plan: &Mutex<Plan>, request: &SiteRequest) -> SiteAnswer {
    let plan = plan.lock().unwrap();
    if request.path().starts_with("/.well-known/oauth-protected-resource") {
        let mut document = json!({"resource": format!("{url}/mcp"), "authorization_servers": [plan.issuer]});
        (plan.resource)(&mut document);
        return if document.is_null() { SiteAnswer::html(404) } else { SiteAnswer::json(200, &document) };
    }
    if request.path() != "/mcp" {
        return SiteAnswer::html(404);
    }
    let token = request.header("authorization").and_then(|text| text.split_once(' ')).map(|(_, token)| token);
    let metadata = match plan.names_metadata {
        true => format!(", resource_metadata=\"{url}{RESOURCE_METADATA}\""),
        false => String::new(),
    };
    match token {
        Some(token) if token.starts_with(&plan.token_prefix) => {
            (plan.judge)(request).unwrap_or_else(|| SiteAnswer::json(200, &json!({})))
        }
        _ => SiteAnswer::json(401, &json!({}))
            .with("www-authenticate", format!("Bearer scope=\"{}\"{metadata}", plan.challenge_scope)),
    }
}

fn answer_issuer(url: &str, name: &str, issued: &AtomicUsize, plan: &Mutex<Plan>, request: &SiteRequest) -> SiteAnswer {
    let plan = plan.lock().unwrap();
    match request.path() {
        "/.well-known/oauth-authorization-server" => {
            let mut document = json!({
                "issuer": url,
                "authorization_endpoint": format!("{url}/authorize"),
                "token_endpoint": format!("{url}/token"),
                "registration_endpoint": format!("{url}/register"),
                "revocation_endpoint": format!("{url}/revoke"),
                "device_authorization_endpoint": format!("{url}/device"),
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["client_secret_basic"],
                "authorization_response_iss_parameter_supported": true,
            });
            (plan.metadata)(&mut document);
            if document.is_null() { SiteAnswer::html(404) } else { SiteAnswer::json(200, &document) }
        }
        "/register" => SiteAnswer::json(
            201,
            &json!({"client_id": format!("client-{name}"), "client_secret": format!("secret-{name}")}),
        ),
        "/authorize" => {
            let query = request.query();
            let mut back: Url = query["redirect_uri"].parse().unwrap();
            back.query_pairs_mut()
                .append_pair("code", &format!("code-{name}"))
                .append_pair("state", &query["state"])
                .append_pair("iss", url);
            SiteAnswer::new(302).with("location", String::from(back))
        }
        "/token" => (plan.token)(request).unwrap_or_else(|| {
            let number = issued.fetch_add(1, Ordering::SeqCst) + 1;
            let mut body = json!({
                "access_token": format!("token-{name}{number}"), "token_type": "Bearer", "expires_in": plan.lifetime,
                "refresh_token": format!("refresh-{name}{number}"),
            });
            if !plan.rotates && request.form()["grant_type"] == "refresh_token" {
                body.as_object_mut().unwrap().remove("refresh_token");
            }
            SiteAnswer::json(200, &body)
        }),
        "/revoke" => SiteAnswer::new(200),
        "/device" => SiteAnswer::json(
            200,
            &json!({"device_code": "d3vice", "user_code": "ABCD-EFGH", "verification_uri": format!("{url}/go"),
                    "expires_in": 60, "interval": 1}),
        ),
        _ => SiteAnswer::html(404),
    }
}

/// Follows the sign-in to the redirect without a window.
pub(crate) struct AgreeingBrowser;

struct AgreeingWindow;

impl SignInBrowser for AgreeingBrowser {
    fn prepare(&self) -> BoxFuture<'_, Result<Box<dyn SignInWindow>, OauthFailure>> {
        Box::pin(async { Ok(Box::new(AgreeingWindow) as Box<dyn SignInWindow>) })
    }
}

impl SignInWindow for AgreeingWindow {
    fn redirect_uri(&self) -> &str {
        REDIRECT
    }

    fn visit(self: Box<Self>, page: Url) -> BoxFuture<'static, Result<String, OauthFailure>> {
        Box::pin(async move {
            let (_, location) = visit(&page).await;
            location.ok_or(OauthFailure::SignInAborted("no redirect"))
        })
    }
}
