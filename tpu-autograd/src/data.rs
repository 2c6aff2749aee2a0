//! Data sets, and batches of them made ahead on another thread.
//!
//! The order of an epoch depends on the seed and the epoch alone, so that it is the same on every machine, and a run that is resumed
//! goes on with the batch that it would have had.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use tpu_core::random::random_group;
use tpu_core::{Device, Error, ErrorKind, Result, ensure};

/// Examples by number.
pub trait Dataset: Send + Sync {
    /// What an example is.
    type Item;

    /// Number of examples.
    fn len(&self) -> usize;

    /// Example `index`, below [`len`](Self::len).
    fn get(&self, index: usize) -> Result<Self::Item>;

    /// Whether there is no example.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A data set of so many examples that a function gives by number.
///
/// ```
/// use tpu_autograd::data::{Dataset, from_fn};
/// let squares = from_fn(10, |at| Ok(at * at));
/// assert_eq!(squares.get(3)?, 9);
/// # Ok::<(), tpu_core::Error>(())
/// ```
pub fn from_fn<T, F: Fn(usize) -> Result<T> + Send + Sync>(len: usize, get: F) -> FromFn<F> {
    FromFn { len, get }
}

/// What [`from_fn`] gives.
#[derive(Clone, Copy, Debug)]
pub struct FromFn<F> {
    len: usize,
    get: F,
}

impl<T, F: Fn(usize) -> Result<T> + Send + Sync> Dataset for FromFn<F> {
    type Item = T;

    fn len(&self) -> usize {
        self.len
    }

    fn get(&self, index: usize) -> Result<T> {
        (self.get)(index)
    }
}

/// Settings of [`Loader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoaderOptions {
    /// Examples of a batch.
    pub batch: usize,
    /// Another order in each epoch, by this seed; without it the order is that of the data set.
    pub shuffle: Option<u64>,
    /// Leave out a last batch that is not full.
    pub drop_last: bool,
    /// Batches made ahead, on a thread of their own; 0: each is made when it is asked for.
    pub prefetch: usize,
}

impl Default for LoaderOptions {
    /// Single examples in order, two of them ahead.
    fn default() -> Self {
        Self { batch: 1, shuffle: None, drop_last: false, prefetch: 2 }
    }
}

/// A place in the sequence of all batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Passes over the data that are over.
    pub epoch: u64,
    /// Batches of this pass that are over.
    pub batch: usize,
}

/// Batches of a data set, which a function makes of examples.
///
/// ```
/// use tpu_autograd::data::{Loader, LoaderOptions, Position, from_fn};
/// use tpu_core::Tensor;
/// let options = LoaderOptions { batch: 2, shuffle: Some(7), ..Default::default() };
/// let loader = Loader::new(from_fn(5, |at| Ok(at as f32)), |items| Tensor::from_vec(items.clone(), items.len()), options)?;
/// let mut seen = Vec::new();
/// for batch in loader.epoch(Position::default())? {
///     seen.extend(batch?.to_vec::<f32>()?);
/// }
/// seen.sort_by(f32::total_cmp);
/// assert_eq!(seen, [0.0, 1.0, 2.0, 3.0, 4.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
pub struct Loader<D, C> {
    shared: Arc<(D, C)>,
    options: LoaderOptions,
}

