//! Configurations of other servers.

use ::import::nginx::translate_text;

/// `nginx.conf`: mistakes and verdicts name a place in the text, and the translation depends on the text alone.
pub fn nginx_conf(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.split('\n').count();
    let within = |line: u32, column: u32| column > 0 && (1..=lines).contains(&(line as usize));
    match translate_text(&text) {
        Ok(translation) => {
            assert!(translation.notes.iter().all(|note| within(note.line, note.column)));
            assert!(translation.refusals().all(|note| !note.reason.is_empty()), "a refusal says why");
            assert!(translation.resources.is_object() && translation.config.is_object());
            let again = translate_text(&text).expect("as before");
            assert_eq!(again.notes, translation.notes);
            assert_eq!((again.config, again.resources), (translation.config, translation.resources));
        }
        Err(error) => {
            assert!(
                error.at.is_some_and(|at| within(at.line, at.column)) && !error.message.is_empty(),
                "{error}"
            );
        }
    }
}
