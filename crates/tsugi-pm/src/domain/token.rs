//! An access token: how an agent proves over HTTP that it is that agent.

use serde::{Deserialize, Serialize};

use super::id::{AgentId, TokenId};
use super::time::Moment;

/// A token as it is stored: only the digest of its secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AccessToken {
    pub id: TokenId,
    /// Whom it stands for.
    pub agent_id: AgentId,
    /// SHA-256 of the secret, in hexadecimal.
    pub hash: String,
    /// What it may be used for.
    pub scopes: Vec<String>,
    /// When it was made.
    pub created_at: Moment,
    /// When it stops working.
    pub expires_at: Option<Moment>,
    /// When it was withdrawn.
    pub revoked_at: Option<Moment>,
    /// Grows by one with each change.
    pub version: i64,
}

impl AccessToken {
    /// Whether it still works.
    pub fn is_valid(&self, now: Moment) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }
}
