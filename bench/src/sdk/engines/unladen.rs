//! unladen: attributes given at each observation, or stored beforehand. *Reusable* looks at what the
//! reader lends; *immutable* drops a snapshot and takes the next, as an exporter does that has sent it,
//! or holds it until it has the next.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use ::unladen::reader::{Batch, Points, Reader, Snapshot, Temporalities};
use ::unladen::{Attributes, Number as Value, OpenObserver, Registry, Role, Scope, Spec};
use bench::Failure;

use super::{Build, Engine};
use crate::case::{Collected, KEY, Mode, Number, Setup, Temporality, letters, observation};

/// A busy machine may keep a callback of 100,000 sets waiting; a bench wants its values all the same.
const PATIENCE: Duration = Duration::from_secs(600);

struct Unladen {
    setup: Setup,
    number: Number,
    reader: Reader,
    snapshot: Option<Arc<Snapshot>>,
    /// Whether a snapshot is still there when the next is taken.
    is_held: bool,
}

/// The attributes are given at each observation.
pub fn prepare(setup: Setup, number: Number) -> Build {
    prepare_given(setup, number, false)
}

/// The same, with a snapshot held until the next is there.
pub fn prepare_held(setup: Setup, number: Number) -> Build {
    prepare_given(setup, number, true)
}

fn prepare_given(setup: Setup, number: Number, is_held: bool) -> Build {
    let sets: Arc<[String]> = (0..setup.sets).map(letters).collect();
    Box::new(move || {
        build(setup, number, is_held, |_| {
            let sets = sets.clone();
            move |observer: &mut OpenObserver<'_>, collection| {
                for (set, value) in sets.iter().enumerate() {
                    observer.observe(observation(collection, set as u64), &[(KEY, value)]);
                }
            }
        })
    })
}

/// The attributes are stored before the first collection; the registry keeps them in either case.
pub fn prepare_resolved(setup: Setup, number: Number) -> Build {
    let sets: Vec<String> = (0..setup.sets).map(letters).collect();
    Box::new(move || {
        let mut stored: Option<Arc<[Attributes]>> = None;
        build(setup, number, false, |registry| {
            let store = || sets.iter().map(|set| registry.attributes(&[(KEY, set)])).collect();
            let sets = stored.get_or_insert_with(store).clone();
            move |observer: &mut OpenObserver<'_>, collection| {
                for (set, attributes) in sets.iter().enumerate() {
                    observer.observe_stored(observation(collection, set as u64), attributes);
                }
            }
        })
    })
}

/// Registers the instruments, each with the callback that `callback` makes, and a reader.
fn build<F>(
    setup: Setup,
    number: Number,
    is_held: bool,
    mut callback: impl FnMut(&Registry) -> F,
) -> Result<Box<dyn Engine>, Failure>
where
    F: Fn(&mut OpenObserver<'_>, u64) + Send + Sync + 'static,
{
    let registry = Registry::builder().callback_patience(PATIENCE).build();
    let scope = registry.scope(Scope::new("bench"));
    for index in 0..setup.instruments {
        let (observe, number) = (callback(&registry), number.clone());
        let name = format!("counter{index}");
        let spec = Spec::new(&name, "").limit(setup.limit);
        scope.observe_open(spec, Role::Counter, move |observer| {
            observe(observer, number.get());
        })?;
    }
    let temporalities = match setup.temporality {
        Temporality::Cumulative => Temporalities::CUMULATIVE,
        Temporality::Delta => Temporalities::DELTA,
    };
    let reader = Reader::new(&registry, temporalities);
    Ok(Box::new(Unladen { setup, number, reader, snapshot: None, is_held }))
}

impl Engine for Unladen {
    fn collect(&mut self) {
        self.number.advance();
        match self.setup.mode {
            Mode::Reusable => self.reader.collect(|batch| {
                black_box(batch.point_count());
            }),
            Mode::Immutable => {
                if !self.is_held {
                    self.snapshot = None;
                }
                self.snapshot = Some(self.reader.snapshot());
            }
        }
    }

    fn read(&mut self) -> Collected {
        match &self.snapshot {
            Some(snapshot) => collected(&snapshot.batch()),
            None => {
                self.number.advance();
                self.reader.collect(|batch| collected(batch))
            }
        }
    }
}

fn collected(batch: &Batch<'_>) -> Collected {
    let mut collected = Collected::default();
    for metric in batch.metrics() {
        if let Points::Sum { points, .. } = metric.points() {
            for point in points {
                collected.points += 1;
                if let Value::Unsigned(value) = point.value {
                    collected.sum += value;
                }
            }
        }
    }
    collected
}
