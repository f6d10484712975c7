//! Compresses the page that this crate embeds, so that a running gateway never has to.

use std::io::{self, Write};
use std::path::Path;
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;

/// The files of the page; `page.rs` embeds the same.
const FILES: [&str; 2] = ["index.html", "app.js"];

fn main() -> io::Result<()> {
    let here = env::var_os("CARGO_MANIFEST_DIR").ok_or(io::ErrorKind::NotFound)?;
    let out = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    for name in FILES {
        let file = Path::new(&here).join("dashboard/dist").join(name);
        println!("cargo::rerun-if-changed={}", file.display());
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(&fs::read(file)?)?;
        fs::write(Path::new(&out).join(format!("{name}.gz")), packed.finish()?)?;
    }
    Ok(())
}
