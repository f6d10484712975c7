//! Waits on a port of this machine for the browser to come back (RFC 8252 §7.3).

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

use crate::browser::{SignInBrowser, SignInWindow};
use crate::failure::OauthFailure;

/// The path of the redirect address. A metadata document lists it without a port.
pub const CALLBACK_PATH: &str = "/callback";
/// How long a person may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long a browser may take to send its request, and the longest request that is read.
const REQUEST_TIME: Duration = Duration::from_secs(5);
const MAX_REQUEST: usize = 16 * 1024;

const DONE: &str = "<!doctype html><meta charset=utf-8><title>tsugi</title><p>You can close this window.";

/// Shows an address to the person, and may take the answer from them where their browser runs elsewhere.
pub trait PageOpener: Send + Sync {
    fn open(&self, page: &Url);

    /// An address that the person copied from their browser. Waits as long as there is none.
    fn pasted(&self) -> BoxFuture<'static, Option<String>> {
        Box::pin(std::future::pending())
    }
}

/// A browser on this machine, or one whose last address is pasted back.
pub struct LoopbackBrowser {
    opener: Arc<dyn PageOpener>,
}

impl LoopbackBrowser {
    pub fn new(opener: Arc<dyn PageOpener>) -> Self {
        Self { opener }
    }
}

impl SignInBrowser for LoopbackBrowser {
    fn prepare(&self) -> BoxFuture<'_, Result<Box<dyn SignInWindow>, OauthFailure>> {
        Box::pin(async {
            let failed = |_| OauthFailure::SignInAborted("no port of this machine could be opened");
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(failed)?;
            let port = listener.local_addr().map_err(failed)?.port();
            let redirect = format!("http://127.0.0.1:{port}{CALLBACK_PATH}");
            Ok(Box::new(LoopbackWindow { listener, redirect, opener: self.opener.clone() }) as Box<dyn SignInWindow>)
        })
    }
}

struct LoopbackWindow {
    listener: TcpListener,
    redirect: String,
    opener: Arc<dyn PageOpener>,
}

impl SignInWindow for LoopbackWindow {
    fn redirect_uri(&self) -> &str {
        &self.redirect
    }

    fn visit(self: Box<Self>, page: Url) -> BoxFuture<'static, Result<String, OauthFailure>> {
        Box::pin(async move {
            let state = page.query_pairs().find(|(name, _)| name == "state").map(|(_, value)| value.into_owned());
            let state = state.ok_or(OauthFailure::SignInAborted("the address has no state"))?;
            self.opener.open(&page);
            let answered = async {
                tokio::select! {
                    came = wait_for(&self.listener, &self.redirect, &state) => came,
                    Some(pasted) = self.opener.pasted() => Ok(pasted),
                }
            };
            match tokio::time::timeout(PATIENCE, answered).await {
                Ok(answer) => answer,
                Err(_) => Err(OauthFailure::SignInAborted("no one signed in within ten minutes")),
            }
        })
    }
}

/// The address of the first request that has our state. Others, such as a page that guesses the port, change nothing.
async fn wait_for(listener: &TcpListener, redirect: &str, state: &str) -> Result<String, OauthFailure> {
    loop {
        let accepted = listener.accept().await;
        let (mut stream, _) = accepted.map_err(|_| OauthFailure::SignInAborted("the port was closed"))?;
        let Ok(Some(target)) = tokio::time::timeout(REQUEST_TIME, read_target(&mut stream)).await else { continue };
        let address = Url::parse(redirect).and_then(|base| base.join(&target)).ok();
        let ours = address.filter(|address| {
            let is_callback = address.path() == CALLBACK_PATH && address.as_str().starts_with(redirect);
            is_callback && address.query_pairs().any(|(name, value)| name == "state" && value == state)
        });
        let (status, body) = if ours.is_some() { ("200 OK", DONE) } else { ("404 Not Found", "") };
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
             Content-Security-Policy: default-src 'none'\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let _ = tokio::time::timeout(REQUEST_TIME, stream.write_all(answer.as_bytes())).await;
        if let Some(address) = ours {
            return Ok(address.into());
        }
    }
}

/// The target of a GET request; `None` for anything else.
async fn read_target(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        if head.len() > MAX_REQUEST || stream.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let line = std::str::from_utf8(&head).ok()?.lines().next()?;
    let target = line.strip_prefix("GET ")?.split(' ').next()?;
    target.starts_with('/').then(|| target.to_owned())
}
