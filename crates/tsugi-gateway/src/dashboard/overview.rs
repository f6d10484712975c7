//! What is there now, as JSON: the overview, one server, the last calls, one call, the last hour.

use std::borrow::Cow;

use ::http::header::CACHE_CONTROL;
use ::http::{HeaderValue, Response, StatusCode};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tsugi_protocol::answer::FaultCode;

use super::record::CallRecord;
use super::row::{self, AttentionItem, ServerRow};
use super::series::{ChartPoint, STEP};
use super::viewer::DashboardViewer;
use crate::body::ResponseBody;
use crate::face::http;
use crate::guard::refusal::HttpRefusal;

/// Lines of a server's standard error on its page.
const STDERR: usize = 200;
/// Calls on a server's page.
const RECENT: usize = 50;
/// Calls in a list, unless asked otherwise, and at most.
const LIMIT: usize = 100;
const MOST: usize = 1000;

/// A response that no cache keeps.
pub(super) fn give(value: &impl Serialize) -> Response<ResponseBody> {
    let text = serde_json::to_vec(value).expect("what is shown is always JSON");
    let mut response = http::json(StatusCode::OK, ResponseBody::one(text.into()));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// All servers with their numbers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DashboardOverview<'a> {
    now: u64,
    started_at: u64,
    version: &'a str,
    listen: Vec<String>,
    servers: Vec<ServerRow>,
    attention: Vec<AttentionItem>,
}

/// `GET /api/overview`
pub(super) fn overview(viewer: &DashboardViewer) -> Response<ResponseBody> {
    give(&overview_of(viewer))
}

/// The same before it is written.
pub(super) fn overview_of(viewer: &DashboardViewer) -> DashboardOverview<'static> {
    let servers = row::rows(viewer);
    let addresses = viewer.gateway.addresses().iter();
    DashboardOverview {
        now: viewer.recorder().now(),
        started_at: viewer.recorder().began(),
        version: env!("CARGO_PKG_VERSION"),
        listen: addresses.map(|address| format!("http://{address}")).collect(),
        attention: row::attention(&servers),
        servers,
    }
}

/// `GET /api/servers/{name}`
pub(super) fn server(viewer: &DashboardViewer, name: &str) -> Result<Response<ResponseBody>, HttpRefusal> {
    let observed = viewer.backend().observe().filter(|_| viewer.sees_server(name));
    let (observed, mut detail) = observed
        .and_then(|observed| Some((observed, observed.detail(name)?)))
        .ok_or_else(|| HttpRefusal::no_server(name))?;
    // A permit may allow some tools of a server and not others.
    for list in [&mut detail.tools, &mut detail.resources, &mut detail.templates, &mut detail.prompts] {
        list.retain(|named| viewer.sees(name, &named.name));
    }
    let row = row::row(viewer, detail.state.clone());
    let (recent, _) = viewer.recorder().find(None, RECENT, |call| is_of(call, name) && viewer.sees_call(call));
    let mut page = members(&row);
    page.extend(members(&detail));
    page.insert("recentCalls".into(), shown(viewer, recent));
    // What a process is given and what it says is for those who run it.
    let is_admin = viewer.is_admin();
    page.insert("config".into(), viewer.backend().settings(name).filter(|_| is_admin).unwrap_or_default());
    page.insert("stderr".into(), if is_admin { json!(observed.stderr(name, STDERR)) } else { json!([]) });
    if !is_admin {
        page.insert("processes".into(), json!([]));
    }
    Ok(give(&page))
}

fn members(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    }
}

fn is_of(call: &CallRecord, server: &str) -> bool {
    &*call.started.server == server
}

fn shown(viewer: &DashboardViewer, calls: Vec<CallRecord>) -> Value {
    json!(calls.into_iter().map(|call| viewer.shown(call)).collect::<Vec<_>>())
}

