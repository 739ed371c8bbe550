//! The taps and filters of one body, each filter fed with the output of the one before it.

use crate::{BodyFilter, BodyView, Recorder};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

/// The taps and filters of one body, in the order in which the body passes them.
#[derive(Default)]
pub struct BodyFilters {
    taps: Vec<Box<dyn Recorder>>,
    filters: Vec<Box<dyn BodyFilter>>,
    /// Filters that have been told that the body is over; `None` before the first one is.
    finished: Option<usize>,
}

impl BodyFilters {
    /// Adds a filter behind the others.
    pub fn push(&mut self, filter: impl BodyFilter + 'static) {
        self.push_boxed(Box::new(filter));
    }

    pub(crate) fn push_boxed(&mut self, filter: Box<dyn BodyFilter>) {
        self.filters.push(filter);
    }

    /// Adds a tap.
    pub fn tap(&mut self, tap: Box<dyn Recorder>) {
        self.taps.push(tap);
    }

    /// Whether there is neither a tap nor a filter.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.taps.is_empty() && self.filters.is_empty()
    }

    /// Whether a filter may change the body.
    #[must_use]
    pub fn change_anything(&self) -> bool {
        self.filters.iter().any(|filter| filter.changes())
    }

    /// The numbers of taps and of filters.
    pub(crate) fn count(&self) -> (usize, usize) {
        (self.taps.len(), self.filters.len())
    }

    /// Removes those that were added after there were this many.
    pub(crate) fn truncate(&mut self, (taps, filters): (usize, usize)) {
        self.taps.truncate(taps);
        self.filters.truncate(filters);
    }

    /// Whether more of the body would make a difference: to a tap, or to the output where that `is_sent`.
    #[must_use]
    pub fn want_more(&self, is_sent: bool) -> bool {
        !self.taps.is_empty() || (is_sent && self.filters.iter().all(|filter| filter.wants_more()))
    }

    /// Passes a piece to the taps and through the filters.
    ///
    /// # Errors
    /// A filter's.
    pub fn write(&mut self, piece: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.taps.iter_mut().for_each(|tap| tap.piece(piece));
        write(&mut self.filters, piece, out)
    }

    /// Passes on what the filters hold and can let go.
    ///
    /// # Errors
    /// A filter's.
    pub fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        for at in 0..self.filters.len() {
            let mut made = Vec::new();
            self.filters[at].flush(&mut made)?;
            write(&mut self.filters[at + 1..], &made, out)?;
        }
        Ok(())
    }

    /// Tells the taps that they have got all of the body.
    pub fn finish_taps(&mut self) {
        self.taps.drain(..).for_each(Recorder::finish);
    }

    /// Waits until all filters are done with what they were given.
    ///
    /// # Errors
    /// A filter's.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        view: &mut BodyView<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<io::Result<()>> {
        for at in 0..self.filters.len() {
            let mut made = Vec::new();
            let polled = self.filters[at].poll(cx, view, &mut made);
            write(&mut self.filters[at + 1..], &made, out)?;
            ready!(polled)?;
        }
        Poll::Ready(Ok(()))
    }

    /// Ends the filters one after the other, each once those before it are done, and waits until they are. `trailers` are
    /// the lines of the body's trailer section.
    ///
    /// # Errors
    /// A filter's.
    pub fn poll_finish(
        &mut self,
        cx: &mut Context<'_>,
        view: &mut BodyView<'_>,
        trailers: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll(cx, view, out))?;
            let at = *self.finished.get_or_insert_with(|| {
                self.filters.iter_mut().for_each(|filter| filter.trailers(trailers));
                0
            });
            let Some(filter) = self.filters.get_mut(at) else { return Poll::Ready(Ok(())) };
            self.finished = Some(at + 1);
            let mut made = Vec::new();
            filter.finish(&mut made)?;
            write(&mut self.filters[at + 1..], &made, out)?;
        }
    }

    /// Passes a body that is in memory as a whole through all of them, and returns the result.
    ///
    /// # Errors
    /// A filter's.
    pub async fn whole(mut self, view: &mut BodyView<'_>, body: &[u8]) -> io::Result<Vec<u8>> {
        let mut made = Vec::new();
        self.write(body, &mut made)?;
        self.finish_taps();
        poll_fn(|cx| self.poll_finish(cx, view, &mut Vec::new(), &mut made)).await?;
        Ok(made)
    }
}

fn write(filters: &mut [Box<dyn BodyFilter>], piece: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    if piece.is_empty() {
        return Ok(());
    }
    match filters {
        [] => out.extend_from_slice(piece),
        [last] => last.write(piece, out)?,
        [first, rest @ ..] => {
            let mut made = Vec::new();
            first.write(piece, &mut made)?;
            write(rest, &made, out)?;
        }
    }
    Ok(())
}

