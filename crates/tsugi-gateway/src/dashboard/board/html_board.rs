//! The board without a program in the page: what waits, who is at work and what stands where, to read in anything that
//! shows HTML.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use ::http::header::{
    ACCEPT_LANGUAGE, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS,
};
use ::http::{HeaderValue, Response, StatusCode};
use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use bytes::Bytes;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::html::HtmlWriter;
use super::label::BoardLanguage;
use super::look;
use super::time_label::minute;
use crate::audit::{self, AuditEvent};
use crate::body::ResponseBody;
use crate::dashboard::viewer::DashboardViewer;
use crate::face::FaceRequest;
use crate::guard::oauth::login::LoginService;
use crate::guard::refusal::HttpRefusal;

const STYLE: &str = include_str!("plain.css");

/// Nothing but our own style and forms to ourselves: no program at all.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let hash = BASE64.encode(digest(&SHA256, STYLE.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).expect("base64 is plain text")
});

/// What the address asks for.
struct BoardQuery {
    lang: BoardLanguage,
    query: BTreeMap<String, String>,
}

impl BoardQuery {
    fn of(asked: &FaceRequest<'_>) -> Self {
        let query = asked.parts.uri.query().unwrap_or_default();
        // A form sends its empty fields too. They are not filters.
        let pairs = url::form_urlencoded::parse(query.as_bytes()).into_owned().filter(|(_, value)| !value.is_empty());
        let query: BTreeMap<String, String> = pairs.collect();
        let accepts = asked.parts.headers.get(ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
        Self { lang: BoardLanguage::of(query.get("lang").map(String::as_str), accepts.unwrap_or_default()), query }
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.query.get(key).map(String::as_str)
    }

    fn say<'a>(&self, word: &'a str) -> &'a str
    where
        'static: 'a,
    {
        self.lang.say(word)
    }
}

/// `GET /board.html`
pub(crate) async fn show(asked: &FaceRequest<'_>) -> Result<Response<ResponseBody>, HttpRefusal> {
    let (viewer, wish) = (DashboardViewer::of(asked), BoardQuery::of(asked));
    // A page and not a bare error, since it carries the form to sign in with.
    if viewer.principal.is_guest() {
        return Ok(give(StatusCode::UNAUTHORIZED, &wish, door(asked, &wish, false)));
    }
    let Ok(projects) = ask(&viewer, "list_projects", json!({})).await else {
        let mut html = HtmlWriter::default();
        html.element("<p>", wish.say("no board"), "</p>");
        return Ok(give(StatusCode::FORBIDDEN, &wish, html));
    };
    let projects = list(&projects, "projects");
    // Without a known project in the address, an active one is shown, or else the first.
    let wanted = projects.iter().find(|one| wish.get("project") == one["key"].as_str());
    let active = projects.iter().find(|one| one["status"] == "active");
    let mut html = HtmlWriter::default();
    match wanted.or(active).or(projects.first()) {
        Some(project) => whole(&viewer, &wish, projects, project, &mut html).await?,
        None => {
            html.element("<p>", wish.say("no projects"), "</p>");
        }
    }
    Ok(give(StatusCode::OK, &wish, html))
}

