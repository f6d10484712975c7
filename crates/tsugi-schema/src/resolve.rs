//! Follows `$ref` inside one document and never out of it.

use serde_json::{Map, Value};
use std::collections::HashMap;
use url::Url;

use crate::error::SchemaError;
use crate::keyword::inner_schemas;
use crate::pointer::JsonPointer;

/// What a document is called when it does not say.
const UNNAMED: &str = "json-schema:///";
/// Deeper schemas are refused; this keeps the walk off the end of the stack.
const MAX_DEPTH: usize = 128;

/// A schema found by following a reference.
#[derive(Debug, Clone)]
pub struct ResolvedSchema<'a> {
    /// Where it is in the document.
    pub pointer: JsonPointer,
    pub schema: &'a Value,
}

/// A schema document with its named places.
#[derive(Debug)]
pub struct SchemaDocument<'a> {
    root: &'a Value,
    base: Url,
    /// Places by absolute URI, with the fragment for anchors.
    places: HashMap<String, ResolvedSchema<'a>>,
    /// The URI that references below a place are relative to, for places with an identifier of their own.
    bases: HashMap<JsonPointer, Url>,
}

impl<'a> SchemaDocument<'a> {
    /// Reads the identifiers and anchors of a schema document.
    pub fn new(root: &'a Value) -> Self {
        let unnamed = Url::parse(UNNAMED).expect("the address of unnamed documents parses");
        let base = root
            .as_object()
            .and_then(identifier)
            .and_then(|id| unnamed.join(id).ok())
            .map_or(unnamed, without_fragment);
        let mut document = Self { root, base: base.clone(), places: HashMap::new(), bases: HashMap::new() };
        document.index(root, &JsonPointer::root(), &base, 0);
        document
    }

    pub fn root(&self) -> &'a Value {
        self.root
    }

    /// Follows `reference` as written at `from`: in a schema, or at its keyword.
    pub fn follow(&self, reference: &str, from: &JsonPointer) -> Result<ResolvedSchema<'a>, SchemaError> {
        let leaves = || SchemaError::ReferenceLeaves { pointer: from.clone(), reference: reference.to_owned() };
        let target = self.base_at(from).join(reference).map_err(|_| leaves())?;
        let fragment = decoded_fragment(&target);
        // What is not indexed is another document, and those are never fetched.
        let resource = self.places.get(without_fragment(target.clone()).as_str()).ok_or_else(leaves)?;
        let found = match fragment.as_deref() {
            None | Some("") => Some(resource.clone()),
            Some(path) if path.starts_with('/') => below(resource, path),
            // Anchors are indexed together with their fragment.
            Some(_) => self.places.get(target.as_str()).cloned(),
        };
        found.ok_or_else(|| SchemaError::ReferenceDangles { pointer: from.clone(), reference: reference.to_owned() })
    }

    /// All places that a `$dynamicRef` to this anchor might mean.
    pub fn dynamic_candidates(&self, anchor: &str) -> Vec<ResolvedSchema<'a>> {
        let suffix = format!("#{anchor}");
        self.places
            .iter()
            .filter(|(address, _)| address.ends_with(&suffix))
            .map(|(_, resolved)| resolved.clone())
            .collect()
    }

    fn base_at(&self, from: &JsonPointer) -> &Url {
        let mut place = from.as_str();
        loop {
            if let Some(base) = self.bases.get(&JsonPointer::from(place)) {
                return base;
            }
            match place.rfind('/') {
                Some(cut) => place = &place[..cut],
                None => return &self.base,
            }
        }
    }

    fn index(&mut self, schema: &'a Value, pointer: &JsonPointer, base: &Url, depth: usize) {
        let here = ResolvedSchema { pointer: pointer.clone(), schema };
        // The root is indexed even without an identifier, so that `#` finds it.
        if pointer.as_str().is_empty() {
            self.places.insert(base.to_string(), here.clone());
        }
        let Some(schema) = schema.as_object() else {
            return;
        };
        if depth > MAX_DEPTH {
            return;
        }
        let base = self.index_names(schema, here, base);
        for inner in inner_schemas(schema, pointer) {
            self.index(inner.schema, &inner.pointer, &base, depth + 1);
        }
    }

    fn index_names(&mut self, schema: &Map<String, Value>, here: ResolvedSchema<'a>, base: &Url) -> Url {
        let mut base = base.clone();
        if let Some(id) = identifier(schema).filter(|_| !here.pointer.as_str().is_empty()) {
            // Up to draft 7 an identifier that is only a fragment is an anchor.
            match (id.strip_prefix('#'), base.join(id)) {
                (Some(anchor), _) => self.index_anchor(anchor, &here, &base),
                (None, Ok(own)) => {
                    base = without_fragment(own);
                    self.places.insert(base.to_string(), here.clone());
                    self.bases.insert(here.pointer.clone(), base.clone());
                }
                (None, Err(_)) => {}
            }
        }
        for keyword in ["$anchor", "$dynamicAnchor"] {
            if let Some(anchor) = schema.get(keyword).and_then(Value::as_str) {
                self.index_anchor(anchor, &here, &base);
            }
        }
        base
    }

    fn index_anchor(&mut self, anchor: &str, here: &ResolvedSchema<'a>, base: &Url) {
        let mut address = base.clone();
        address.set_fragment(Some(anchor));
        self.places.insert(address.to_string(), here.clone());
    }
}

