//! How often a person is asked to sign in for the same thing.

use std::time::{Duration, Instant};

use tsugi_auth::scope::ScopeSet;

use crate::failure::OauthFailure;

/// MCP *Step-Up Authorization Flow*: no more than a few times, then the refusal is final.
const MOST_ATTEMPTS: usize = 3;
const PERIOD: Duration = Duration::from_secs(600);

/// The sign-ins of the last minutes, by the scopes that the server asked for.
#[derive(Default)]
pub(super) struct SignInAttempts(Vec<(Instant, ScopeSet)>);

impl SignInAttempts {
    /// Counts one more, unless there were too many.
    pub(super) fn count(&mut self, scope: &ScopeSet, now: Instant) -> Result<(), OauthFailure> {
        self.0.retain(|(at, _)| now.saturating_duration_since(*at) < PERIOD);
        let attempts = self.0.iter().filter(|(_, asked)| asked == scope).count();
        if attempts >= MOST_ATTEMPTS {
            return Err(OauthFailure::ScopeRefused { scope: scope.clone(), attempts });
        }
        self.0.push((now, scope.clone()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::SignInAttempts;
    use tsugi_auth::scope::ScopeSet;

    #[test]
    fn the_same_scope_is_asked_for_three_times_in_ten_minutes() {
        let mut attempts = SignInAttempts::default();
        let (admin, write) = (ScopeSet::parse("admin"), ScopeSet::parse("write"));
        let start = Instant::now();
        for _ in 0..3 {
            assert!(attempts.count(&admin, start).is_ok());
        }
        assert!(attempts.count(&admin, start).is_err());
        assert!(attempts.count(&write, start).is_ok(), "another operation has its own count");
        assert!(attempts.count(&admin, start + Duration::from_secs(601)).is_ok());
    }
}
