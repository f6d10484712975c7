//! Host names to addresses, by the system or, in tests, by a function.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

type LookupFunction = dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync;

/// Finds the addresses of a host name. Cheap to clone.
#[derive(Clone)]
pub struct NameLookup(Arc<LookupFunction>);

impl NameLookup {
    /// The lookup of the system: its hosts file, its search domains, its name servers.
    pub fn system() -> Self {
        Self::from_fn(|name| async move {
            // The port is not looked up; the system wants one all the same.
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }

    /// A lookup that asks this function.
    pub fn from_fn<F>(function: impl Fn(String) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<Vec<IpAddr>>> + Send + 'static,
    {
        Self(Arc::new(move |name| function(name).boxed()))
    }

    /// All addresses of a name.
    pub async fn find(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        (self.0)(name.to_owned()).await
    }
}

impl Default for NameLookup {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for NameLookup {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("NameLookup")
    }
}
