//! `vars` expressions: JSON, and after a NUL the value that every variable has.

use model::var::{Var, VarSource};
use router::Expr;
use serde_json::Value;
use std::borrow::Cow;

/// Every variable has one value, or none has any.
struct Values<'v>(Option<&'v [u8]>);

impl VarSource for Values<'_> {
    fn var(&self, _: &Var) -> Option<Cow<'_, [u8]>> {
        self.0.map(Cow::Borrowed)
    }
}

/// Compiles the JSON and evaluates what it compiles to.
pub fn check(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let Ok(vars) = serde_json::from_slice::<Value>(&bytes[..end]) else { return };
    match Expr::compile(&vars) {
        Ok(expr) => {
            for value in [None, bytes.get(end + 1..), Some(&b"1"[..]), Some(b"10.0.0.1")] {
                let values = Values(value);
                assert_eq!(expr.eval(&values), expr.eval(&values), "no state is kept");
            }
        }
        Err(errors) => {
            assert!(!errors.is_empty() && errors.iter().all(|error| !error.message.is_empty()));
        }
    }
}
