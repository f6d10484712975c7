//! Settings of the policy: which files have its rules, and what follows from them.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use tsugi_gateway::guard::policy::PolicyMode;
use tsugi_policy::set::PolicySet;

use crate::config::key::settings;
use crate::config::key::shape::SchemaShape::*;
use crate::config::key::value::keyword;

settings! {
    /// Rules for what permits cannot say: who may do what with which arguments. Without this map there are none.
    policy_rules at "policy"
    keys {
        /// The files with the rules; required. They are read again when they change.
        FILES = key("files") shape(Paths);
        /// What follows from a denial. `shadow` counts it, logs it, and lets the call pass.
        MODE: PolicyMode = key("mode") value(keyword()) default("enforce");
    }
}

/// The rules, read and checked.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PolicySettings {
    pub(crate) files: Vec<PathBuf>,
    pub(crate) mode: PolicyMode,
    #[serde(skip)]
    pub(crate) set: Arc<PolicySet>,
}