/// `POST /board.html`: the same sign-in as that of the page, from a form.
pub(crate) fn sign_in(asked: &FaceRequest<'_>, body: &Bytes) -> Result<Response<ResponseBody>, HttpRefusal> {
    let guard = asked.gateway.guard();
    // Any site can send a form here. Only our own page may sign a browser in.
    guard.expect_own_page(asked.parts)?;
    let key = url::form_urlencoded::parse(body).find(|(name, _)| name == "key").map(|(_, key)| key.into_owned());
    // A pasted key often has spaces around it.
    let (principal, signed_in) = match guard.sign_in(key.unwrap_or_default().trim(), asked.parts, asked.peer) {
        Ok(signed_in) => signed_in,
        Err(refusal) if refusal.status == StatusCode::UNAUTHORIZED => {
            if let Some(trail) = asked.gateway.metrics().audit() {
                trail.note(&AuditEvent::CredentialRefused { address: audit::address_of(asked.parts).as_deref() });
            }
            let wish = BoardQuery::of(asked);
            return Ok(give(StatusCode::UNAUTHORIZED, &wish, door(asked, &wish, true)));
        }
        Err(refusal) => return Err(refusal),
    };
    tracing::info!(caller = %principal.identity(), "signed in at the plain board");
    if let Some(trail) = asked.gateway.metrics().audit() {
        let address = audit::address_of(asked.parts);
        trail.note(&AuditEvent::SignedIn { caller: principal.caller(), address: address.as_deref() });
    }
    let mut response = Response::new(ResponseBody::empty());
    // The browser follows with a GET, so that a reload does not send the key again.
    *response.status_mut() = StatusCode::SEE_OTHER;
    let cookie = HeaderValue::try_from(signed_in.set_cookie()).expect("a cookie of ours is plain text");
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("/board.html"));
    response.headers_mut().insert(SET_COOKIE, cookie);
    Ok(response)
}

