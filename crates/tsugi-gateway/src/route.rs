//! Which face answers which address: one table, so that tests can walk every route.

use http::Method;

use crate::backend::ServerCommand;
use crate::dashboard::DashboardView;
use crate::dashboard::page::PageFile;

/// What an address of the gateway serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// MCP over POST, both eras.
    McpPost,
    /// A legacy session's stream.
    McpGet,
    /// The end of a legacy session.
    McpDelete,
    /// The stream of 2024-11-05.
    Sse,
    /// The messages of 2024-11-05.
    SseMessages,
    /// A WebSocket.
    WebSocket,
    /// Bare JSON-RPC.
    Rpc,
    /// The tools as a list.
    Tools,
    /// One tool call.
    Call,
    /// Many tool calls.
    Batch,
    /// One tool as an operation of its own.
    Operation,
    /// The answers to what such a tool asked.
    OperationAnswer,
    /// The description of the REST face.
    OpenApi,
    /// The servers.
    Servers,
    /// A new server.
    AddServer,
    /// The end of a server.
    RemoveServer,
    /// An order to a server.
    Order(ServerCommand),
    /// A server's log.
    Log,
    /// The Prometheus metrics.
    Metrics,
    /// Where tokens for an address of ours come from (RFC 9728).
    ResourceMetadata,
    /// Whether the process is alive.
    Healthz,
    /// Whether the gateway is ready for calls.
    Readyz,
    /// A file of the dashboard.
    Page(PageFile),
    /// Who is signed in at the dashboard.
    Session,
    /// Signing in at the dashboard.
    SignIn,
    /// Signing out.
    SignOut,
    /// The way to a provider, to sign in there.
    Login,
    /// The way back.
    LoginReturn,
    /// What the dashboard shows.
    Dashboard(DashboardView),
    /// A change on the board.
    BoardOrder,
    /// A changed definition that is accepted.
    AcceptPin,
    /// The board for readers without JavaScript.
    PlainBoard,
    /// Signing in there.
    PlainSignIn,
}

impl Route {
    /// True where no key is needed: the page on which people sign in, and the probes.
    pub fn is_open(self) -> bool {
        self.is_entrance() || self.is_probe() || self == Route::ResourceMetadata
    }

    /// True for what belongs to the dashboard.
    pub fn is_dashboard(self) -> bool {
        self.is_entrance() || matches!(self, Route::Dashboard(_) | Route::BoardOrder | Route::AcceptPin)
    }

    /// True for the probes of load balancers, which have no key.
    pub fn is_probe(self) -> bool {
        matches!(self, Route::Healthz | Route::Readyz)
    }

    /// The page on which people sign in.
    fn is_entrance(self) -> bool {
        let is_door = matches!(self, Route::Session | Route::SignIn | Route::SignOut | Route::PlainSignIn);
        is_door || self.is_login() || matches!(self, Route::Page(_) | Route::PlainBoard)
    }

    /// Signing in through a provider.
    pub(crate) fn is_login(self) -> bool {
        matches!(self, Route::Login | Route::LoginReturn)
    }

    /// True for a GET that opens a stream. It has no HEAD, since nothing is known of it without opening it.
    fn is_stream(self) -> bool {
        matches!(self, Route::McpGet | Route::Sse | Route::WebSocket | Route::Dashboard(DashboardView::Events))
    }
}

/// How a route writes its own errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorStyle {
    /// As JSON-RPC errors.
    Rpc,
    /// As `{"success":false,"error":…}`.
    Rest,
}

/// One line of the table. `{}` in a pattern stands for one segment of the path.
#[derive(Debug)]
pub struct RouteEntry {
    /// The verb.
    pub verb: Method,
    /// The path.
    pub pattern: &'static str,
    /// The way in.
    pub route: Route,
    /// How it writes its errors.
    pub style: ErrorStyle,
}

