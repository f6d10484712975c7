//! Which face or page answers which route, once its caller was let in.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL};
use http::{HeaderValue, Response, StatusCode};
use hyper::body::Incoming;
use tsugi_auth::resource_metadata::WELL_KNOWN;
use tsugi_policy::question::PolicyAction;
use tsugi_protocol::answer::FaultCode;
use tsugi_protocol::json::RawJson;

use super::Gateway;
use crate::admin;
use crate::backend::{Endpoint, ServerControl};
use crate::body::ResponseBody;
use crate::dashboard;
use crate::face::{self, FaceRequest};
use crate::guard::oauth::resource::ResourcePath;
use crate::guard::oauth::scope_challenge::ScopeChallenger;
use crate::guard::principal::Principal;
use crate::guard::refusal::HttpRefusal;
use crate::route::{PathSegments, Route, RouteEntry};

/// The work of one request. The MCP future is stored inline. The others are boxed, because otherwise the future of
/// every request would be as large as the largest handler.
pub(super) enum RequestHandler<'request> {
    Mcp(Box<FaceRequest<'request>>, Endpoint, Option<String>, Incoming),
    Boxed(Pin<Box<dyn Future<Output = HandlerResult> + Send + 'request>>),
}

type HandlerResult = Result<Response<ResponseBody>, HttpRefusal>;

impl RequestHandler<'_> {
    pub(super) async fn run(self) -> HandlerResult {
        match self {
            RequestHandler::Mcp(request, endpoint, server, body) => {
                face::mcp::post(request, endpoint, server, body).await
            }
            RequestHandler::Boxed(answering) => answering.await,
        }
    }
}