/// `$id`, or `id` in draft 4 where it is text beside no `$id`.
fn identifier(schema: &Map<String, Value>) -> Option<&str> {
    let is_draft4 = schema.get("$schema").and_then(Value::as_str).is_some_and(|dialect| dialect.contains("draft-04"));
    let keyword = if is_draft4 { "id" } else { "$id" };
    schema.get(keyword).and_then(Value::as_str)
}

fn without_fragment(mut url: Url) -> Url {
    url.set_fragment(None);
    url
}

fn decoded_fragment(url: &Url) -> Option<String> {
    let fragment = url.fragment()?;
    // One pair of a query string is decoded by the same rules, except that `+` means a space there.
    let escaped = fragment.replace('+', "%2B").replace('&', "%26").replace('=', "%3D");
    let mut pairs = url::form_urlencoded::parse(escaped.as_bytes());
    Some(pairs.next().map_or_else(String::new, |(text, _)| text.into_owned()))
}

fn below<'a>(resource: &ResolvedSchema<'a>, path: &str) -> Option<ResolvedSchema<'a>> {
    let schema = resource.schema.pointer(path)?;
    Some(ResolvedSchema { pointer: JsonPointer::from(format!("{}{path}", resource.pointer).as_str()), schema })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn follow(document: &Value, reference: &str, from: &str) -> Result<String, SchemaError> {
        SchemaDocument::new(document)
            .follow(reference, &JsonPointer::from(from))
            .map(|resolved| resolved.pointer.to_string())
    }

    #[test]
    fn references_inside_the_document_are_followed() {
        let document = json!({
            "$defs": {
                "a": {"$anchor": "here"},
                "b c": {}, "x+y": {}, "p%q": {},
                "own": {"$id": "https://e.x/own.json", "$defs": {"in": {}}, "items": {"$ref": "#/$defs/in"}}
            },
            "definitions": {"old": {"$id": "#older"}}
        });
        let at = |reference| follow(&document, reference, "");
        assert_eq!(at("#").as_deref(), Ok(""));
        assert_eq!(at("#/$defs/a").as_deref(), Ok("/$defs/a"));
        assert_eq!(at("#here").as_deref(), Ok("/$defs/a"));
        assert_eq!(at("#older").as_deref(), Ok("/definitions/old"));
        assert_eq!(at("#/$defs/b%20c").as_deref(), Ok("/$defs/b c"));
        assert_eq!(at("#/$defs/x+y").as_deref(), Ok("/$defs/x+y"));
        assert_eq!(at("#/$defs/p%25q").as_deref(), Ok("/$defs/p%q"));
        assert_eq!(at("https://e.x/own.json").as_deref(), Ok("/$defs/own"));
        assert_eq!(at("https://e.x/own.json#/$defs/in").as_deref(), Ok("/$defs/own/$defs/in"));
        let inside = follow(&document, "#/$defs/in", "/$defs/own/items");
        assert_eq!(inside.as_deref(), Ok("/$defs/own/$defs/in"));
    }

    #[test]
    fn references_out_of_the_document_are_refused() {
        let document = json!({"$id": "https://e.x/root.json"});
        for out in ["http://sink/x", "file:///etc/passwd", "other.json", "//sink/x", "urn:x:y"] {
            let refused = follow(&document, out, "");
            assert!(matches!(refused, Err(SchemaError::ReferenceLeaves { .. })), "{out}");
        }
        let dangling = follow(&document, "#/nowhere", "");
        assert!(matches!(dangling, Err(SchemaError::ReferenceDangles { .. })));
    }
}
