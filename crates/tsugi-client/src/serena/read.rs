//! Reading what Serena answers: JSON with file names as keys, and sentences with a number in them.

use serde_json::Value;

use super::symbol::{PatternHit, SymbolReference};

/// `{"file": {"Function": [{"name_path": …, "content_around_reference": …}]}}`
pub(super) fn references(found: &Value) -> Vec<SymbolReference> {
    let mut references = Vec::new();
    for (path, kinds) in found.as_object().into_iter().flatten() {
        for (kind, symbols) in kinds.as_object().into_iter().flatten() {
            references.extend(symbols.as_array().into_iter().flatten().map(|symbol| SymbolReference {
                path: path.clone(),
                kind: kind.clone(),
                name: symbol["name_path"].as_str().unwrap_or_default().to_owned(),
                around: symbol["content_around_reference"].as_str().unwrap_or_default().to_owned(),
            }));
        }
    }
    references
}

/// `{"file": ["  >  12: …"]}`
pub(super) fn hits(found: &Value) -> Vec<PatternHit> {
    let in_file = |(path, texts): (&String, &Value)| {
        let texts = texts.as_array().cloned().unwrap_or_default();
        let path = path.clone();
        texts
            .into_iter()
            .filter_map(move |text| Some(PatternHit { path: path.clone(), text: text.as_str()?.to_owned() }))
    };
    found.as_object().into_iter().flatten().flat_map(in_file).collect()
}

/// `Replaced 2 occurrence(s) in 1 file(s): …`
pub(super) fn count(sentence: &str) -> Option<usize> {
    sentence.split_whitespace().find_map(|word| word.parse().ok())
}

/// `{"memories": […]}`, or the list alone as older ones give it.
pub(super) fn memories(found: &Value) -> Vec<String> {
    let list = found.get("memories").unwrap_or(found).as_array();
    list.into_iter().flatten().filter_map(|name| Some(name.as_str()?.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers_as_serena_2_1_gives_them_are_read() {
        let found = json!({"shop.py": {"Function": [{"name_path": "checkout", "content_around_reference": "…"}]}});
        assert_eq!(references(&found)[0].name, "checkout");
        let found = json!({"a.py": ["  >  1:x", "  >  2:y"]});
        assert_eq!(hits(&found).len(), 2);
        assert_eq!(count("Replaced 12 occurrence(s) in 1 file(s):\n  shop.py: 12"), Some(12));
        assert_eq!(count("nothing"), None);
        assert_eq!(memories(&json!({"memories": ["a"]})), ["a"]);
        assert_eq!(memories(&json!(["b"])), ["b"]);
    }
}
