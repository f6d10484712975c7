//! How many wrong credentials one client address may send before it is refused without a look at them.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::StatusCode;
use parking_lot::Mutex;
use tsugi_protocol::answer::FaultCode;

use super::refusal::HttpRefusal;

/// Wrong credentials that an address may send in one burst.
const BURST: f64 = 20.0;
/// How many more it may send each second in the long run: ten a minute.
const PER_SECOND: f64 = 10.0 / 60.0;
/// After this long without a wrong credential every address is free again.
const FORGET: Duration = Duration::from_secs(120);
/// Addresses in each of the two halves of the table: 10,000 in all.
const HALF: usize = 5_000;

/// Counts wrong credentials by client address. Its size is bounded; the addresses that were quiet longest go first.
#[derive(Debug)]
pub(super) struct GuessLimiter {
    begun: Instant,
    /// Milliseconds since `begun` after which nothing is known of any address. Zero before the first wrong credential,
    /// so that a gateway under no attack takes no lock.
    busy_until: AtomicU64,
    table: Mutex<GuessTable>,
}

#[derive(Debug, Default)]
struct GuessTable {
    /// Addresses that guessed lately.
    recent: HashMap<IpAddr, GuessLevel>,
    /// Addresses that guessed before `recent` was begun. They go all at once when `recent` is full.
    older: HashMap<IpAddr, GuessLevel>,
}

/// How many wrong credentials count now; it sinks by itself.
#[derive(Debug, Clone, Copy)]
struct GuessLevel {
    guesses: f64,
    at: Instant,
}

impl GuessLevel {
    fn now(self, now: Instant) -> f64 {
        (self.guesses - now.saturating_duration_since(self.at).as_secs_f64() * PER_SECOND).max(0.0)
    }
}

impl GuessLimiter {
    pub(super) fn new(now: Instant) -> Self {
        Self { begun: now, busy_until: AtomicU64::new(0), table: Mutex::default() }
    }

    /// Refuses an address that has guessed too often. `address` is asked for only after a wrong credential somewhere.
    pub(super) fn check(
        &self,
        address: impl FnOnce() -> IpAddr,
        now: impl FnOnce() -> Instant,
    ) -> Result<(), HttpRefusal> {
        let busy_until = self.busy_until.load(Ordering::Relaxed);
        if busy_until == 0 {
            return Ok(());
        }
        let now = now();
        if self.millis(now) > busy_until {
            return Ok(());
        }
        let excess = self.table.lock().level(network(address()), now) + 1.0 - BURST;
        // Arithmetic on fractions: a rounding error must not refuse the last guess of a burst.
        match excess > 1e-6 {
            true => Err(refusal(Duration::from_secs_f64(excess / PER_SECOND))),
            false => Ok(()),
        }
    }

    /// Counts a wrong credential.
    pub(super) fn count(&self, address: IpAddr, now: Instant) {
        let is_last = {
            let mut table = self.table.lock();
            // Nothing in it counts any more, and its memory is not needed.
            if self.millis(now) > self.busy_until.load(Ordering::Relaxed) {
                *table = GuessTable::default();
            }
            let level = table.add(network(address), now);
            self.busy_until.store(self.millis(now + FORGET), Ordering::Relaxed);
            level + 1.0 > BURST && level <= BURST
        };
        if is_last {
            tracing::warn!(
                %address,
                "too many wrong credentials: this address is refused for a while; \
                 if it is a proxy, name it in `gateway.trustedProxies`"
            );
        }
    }

    fn millis(&self, now: Instant) -> u64 {
        // One at least: zero means that nothing was counted yet.
        u64::try_from(now.saturating_duration_since(self.begun).as_millis()).unwrap_or(u64::MAX).max(1)
    }
}

impl GuessTable {
    fn level(&self, address: IpAddr, now: Instant) -> f64 {
        self.recent.get(&address).or_else(|| self.older.get(&address)).map_or(0.0, |level| level.now(now))
    }

    fn add(&mut self, address: IpAddr, now: Instant) -> f64 {
        let guesses = self.level(address, now) + 1.0;
        if self.recent.len() >= HALF && !self.recent.contains_key(&address) {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(address, GuessLevel { guesses, at: now });
        guesses
    }
}

fn refusal(wait: Duration) -> HttpRefusal {
    let message = "too many wrong credentials came from this address";
    // Rounded up: a client that comes back a moment too early would be refused again.
    let wait = Duration::from_secs(wait.as_secs() + 1);
    HttpRefusal::new(StatusCode::TOO_MANY_REQUESTS, FaultCode::RateLimitExceeded, message)
        .by("guesses")
        .retry_after(wait)
}

/// What one client can choose freely counts as one: an IPv6 network of 64 bits, or an IPv4 address.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guess(limiter: &GuessLimiter, address: &str, now: Instant) -> Result<(), HttpRefusal> {
        let address: IpAddr = address.parse().unwrap();
        limiter.check(|| address, || now)?;
        limiter.count(address, now);
        Ok(())
    }

    #[test]
    fn a_burst_of_guesses_is_followed_by_ten_a_minute() {
        let start = Instant::now();
        let limiter = GuessLimiter::new(start);
        assert_eq!((0..1_000).filter(|_| guess(&limiter, "192.0.2.1", start).is_ok()).count(), 20);
        let refused = guess(&limiter, "192.0.2.1", start).unwrap_err();
        assert_eq!((refused.status.as_u16(), refused.retry_after), (429, Some(Duration::from_secs(7))));
        let minute = start + Duration::from_secs(60);
        assert_eq!((0..1_000).filter(|_| guess(&limiter, "192.0.2.1", minute).is_ok()).count(), 10);
        let later = minute + FORGET + Duration::from_secs(1);
        assert_eq!((0..1_000).filter(|_| guess(&limiter, "192.0.2.1", later).is_ok()).count(), 20);
    }

    #[test]
    fn a_million_guesses_hurt_no_other_address_and_take_no_room() {
        let start = Instant::now();
        let limiter = GuessLimiter::new(start);
        // One address that keeps on, among half a million that are used once.
        for number in 0..500_000_u32 {
            let _ = guess(&limiter, "192.0.2.1", start);
            let _ = guess(&limiter, &std::net::Ipv4Addr::from(0x0a00_0000 + number).to_string(), start);
        }
        let table = limiter.table.lock();
        assert!(table.recent.len() + table.older.len() <= 2 * HALF);
        drop(table);
        assert!(guess(&limiter, "198.51.100.7", start).is_ok(), "a bystander");
    }

    #[test]
    fn an_ipv6_network_is_one_client_and_a_mapped_address_is_its_ipv4() {
        let start = Instant::now();
        let limiter = GuessLimiter::new(start);
        let passed = (0..100).filter(|number| guess(&limiter, &format!("2001:db8:1:2::{number:x}"), start).is_ok());
        assert_eq!(passed.count(), 20);
        assert!(guess(&limiter, "2001:db8:1:3::1", start).is_ok(), "the network beside it");
        for _ in 0..20 {
            guess(&limiter, "192.0.2.9", start).unwrap();
        }
        assert!(guess(&limiter, "::ffff:192.0.2.9", start).is_err());
    }

    #[test]
    fn a_gateway_without_wrong_credentials_asks_for_neither_address_nor_clock() {
        let limiter = GuessLimiter::new(Instant::now());
        limiter.check(|| unreachable!("no address is needed"), || unreachable!("no clock is needed")).unwrap();
    }
}
