//! The built-in servers.

pub(crate) mod demo;
pub(crate) mod pm;

use std::sync::Arc;

use tsugi_protocol::answer::{Answer, Fault};

use crate::config::secret::MaskedText;
use crate::config::settings::{BuiltinServer, BuiltinTarget};

/// Creates a built-in server. Project servers are registered in `boards`.
pub(crate) fn make(name: &str, target: &BuiltinTarget, boards: &pm::PmBoards) -> Result<Arc<dyn Answer>, Fault> {
    match target.builtin {
        BuiltinServer::Demo => Ok(demo::server()),
        BuiltinServer::Pm => boards.server_of(name, &target.args.iter().map(MaskedText::expose).collect::<Vec<_>>()),
    }
}
