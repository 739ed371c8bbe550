//! The plugin on stream routes: it bounds sessions, and knows fewer settings there.

use super::LimitConn;
use model::ConfigError;
use plugin::{CompileContext, OnPreread, Plugin, PluginDef, Session, StreamFlow};
use serde_json::{Value, json};
use std::time::Duration;

/// The plugin's entry in the registry of streams.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<LimitSessions>("limit-conn", 1003).on_preread().build()
}

/// What a session beyond the burst is told in the log: what APISIX's default says to requests.
const REFUSED: u16 = 503;

/// The compiled form.
pub struct LimitSessions(LimitConn);

impl Plugin for LimitSessions {
    type Config = super::Config;

    fn compile(config: Self::Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        LimitConn::compile(config, cx).map(Self)
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "conn": {"type": "integer", "exclusiveMinimum": 0},
                "burst": {"type": "integer", "minimum": 0},
                "default_conn_delay": {"type": "number", "exclusiveMinimum": 0},
                "only_use_default_delay": {"type": "boolean", "default": false},
                "key": {"type": "string"},
                "key_type": {"type": "string", "enum": ["var", "var_combination"], "default": "var"}
            },
            "required": ["conn", "burst", "default_conn_delay", "key"]
        })
    }
}

impl OnPreread for LimitSessions {
    fn preread(&self, session: &mut Session<'_>, _: &[u8]) -> StreamFlow {
        let Some(entered) = self.0.enter(session, &session.client.ip_text) else {
            return StreamFlow::Refuse(500);
        };
        // Kept until the session is over, however it ends.
        session.extras.note(self, entered.present);
        match entered.delay {
            None => StreamFlow::Refuse(REFUSED),
            Some(Duration::ZERO) => StreamFlow::Next,
            Some(delay) => StreamFlow::Wait(delay),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::Registry;
    use plugin::testkit::{self, Bench};

    #[test]
    fn sessions_beyond_the_number_wait_and_those_beyond_the_burst_are_refused() {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        let config = json!({"conn": 1, "burst": 1, "default_conn_delay": 0.1, "key": "remote_addr"});
        let chain = testkit::chain(&registry, &json!({"limit-conn": config})).expect("valid");
        let bench = Bench::new("GET /");
        let mut sessions: Vec<_> = (0..3).map(|_| bench.session()).collect();
        let flows: Vec<_> =
            sessions.iter_mut().map(|session| testkit::preread(&chain, session, b"")).collect();
        let wait = StreamFlow::Wait(Duration::from_millis(100));
        assert_eq!(flows, [StreamFlow::Next, wait, StreamFlow::Refuse(503)]);
        drop(sessions);
        assert_eq!(testkit::preread(&chain, &mut bench.session(), b""), StreamFlow::Next, "they are over");
    }
}
