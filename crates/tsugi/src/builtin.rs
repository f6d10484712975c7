//! The servers that are part of tsugi, made when a configuration names them.

pub(crate) mod demo;
pub(crate) mod pm;

use std::sync::Arc;

use tsugi_protocol::answer::{Answer, Fault};

use crate::config::secret::Text;
use crate::config::settings::{Builtin, BuiltinTarget};

/// Makes the built-in server of this name; project servers are remembered in `boards`.
pub(crate) fn make(name: &str, target: &BuiltinTarget, boards: &pm::Boards) -> Result<Arc<dyn Answer>, Fault> {
    match target.builtin {
        Builtin::Demo => Ok(demo::server()),
        Builtin::Pm => boards.server_of(name, &target.args.iter().map(Text::expose).collect::<Vec<_>>()),
    }
}
