//! How long texts and lists may be, checked once for every use-case.

use super::fault::{Code, PmFault};

/// One kibibyte, the unit of the longer limits.
pub const KIB: usize = 1024;
/// The longest description, context or result.
pub const LONG_TEXT: usize = 64 * KIB;
/// The longest summary or instruction.
pub const SUMMARY: usize = 16 * KIB;
/// The most prerequisites one task may have, and tasks one `create_tasks` may make.
pub const BATCH: usize = 100;

/// Checks a short text by its characters.
pub fn chars(field: &str, text: &str, least: usize, most: usize) -> Result<(), PmFault> {
    let count = text.chars().count();
    if count < least {
        return Err(PmFault::invalid(format!("`{field}` must have at least {least} characters")).with("field", field));
    }
    if count > most {
        let message = format!("`{field}` has {count} characters, at most {most} are kept");
        return Err(PmFault::new(Code::TooLarge, message).with("field", field).with("max", most));
    }
    no_control(field, text)
}

/// Checks a long text by its bytes.
pub fn bytes(field: &str, text: &str, least: usize, most: usize) -> Result<(), PmFault> {
    if text.len() < least {
        return Err(PmFault::invalid(format!("`{field}` must not be empty")).with("field", field));
    }
    if text.len() > most {
        let message = format!("`{field}` has {} bytes, at most {most} are kept", text.len());
        return Err(PmFault::new(Code::TooLarge, message).with("field", field).with("max", most));
    }
    no_control(field, text)
}

/// Checks a list of short texts: how many, and how long each.
pub fn list(field: &str, items: &[String], least: usize, most: usize, each: usize) -> Result<(), PmFault> {
    if items.len() < least {
        return Err(PmFault::invalid(format!("`{field}` needs at least {least} entries")).with("field", field));
    }
    if items.len() > most {
        let message = format!("`{field}` has {} entries, at most {most} are kept", items.len());
        return Err(PmFault::new(Code::TooLarge, message).with("field", field).with("max", most));
    }
    items.iter().try_for_each(|item| chars(field, item, 1, each))
}

/// PostgreSQL cannot store NUL in a text, so neither engine may.
fn no_control(field: &str, text: &str) -> Result<(), PmFault> {
    if text.contains('\0') {
        return Err(PmFault::invalid(format!("`{field}` must not contain NUL")).with("field", field));
    }
    Ok(())
}

/// Cuts a text to at most `most` bytes at a character boundary; says whether it had to.
pub fn clip(text: &str, most: usize) -> (String, bool) {
    if text.len() <= most {
        return (text.to_owned(), false);
    }
    let room = most.saturating_sub('…'.len_utf8());
    let end = (0..=room).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    (format!("{}…", &text[..end]), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clipping_never_splits_a_character_and_never_exceeds_the_limit() {
        for most in 3..20 {
            let (text, cut) = clip("継ぎ目のない引き継ぎ", most);
            assert!(cut && text.len() <= most && text.ends_with('…'), "{most}: {text}");
        }
        assert_eq!(clip("short", 5), ("short".to_owned(), false));
    }

    #[test]
    fn limits_refuse_what_is_empty_too_long_or_holds_nul() {
        assert_eq!(chars("title", "", 1, 3).unwrap_err().code, Code::InvalidArgument);
        assert_eq!(chars("title", "四文字だ", 1, 3).unwrap_err().code, Code::TooLarge);
        assert!(chars("title", "三文字", 1, 3).is_ok());
        assert_eq!(bytes("text", "a\0b", 1, 9).unwrap_err().code, Code::InvalidArgument);
        assert_eq!(list("labels", &["a".into(), "b".into()], 0, 1, 9).unwrap_err().code, Code::TooLarge);
    }
}