async fn ask(viewer: &DashboardViewer, name: &str, arguments: Value) -> Result<Value, HttpRefusal> {
    let told = look(viewer, name, arguments)?.await;
    told.map_err(|fault| {
        HttpRefusal::bad_request(fault["message"].as_str().unwrap_or("the board cannot be read").to_owned())
    })
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn moment(value: &Value) -> String {
    value.as_i64().map_or_else(|| "–".to_owned(), minute)
}

/// Who is who, by id.
struct AgentNames(BTreeMap<String, String>);

impl AgentNames {
    fn of<'a>(&'a self, id: &'a str) -> &'a str {
        // Only the first 200 agents are listed. Others appear by their id.
        self.0.get(id).map_or(id, String::as_str)
    }
}

async fn whole(
    viewer: &DashboardViewer,
    wish: &BoardQuery,
    projects: &[Value],
    project: &Value,
    html: &mut HtmlWriter,
) -> Result<(), HttpRefusal> {
    // Everything is read before anything is written, so that a failure leaves no half page.
    let id = &project["id"];
    let here = json!({"project_id": id});
    let agents = ask(viewer, "list_agents", json!({"project_id": id, "limit": 200})).await?;
    let known = list(&agents, "agents").iter();
    let names = AgentNames(known.map(|one| (text(one, "id").to_owned(), text(one, "name").to_owned())).collect());
    let needs = ask(viewer, "get_needs", here.clone()).await?;
    let crew = ask(viewer, "get_crew", here).await?;
    let board = ask(viewer, "get_board", filtered(wish, id)).await?;
    choice(wish, projects, project, html);
    if board["project_status"] != "active" {
        html.element("<p class=\"notice\">", wish.say(text(&board, "project_status")), "</p>");
    }
    what_waits(wish, &names, &needs, html);
    at_work(wish, &names, &crew, html);
    columns(wish, &names, project, &board, html);
    Ok(())
}

fn filtered(wish: &BoardQuery, project: &Value) -> Value {
    json!({
        "project_id": project,
        "text": wish.get("text"),
        "label": wish.get("label"),
        // An unknown priority from the address is dropped, so that it does not fail the whole page.
        "priority": wish.get("priority").filter(|one| ["critical", "high", "medium", "low"].contains(one)),
        "ready_only": wish.get("ready").is_some(),
    })
}

fn choice(wish: &BoardQuery, projects: &[Value], shown: &Value, html: &mut HtmlWriter) {
    html.element("<nav aria-label=\"", wish.say("projects"), "\"><ul>");
    for project in projects {
        let is_shown = project["id"] == shown["id"];
        html.element("<li><a href=\"/board.html?project=", text(project, "key"), "&amp;lang=").text(wish.lang.code());
        html.mark(if is_shown { "\" aria-current=\"page\">" } else { "\">" });
        html.element("<b>", text(project, "key"), "</b> ").text(text(project, "name")).mark("</a></li>");
    }
    html.mark("</ul></nav>");
}

fn what_waits(wish: &BoardQuery, names: &AgentNames, needs: &Value, html: &mut HtmlWriter) {
    let total = needs["total"].as_i64().unwrap_or(0);
    html.element("<section aria-labelledby=\"needs\"><h2 id=\"needs\">", wish.say("needs"), "");
    html.element(" <span class=\"count\">", &total.to_string(), "</span></h2>");
    if total == 0 {
        html.element("<p>", wish.say("nothing needs"), "</p></section>");
        return;
    }
    html.mark("<ul>");
    for need in list(needs, "needs") {
        html.element("<li><i class=\"kind\">", wish.say(&format!("kind.{}", text(need, "kind"))), "</i> ");
        waiting(wish, names, need, html);
        html.mark("</li>");
    }
    html.mark("</ul></section>");
}

fn waiting(wish: &BoardQuery, names: &AgentNames, need: &Value, html: &mut HtmlWriter) {
    let task = &need["task"];
    if text(need, "kind") == "expired" {
        html.element("<b>", names.of(text(need, "agent_id")), "</b> ").text(text(need, "client_name"));
        html.element(" <span class=\"sub\">", &moment(&need["last_activity_at"]), "</span>");
        list(need, "tasks").iter().for_each(|task| title(task, html));
        return;
    }
    title(task, html);
    let said = [&task["blocked_reason"], &need["summary"], &task["result"]];
    if let Some(said) = said.iter().find_map(|said| said.as_str()) {
        html.element(" <span class=\"said\">", said, "</span>");
    }
    for prerequisite in list(need, "prerequisites") {
        html.element(" <span class=\"said\">", wish.say("waits for"), " ")
            .text(text(prerequisite, "ref"))
            .mark("</span>");
    }
}

fn title(task: &Value, html: &mut HtmlWriter) {
    html.element(" <b class=\"ref\">", text(task, "ref"), "</b> ").text(text(task, "title"));
}

fn at_work(wish: &BoardQuery, names: &AgentNames, crew: &Value, html: &mut HtmlWriter) {
    html.element("<section aria-labelledby=\"agents\"><h2 id=\"agents\">", wish.say("agents"), "</h2>");
    let members = list(crew, "members");
    if members.is_empty() {
        html.element("<p>", wish.say("no agents"), "</p></section>");
        return;
    }
    // Focusable, so that a wide table can be scrolled with the keyboard.
    html.mark("<div class=\"wide\" tabindex=\"0\"><table><thead><tr>");
    for head in ["agent", "client", "since", "heard", "tasks"] {
        html.element("<th scope=\"col\">", wish.say(head), "</th>");
    }
    html.mark("</tr></thead><tbody>");
    for member in members {
        html.element("<tr><th scope=\"row\">", names.of(text(member, "agent_id")), "");
        html.element(" <span class=\"sub\">", wish.say(text(member, "state")), "</span></th>");
        html.element("<td>", text(member, "client_name"), "</td>");
        html.element("<td>", &moment(&member["started_at"]), "</td>");
        html.element("<td>", &moment(&member["last_activity_at"]), "</td><td>");
        list(member, "holds").iter().for_each(|hold| held(wish, hold, html));
        if list(member, "holds").is_empty() {
            html.element("<span class=\"sub\">", wish.say("holds nothing"), "</span>");
        }
        html.mark("</td></tr>");
    }
    html.mark("</tbody></table></div></section>");
}

fn held(wish: &BoardQuery, hold: &Value, html: &mut HtmlWriter) {
    html.mark("<div>");
    title(hold, html);
    let lease = lease(hold, now());
    html.element(" <span class=\"lease ", lease, "\">").text(wish.say(&format!("lease.{lease}")));
    html.mark(" ").text(&moment(&hold["expires_at"])).mark("</span>");
    if let Some(checkpoint) = hold["checkpoint"].as_str() {
        html.element("<div class=\"said\">", checkpoint, "</div>");
    }
    html.mark("</div>");
}

/// How a lease stands: less than a quarter left is little.
fn lease(hold: &Value, now: i64) -> &'static str {
    let at = |key: &str| hold[key].as_i64().unwrap_or(0);
    let (left, whole) = (at("expires_at") - now, at("expires_at") - at("renewed_at"));
    match left {
        left if left <= 0 => "gone",
        left if left * 4 < whole => "low",
        _ => "good",
    }
}

fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn columns(wish: &BoardQuery, names: &AgentNames, project: &Value, board: &Value, html: &mut HtmlWriter) {
    html.element("<section aria-labelledby=\"board\"><h2 id=\"board\">", wish.say("board"), "</h2>");
    filter(wish, project, board, html);
    html.mark("<div class=\"columns\">");
    for column in list(board, "columns") {
        let (status, total) = (text(column, "status"), column["total"].as_i64().unwrap_or(0));
        html.element("<section class=\"column\"><h3>", wish.say(status), "");
        html.element(" <span class=\"count\">", &total.to_string(), "</span>");
        if status == "done" {
            html.element(" <span class=\"sub\">", wish.say("done days"), "</span>");
        }
        html.mark("</h3><ul>");
        let cards = list(column, "cards");
        cards.iter().for_each(|one| card(wish, names, one, html));
        html.mark("</ul>");
        // The board gives the first cards of a long column only; the reader learns how many are missing.
        let rest = total - cards.len() as i64;
        if rest > 0 {
            html.element("<p class=\"sub\">", &rest.to_string(), " ").text(wish.say("more")).mark("</p>");
        } else if total == 0 {
            html.element("<p class=\"sub\">", wish.say("empty"), "</p>");
        }
        html.mark("</section>");
    }
    html.mark("</div></section>");
}

fn card(wish: &BoardQuery, names: &AgentNames, card: &Value, html: &mut HtmlWriter) {
    let is_waiting = card["status"] == "todo" && card["ready"] == false;
    html.mark(if is_waiting { "<li class=\"card waiting\">" } else { "<li class=\"card\">" });
    title(card, html);
    html.mark("<p class=\"sub\">").text(wish.say(text(card, "priority")));
    if let Some(assignee) = card["assignee_id"].as_str() {
        html.mark(" · ").text(names.of(assignee));
    }
    for label in list(card, "labels").iter().filter_map(Value::as_str) {
        html.mark(" · #").text(label);
    }
    html.mark("</p>");
    if is_waiting {
        let on: Vec<&str> = list(card, "waiting_on").iter().map(|one| text(one, "ref")).collect();
        let words = if on.is_empty() { wish.say("not ready") } else { wish.say("waits for") };
        html.element("<p class=\"said\">", words, " ").text(&on.join(", ")).mark("</p>");
    }
    if let Some(reason) = card["blocked_reason"].as_str() {
        html.element("<p class=\"said\">", reason, "</p>");
    }
    html.mark("</li>");
}