impl<D, C, B> Loader<D, C>
where
    D: Dataset + 'static,
    C: Fn(Vec<D::Item>) -> Result<B> + Send + Sync + 'static,
    B: Send + 'static,
{
    /// A loader. `collate` makes a batch of the examples in it. Errors on a batch of no examples.
    pub fn new(dataset: D, collate: C, options: LoaderOptions) -> Result<Self> {
        ensure!(options.batch > 0, Value, "loader", "requires a batch of at least one example, got 0");
        Ok(Self { shared: Arc::new((dataset, collate)), options })
    }

    /// The data set.
    pub fn dataset(&self) -> &D {
        &self.shared.0
    }

    /// Batches of an epoch.
    pub fn batches(&self) -> usize {
        let (len, batch) = (self.shared.0.len(), self.options.batch);
        if self.options.drop_last { len / batch } else { len.div_ceil(batch) }
    }

    /// The examples of an epoch in its order.
    pub fn order(&self, epoch: u64) -> Vec<usize> {
        order(self.shared.0.len(), self.options.shuffle, epoch)
    }

    /// The place after this one.
    pub fn after(&self, position: Position) -> Position {
        let Position { epoch, batch } = position;
        if batch + 1 < self.batches() {
            Position { epoch, batch: batch + 1 }
        } else {
            Position { epoch: epoch + 1, batch: 0 }
        }
    }

    /// The batches of an epoch from a place on. An error of the data set or of `collate`, or a panic in them, is what the iterator
    /// gives instead of the batch; then it ends.
    ///
    /// With a prefetch, a thread makes them ahead, with the current device of this one. It ends with the iterator. Errors if there can
    /// be no such thread, or on a place beyond the epoch.
    pub fn epoch(&self, from: Position) -> Result<Batches<B>> {
        let all = self.batches();
        ensure!(
            from.batch <= all,
            Value,
            "loader",
            "requires a place within the {all} batches of an epoch, got {}",
            from.batch
        );
        let (shared, size) = (self.shared.clone(), self.options.batch);
        let order = self.order(from.epoch);
        let mut next = from.batch;
        let mut make = move || {
            let (dataset, collate) = &*shared;
            let indices = order.get(next * size..).filter(|_| next < all)?;
            next += 1;
            let indices = &indices[..size.min(indices.len())];
            let work = || collate(indices.iter().map(|&index| dataset.get(index)).collect::<Result<Vec<_>>>()?);
            Some(catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(&*panic))))
        };
        if self.options.prefetch == 0 {
            return Ok(Batches { source: Some(Source::Here(Box::new(make))), worker: None });
        }
        let (sender, receiver) = sync_channel(self.options.prefetch - 1);
        let device = Device::current()?;
        let work = move || device.scope(|| send_all(&sender, &mut make));
        let worker = std::thread::Builder::new().name("loader".into()).spawn(work);
        let worker = worker
            .map_err(|error| Error::new(ErrorKind::Io, "loader", format!("could not start a thread: {error}")))?;
        Ok(Batches { source: Some(Source::There(receiver)), worker: Some(worker) })
    }
}

/// Sends until there is no more, or nobody receives.
fn send_all<B>(sender: &SyncSender<Result<B>>, make: &mut impl FnMut() -> Option<Result<B>>) {
    while let Some(batch) = make() {
        let last = batch.is_err();
        if sender.send(batch).is_err() || last {
            return;
        }
    }
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    Error::new(ErrorKind::Internal, "loader", format!("the data set panicked: {}", text.unwrap_or("without a text")))
}

/// Numbers below `len`, shuffled by a seed and an epoch (Fisher and Yates), or in order.
fn order(len: usize, seed: Option<u64>, epoch: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    let Some(seed) = seed else { return order };
    // Each epoch has counters of its own: the last place is drawn first, two words each.
    let mut group = [0; 4];
    for (drawn, last) in (1..len).rev().enumerate() {
        if drawn % 2 == 0 {
            group = random_group(seed, epoch.wrapping_mul(1 << 40), drawn as u64 / 2);
        }
        let word = u64::from(group[2 * (drawn % 2)]) << 32 | u64::from(group[2 * (drawn % 2) + 1]);
        // Lemire's reduction: the high half of a word times the number of places.
        let place = (u128::from(word) * (last as u128 + 1)) >> 64;
        order.swap(last, place as usize);
    }
    order
}

/// Where batches come from.
enum Source<B> {
    Here(Box<dyn FnMut() -> Option<Result<B>> + Send>),
    There(Receiver<Result<B>>),
}

/// The batches of an epoch: see [`Loader::epoch`].
pub struct Batches<B> {
    /// None once it has ended.
    source: Option<Source<B>>,
    worker: Option<JoinHandle<()>>,
}

impl<B> Iterator for Batches<B> {
    type Item = Result<B>;

    fn next(&mut self) -> Option<Result<B>> {
        let batch = match self.source.as_mut()? {
            Source::Here(make) => make(),
            Source::There(receiver) => receiver.recv().ok(),
        };
        if !matches!(batch, Some(Ok(_))) {
            self.source = None;
        }
        batch
    }
}

