//! Access tokens in a transaction; only their digests are stored.

use super::Tx;
use crate::domain::fault::PmFault;
use crate::domain::id::AgentId;
use crate::domain::token::AccessToken;
use crate::store::value::SqlValue;

impl Tx<'_> {
    /// The token with this digest.
    pub(crate) fn token_by_hash(&mut self, hash: &str) -> Result<Option<AccessToken>, PmFault> {
        self.select_one("WHERE t.hash = ?1", &[hash.into()])
    }

    /// An agent's tokens, newest first.
    pub(crate) fn token_list(&mut self, agent: Option<&AgentId>) -> Result<Vec<AccessToken>, PmFault> {
        let values: [SqlValue; 1] = [agent.map(AgentId::as_str).into()];
        self.select("WHERE CAST(?1 AS TEXT) IS NULL OR t.agent_id = ?1 ORDER BY t.created_at DESC, t.id", &values)
    }
}
