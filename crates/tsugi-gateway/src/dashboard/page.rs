//! The page itself: two embedded files, compressed when this crate is built, under a strict policy.

use ::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use ::http::{HeaderMap, HeaderValue, Response, StatusCode};
use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use bytes::Bytes;
use ring::digest::{SHA256, digest};
use std::sync::LazyLock;

use crate::body::ResponseBody;

/// Nothing from elsewhere, nothing inline but the one style that the document brings, no frame around it.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'sha256-{}'; img-src 'self' data: blob:; \
         media-src data: blob:; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
        style_hash(INDEX.plain)
    );
    HeaderValue::try_from(policy).expect("base64 is plain text")
});

/// A file of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageFile {
    /// `index.html`
    Index,
    /// `app.js`
    Script,
}

struct EmbeddedFile {
    kind: &'static str,
    plain: &'static [u8],
    gzip: &'static [u8],
    etag: LazyLock<HeaderValue>,
}

macro_rules! embedded {
    ($name:literal, $kind:literal) => {{
        const PLAIN: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/dashboard/dist/", $name));
        const GZIP: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".gz"));
        EmbeddedFile { kind: $kind, plain: PLAIN, gzip: GZIP, etag: LazyLock::new(|| etag_of(PLAIN)) }
    }};
}

static INDEX: EmbeddedFile = embedded!("index.html", "text/html; charset=utf-8");
static SCRIPT: EmbeddedFile = embedded!("app.js", "text/javascript; charset=utf-8");

/// The digest by which the policy knows the document's own style; the style itself is made when the page is built.
fn style_hash(document: &[u8]) -> String {
    let text = std::str::from_utf8(document).expect("the page is text");
    let style = text.split_once("<style>").and_then(|(_, rest)| rest.split_once("</style>"));
    let (style, _) = style.expect("the page has a style");
    BASE64.encode(digest(&SHA256, style.as_bytes()))
}

fn etag_of(bytes: &[u8]) -> HeaderValue {
    let hash = digest(&SHA256, bytes);
    let short: String = hash.as_ref().iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    // A weak one: the compressed file is the same page in other bytes.
    HeaderValue::try_from(format!("W/\"{short}\"")).expect("hexadecimal is plain text")
}

/// Gives a file, or says that the browser's copy still holds.
pub(crate) fn serve(file: PageFile, asked: &HeaderMap) -> Response<ResponseBody> {
    let embedded = match file {
        PageFile::Index => &INDEX,
        PageFile::Script => &SCRIPT,
    };
    let is_held = list(asked, &IF_NONE_MATCH).any(|tag| tag.as_bytes() == embedded.etag.as_bytes() || tag == "*");
    let is_packed = takes_gzip(asked);
    let body = match (is_held, is_packed) {
        (true, _) => ResponseBody::empty(),
        (false, true) => ResponseBody::one(Bytes::from_static(embedded.gzip)),
        (false, false) => ResponseBody::one(Bytes::from_static(embedded.plain)),
    };
    let mut response = Response::new(body);
    *response.status_mut() = if is_held { StatusCode::NOT_MODIFIED } else { StatusCode::OK };
    let headers = response.headers_mut();
    if is_packed && !is_held {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(embedded.kind));
    headers.insert(ETAG, embedded.etag.clone());
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(CONTENT_SECURITY_POLICY, POLICY.clone());
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

fn list<'a>(headers: &'a HeaderMap, name: &::http::HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    list(headers, &ACCEPT_ENCODING).any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        name.trim().eq_ignore_ascii_case("gzip") && !matches!(quality.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000")
    })
}