impl<B> Drop for Batches<B> {
    fn drop(&mut self) {
        // The thread ends at its next batch, which nobody receives any more.
        self.source = None;
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    type Numbers = Loader<FromFn<fn(usize) -> Result<usize>>, fn(Vec<usize>) -> Result<Vec<usize>>>;

    fn numbers(len: usize, options: LoaderOptions) -> Numbers {
        Loader::new(from_fn(len, Ok as fn(usize) -> Result<usize>), Ok as fn(Vec<usize>) -> _, options).unwrap()
    }

    fn all(loader: &Numbers, from: Position) -> Vec<Vec<usize>> {
        loader.epoch(from).unwrap().collect::<Result<_>>().unwrap()
    }

    #[test]
    fn batches_come_in_order_and_the_last_one_may_be_left_out() {
        for prefetch in [0, 1, 3] {
            let options = LoaderOptions { batch: 3, prefetch, ..LoaderOptions::default() };
            let loader = numbers(8, options);
            assert_eq!(all(&loader, Position::default()), [vec![0, 1, 2], vec![3, 4, 5], vec![6, 7]]);
            let full = numbers(8, LoaderOptions { drop_last: true, ..options });
            assert_eq!(all(&full, Position::default()), [[0, 1, 2], [3, 4, 5]]);
            assert!(all(&numbers(0, options), Position::default()).is_empty());
        }
    }

    #[test]
    fn the_order_of_an_epoch_depends_on_seed_and_epoch_alone() {
        // From tests/order.py, which has the formulas once more.
        assert_eq!(order(8, Some(1), 0), [3, 1, 5, 0, 2, 6, 4, 7]);
        assert_ne!(order(100, Some(1), 0), order(100, Some(1), 1));
        assert_ne!(order(100, Some(1), 0), order(100, Some(2), 0));
        for epoch in 0..20 {
            let mut sorted = order(101, Some(3), epoch);
            sorted.sort_unstable();
            assert_eq!(sorted, (0..101).collect::<Vec<_>>());
        }
    }

    #[test]
    fn every_place_is_as_likely_as_any_other() {
        let mut counts = [[0; 6]; 6];
        for epoch in 0..6000 {
            for (place, number) in order(6, Some(5), epoch).into_iter().enumerate() {
                counts[place][number] += 1;
            }
        }
        // 1000 each; the deviation of a count is √(6000 · 1/6 · 5/6) = 29, and 36 counts stay within five of it.
        assert!(counts.iter().flatten().all(|&count| (855..1145).contains(&count)), "{counts:?}");
    }

    #[test]
    fn a_resumed_epoch_goes_on_with_the_batch_it_would_have_had() {
        let loader = numbers(10, LoaderOptions { batch: 4, shuffle: Some(1), ..LoaderOptions::default() });
        let whole = all(&loader, Position { epoch: 3, batch: 0 });
        assert_eq!(all(&loader, Position { epoch: 3, batch: 2 }), whole[2..]);
        assert_eq!(all(&loader, Position { epoch: 3, batch: 3 }), Vec::<Vec<usize>>::new());
        let mut position = Position { epoch: 3, batch: 1 };
        position = loader.after(position);
        assert_eq!(
            (position, loader.after(position)),
            (Position { epoch: 3, batch: 2 }, Position { epoch: 4, batch: 0 })
        );
        assert!(loader.epoch(Position { epoch: 0, batch: 4 }).is_err());
    }

    #[test]
    fn errors_and_panics_come_to_who_asks_and_end_the_epoch() {
        for prefetch in [0, 2] {
            let get = |at: usize| match at {
                3 => Err(Error::new(ErrorKind::Value, "test", "example 3")),
                5 => panic!("example 5"),
                _ => Ok(at),
            };
            let options = LoaderOptions { prefetch, ..LoaderOptions::default() };
            let loader = Loader::new(from_fn(8, get), Ok, options).unwrap();
            let from = |batch| {
                loader.epoch(Position { epoch: 0, batch }).unwrap().map(|batch| batch.map_err(|e| e.to_string()))
            };
            let found: Vec<_> = from(2).collect();
            assert!(found.len() == 2 && found[0] == Ok(vec![2]));
            assert!(found[1].as_ref().is_err_and(|error| error.contains("example 3")), "{found:?}");
            let found: Vec<_> = from(4).collect();
            assert_eq!(found.len(), 2);
            assert!(found[1].as_ref().is_err_and(|error| error.contains("panicked: example 5")), "{found:?}");
        }
    }

    #[test]
    fn no_more_batches_are_made_ahead_than_asked_and_a_dropped_epoch_ends_its_thread() {
        let made = Arc::new(AtomicUsize::new(0));
        let counter = made.clone();
        let get = move |at: usize| {
            counter.fetch_add(1, Ordering::SeqCst);
            Ok(at)
        };
        let loader =
            Loader::new(from_fn(1000, get), Ok, LoaderOptions { prefetch: 3, ..LoaderOptions::default() }).unwrap();
        let mut batches = loader.epoch(Position::default()).unwrap();
        assert_eq!(batches.next().unwrap().unwrap(), [0]);
        drop(batches);
        // The one received, three ahead, and one that the drop may have let through.
        assert!(made.load(Ordering::SeqCst) <= 5);
        // Its thread is gone: nobody else holds the data set.
        assert_eq!(Arc::strong_count(&loader.shared), 1);
    }
}
