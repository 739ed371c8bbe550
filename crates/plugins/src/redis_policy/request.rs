//! What is asked of Redis: commands and scripts, and the numbers in replies.

use super::fault::Fault;
use redis::{Cmd, Value};
use ring::digest;
use std::fmt::Write;

/// A Lua script that runs on the server as one step. It is called by its digest; its text is sent to servers that do not
/// know it yet.
#[derive(Debug)]
pub(crate) struct Script {
    text: &'static str,
    /// The SHA-1 of the text in hexadecimal, by which servers name scripts.
    sha1: String,
}

impl Script {
    pub(crate) fn new(text: &'static str) -> Self {
        let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
        let sha1 = digest.as_ref().iter().fold(String::new(), |mut hex, byte| {
            // Writing to text does not fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        Self { text, sha1 }
    }
}

/// One command, or one run of a script.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    script: Option<&'static Script>,
    /// The command's name, where no script runs.
    name: &'static str,
    keys: Vec<Vec<u8>>,
    arguments: Vec<Vec<u8>>,
}

impl Request {
    /// Runs `script`.
    pub(crate) fn script(script: &'static Script) -> Self {
        Self { script: Some(script), name: "", keys: Vec::new(), arguments: Vec::new() }
    }

    /// The command `name`, which has its keys before its arguments.
    pub(crate) fn command(name: &'static str) -> Self {
        Self { script: None, name, keys: Vec::new(), arguments: Vec::new() }
    }

    /// The same request with one more key. The first one decides which node of a cluster is asked.
    pub(crate) fn key(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.keys.push(key.into());
        self
    }

    /// The same request with one more argument.
    pub(crate) fn arg(mut self, argument: impl Into<Vec<u8>>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// The same request with one more number.
    pub(crate) fn number(self, number: impl Copy + ToString) -> Self {
        self.arg(number.to_string())
    }

    /// The key that decides which node is asked.
    pub(super) fn routing_key(&self) -> &[u8] {
        self.keys.first().map_or(&[], Vec::as_slice)
    }

    /// The command as sent first.
    pub(super) fn first(&self) -> Cmd {
        match self.script {
            Some(script) => self.packed("EVALSHA", Some(script.sha1.as_bytes())),
            None => self.packed(self.name, None),
        }
    }

    /// The command for a server that does not know the script.
    pub(super) fn with_text(&self) -> Option<Cmd> {
        Some(self.packed("EVAL", Some(self.script?.text.as_bytes())))
    }

    fn packed(&self, name: &str, script: Option<&[u8]>) -> Cmd {
        let mut command = redis::cmd(name);
        if let Some(script) = script {
            command.arg(script).arg(self.keys.len());
        }
        for part in self.keys.iter().chain(&self.arguments) {
            command.arg(part.as_slice());
        }
        command
    }
}

/// The numbers of a reply that is a list of exactly `N`: integers, or text that spells numbers.
pub(crate) fn numbers<const N: usize>(reply: &Value) -> Result<[f64; N], Fault> {
    let Value::Array(items) = reply else { return Err(Fault::unexpected()) };
    let numbers: Option<Vec<f64>> = items.iter().map(number).collect();
    numbers.and_then(|numbers| numbers.try_into().ok()).ok_or_else(Fault::unexpected)
}

/// The number that a reply is or spells.
pub(crate) fn number(reply: &Value) -> Option<f64> {
    let number = match reply {
        // Counts are far below 2^53, where f64 is exact.
        Value::Int(number) => *number as f64,
        _ => text(reply)?.parse().ok()?,
    };
    number.is_finite().then_some(number)
}

/// The text that a reply is.
pub(super) fn text(reply: &Value) -> Option<&str> {
    match reply {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::LazyLock;

    static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new("return 1"));

    fn sent(command: &Cmd) -> String {
        String::from_utf8(command.get_packed_command()).expect("text")
    }

    #[test]
    fn a_script_is_called_by_its_digest_and_sent_where_it_is_unknown() {
        let request = Request::script(&SCRIPT).key("k").number(7);
        assert_eq!(
            sent(&request.first()),
            "*5\r\n$7\r\nEVALSHA\r\n$40\r\ne0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n$1\r\n1\r\n$1\r\nk\r\n$1\r\n7\r\n"
        );
        let full = sent(&request.with_text().expect("a script"));
        assert!(full.starts_with("*5\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n1\r\n"), "{full}");
        let request = Request::command("GET").key("k");
        assert_eq!(sent(&request.first()), "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
        assert!(request.with_text().is_none());
    }

    #[test]
    fn replies_are_numbers_or_unexpected() {
        let bulk = |text: &str| Value::BulkString(text.into());
        assert_eq!(numbers(&Value::Array(vec![Value::Int(1), bulk("2.5")])), Ok([1.0, 2.5]));
        for reply in [
            Value::Nil,
            Value::Int(1),
            Value::Array(vec![]),
            Value::Array(vec![Value::Int(1)]),
            Value::Array(vec![Value::Int(1), bulk("nan")]),
            Value::Array(vec![Value::Int(1), Value::Nil]),
            Value::Array(vec![Value::Int(1), Value::Int(1), Value::Int(1)]),
        ] {
            assert_eq!(numbers::<2>(&reply), Err(Fault::unexpected()), "{reply:?}");
        }
    }
}
