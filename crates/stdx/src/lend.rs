//! A value that code further down the stack reaches, where no argument can carry it: through an interpreter, say, whose
//! callbacks take no references.
#![allow(unsafe_code, reason = "one pointer, which is alive as long as the call that set it")]

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// A type with a lifetime, by a name without one: `Of<'a>` is what is lent.
pub trait Family {
    /// What is lent, for the lifetime that it borrows.
    type Of<'a>;
}

/// A place that holds a value for as long as a call takes. Of one thread: it stands in a `thread_local!`.
#[derive(Debug)]
pub struct Lender<F> {
    lent: Cell<Option<NonNull<()>>>,
    family: PhantomData<F>,
}

impl<F: Family> Lender<F> {
    /// A place that holds nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { lent: Cell::new(None), family: PhantomData }
    }

    /// Runs `run`, during which [`Self::with`] reaches `value` and not what was lent before.
    #[inline]
    pub fn lend<'a, R>(&self, value: &mut F::Of<'a>, run: impl FnOnce() -> R) -> R {
        let _before =
            Restore { place: &self.lent, value: self.lent.replace(Some(NonNull::from(value).cast())) };
        run()
    }

    /// Runs `run`, during which [`Self::with`] reaches nothing.
    pub fn hide<R>(&self, run: impl FnOnce() -> R) -> R {
        let _before = Restore { place: &self.lent, value: self.lent.take() };
        run()
    }

    /// Gives `run` the value that is lent; `None` where there is none, and within `run` itself.
    #[inline]
    pub fn with<R>(&self, run: impl for<'a> FnOnce(&mut F::Of<'a>) -> R) -> Option<R> {
        let lent = self.lent.take()?;
        let _back = Restore { place: &self.lent, value: Some(lent) };
        // SAFETY: the pointer was made in `lend` from an exclusive reference to an `Of<'a>` that `lend` holds until its
        // `run` has returned, and it is taken away then (`Restore`), also by a panic. A `Lender` stays on its thread
        // (`Cell<NonNull>` is neither `Send` nor `Sync`), so `with` runs within that `run`. The pointer is out of the
        // place while it is in use: there is no second reference. `run` is for every lifetime, and can neither keep
        // anything of the value nor put something into it that lives shorter.
        let value = unsafe { lent.cast::<F::Of<'_>>().as_mut() };
        Some(run(value))
    }
}

impl<F: Family> Default for Lender<F> {
    fn default() -> Self {
        Self::new()
    }
}

/// Puts a place back into its earlier state.
struct Restore<'p> {
    place: &'p Cell<Option<NonNull<()>>>,
    value: Option<NonNull<()>>,
}

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        self.place.set(self.value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// A value that borrows.
    struct Borrowing<'a> {
        text: &'a str,
        seen: usize,
    }

    struct Texts;

    impl Family for Texts {
        type Of<'a> = Borrowing<'a>;
    }

    #[test]
    fn a_value_is_reached_while_it_is_lent_and_never_twice_at_once() {
        let lender = Lender::<Texts>::new();
        assert!(lender.with(|_| ()).is_none());
        let text = String::from("text");
        let mut value = Borrowing { text: &text, seen: 0 };
        lender.lend(&mut value, || {
            lender.with(|value| value.seen += value.text.len()).expect("it is lent");
            assert!(lender.with(|_| lender.with(|_| ()).is_none()).expect("it is lent"));
            let mut inner = Borrowing { text: "in", seen: 0 };
            lender.lend(&mut inner, || lender.with(|value| value.seen += value.text.len()));
            assert_eq!(inner.seen, 2);
            assert!(lender.hide(|| lender.with(|_| ()).is_none()));
            let panicked = catch_unwind(AssertUnwindSafe(|| lender.with(|_| panic!("on the way"))));
            assert!(panicked.is_err());
            lender.with(|value| value.seen += 1).expect("the outer one again, also after a panic");
        });
        assert!(lender.with(|_| ()).is_none());
        assert_eq!(value.seen, 5);
    }
}
