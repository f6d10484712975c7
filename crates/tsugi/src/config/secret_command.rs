//! Programs whose output is a secret: `${command:NAME}`.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tsugi_process::{CaptureLimits, capture_output};

use super::secret::Secret;

const LIMITS: CaptureLimits = CaptureLimits { time: Duration::from_secs(5), bytes: 64 << 10 };

/// A program and how long its output holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SecretCommand {
    /// The program first.
    pub(crate) run: Vec<String>,
    pub(crate) ttl: Duration,
}

/// The last output of each program, by its words, and when it came.
type KnownOutputs = HashMap<Vec<String>, (Instant, Secret)>;

/// A configuration is read many times while it holds.
static OUTPUTS: LazyLock<Mutex<KnownOutputs>> = LazyLock::new(Mutex::default);

impl SecretCommand {
    /// Its output, run again after `ttl`. If it fails then, the output before stays.
    pub(crate) fn secret(&self) -> Result<Secret, String> {
        // Held while it runs: two readers of one configuration run it once.
        let mut outputs = OUTPUTS.lock();
        if let Some((at, secret)) = outputs.get(&self.run)
            && at.elapsed() < self.ttl
        {
            return Ok(secret.clone());
        }
        match self.output() {
            Ok(secret) => {
                outputs.insert(self.run.clone(), (Instant::now(), secret.clone()));
                Ok(secret)
            }
            Err(why) => match outputs.get_mut(&self.run) {
                Some((at, secret)) => {
                    tracing::warn!(program = self.run.first(), why, "a secret was not renewed; the one before is used");
                    *at = Instant::now();
                    Ok(secret.clone())
                }
                None => Err(why),
            },
        }
    }

    fn output(&self) -> Result<Secret, String> {
        let (program, arguments) = self.run.split_first().ok_or("there is no program")?;
        let output = capture_output(OsStr::new(program), arguments, LIMITS).map_err(|error| error.to_string())?;
        let text = String::from_utf8(output).map_err(|_| "its output is not UTF-8")?;
        let secret = text.trim_end_matches(['\n', '\r']);
        if secret.is_empty() { Err("it writes nothing".to_owned()) } else { Ok(Secret::new(secret)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_holds_for_its_time_and_longer_when_the_program_fails() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        let command = |ttl| SecretCommand { run: vec!["cat".to_owned(), file.display().to_string()], ttl };
        let (long, none) = (command(Duration::from_secs(600)), command(Duration::ZERO));
        assert!(long.secret().is_err());
        std::fs::write(&file, "first\n").unwrap();
        assert_eq!(long.secret().unwrap().expose(), "first");
        std::fs::write(&file, "second\n").unwrap();
        assert_eq!(long.secret().unwrap().expose(), "first");
        assert_eq!(none.secret().unwrap().expose(), "second");
        std::fs::remove_file(&file).unwrap();
        assert_eq!(none.secret().unwrap().expose(), "second");
    }
}
