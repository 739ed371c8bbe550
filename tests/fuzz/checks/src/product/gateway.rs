//! `config.yaml`, declarative files, transcoding to gRPC.

use super::store::LINE_ENDS;
use ::gateway::declarative::keys_of;
use ::protos::Definitions;
use config::read_text;
use document::Diagnostic;
use model::Kind;
use plugins::grpc_transcode::fuzzing::{from_frame, to_frame};
use serde_json::{Map, Value};
use std::cell::OnceCell;

/// `config.yaml`: settings or mistakes, each with words and a place in the text, and the same each time.
pub fn config_yaml(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let lookup = |name: &str| (name == "A").then(|| "value".to_owned());
    let read = || match read_text("config.yaml", text, &lookup) {
        Ok(loaded) => {
            assert_eq!(loaded.warnings.errors(), 0);
            loaded.warnings
        }
        Err(report) => {
            assert!(report.errors() > 0, "a refusal says why");
            report
        }
    };
    let report = read();
    check_places(&report.diagnostics, text);
    let shown: Vec<String> = report.entries().collect();
    assert_eq!(shown, read().entries().collect::<Vec<_>>());
}

/// A declarative file: keys that the store takes, each once, or mistakes with a place in the text.
pub fn declarative(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (keys, problems) = keys_of(text);
    check_places(&problems, text);
    for (at, key) in keys.iter().enumerate() {
        assert!(Kind::parse_key(key).is_some() || !problems.is_empty(), "{key:?} is no key");
        assert!(!keys[..at].contains(key) || !problems.is_empty(), "{key:?} stands twice");
    }
}

fn check_places(problems: &[Diagnostic], text: &str) {
    let lines = text.split(LINE_ENDS).count();
    for problem in problems {
        assert!(!problem.message.is_empty());
        if let Some(at) = problem.at {
            assert!(at.column > 0 && (1..=lines + 1).contains(&(at.line as usize)), "{problem:?}");
        }
    }
}

const DEFINITIONS: &str = "syntax = \"proto3\";
    enum Kind { NONE = 0; ONE = 1; TWO = 2; }
    message M {
        string text = 1; int64 wide = 2; repeated int32 numbers = 3; map<string, M> named = 4; M inner = 5;
        Kind kind = 6; bool truth = 7; bytes octets = 8; double real = 9; float half = 10; uint64 large = 11;
        map<int64, bool> flags = 12; oneof choice { string one = 13; sint32 other = 14; } fixed32 fixed = 15;
    }";

/// A message as JSON, which becomes a frame and JSON that makes the same message; and a frame of a server, whatever
/// it holds, which becomes JSON that makes a message.
pub fn grpc_transcode(bytes: &[u8]) {
    thread_local! {
        static MESSAGE: OnceCell<Definitions> = const { OnceCell::new() };
    }
    let message = MESSAGE.with(|known| {
        let known = known.get_or_init(|| Definitions::compile(DEFINITIONS).expect("valid definitions"));
        known.message("M").expect("defined")
    });
    let styles: [&[&str]; 4] = [
        &[],
        &["int64_as_string", "enum_as_value"],
        &["int64_as_hexstring", "no_default_values"],
        &["use_default_values"],
    ];
    for style in styles {
        let style: Vec<String> = style.iter().map(|&option| option.to_owned()).collect();
        let again = |shown: &Value| {
            let fields = shown.as_object().expect("a message is an object");
            let frame = to_frame(&message, fields).expect("what is shown makes a message");
            from_frame(&message, &style, &frame).expect("what is framed can be read")
        };
        if let Ok(fields) = serde_json::from_slice::<Map<String, Value>>(bytes)
            && let Ok(frame) = to_frame(&message, &fields)
        {
            let shown = from_frame(&message, &style, &frame).expect("what is framed can be read");
            assert_eq!(again(&shown), shown);
            let more = [&frame[..], b"more"].concat();
            assert_eq!(from_frame(&message, &style, &more), Some(shown), "the frame ends where it says");
            assert_eq!(from_frame(&message, &style, &frame[..frame.len() - 1]), None, "a whole frame");
        }
        let length = u32::try_from(bytes.len()).expect("short").to_be_bytes();
        for frame in [bytes, &[&[0], &length[..], bytes].concat()] {
            if let Some(shown) = from_frame(&message, &style, frame) {
                let shown = again(&shown);
                assert_eq!(again(&shown), shown);
            }
        }
    }
}
