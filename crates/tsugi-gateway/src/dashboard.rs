//! The page for people at `/`, and what it is told: servers, calls, charts, and one stream of events.
//!
//! [`page`] is the page itself, made by `dashboard/` beside this crate and embedded here; [`session`] signs people
//! in; [`recorder`] remembers calls; [`look`] shows what is there now, and [`events`] what happens.

mod audit_look;
pub(crate) mod board;
mod client_names;
mod events;
mod histogram;
pub(crate) mod login;
pub mod observe;
mod overview;
pub(crate) mod page;
pub mod payload;
pub(crate) mod pins;
pub(crate) mod record;
pub mod recorder;
pub(crate) mod row;
mod series;
pub(crate) mod sign_in;
pub(crate) mod viewer;

use ::http::Response;

use crate::body::ResponseBody;
use crate::face::FaceRequest;
use crate::guard::refusal::HttpRefusal;
use viewer::DashboardViewer;

/// What can be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DashboardView {
    /// All servers.
    Overview,
    /// One server.
    Server,
    /// The last calls.
    Calls,
    /// One call.
    Call,
    /// The last hour.
    Charts,
    /// The end of the audit log.
    Audit,
    /// What stands on the board.
    Board,
    /// What differs from its pin.
    Pins,
    /// What happens from now on.
    Events,
}

/// Answers `GET /api/…`. `name` is what stands in the path.
pub(crate) async fn show(
    asked: &FaceRequest<'_>,
    view: DashboardView,
    name: &str,
) -> Result<Response<ResponseBody>, HttpRefusal> {
    let viewer = DashboardViewer::of(asked);
    let name = percent_encoding::percent_decode_str(name).decode_utf8_lossy();
    match view {
        DashboardView::Overview => Ok(overview::overview(&viewer)),
        DashboardView::Server => overview::server(&viewer, &name),
        DashboardView::Calls => overview::calls(&viewer, asked.parts.uri.query().unwrap_or_default()),
        DashboardView::Call => overview::call(&viewer, &name),
        DashboardView::Charts => overview::charts(&viewer, asked.parts.uri.query().unwrap_or_default()),
        DashboardView::Audit => audit_look::show(&viewer, asked.parts.uri.query().unwrap_or_default()).await,
        DashboardView::Board => board::show(&viewer, &name, asked.parts.uri.query().unwrap_or_default()).await,
        DashboardView::Pins => pins::show(&viewer, asked),
        DashboardView::Events => events::open(&viewer, asked),
    }
}