fn filter(wish: &BoardQuery, project: &Value, board: &Value, html: &mut HtmlWriter) {
    html.element(
        "<form method=\"get\" action=\"/board.html\" role=\"search\" aria-label=\"",
        wish.say("filter"),
        "\">",
    );
    // A GET form replaces the whole query, so the project and the language travel with it.
    html.element("<input type=\"hidden\" name=\"project\" value=\"", text(project, "key"), "\">");
    html.element("<input type=\"hidden\" name=\"lang\" value=\"", wish.lang.code(), "\">");
    html.element("<label>", wish.say("text"), " <input type=\"search\" name=\"text\" value=\"");
    html.text(wish.get("text").unwrap_or_default()).mark("\"></label>");
    let labels = list(board, "labels").iter().filter_map(Value::as_str);
    options(wish, "<label>", "label", " <select name=\"label\"><option value=\"\">", labels, html);
    let priorities = ["critical", "high", "medium", "low"].into_iter();
    options(wish, "<label>", "priority", " <select name=\"priority\"><option value=\"\">", priorities, html);
    html.mark("<label><input type=\"checkbox\" name=\"ready\" value=\"1\"");
    html.mark(if wish.get("ready").is_some() { " checked> " } else { "> " });
    html.text(wish.say("ready only")).mark("</label>");
    html.element("<button type=\"submit\">", wish.say("show"), "</button></form>");
}

fn options<'a>(
    wish: &BoardQuery,
    open: &'static str,
    name: &str,
    select: &'static str,
    values: impl Iterator<Item = &'a str>,
    html: &mut HtmlWriter,
) {
    html.element(open, wish.say(name), select).text(wish.say("all")).mark("</option>");
    for value in values {
        html.element("<option value=\"", value, "\"");
        html.mark(if wish.get(name) == Some(value) { " selected>" } else { ">" });
        // Priorities have translations. Labels are shown as agents wrote them.
        html.text(if name == "priority" { wish.say(value) } else { value }).mark("</option>");
    }
    html.mark("</select></label>");
}

/// Where people say who they are.
fn door(asked: &FaceRequest<'_>, wish: &BoardQuery, is_wrong: bool) -> HtmlWriter {
    let mut html = HtmlWriter::default();
    for (label, address) in asked.gateway.guard().logins().into_iter().flat_map(LoginService::providers) {
        html.element("<p><a href=\"", &address, "?page=board\">")
            .text(wish.say("sign in"))
            .element(": ", label, "</a></p>");
    }
    html.element("<p>", wish.say("who"), "</p>");
    if is_wrong {
        html.element("<p class=\"notice\" role=\"alert\">", wish.say("wrong key"), "</p>");
    }
    html.mark("<form method=\"post\" action=\"/board.html\"><label>").text(wish.say("key"));
    html.mark(" <input type=\"password\" name=\"key\" required autocomplete=\"current-password\"></label>");
    html.element("<button type=\"submit\">", wish.say("sign in"), "</button></form>");
    html
}

fn give(status: StatusCode, wish: &BoardQuery, content: HtmlWriter) -> Response<ResponseBody> {
    let mut html = HtmlWriter::default();
    html.element("<!doctype html>\n<html lang=\"", wish.lang.code(), "\"><head><meta charset=\"utf-8\">");
    html.mark("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    html.mark("<meta name=\"color-scheme\" content=\"light dark\">");
    html.element("<title>", wish.say("board"), " · tsugi</title><style>").mark(STYLE).mark("</style></head><body>");
    html.element("<header><h1>tsugi · ", wish.say("board"), "</h1><p class=\"sub\">").text(wish.say("as of"));
    html.element(" ", &minute(now()), " · <a href=\"/#/board\">").text(wish.say("live.open")).mark("</a> · ");
    html.mark("<a href=\"/board.html?lang=en\" lang=\"en\">English</a> · ");
    html.mark("<a href=\"/board.html?lang=ja\" lang=\"ja\">日本語</a></p></header><main>");
    let body = format!("{}{}</main></body></html>\n", html.done(), content.done());
    let mut response = Response::new(ResponseBody::one(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(CONTENT_SECURITY_POLICY, POLICY.clone());
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_measured_from_its_last_renewal() {
        let hold = json!({"acquired_at": 0, "renewed_at": 100_000, "expires_at": 140_000});
        for (now, expected) in [(100_000, "good"), (129_000, "good"), (130_001, "low"), (140_000, "gone")] {
            assert_eq!(lease(&hold, now), expected, "{now}");
        }
    }
}
