//! Where a person goes on after a sign-in: a view of our own page, and never an address of another site.

use serde::{Deserialize, Serialize};
use url::form_urlencoded;

const LONGEST_VIEW: usize = 512;

/// A page of the gateway. There is no variant for an address, so no request can make the sign-in lead elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReturnPlace {
    /// The dashboard at this view, which is the part of the address after `#`.
    Dashboard(String),
    /// The board for readers without JavaScript.
    PlainBoard,
}

impl ReturnPlace {
    /// From the query of the request that begins a sign-in: `view=/servers/files`, or `page=board`.
    pub fn parse(query: &str) -> Self {
        let value = |wanted: &str| form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == wanted);
        if value("page").is_some_and(|(_, page)| page == "board") {
            return Self::PlainBoard;
        }
        let view = value("view").map(|(_, view)| view.into_owned()).filter(|view| is_view(view));
        Self::Dashboard(view.unwrap_or_default())
    }

    /// The address without the origin. In HTML only its `&` needs escaping.
    pub fn address(&self) -> String {
        match self {
            Self::Dashboard(view) if view.is_empty() => "/".to_owned(),
            Self::Dashboard(view) => format!("/#{view}"),
            Self::PlainBoard => "/board.html".to_owned(),
        }
    }
}

/// What a view of the page can look like. Quotes, `<`, `;` and control characters are not among it.
fn is_view(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%?=&+:@,".contains(&byte);
    text.starts_with('/') && text.len() <= LONGEST_VIEW && text.bytes().all(is_plain)
}
