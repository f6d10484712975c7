//! The servers that are part of tsugi, made when a configuration names them.

pub(crate) mod demo;

use std::sync::Arc;

use tsugi_protocol::answer::{Answer, Fault, FaultCode};

use crate::config::settings::{Builtin, BuiltinTarget};

/// Makes a built-in server.
pub(crate) fn make(target: &BuiltinTarget) -> Result<Arc<dyn Answer>, Fault> {
    match target.builtin {
        Builtin::Demo => Ok(demo::server()),
        Builtin::Pm => Err(Fault::new(FaultCode::ConfigInvalid, "the built-in server `pm` is not part of this build")),
    }
}