impl Gateway {
    /// Finds the face or page of a route. Not `async`, so that these locals are not part of the caller's future.
    pub(super) fn dispatch<'request>(
        self: &'request Arc<Self>,
        request: FaceRequest<'request>,
        entry: &'static RouteEntry,
        segments: PathSegments<'request>,
        body: Incoming,
    ) -> Result<RequestHandler<'request>, HttpRefusal> {
        // By far the most requests.
        if entry.route == Route::McpPost {
            let (endpoint, server) = self.endpoint(segments.first(), &request.principal)?;
            return Ok(RequestHandler::Mcp(Box::new(request), endpoint, server, body));
        }
        Ok(RequestHandler::Boxed(Box::pin(self.answer(request, entry, segments, body))))
    }

    /// Answers a request at any address but that of MCP's POST.
    async fn answer(
        &self,
        asked: FaceRequest<'_>,
        entry: &'static RouteEntry,
        segments: PathSegments<'_>,
        body: Incoming,
    ) -> Result<Response<ResponseBody>, HttpRefusal> {
        Ok(match entry.route {
            Route::McpGet | Route::McpDelete => {
                let (_, place) = self.endpoint(segments.first(), &asked.principal)?;
                face::mcp::other_verb(entry.route, asked, place.as_deref())?
            }
            Route::Sse => face::sse::open(&asked, self.all_at("/sse"))?,
            Route::SseMessages => face::sse::post(&asked, asked.json_body(body).await?)?,
            Route::Rpc => {
                let bytes = asked.json_body(body).await?;
                face::rpc::post(asked, self.all_at("/rpc"), bytes).await
            }
            Route::WebSocket => face::ws::open(asked, self.all_at("/ws"))?,
            Route::ResourceMetadata => self.resource_metadata(&asked, segments.first())?,
            Route::Healthz => face::http::text(StatusCode::OK, "ok\n"),
            Route::Readyz => self.readyz(&asked.principal),
            Route::Metrics => self.numbers(&asked)?,
            Route::Tools | Route::Call | Route::Batch | Route::Operation | Route::OperationAnswer | Route::OpenApi => {
                self.rest(&asked, entry.route, segments, body).await?
            }
            Route::Page(file) => dashboard::page::serve(file, &asked.parts.headers),
            Route::Session => dashboard::sign_in::show(&asked),
            Route::SignIn => dashboard::sign_in::sign_in(&asked, &asked.json_body(body).await?)?,
            Route::SignOut => dashboard::sign_in::sign_out(&asked),
            Route::Login => dashboard::login::begin(&asked, segments.first().unwrap_or_default()).await?,
            Route::LoginReturn => dashboard::login::finish(&asked, segments.first().unwrap_or_default()).await?,
            Route::BoardOrder => {
                let name = segments.first().unwrap_or_default();
                dashboard::board::order(&asked, name, &asked.json_body(body).await?).await?
            }
            Route::AcceptPin => {
                admin::expect_admin(&asked)?;
                admin::expect_policy(&asked, PolicyAction::Control, "", "acceptPin", None)?;
                dashboard::pins::accept(&asked, &asked.json_body(body).await?)?
            }
            Route::PlainBoard => dashboard::board::html_board::show(&asked).await?,
            Route::PlainSignIn => dashboard::board::html_board::sign_in(&asked, &asked.form_body(body).await?)?,
            Route::Dashboard(view) => dashboard::show(&asked, view, segments.first().unwrap_or_default()).await?,
            route => self.control(&asked, route, segments, body).await?,
        })
    }

    async fn rest(
        &self,
        asked: &FaceRequest<'_>,
        route: Route,
        segments: PathSegments<'_>,
        body: Incoming,
    ) -> Result<Response<ResponseBody>, HttpRefusal> {
        // A backend of a single answer has no names to list.
        let Some(directory) = self.backend.directory() else { return Err(no_servers()) };
        Ok(match route {
            Route::Tools => face::rest::tools(asked, directory).await,
            Route::OpenApi => face::rest::openapi(asked, directory).await,
            Route::Call => face::rest::call(asked, directory, asked.json_body(body).await?).await,
            Route::Batch => face::rest::batch(asked, directory, asked.json_body(body).await?).await,
            _ => {
                let tool = (segments.first().unwrap_or_default(), segments.second().unwrap_or_default());
                let bytes = asked.json_body(body).await?;
                match route {
                    Route::OperationAnswer => face::rest::operation_answer(asked, directory, tool, bytes).await,
                    _ => face::rest::operation(asked, directory, tool, bytes).await,
                }
            }
        })
    }

    async fn control(
        &self,
        asked: &FaceRequest<'_>,
        route: Route,
        segments: PathSegments<'_>,
        body: Incoming,
    ) -> Result<Response<ResponseBody>, HttpRefusal> {
        // Before the body is read: others must not make us hold it.
        admin::expect_admin(asked)?;
        let Some(control) = self.backend.control() else { return Err(no_servers()) };
        // A browser sends a cookie with requests of any page, so changes need our own page.
        if !asked.parts.method.is_safe() {
            self.guard.expect_own_page(asked.parts)?;
            expect_changeable(control)?;
        }
        let name = segments.first().unwrap_or_default();
        if let Some(order) = control_order(route) {
            admin::expect_policy(asked, PolicyAction::Control, &admin::decode(name), order, None)?;
        }
        Ok(match route {
            Route::AddServer => {
                let bytes = asked.json_body(body).await?;
                let added = admin::added_name(&bytes);
                let definition = RawJson::parse(bytes.clone()).ok();
                admin::expect_policy(asked, PolicyAction::Control, &added, "add", definition.clone())?;
                admin::expect_policy(asked, PolicyAction::ConnectUpstream, &added, "add", definition)?;
                let answered = admin::add(control, &bytes).await;
                admin::note_order(asked, "add", &added, &answered);
                answered
            }
            Route::RemoveServer => {
                let answered = admin::remove(control, name).await;
                admin::note_order(asked, "remove", name, &answered);
                answered
            }
            Route::Order(order) => {
                let answered = admin::order(control, name, order).await;
                admin::note_order(asked, order.as_str(), name, &answered);
                answered
            }
            Route::Log => admin::log(asked, control, name),
            _ => admin::servers(control),
        })
    }

    fn servers(&self) -> Vec<serde_json::Value> {
        self.backend.control().map(ServerControl::servers).unwrap_or_default()
    }

    /// The states of the servers that this caller may use, even in part. A guest gets none.
    fn readyz(&self, principal: &Principal) -> Response<ResponseBody> {
        if principal.is_guest() {
            return face::http::json(StatusCode::OK, ResponseBody::one(r#"{"status":"ready"}"#.into()));
        }
        let mut servers = self.servers();
        let access = self.guard.access(principal.caller());
        // Names of servers that a caller may not use are not shown here either.
        servers.retain(|server| access.allows_some_of(server["name"].as_str().unwrap_or_default()));
        let states = servers.iter().map(|server| (server["name"].as_str().unwrap_or_default(), &server["state"]));
        let states: serde_json::Map<String, serde_json::Value> =
            states.map(|(name, state)| (name.to_owned(), state.clone())).collect();
        let body = serde_json::json!({"status": "ready", "servers": states}).to_string();
        face::http::json(StatusCode::OK, ResponseBody::one(body.into()))
    }

    /// Where tokens for an address of ours come from. A server that is not configured has no metadata, whether or not the
    /// caller could see it.
    fn resource_metadata(
        &self,
        asked: &FaceRequest<'_>,
        server: Option<&str>,
    ) -> Result<Response<ResponseBody>, HttpRefusal> {
        let Some(resources) = self.guard.resources() else { return Err(no_metadata()) };
        if let Some(server) = server {
            let name = percent_encoding::percent_decode_str(server).decode_utf8_lossy();
            self.backend.server(&name).ok_or_else(no_metadata)?;
        }
        let path = asked.parts.uri.path().strip_prefix(WELL_KNOWN).unwrap_or_default();
        let body = resources.metadata(ResourcePath::of(path));
        let mut response = face::http::json(StatusCode::OK, ResponseBody::one(body.into()));
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=300"));
        Ok(response)
    }

    fn numbers(&self, asked: &FaceRequest<'_>) -> Result<Response<ResponseBody>, HttpRefusal> {
        admin::expect_admin(asked)?;
        Ok(face::http::text(StatusCode::OK, self.metrics.text(self.sessions.len(), &self.servers())))
    }

    /// All servers together, at this address. Where calls need scopes, a refusal names the address's own metadata.
    fn all_at(&self, path: &'static str) -> Endpoint {
        let all = self.all.clone();
        match self.guard.scoped_resources() {
            None => all,
            Some(resources) => {
                Endpoint { answer: ScopeChallenger::around(all.answer, resources, ResourcePath::Face(path)), ..all }
            }
        }
    }

    /// All servers together, or one server and its name.
    fn endpoint(&self, server: Option<&str>, principal: &Principal) -> Result<(Endpoint, Option<String>), HttpRefusal> {
        let Some(server) = server else { return Ok((self.all_at("/mcp"), None)) };
        let name = percent_encoding::percent_decode_str(server).decode_utf8_lossy();
        match self.backend.server(&name) {
            Some(endpoint) => {
                let mut answer = self.rate_limited(endpoint.answer);
                if let Some(resources) = self.guard.scoped_resources() {
                    answer = ScopeChallenger::around(answer, resources, ResourcePath::Server(server));
                }
                Ok((Endpoint { answer, ..endpoint }, Some(name.into_owned())))
            }
            // A restricted caller must not find out which servers there are.
            None if self.guard.access(principal.caller()).is_restricted() => {
                Err(HttpRefusal::forbidden("this caller may not use this server").by("permit"))
            }
            None => Err(HttpRefusal::no_server(&name)),
        }
    }
}

/// What a policy calls the order of a route. Adding a server is asked about once its name is known.
fn control_order(route: Route) -> Option<&'static str> {
    match route {
        Route::AddServer => None,
        Route::RemoveServer => Some("remove"),
        Route::Order(order) => Some(order.as_str()),
        Route::Log => Some("logs"),
        _ => Some("servers"),
    }
}

fn no_metadata() -> HttpRefusal {
    HttpRefusal::new(StatusCode::NOT_FOUND, FaultCode::InvalidRequest, "there is no metadata for this address")
}

fn no_servers() -> HttpRefusal {
    HttpRefusal::new(StatusCode::NOT_FOUND, FaultCode::InvalidRequest, "this gateway has no servers to show")
}

fn expect_changeable(control: &dyn ServerControl) -> Result<(), HttpRefusal> {
    match control.allows_changes() {
        true => Ok(()),
        false => Err(HttpRefusal::forbidden("servers cannot be changed over HTTP: `gateway.adminApi.enabled` is off")
            .by("adminApi")),
    }
}
