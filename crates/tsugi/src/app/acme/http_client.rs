//! Carries the requests of an order to the authority, through the outbound guard.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use tsugi_transport::guarded_fetch::{FetchLimits, GuardedFetch};

/// A chain of certificates is a few KiB; an authority may be slow to answer.
const LIMITS: FetchLimits = FetchLimits { bytes: 256 << 10, redirects: 0, time: Duration::from_secs(30) };

pub(super) struct AuthorityClient(pub(super) GuardedFetch);

impl HttpClient for AuthorityClient {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let fetch = self.0.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            // Their body is in memory and cannot fail.
            let Ok(body) = body.collect().await;
            let answer = fetch.send_bytes(Request::from_parts(parts, body.to_bytes()), LIMITS).await;
            let answer = answer.map_err(|error| Error::Other(Box::new(error)))?;
            Ok(BytesResponse::from(answer.map(Full::new)))
        })
    }
}
