//! The end of the audit log, for administrators.

use ::http::Response;

use super::overview::give;
use super::viewer::DashboardViewer;
use crate::audit::AuditQuery;
use crate::body::ResponseBody;
use crate::guard::refusal::HttpRefusal;

/// Lines on the page.
const LIMIT: usize = 200;

/// `GET /api/audit`
pub(super) async fn show(viewer: &DashboardViewer, query: &str) -> Result<Response<ResponseBody>, HttpRefusal> {
    if !viewer.is_admin() {
        // It names every caller, whatever this one may use.
        return Err(HttpRefusal::forbidden("the audit log needs an admin key").by("role"));
    }
    let Some(trail) = viewer.gateway.metrics().audit().cloned() else {
        return Err(HttpRefusal::bad_request("this gateway has no audit log: the configuration names none in `audit`"));
    };
    let mut wanted = AuditQuery { limit: LIMIT, ..AuditQuery::default() };
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()).filter(|(_, value)| !value.is_empty()) {
        match &*name {
            "kind" => wanted.kind = Some(value.into_owned()),
            "identity" => wanted.identity = Some(value.into_owned()),
            _ => {}
        }
    }
    // Files are read on a thread that may block.
    let looked = tokio::task::spawn_blocking(move || trail.look(&wanted)).await;
    match looked {
        Ok(Ok(look)) => Ok(give(&look)),
        Ok(Err(fault)) => Err(HttpRefusal::bad_request(fault.message)),
        Err(_) => Err(HttpRefusal::bad_request("the audit log cannot be read")),
    }
}
