//! Who looks: administrators see everything, others what their key lets them use.

use std::sync::Arc;

use crate::backend::{Backend, BoardViewer};
use crate::face::FaceRequest;
use crate::gateway::Gateway;
use crate::guard::caller_access::CallerAccess;
use crate::guard::principal::Principal;

use super::record::CallRecord;
use super::recorder::CallRecorder;

/// A person who looks at the dashboard.
pub(crate) struct DashboardViewer {
    pub(super) gateway: Arc<Gateway>,
    pub(super) principal: Principal,
}

impl DashboardViewer {
    pub(super) fn of(asked: &FaceRequest<'_>) -> Self {
        Self { gateway: asked.gateway.clone(), principal: asked.principal.clone() }
    }

    pub(super) fn backend(&self) -> &dyn Backend {
        self.gateway.backend()
    }

    pub(super) fn recorder(&self) -> &Arc<CallRecorder> {
        self.gateway.metrics().recorder()
    }

    pub(super) fn is_admin(&self) -> bool {
        self.principal.is_admin()
    }

    /// Who this is to the board.
    pub(super) fn looker(&self) -> BoardViewer<'_> {
        match self.principal.is_reader() {
            true => BoardViewer::ReadOnly,
            false => BoardViewer::Caller(self.principal.caller()),
        }
    }

    /// What may be seen now. A key can be taken away while a page is open.
    pub(super) fn access(&self) -> CallerAccess {
        self.gateway.guard().access(self.principal.caller())
    }

    /// Whether a server is shown.
    pub(super) fn sees_server(&self, server: &str) -> bool {
        self.access().allows_some_of(server)
    }

    /// Whether one thing of a server is shown.
    pub(super) fn sees(&self, server: &str, name: &str) -> bool {
        self.access().lists_any(server, name)
    }

    pub(super) fn sees_call(&self, call: &CallRecord) -> bool {
        self.sees(&call.started.server, &call.started.subject)
    }

    /// Whether the words of a call, its arguments and its result may be shown: to administrators, and to its caller.
    pub(super) fn may_read(&self, call: &CallRecord) -> bool {
        self.is_admin() || call.started.caller.owner() == self.principal.caller().owner()
    }

    /// A call as this viewer may know it. The words of an error may repeat what another caller sent.
    pub(super) fn shown(&self, mut call: CallRecord) -> CallRecord {
        if !self.may_read(&call) {
            call.problem = call.problem.map(|problem| Box::new(problem.bare()));
        }
        call
    }

    /// Whether the one who looks may still look: a sign-in or a key can end while a page is open.
    pub(super) fn is_still_in(&self) -> bool {
        self.gateway.guard().still_admits(&self.principal)
    }
}
