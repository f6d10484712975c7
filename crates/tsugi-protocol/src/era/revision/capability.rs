//! A client's capabilities in revisions that do not know all of them.

use crate::json::RawJson;
use crate::json::rewrite::{self, MemberEdit};
use crate::mcp::{ClientCapabilities, ProtocolVersion};

/// The capabilities to declare to a server of this revision. Elicitation came with 2025-06-18, with forms
/// only and no word for them; since 2025-11-25 it has modes. A client that can show no form says nothing to
/// a server that could only ask for one. Capabilities that no revision defines stay.
pub(crate) fn client_capabilities(capabilities: &ClientCapabilities, version: ProtocolVersion) -> ClientCapabilities {
    if version >= ProtocolVersion::V2025_11_25 {
        return capabilities.clone();
    }
    let has_form = version >= ProtocolVersion::V2025_06_18 && capabilities.has_form_elicitation();
    ClientCapabilities::from_object(rewrite::members(capabilities.object(), |key, _| match key {
        "elicitation" if has_form => MemberEdit::Replace(RawJson::literal("{}")),
        "elicitation" => MemberEdit::Drop,
        _ => MemberEdit::Keep,
    }))
}