impl RouteEntry {
    /// Whether it answers to a verb. HEAD is answered like GET, without the body.
    fn answers_to(&self, verb: &Method) -> bool {
        self.verb == *verb || *verb == Method::HEAD && self.has_head()
    }

    fn has_head(&self) -> bool {
        // A code can be used once, and a program that only looks at links must not use it up.
        self.verb == Method::GET && !self.route.is_stream() && !self.route.is_login()
    }
}

const fn entry(verb: Method, pattern: &'static str, route: Route, style: ErrorStyle) -> RouteEntry {
    RouteEntry { verb, pattern, route, style }
}

/// Every route there is. The busiest come first, since the table is read from the top.
pub static ROUTES: &[RouteEntry] = &[
    // MCP, in all its wire formats.
    entry(Method::POST, "/mcp", Route::McpPost, ErrorStyle::Rpc),
    entry(Method::POST, "/servers/{}/mcp", Route::McpPost, ErrorStyle::Rpc),
    entry(Method::GET, "/mcp", Route::McpGet, ErrorStyle::Rpc),
    entry(Method::DELETE, "/mcp", Route::McpDelete, ErrorStyle::Rpc),
    entry(Method::GET, "/servers/{}/mcp", Route::McpGet, ErrorStyle::Rpc),
    entry(Method::DELETE, "/servers/{}/mcp", Route::McpDelete, ErrorStyle::Rpc),
    entry(Method::GET, "/sse", Route::Sse, ErrorStyle::Rpc),
    entry(Method::POST, "/messages", Route::SseMessages, ErrorStyle::Rpc),
    entry(Method::GET, "/ws", Route::WebSocket, ErrorStyle::Rpc),
    entry(Method::POST, "/rpc", Route::Rpc, ErrorStyle::Rpc),
    // REST.
    entry(Method::GET, "/mcp/tools", Route::Tools, ErrorStyle::Rest),
    entry(Method::POST, "/mcp/call", Route::Call, ErrorStyle::Rest),
    entry(Method::POST, "/mcp/batch", Route::Batch, ErrorStyle::Rest),
    entry(Method::POST, "/tools/{}/{}", Route::Operation, ErrorStyle::Rest),
    entry(Method::POST, "/tools/{}/{}/answer", Route::OperationAnswer, ErrorStyle::Rest),
    entry(Method::GET, "/openapi.json", Route::OpenApi, ErrorStyle::Rest),
    // Control: administrators only.
    entry(Method::GET, "/servers", Route::Servers, ErrorStyle::Rest),
    entry(Method::POST, "/servers", Route::AddServer, ErrorStyle::Rest),
    entry(Method::DELETE, "/servers/{}", Route::RemoveServer, ErrorStyle::Rest),
    entry(Method::POST, "/servers/{}/start", Route::Order(ServerCommand::Start), ErrorStyle::Rest),
    entry(Method::POST, "/servers/{}/stop", Route::Order(ServerCommand::Stop), ErrorStyle::Rest),
    entry(Method::POST, "/servers/{}/restart", Route::Order(ServerCommand::Restart), ErrorStyle::Rest),
    entry(Method::GET, "/servers/{}/logs", Route::Log, ErrorStyle::Rest),
    // Operations.
    entry(Method::GET, "/metrics", Route::Metrics, ErrorStyle::Rest),
    entry(Method::GET, "/readyz", Route::Readyz, ErrorStyle::Rest),
    entry(Method::GET, "/healthz", Route::Healthz, ErrorStyle::Rest),
    // Metadata for clients that have no token yet. What follows the well-known part is the path of the resource.
    entry(Method::GET, "/.well-known/oauth-protected-resource", Route::ResourceMetadata, ErrorStyle::Rest),
    entry(Method::GET, "/.well-known/oauth-protected-resource/mcp", Route::ResourceMetadata, ErrorStyle::Rest),
    entry(Method::GET, "/.well-known/oauth-protected-resource/sse", Route::ResourceMetadata, ErrorStyle::Rest),
    entry(Method::GET, "/.well-known/oauth-protected-resource/ws", Route::ResourceMetadata, ErrorStyle::Rest),
    entry(Method::GET, "/.well-known/oauth-protected-resource/rpc", Route::ResourceMetadata, ErrorStyle::Rest),
    entry(
        Method::GET,
        "/.well-known/oauth-protected-resource/servers/{}/mcp",
        Route::ResourceMetadata,
        ErrorStyle::Rest,
    ),
    // The dashboard, which can be switched off as a whole.
    entry(Method::GET, "/", Route::Page(PageFile::Index), ErrorStyle::Rest),
    entry(Method::GET, "/assets/app.js", Route::Page(PageFile::Script), ErrorStyle::Rest),
    entry(Method::GET, "/api/session", Route::Session, ErrorStyle::Rest),
    entry(Method::POST, "/api/session", Route::SignIn, ErrorStyle::Rest),
    entry(Method::DELETE, "/api/session", Route::SignOut, ErrorStyle::Rest),
    entry(Method::GET, "/auth/login/{}", Route::Login, ErrorStyle::Rest),
    entry(Method::GET, "/auth/callback/{}", Route::LoginReturn, ErrorStyle::Rest),
    entry(Method::GET, "/api/overview", Route::Dashboard(DashboardView::Overview), ErrorStyle::Rest),
    entry(Method::GET, "/api/servers/{}", Route::Dashboard(DashboardView::Server), ErrorStyle::Rest),
    entry(Method::GET, "/api/calls", Route::Dashboard(DashboardView::Calls), ErrorStyle::Rest),
    entry(Method::GET, "/api/calls/{}", Route::Dashboard(DashboardView::Call), ErrorStyle::Rest),
    entry(Method::GET, "/api/charts", Route::Dashboard(DashboardView::Charts), ErrorStyle::Rest),
    entry(Method::GET, "/api/audit", Route::Dashboard(DashboardView::Audit), ErrorStyle::Rest),
    entry(Method::GET, "/api/board/{}", Route::Dashboard(DashboardView::Board), ErrorStyle::Rest),
    entry(Method::POST, "/api/board/{}", Route::BoardOrder, ErrorStyle::Rest),
    entry(Method::GET, "/api/pins", Route::Dashboard(DashboardView::Pins), ErrorStyle::Rest),
    entry(Method::POST, "/api/pins", Route::AcceptPin, ErrorStyle::Rest),
    entry(Method::GET, "/board.html", Route::PlainBoard, ErrorStyle::Rest),
    entry(Method::POST, "/board.html", Route::PlainSignIn, ErrorStyle::Rest),
    entry(Method::GET, "/api/events", Route::Dashboard(DashboardView::Events), ErrorStyle::Rest),
];

