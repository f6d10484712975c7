//! `-o DIR`: writes the images, sounds and files of a result into a directory, under names of their own.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use base64::Engine;
use serde_json::Value;

/// How many files of one name there may be before it is given up.
const MOST: usize = 1000;
/// Longest name of a file.
const LONGEST: usize = 100;

/// Writes the binary part of a content block, if it has one, and returns the path.
pub(super) fn keep(directory: &Path, tool: &str, block: &Value) -> Option<io::Result<PathBuf>> {
    let resource = &block["resource"];
    let (data, mime_type, name) = match block["type"].as_str()? {
        "image" | "audio" => (block["data"].as_str()?, &block["mimeType"], None),
        "resource" => (resource["blob"].as_str()?, &resource["mimeType"], resource["uri"].as_str()),
        _ => return None,
    };
    let bytes = base64::engine::general_purpose::STANDARD.decode(data).map_err(io::Error::other);
    let name = name.and_then(last_segment).unwrap_or_else(|| {
        let extension = extension(mime_type.as_str().unwrap_or_default());
        format!("{}.{extension}", safe(tool))
    });
    Some(bytes.and_then(|bytes| write_new(directory, &name, &bytes)))
}

/// Never replaces a file: a server chooses the name.
fn write_new(directory: &Path, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    fs::create_dir_all(directory)?;
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, "bin"));
    for number in 1..MOST {
        let name = if number == 1 { format!("{stem}.{extension}") } else { format!("{stem}-{number}.{extension}") };
        let path = directory.join(name);
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => return file.write_all(bytes).map(|()| path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("there are too many files of this name"))
}

/// The last part of an address, as far as it can be the name of a file.
fn last_segment(uri: &str) -> Option<String> {
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    let name = safe(path.rsplit('/').next().unwrap_or_default());
    let is_useful = name.contains('.') && name.chars().any(|c| c.is_ascii_alphanumeric());
    is_useful.then_some(name)
}

/// Without separators, control characters and leading dots, so that a name stays in its directory.
fn safe(name: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = name.chars().map(|c| if is_safe(c) { c } else { '_' }).take(LONGEST).collect();
    let name = name.trim_start_matches('.');
    if name.is_empty() { "result".to_owned() } else { name.to_owned() }
}

fn extension(mime_type: &str) -> &str {
    match mime_type.split(';').next().unwrap_or_default().trim() {
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "image/svg+xml" => "svg",
        "audio/wav" | "audio/x-wav" => "wav",
        "audio/mpeg" => "mp3",
        "audio/ogg" => "ogg",
        "application/pdf" => "pdf",
        "application/zip" => "zip",
        _ => "bin",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_that_a_server_chose_stays_in_the_directory_and_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("out");
        let block = |uri: &str| json!({"type": "resource", "resource": {"uri": uri, "blob": "AAAA"}});
        let mut names = Vec::new();
        for uri in ["file:///../../etc/passwd.txt", "a://b/passwd.txt", "a://b/..%2f..%2fx.sh", "a://b/.bashrc.d"] {
            let path = keep(&directory, "get", &block(uri)).unwrap().unwrap();
            assert_eq!(path.parent(), Some(directory.as_path()), "{uri}");
            names.push(path.file_name().unwrap().to_string_lossy().into_owned());
        }
        assert_eq!(names, ["passwd.txt", "passwd-2.txt", "_2f.._2fx.sh", "bashrc.d"]);
        let image = json!({"type": "image", "mimeType": "image/png", "data": "AAAA"});
        assert!(keep(&directory, "a/../b", &image).unwrap().unwrap().ends_with("a_.._b.png"));
        assert!(keep(&directory, "get", &json!({"type": "text", "text": "x"})).is_none());
    }
}
