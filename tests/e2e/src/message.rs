//! HTTP messages as the tests see them: lines as they came, and bodies with a known content.

/// A request or a response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// Request line or status line.
    pub start: String,
    /// Field lines as they came, without CRLF.
    pub fields: Vec<String>,
    /// The body without its framing.
    pub body: Vec<u8>,
    /// Trailer lines.
    pub trailers: Vec<String>,
}

impl Message {
    /// Reads a head, without the empty line after it. Bytes above 0x7f are taken as Latin-1.
    pub fn head(bytes: &[u8]) -> Self {
        let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
        let mut lines = text.split("\r\n").filter(|line| !line.is_empty()).map(str::to_owned);
        Self { start: lines.next().unwrap_or_default(), fields: lines.collect(), ..Self::default() }
    }

    /// The status of a response.
    pub fn status(&self) -> u16 {
        let status = self.start.split(' ').nth(1).and_then(|status| status.parse().ok());
        status.unwrap_or_else(|| panic!("no status line: {:?}", self.start))
    }

    /// The values of a field, names in any case.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let fields = self.fields.iter().filter_map(|line| line.split_once(':'));
        fields.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).collect()
    }

    /// The value of a field that comes once; `None` where it is absent.
    pub fn field(&self, name: &str) -> Option<&str> {
        let values = self.all(name);
        assert!(values.len() < 2, "{name} comes more than once: {:?}", self.fields);
        values.first().copied()
    }

    /// Whether a list field has this item.
    pub fn lists(&self, name: &str, item: &str) -> bool {
        self.all(name)
            .iter()
            .flat_map(|value| value.split(','))
            .any(|one| one.trim().eq_ignore_ascii_case(item))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

/// Bytes that show by themselves where something is missing, doubled or out of place.
#[derive(Debug, Clone, Copy)]
pub struct Pattern;

impl Pattern {
    /// So many of them.
    pub fn bytes(count: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            // xorshift64: its period is far longer than any body.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend_from_slice(&state.to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }

    /// Fails where `bytes` are not the first `count`, and says where.
    pub fn check(bytes: &[u8], count: usize) {
        let expected = Self::bytes(count);
        if bytes != expected {
            let at = bytes.iter().zip(&expected).position(|(a, b)| a != b);
            panic!("got {} bytes for {count}; the first that differs is {at:?}", bytes.len());
        }
    }
}
