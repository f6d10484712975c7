//! What a child may touch: the policy as written, its meaning on this machine, and the report of what is enforced.
//!
//! Confinement happens in the child itself, between the guardian's fork and `execve`; see [`linux`].

mod policy;
mod report;

#[cfg(target_os = "linux")]
pub(crate) mod linux;
#[cfg(not(target_os = "linux"))]
mod none;

pub use policy::{CacheAccess, Isolation, MemorySize, NetworkAccess, SandboxPolicy, SandboxRules};
pub use report::{Enforcement, SandboxReport};

#[cfg(target_os = "linux")]
pub(crate) use linux::{Confinement, plan};
#[cfg(not(target_os = "linux"))]
pub(crate) use none::{Confinement, plan};