/// What may be asked for after `?`.
struct PageQuery<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> PageQuery<'a> {
    fn read(query: &'a str) -> Self {
        Self(url::form_urlencoded::parse(query.as_bytes()).filter(|(_, value)| !value.is_empty()).collect())
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| &**value)
    }

    fn number<T: std::str::FromStr>(&self, key: &str) -> Result<Option<T>, HttpRefusal> {
        let read = |text: &str| text.parse().map_err(|_| HttpRefusal::bad_request(format!("`{key}` must be a number")));
        self.get(key).map(read).transpose()
    }
}

/// `GET /api/calls`
pub(super) fn calls(viewer: &DashboardViewer, query: &str) -> Result<Response<ResponseBody>, HttpRefusal> {
    let query = PageQuery::read(query);
    let limit = query.number("limit")?.unwrap_or(LIMIT).min(MOST);
    let (before, slowest) = (query.number("before")?, query.number("minMs")?.unwrap_or(0.0));
    let is = |key: &str, value: &str| query.get(key).is_none_or(|wanted| wanted == value);
    let has = |key: &str, value: &str| query.get(key).is_none_or(|wanted| contains(value, wanted));
    let (found, total) = viewer.recorder().find(before, limit, |call| {
        is("server", &call.started.server)
            && is("outcome", call.ended.as_str())
            && call.millis() >= slowest
            && has("tool", &call.started.subject)
            && has("caller", &call.started.caller.identity().to_string())
            && viewer.sees_call(call)
    });
    Ok(give(&json!({"calls": shown(viewer, found), "total": total})))
}

/// Whether a text has these words in it, whatever the case of its letters.
fn contains(text: &str, words: &str) -> bool {
    // `windows` panics on a size of zero. `PageQuery` drops empty values, so there is none.
    text.as_bytes().windows(words.len()).any(|part| part.eq_ignore_ascii_case(words.as_bytes()))
}

/// `GET /api/calls/{id}`
pub(super) fn call(viewer: &DashboardViewer, id: &str) -> Result<Response<ResponseBody>, HttpRefusal> {
    // A call that the viewer may not see looks like one that is forgotten.
    let found = id.parse().ok().and_then(|id| viewer.recorder().call(id)).filter(|call| viewer.sees_call(call));
    let gone = || {
        let message = "this call is not remembered: only the last calls are";
        HttpRefusal::new(StatusCode::NOT_FOUND, FaultCode::InvalidRequest, message)
    };
    let found = found.ok_or_else(gone)?;
    let payload = viewer.recorder().payload(found.id).filter(|_| viewer.may_read(&found));
    let mask = |value: Value| match viewer.backend().observe() {
        Some(observed) => observed.mask(&found.started.server, value),
        None => value,
    };
    let (arguments, result) = payload.map(|payload| (mask(payload.arguments), mask(payload.result))).unzip();
    let call = viewer.shown(found.clone());
    let mut page = members(&call);
    page.insert("timeline".into(), json!(call.timeline()));
    page.insert("record".into(), json!(viewer.recorder().mode()));
    page.insert("arguments".into(), arguments.unwrap_or_default());
    page.insert("result".into(), result.unwrap_or_default());
    page.insert("error".into(), call.problem.as_ref().map_or(Value::Null, |problem| problem.full()));
    Ok(give(&page))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ChartSeries {
    step_ms: u64,
    points: Vec<ChartPoint>,
}

/// `GET /api/charts`
pub(super) fn charts(viewer: &DashboardViewer, query: &str) -> Result<Response<ResponseBody>, HttpRefusal> {
    let query = PageQuery::read(query);
    let server = query.get("server");
    let is_shown = server.map_or(!viewer.access().is_restricted(), |name| viewer.sees_server(name));
    if !is_shown {
        // All servers together would tell of those that are not shown.
        return Ok(give(&ChartSeries { step_ms: STEP * 1000, points: Vec::new() }));
    }
    Ok(give(&ChartSeries { step_ms: STEP * 1000, points: viewer.recorder().points(server) }))
}
