//! A stream whose items are written to the socket one by one.
//!
//! hyper gathers whatever a body has ready into one write, and writes when the body has nothing for now.
//! Two tokens in one write have one time of arrival, so [`Separately`] says «nothing for now» once between
//! any two items.

use futures_util::Stream;
use std::pin::Pin;
use std::task::{Context, Poll};

pub struct Separately<S: Stream> {
    inner: S,
    /// Taken from `inner` while the item before it was not written yet; `Some(None)` is the end.
    held: Option<Option<S::Item>>,
    unwritten: bool,
}

impl<S: Stream> Separately<S> {
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            held: None,
            unwritten: false,
        }
    }
}

impl<S: Stream<Item: Unpin> + Unpin> Stream for Separately<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let next = match self.held.take() {
            Some(held) => Poll::Ready(held),
            None => Pin::new(&mut self.inner).poll_next(context),
        };
        let unwritten = std::mem::replace(&mut self.unwritten, false);
        match next {
            Poll::Pending => Poll::Pending,
            Poll::Ready(item) if unwritten => {
                self.held = Some(item);
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Ready(item) => {
                self.unwritten = item.is_some();
                Poll::Ready(item)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Wakes(AtomicU32);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn between_two_items_there_is_a_pause_and_a_wake() {
        let wakes = Arc::new(Wakes::default());
        let waker = Arc::clone(&wakes).into();
        let mut context = Context::from_waker(&waker);
        let mut items = Separately::new(stream::iter(['a', 'b']));
        let polls: Vec<_> = (0..5)
            .map(|_| Pin::new(&mut items).poll_next(&mut context))
            .collect();
        assert_eq!(
            polls,
            [
                Poll::Ready(Some('a')),
                Poll::Pending,
                Poll::Ready(Some('b')),
                Poll::Pending,
                Poll::Ready(None),
            ]
        );
        assert_eq!(wakes.0.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn an_item_that_comes_late_is_not_held_back() {
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        let inner = stream::poll_fn(move |context| receiver.poll_recv(context));
        let mut items = Separately::new(inner);
        let waker = Arc::new(Wakes::default()).into();
        let mut context = Context::from_waker(&waker);
        let mut poll = || Pin::new(&mut items).poll_next(&mut context);
        sender.send('a').unwrap();
        assert_eq!(poll(), Poll::Ready(Some('a')));
        assert_eq!(poll(), Poll::Pending);
        sender.send('b').unwrap();
        assert_eq!(poll(), Poll::Ready(Some('b')));
    }
}
