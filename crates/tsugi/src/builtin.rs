//! The servers that are part of tsugi, made when a configuration names them.

pub(crate) mod demo;
pub(crate) mod pm;

use std::sync::Arc;

use tsugi_protocol::answer::{Answer, Fault};

use crate::config::secret::Text;
use crate::config::settings::{Builtin, BuiltinTarget};

/// Makes a built-in server.
pub(crate) fn make(target: &BuiltinTarget) -> Result<Arc<dyn Answer>, Fault> {
    match target.builtin {
        Builtin::Demo => Ok(demo::server()),
        Builtin::Pm => pm::server_of(&target.args.iter().map(Text::expose).collect::<Vec<_>>()),
    }
}
