//! Decide which network addresses may be reached, and reach no others.
//!
//! Everything that tsugi fetches on the word of another party goes through an [`OutboundGuard`]: metadata of
//! authorization servers, servers that were added over HTTP, and what a sandboxed program asks the
//! [egress proxy](egress::EgressProxy) for. The guard checks the address as text, looks its host up once, checks every
//! answer, and connects to one of the addresses that it checked.

pub mod address;
pub mod allow;
pub mod egress;
mod guard;
mod lookup;
mod network;
mod refusal;

pub use allow::{AllowList, HostPattern, PatternFault};
pub use egress::EgressList;
pub use guard::{GuardedTarget, OutboundGuard, OutboundRules, TargetHost, check_configured};
pub use lookup::NameLookup;
pub use network::{AddressNetwork, NetworkFault};
pub use refusal::{DialError, OutboundRefusal};
