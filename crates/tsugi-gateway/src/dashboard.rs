//! The page for people at `/`, and what it is told: servers, calls, charts, and one stream of events.
//!
//! [`page`] is the page itself, made by `dashboard/` beside this crate and embedded here; [`session`] signs people
//! in; [`recorder`] remembers calls; [`look`] shows what is there now, and [`events`] what happens.

pub(crate) mod board;
mod events;
mod histogram;
mod look;
pub mod observe;
pub(crate) mod page;
pub(crate) mod record;
pub mod recorder;
pub(crate) mod row;
mod series;
pub(crate) mod session;
pub(crate) mod viewer;

use ::http::Response;

use crate::body::Body;
use crate::face::Asked;
use crate::guard::refusal::Refusal;
use viewer::Viewer;

/// What can be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
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
    /// What stands on the board.
    Board,
    /// What happens from now on.
    Events,
}

/// Answers `GET /api/…`. `name` is what stands in the path.
pub(crate) async fn show(asked: &Asked<'_>, view: View, name: &str) -> Result<Response<Body>, Refusal> {
    let viewer = Viewer::of(asked);
    let name = percent_encoding::percent_decode_str(name).decode_utf8_lossy();
    match view {
        View::Overview => Ok(look::overview(&viewer)),
        View::Server => look::server(&viewer, &name),
        View::Calls => look::calls(&viewer, asked.parts.uri.query().unwrap_or_default()),
        View::Call => look::call(&viewer, &name),
        View::Charts => look::charts(&viewer, asked.parts.uri.query().unwrap_or_default()),
        View::Board => board::show(&viewer, &name, asked.parts.uri.query().unwrap_or_default()).await,
        View::Events => events::open(&viewer, asked),
    }
}
