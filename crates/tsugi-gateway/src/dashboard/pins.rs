//! What differs from its pin, for administrators: both definitions side by side, and the order to accept one.

use ::http::{Response, StatusCode};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use tsugi_pins::member_diff::member_diff;
use tsugi_pins::store::{AcceptError, PinReview};
use tsugi_pins::{PinKey, PinKind, PinStore, PinnedDefinition};
use tsugi_protocol::answer::FaultCode;

use super::overview;
use super::viewer::DashboardViewer;
use crate::admin::expect_admin;
use crate::body::ResponseBody;
use crate::face::FaceRequest;
use crate::guard::refusal::HttpRefusal;

/// `GET /api/pins`
pub(super) fn show(viewer: &DashboardViewer, asked: &FaceRequest<'_>) -> Result<Response<ResponseBody>, HttpRefusal> {
    expect_admin(asked)?;
    Ok(overview::give(&described(viewer.backend().pins())))
}

fn described(pins: Option<&PinStore>) -> Value {
    let Some(pins) = pins else { return json!({"file": null, "differences": []}) };
    let differences: Vec<Value> = pins.reviews().iter().map(difference).collect();
    json!({"file": pins.path(), "differences": differences})
}

fn difference(review: &PinReview) -> Value {
    let drift = &review.drift;
    let side = |side: &Option<PinnedDefinition>| side.as_ref().map(|side| side.digest.to_string());
    json!({
        "server": drift.key.server,
        "kind": drift.key.kind,
        "name": drift.key.name,
        "change": drift.change,
        "effect": review.effect,
        "claimedFrom": review.claimed_from,
        "old": side(&drift.old),
        "new": side(&drift.new),
        "findings": review.findings.iter().map(|finding| json!({
            "rule": finding.rule, "what": finding.rule.explain(), "place": finding.place, "excerpt": finding.excerpt,
        })).collect::<Vec<_>>(),
        "members": member_diff(drift.old.as_ref(), drift.new.as_ref()),
    })
}

/// What a person accepts: the thing, and the digest of what the page showed.
#[derive(Debug, Deserialize)]
struct AcceptedDifference {
    server: String,
    kind: String,
    name: String,
    /// Absent for something that was removed.
    new: Option<String>,
}

/// `POST /api/pins`
pub(crate) fn accept(asked: &FaceRequest<'_>, body: &Bytes) -> Result<Response<ResponseBody>, HttpRefusal> {
    expect_admin(asked)?;
    // A browser sends the cookie with requests of any page.
    asked.gateway.guard().expect_own_page(asked.parts)?;
    let viewer = DashboardViewer::of(asked);
    let Some(pins) = viewer.backend().pins() else {
        return Err(HttpRefusal::new(StatusCode::NOT_FOUND, FaultCode::InvalidRequest, "nothing is pinned here"));
    };
    let accepted: AcceptedDifference = serde_json::from_slice(body)
        .map_err(|error| HttpRefusal::bad_request(format!("the body is not a difference to accept: {error}")))?;
    let kind = PinKind::from_word(&accepted.kind).ok_or_else(|| HttpRefusal::bad_request("`kind` is not known"))?;
    let seen = accepted.new.map(|digest| digest.parse()).transpose();
    let seen = seen.map_err(|error| HttpRefusal::bad_request(format!("`new` is not a digest: {error}")))?;
    let key = PinKey::new(accepted.server, kind, accepted.name);
    match pins.accept(&key, seen, &viewer.principal.caller().identity().to_string()) {
        Ok(()) => {
            // The server's lists are judged again, so that callers see what was accepted.
            viewer.backend().pins_changed(&key.server);
            Ok(overview::give(&described(Some(pins))))
        }
        Err(error @ (AcceptError::NothingToAccept(_) | AcceptError::ChangedAgain(_))) => {
            Err(HttpRefusal::new(StatusCode::CONFLICT, FaultCode::InvalidRequest, error.to_string()))
        }
        Err(AcceptError::Store(error)) => {
            Err(HttpRefusal::new(StatusCode::INTERNAL_SERVER_ERROR, FaultCode::InternalError, error.to_string()))
        }
    }
}
