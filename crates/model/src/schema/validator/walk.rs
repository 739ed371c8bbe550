//! What travels along with a check: where it stands, and what it found.

use super::MISTAKES;
use super::scalar::Budget;
use crate::ConfigError;

/// `Err` carries the line APISIX would answer, as seen from the value just checked; each level outwards puts its own
/// words before it.
pub(super) type Verdict = Result<(), String>;

/// The state of one check.
#[derive(Default)]
pub(super) struct Walk {
    /// The mistakes, innermost words only.
    pub(super) errors: Vec<ConfigError>,
    /// JSON pointer of the value being checked.
    path: String,
    /// Inside a branch that may fail without the value being wrong: nothing is recorded and the first mistake ends
    /// the branch, as it does in APISIX.
    trying: bool,
    /// What patterns have used.
    pub(super) budget: Budget,
}

impl Walk {
    /// Records a mistake of the value being checked.
    pub(super) fn fault(&mut self, message: impl Into<String>) -> Verdict {
        let message = message.into();
        if !self.trying && self.errors.len() < MISTAKES {
            self.errors.push(ConfigError::new(self.path.as_str(), message.as_str()));
        }
        Err(message)
    }

    /// Runs `check` on the part of the value called `name`.
    pub(super) fn at<T>(&mut self, name: &str, check: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        self.path.push('/');
        push_token(&mut self.path, name);
        let result = check(self);
        self.path.truncate(length);
        result
    }

    /// Whether `check` passes, without recording what is wrong.
    pub(super) fn passes(&mut self, check: impl FnOnce(&mut Self) -> Verdict) -> bool {
        let before = std::mem::replace(&mut self.trying, true);
        let passed = check(self).is_ok();
        self.trying = before;
        passed
    }

    /// The mistakes that `check` finds, kept out of the others.
    pub(super) fn reasons(&mut self, check: impl FnOnce(&mut Self) -> Verdict) -> Vec<ConfigError> {
        let before = std::mem::take(&mut self.errors);
        // The verdict is known: the branch fails.
        let _ = check(self);
        std::mem::replace(&mut self.errors, before)
    }

    /// Records mistakes that [`Self::reasons`] found.
    pub(super) fn extend(&mut self, errors: Vec<ConfigError>) {
        let room = MISTAKES.saturating_sub(self.errors.len());
        self.errors.extend(errors.into_iter().take(room));
    }

    /// JSON pointer of the value being checked.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Whether mistakes are being recorded.
    pub(super) fn records(&self) -> bool {
        !self.trying
    }
}

/// Appends one reference token, escaped as RFC 6901 section 3 says.
pub(super) fn push_token(pointer: &mut String, name: &str) {
    for c in name.chars() {
        match c {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            c => pointer.push(c),
        }
    }
}

/// Keeps the first of several verdicts while the checks go on, so that all mistakes are found.
#[derive(Default)]
pub(super) struct First(Option<String>);

impl First {
    /// Takes note of `verdict`; `Err` where nothing more is to be looked at.
    pub(super) fn note(&mut self, verdict: Verdict, walk: &Walk) -> Verdict {
        match verdict {
            Err(line) if walk.records() => {
                self.0.get_or_insert(line);
                Ok(())
            }
            other => other,
        }
    }

    /// The first `Err` noted.
    pub(super) fn verdict(self) -> Verdict {
        self.0.map_or(Ok(()), Err)
    }
}