/// What an address leads to.
#[derive(Debug)]
pub enum RouteMatch<'path> {
    /// A route, with the segments that stand for `{}`.
    Route(&'static RouteEntry, PathSegments<'path>),
    /// The path is known, but not with this verb; these are the verbs it has.
    OtherVerb(ErrorStyle, String),
    /// Nothing.
    Nothing(NothingAt),
}

/// Which kind of address has nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NothingAt {
    /// Below `/.well-known/`, where clients look for metadata before they have a key. To them 401 would mean that there
    /// is some ([RFC 8615](https://www.rfc-editor.org/rfc/rfc8615)).
    PublicPath,
    /// Elsewhere. Whether there is something is only for callers with a key.
    PrivatePath,
}

impl RouteMatch<'_> {
    pub(crate) fn is_metadata(&self) -> bool {
        matches!(self, RouteMatch::Route(entry, _) if entry.route == Route::ResourceMetadata)
    }

    /// True where no key is needed.
    pub(crate) fn is_open(&self) -> bool {
        match self {
            RouteMatch::Route(entry, _) => entry.route.is_open(),
            RouteMatch::OtherVerb(..) => false,
            RouteMatch::Nothing(public) => *public == NothingAt::PublicPath,
        }
    }
}

/// The variable segments of a path, as written (percent-encoding and all).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PathSegments<'path>([Option<&'path str>; 2]);

