//! Lists in pages: without them a list that is too large for one answer could not be given at all.
//!
//! A cursor says after which entry the next page begins. Lists may change between two pages: entries that come and go
//! elsewhere do no harm, nothing is told twice, and when the entry itself is gone the cursor is refused.

use std::iter::Peekable;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tsugi_protocol::answer::{Call, Fault, FaultCode};

/// How much of a list is given at once. Lists that fit come whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLimit {
    /// This many entries.
    pub items: usize,
    /// About this many bytes.
    pub bytes: usize,
}

impl Default for PageLimit {
    fn default() -> Self {
        Self { items: 1000, bytes: 8 << 20 }
    }
}

/// A part of a list.
pub(super) struct ListPage<'a> {
    /// The entries as they are written.
    pub(super) items: Vec<&'a str>,
    /// The name of the last of them.
    pub(super) last: Option<&'a str>,
    /// The cursor of the page after this, when there is one.
    pub(super) next: Option<String>,
}

impl PageLimit {
    /// The page after the entry with this name, or the first one, of a list of named entries. `None` when there is no
    /// such entry.
    pub(super) fn page<'a>(
        self,
        list: &str,
        entries: impl Iterator<Item = (&'a str, &'a str)>,
        after: Option<&str>,
    ) -> Option<ListPage<'a>> {
        let mut entries = entries.peekable();
        if let Some(after) = after {
            entries.find(|(name, _)| *name == after)?;
        }
        Some(self.cut(list, &mut entries))
    }

    /// The next page of what is left of a list.
    pub(super) fn cut<'a>(
        self,
        list: &str,
        entries: &mut Peekable<impl Iterator<Item = (&'a str, &'a str)>>,
    ) -> ListPage<'a> {
        let (mut items, mut bytes, mut last) = (Vec::new(), 0, None);
        while let Some((name, written)) = entries.next_if(|(_, written)| self.has_room(items.len(), bytes, written)) {
            bytes += written.len() + 1;
            items.push(written);
            last = Some(name);
        }
        let next = entries.peek().and(last).map(|last| cursor(list, last));
        ListPage { items, last, next }
    }

    /// A page has one entry at least, however large that is.
    fn has_room(self, items: usize, bytes: usize, next: &str) -> bool {
        items == 0 || items < self.items && bytes + next.len() <= self.bytes
    }
}

/// The entry after which the page begins that a call asks for; `None` for the first page.
pub(super) fn after(list: &str, call: &Call) -> Result<Option<String>, Fault> {
    // Some programs write every member that there could be.
    match call.params.get("cursor").filter(|cursor| !cursor.is_null()) {
        None => Ok(None),
        Some(cursor) => {
            let name = cursor.as_string().and_then(|cursor| name_in(list, &cursor));
            name.map(Some).ok_or_else(|| invalid("this cursor is not one of ours"))
        }
    }
}

/// The error for a cursor whose entry is gone.
pub(super) fn gone() -> Fault {
    invalid("the list has changed and this cursor leads nowhere").with_hint("ask for the first page again")
}

fn invalid(message: &str) -> Fault {
    Fault::new(FaultCode::InvalidParams, message)
}

fn cursor(list: &str, name: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{list}\n{name}"))
}

fn name_in(list: &str, cursor: &str) -> Option<String> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
    let name = text.strip_prefix(list)?.strip_prefix('\n')?;
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: PageLimit = PageLimit { items: 2, bytes: 1000 };

    fn names(cursor: &Option<String>) -> Option<String> {
        cursor.as_deref().map(|cursor| name_in("tools", cursor).unwrap())
    }

    fn page<'a>(limit: PageLimit, entries: &[&'a str], after: Option<&str>) -> Option<ListPage<'a>> {
        limit.page("tools", entries.iter().map(|name| (*name, *name)), after)
    }

    /// Every page after the other, starting anew from what the last one said.
    fn walk(limit: PageLimit, entries: &[&str]) -> Vec<Vec<String>> {
        let (mut pages, mut after) = (Vec::new(), None);
        loop {
            let page = page(limit, entries, after.as_deref()).unwrap();
            pages.push(page.items.iter().map(|item| item.to_string()).collect());
            after = names(&page.next);
            if after.is_none() {
                return pages;
            }
        }
    }

    #[test]
    fn pages_hold_every_entry_once_and_a_list_that_fits_comes_whole() {
        assert_eq!(walk(LIMIT, &["a", "b", "c", "d", "e"]), [vec!["a", "b"], vec!["c", "d"], vec!["e"]]);
        assert_eq!(walk(LIMIT, &["a", "b"]), [vec!["a", "b"]]);
        assert_eq!(walk(LIMIT, &[]), [Vec::<String>::new()]);
    }

    #[test]
    fn a_page_ends_before_it_is_too_large_but_is_never_empty() {
        let small = PageLimit { items: 100, bytes: 6 };
        assert_eq!(walk(small, &["aa", "bb", "cccccccccc", "d"]), [vec!["aa", "bb"], vec!["cccccccccc"], vec!["d"]]);
    }

    #[test]
    fn a_cursor_outlives_changes_elsewhere_and_fails_when_its_entry_is_gone() {
        let first = page(LIMIT, &["a", "b", "c"], None).unwrap();
        let after = names(&first.next);
        assert_eq!(page(LIMIT, &["new", "b", "c", "d"], after.as_deref()).unwrap().items, ["c", "d"]);
        assert!(page(LIMIT, &["a", "c"], after.as_deref()).is_none());
    }

    #[test]
    fn a_cursor_of_somebody_else_or_of_another_list_is_refused() {
        let call = |cursor: serde_json::Value| {
            let params = tsugi_protocol::json::JsonObject::from(serde_json::json!({"cursor": cursor}));
            Call::new(tsugi_protocol::mcp::Method::ToolsList, params)
        };
        assert_eq!(after("tools", &call(cursor("tools", "x").into())).unwrap().as_deref(), Some("x"));
        assert_eq!(after("tools", &call(serde_json::Value::Null)).unwrap(), None);
        for strange in [serde_json::json!("abc"), serde_json::json!(7), cursor("prompts", "x").into()] {
            assert_eq!(after("tools", &call(strange)).unwrap_err().code, FaultCode::InvalidParams);
        }
    }
}
