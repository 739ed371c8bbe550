//! Values that the plugins of an exchange share.

use std::any::{Any, TypeId};
use std::fmt;

/// One value per type. A plugin publishes a value under a type of its own, and every later hook of the exchange that knows
/// the type reads it. Allocates nothing while it is empty; looks through a short list otherwise.
#[derive(Default)]
pub struct Extensions {
    values: Vec<(TypeId, Box<dyn Any>)>,
}

impl Extensions {
    /// Puts `value` in, and returns the value of its type that was there before.
    pub fn insert<T: 'static>(&mut self, value: T) -> Option<T> {
        match self.get_mut::<T>() {
            Some(present) => Some(std::mem::replace(present, value)),
            None => {
                self.values.push((TypeId::of::<T>(), Box::new(value)));
                None
            }
        }
    }

    /// The value of type `T`.
    #[must_use]
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.values.iter().find(|(of, _)| *of == TypeId::of::<T>())?.1.downcast_ref()
    }

    /// The value of type `T`, to be changed.
    #[must_use]
    pub fn get_mut<T: 'static>(&mut self) -> Option<&mut T> {
        self.values.iter_mut().find(|(of, _)| *of == TypeId::of::<T>())?.1.downcast_mut()
    }

    /// Takes the value of type `T` out.
    pub fn remove<T: 'static>(&mut self) -> Option<T> {
        let at = self.values.iter().position(|(of, _)| *of == TypeId::of::<T>())?;
        self.values.swap_remove(at).1.downcast().ok().map(|value| *value)
    }

    /// How many values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extensions").field("len", &self.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use crate::testkit::Bench;

    #[derive(Debug, PartialEq)]
    struct Tokens(u32);

    #[test]
    fn values_are_shared_by_type() {
        let bench = Bench::new("GET /");
        let mut exchange = bench.exchange();
        assert_eq!(exchange.extension::<Tokens>(), None);
        assert!(exchange.extras.is_none(), "reading allocates nothing");
        assert_eq!(exchange.extensions().insert(Tokens(1)), None);
        assert_eq!(exchange.extensions().insert("another type"), None);
        assert_eq!(exchange.extension(), Some(&Tokens(1)));
        assert_eq!(exchange.extensions().insert(Tokens(2)), Some(Tokens(1)));
        if let Some(tokens) = exchange.extensions().get_mut::<Tokens>() {
            tokens.0 += 1;
        }
        assert_eq!(exchange.extensions().remove(), Some(Tokens(3)));
        assert_eq!(exchange.extensions().remove::<Tokens>(), None);
        assert_eq!(exchange.extensions().len(), 1);
        let mut session = bench.session();
        session.extensions().insert(Tokens(4));
        assert_eq!(session.extension(), Some(&Tokens(4)));
    }
}