impl fmt::Debug for BodyFilters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (taps, filters) = self.count();
        f.debug_struct("BodyFilters").field("taps", &taps).field("filters", &filters).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::Bench;
    use crate::{Awaited, Held, Replaced};
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;
    use std::task::Waker;
    use wire::{RequestHead, RequestView};

    /// Doubles each byte, and lets go of it when it is flushed.
    #[derive(Default)]
    struct Doubled(Vec<u8>);

    impl BodyFilter for Doubled {
        fn write(&mut self, piece: &[u8], _: &mut Vec<u8>) -> io::Result<()> {
            self.0.extend(piece.iter().flat_map(|byte| [*byte, *byte]));
            Ok(())
        }

        fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
            out.append(&mut self.0);
            Ok(())
        }

        fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
            self.flush(out)
        }
    }

    #[test]
    fn pieces_pass_all_filters_in_order() {
        let mut filters = BodyFilters::default();
        let mut out = Vec::new();
        filters.write(b"as it is", &mut out).unwrap();
        assert_eq!(out, b"as it is");

        filters.push(Doubled::default());
        filters.push(Held::new(8, |mut body: Vec<u8>| {
            body.push(b'!');
            Ok(body)
        }));
        filters.push(Doubled::default());
        out.clear();
        for piece in [&b"a"[..], b"b"] {
            filters.write(piece, &mut out).unwrap();
            filters.flush(&mut out).unwrap();
        }
        assert!(out.is_empty() && filters.want_more(true));
        filters.write(b"cd", &mut out).unwrap();
        filters.flush(&mut out).unwrap();
        assert!(out.is_empty(), "eight bytes are held");
        assert!(finish(&mut filters, &mut out).is_ready());
        assert_eq!(out, b"aaaabbbbccccdddd!!");
    }

    /// Ends a body.
    fn finish(filters: &mut BodyFilters, out: &mut Vec<u8>) -> Poll<()> {
        let (head, mut vars) = (RequestHead::default(), Vec::new());
        let mut view =
            BodyView { request: RequestView { head: &head, bytes: b"" }, status: 0, vars: &mut vars };
        let mut cx = Context::from_waker(Waker::noop());
        filters.poll_finish(&mut cx, &mut view, &mut Vec::new(), out).map(|done| done.unwrap())
    }

    #[test]
    fn pieces_wait_for_the_filter_before_them() {
        let (asked, answered) = (Rc::<RefCell<Vec<Vec<u8>>>>::default(), Rc::<Cell<usize>>::default());
        let mut filters = BodyFilters::default();
        let (note, count) = (Rc::clone(&asked), Rc::clone(&answered));
        filters.push(Doubled::default());
        filters.push(Awaited::new(move |view, piece: Vec<u8>| {
            view.vars.push(("asked".to_owned(), piece.clone()));
            note.borrow_mut().push(piece.clone());
            let (number, count) = (note.borrow().len(), Rc::clone(&count));
            poll_fn(move |_| match count.get() >= number {
                true => Poll::Ready(Ok([b"<", &*piece, b">"].concat())),
                false => Poll::Pending,
            })
        }));
        filters.push(Doubled::default());
        let bench = Bench::new("GET /\nHost: localhost");
        let mut exchange = bench.exchange();
        let mut view = exchange.body_view();
        let (mut cx, mut out) = (Context::from_waker(Waker::noop()), Vec::new());
        filters.write(b"a", &mut out).unwrap();
        filters.flush(&mut out).unwrap();
        assert!(filters.poll(&mut cx, &mut view, &mut out).is_pending());
        answered.set(1);
        assert!(filters.poll(&mut cx, &mut view, &mut out).is_ready());
        filters.flush(&mut out).unwrap();
        assert_eq!(out, b"<<aaaa>>");
        // The first filter lets go of the rest only at the end, which the others then wait for.
        filters.write(b"b", &mut out).unwrap();
        let mut trailers = Vec::new();
        assert!(filters.poll_finish(&mut cx, &mut view, &mut trailers, &mut out).is_pending());
        assert_eq!(out, b"<<aaaa>>");
        answered.set(2);
        assert!(filters.poll_finish(&mut cx, &mut view, &mut trailers, &mut out).is_ready());
        assert_eq!(out, b"<<aaaa>><<bbbb>>");
        assert_eq!(*asked.borrow(), [b"aa", b"bb"]);
        assert_eq!(exchange.vars.len(), 2, "the filter set a variable for each piece");
    }

    /// Notes what it got, and whether that was all.
    struct Tap(Rc<RefCell<String>>);

    impl Recorder for Tap {
        fn piece(&mut self, piece: &[u8]) {
            self.0.borrow_mut().push_str(&String::from_utf8_lossy(piece));
        }

        fn finish(self: Box<Self>) {
            self.0.borrow_mut().push('.');
        }
    }

    #[test]
    fn every_tap_gets_the_body_as_it_was_sent() {
        let taps = [Rc::<RefCell<String>>::default(), Rc::default()];
        let mut filters = BodyFilters::default();
        taps.iter().for_each(|tap| filters.tap(Box::new(Tap(Rc::clone(tap)))));
        assert!(!filters.is_empty() && !filters.change_anything() && filters.want_more(false));
        filters.push(Replaced(b"new".to_vec()));
        assert!(filters.change_anything() && filters.want_more(true), "the taps want all of it");
        let mut out = Vec::new();
        ["one", "two"].iter().for_each(|piece| filters.write(piece.as_bytes(), &mut out).unwrap());
        filters.finish_taps();
        assert!(!filters.want_more(true) && finish(&mut filters, &mut out).is_ready());
        assert_eq!(out, b"new");
        taps.iter().for_each(|tap| assert_eq!(*tap.borrow(), "onetwo."));
    }

    #[test]
    fn a_replaced_body_is_not_read() {
        let mut filters = BodyFilters::default();
        filters.push(Replaced(b"new".to_vec()));
        assert!(!filters.want_more(true));
        let mut out = Vec::new();
        filters.write(b"old", &mut out).unwrap();
        assert!(finish(&mut filters, &mut out).is_ready());
        assert_eq!(out, b"new");
    }
}