impl<'path> PathSegments<'path> {
    /// The first variable segment.
    pub fn first(&self) -> Option<&'path str> {
        self.0[0]
    }

    /// The second variable segment.
    pub fn second(&self) -> Option<&'path str> {
        self.0[1]
    }
}

/// Looks up an address.
pub fn find<'path>(verb: &Method, path: &'path str) -> RouteMatch<'path> {
    for entry in ROUTES {
        if entry.answers_to(verb)
            && let Some(segments) = matches(entry.pattern, path)
        {
            return RouteMatch::Route(entry, segments);
        }
    }
    // Collected only for an answer that is an error anyway.
    let others: Vec<&RouteEntry> = ROUTES.iter().filter(|entry| matches(entry.pattern, path).is_some()).collect();
    match others.first() {
        None if path.starts_with("/.well-known/") => RouteMatch::Nothing(NothingAt::PublicPath),
        None => RouteMatch::Nothing(NothingAt::PrivatePath),
        Some(first) => {
            let mut verbs: Vec<&str> = others.iter().map(|entry| entry.verb.as_str()).collect();
            verbs.extend(others.iter().any(|entry| entry.has_head()).then_some("HEAD"));
            RouteMatch::OtherVerb(first.style, verbs.join(", "))
        }
    }
}

fn matches<'path>(pattern: &str, path: &'path str) -> Option<PathSegments<'path>> {
    if !pattern.contains('{') {
        return (pattern == path).then(PathSegments::default);
    }
    let mut found = PathSegments::default();
    let mut slots = found.0.iter_mut();
    let mut parts = path.split('/');
    for expected in pattern.split('/') {
        let part = parts.next()?;
        if expected == "{}" {
            // An empty segment does not stand for a name.
            *slots.next()? = Some(part).filter(|part| !part.is_empty());
        } else if part != expected {
            return None;
        }
    }
    let is_whole = parts.next().is_none() && pattern.matches("{}").count() == found.0.iter().flatten().count();
    is_whole.then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(verb: Method, path: &str) -> Option<(Route, Option<&str>)> {
        match find(&verb, path) {
            RouteMatch::Route(entry, segments) => Some((entry.route, segments.first())),
            _ => None,
        }
    }

    #[test]
    fn paths_lead_to_their_faces() {
        assert_eq!(route(Method::POST, "/mcp"), Some((Route::McpPost, None)));
        assert_eq!(route(Method::POST, "/servers/files/mcp"), Some((Route::McpPost, Some("files"))));
        for nowhere in ["/mcp/", "/", "/servers//mcp", "/servers/a/b/mcp", "/MCP", "/mcp/x"] {
            assert_eq!(route(Method::POST, nowhere), None, "{nowhere}");
        }
    }

    #[test]
    fn another_verb_names_those_that_are_allowed() {
        let RouteMatch::OtherVerb(_, verbs) = find(&Method::PUT, "/mcp") else { panic!("the path is known") };
        assert_eq!(verbs, "POST, GET, DELETE");
        let RouteMatch::OtherVerb(_, verbs) = find(&Method::PUT, "/servers") else { panic!("the path is known") };
        assert_eq!(verbs, "GET, POST, HEAD");
        assert!(matches!(find(&Method::PUT, "/nowhere"), RouteMatch::Nothing(NothingAt::PrivatePath)));
    }

    #[test]
    fn a_head_is_answered_like_a_get_unless_something_would_be_opened() {
        assert_eq!(route(Method::HEAD, "/healthz"), Some((Route::Healthz, None)));
        assert_eq!(route(Method::HEAD, "/servers"), Some((Route::Servers, None)));
        for stream in ["/mcp", "/sse", "/ws", "/api/events"] {
            assert_eq!(route(Method::HEAD, stream), None, "{stream}");
        }
    }
}
