//! From a body to the store's batch: lines are recognised, numbers read, series resolved once.
//!
//! Steps for each line: 1. Is it the line that followed last time? Then its bytes are compared and
//! its number is read. 2. Otherwise it is read as a line, and looked up by its bytes. 3. Otherwise it
//! is new: its labels are resolved and wait. When the whole body is read without a fault, 4. the new
//! series get their ids, 5. series that are missing are marked stale. A fault leaves the batch empty.
//!
//! Steady (all lines known): allocates nothing, from the body to the committed batch.

use std::fmt;
use std::sync::Arc;

use hashbrown::HashSet;
use store::Labels;
use store::db::{Appender, Db, Rejected, SeriesId};
use store::labels::METRIC_NAME;
use wire::exposition::{Event, Exemplar, Expected, Format, ReadError, Reader, Reading, Sample};

use super::bits::Bits;
use super::known::{Known, LineKind, NOWHERE, Place};
use super::lines::Tail;
use super::metadata::{Families, Said};
use super::resolve::{Refused, Resolved, resolve};
use crate::config::ScrapeConfig;
use crate::relabel::Scratch;

/// The value that says: this series has ended.
pub const STALE: f64 = f64::from_bits(0x7ff0_0000_0000_0002);

/// Samples further ahead of the clock than this are not taken.
const MOST_AHEAD_MS: i64 = 10 * 60 * 1000;

/// The series of one target, as far as its scrapes have shown them.
#[derive(Default)]
pub struct TargetSeries {
    known: Known,
    reports: [Option<SeriesId>; REPORTS.len()],
    families: Arc<Families>,
}

impl TargetSeries {
    pub(super) fn new(families: Arc<Families>) -> Self {
        TargetSeries { families, ..TargetSeries::default() }
    }

    /// Forgets how lines were relabelled, not which series are to be marked stale.
    pub(super) fn reset(&mut self) {
        self.known.reset();
    }

    /// Moves what was seen of a target to a target that takes its place.
    pub(super) fn set_families(&mut self, families: Arc<Families>) {
        self.families = families;
        // The comment lines have to be read again to fill the new one.
        self.known.reset();
    }

    /// Whether nothing was ever stored.
    pub(super) fn is_untouched(&self) -> bool {
        self.reports[0].is_none()
    }

    /// Bytes that the target's lines hold on to.
    pub fn memory_usage(&self) -> usize {
        self.known.memory_usage()
    }
}

/// What a scrape brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Samples in the body.
    pub scraped: u64,
    /// Those that relabelling kept.
    pub post_relabel: u64,
    /// Series that were not known.
    pub series_added: u64,
    /// Samples that came for a series that already had one in this scrape, or in the store, at the
    /// same time.
    pub duplicates: u64,
    /// Samples older than the last one of their series.
    pub out_of_order: u64,
    /// Samples too old, or too far in the future.
    pub out_of_bounds: u64,
}

/// Why nothing of a body is stored.
#[derive(Debug)]
pub struct Fault {
    kind: FaultKind,
}

#[derive(Debug)]
enum FaultKind {
    Read(ReadError),
    Invalid(String, u64),
    LabelLimit(String, u64),
    SampleLimit { samples: u64, limit: u64 },
    Store(store::Error),
    Memory,
}

impl Fault {
    /// Whether `sample_limit` was exceeded.
    pub fn is_sample_limit(&self) -> bool {
        matches!(self.kind, FaultKind::SampleLimit { .. })
    }

    /// Whether a limit on labels was exceeded.
    pub fn is_label_limit(&self) -> bool {
        matches!(self.kind, FaultKind::LabelLimit(..))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            FaultKind::Read(error) => write!(f, "cannot read the body: {error}"),
            FaultKind::Invalid(reason, line) | FaultKind::LabelLimit(reason, line) => {
                write!(f, "line {line}: {reason}")
            }
            FaultKind::SampleLimit { samples, limit } => write!(
                f,
                "sample_limit exceeded (samples after metric relabelling: {samples}, limit: {limit})"
            ),
            FaultKind::Store(error) => write!(f, "the store takes no more series: {error}"),
            FaultKind::Memory => f.write_str("the target has more series than can be remembered"),
        }
    }
}

impl std::error::Error for Fault {}

/// One body, and how to take it.
#[derive(Clone, Copy)]
pub struct Body<'a> {
    /// Its bytes, inflated.
    pub bytes: &'a [u8],
    /// Its format.
    pub format: Format,
    /// When it was scraped, in milliseconds since 1970.
    pub now_ms: i64,
    /// The labels that its series get.
    pub labels: &'a Labels,
    /// The job.
    pub config: &'a ScrapeConfig,
}

/// Takes bodies, one after the other. Each worker has one: nothing in it belongs to a target.
pub struct Ingester {
    appender: Appender,
    /// The lines of the samples in the batch, as far as samples of lines go.
    batch: Places,
    /// After a body was read: its format. Lines that are gone are thrown out when the batch is settled;
    /// until then it names lines by their places.
    collect: Option<Format>,
    /// The lines of the current scrape.
    seen: Bits,
    /// Those of them whose absence from the next scrape is a staleness marker.
    tracked: Bits,
    /// The lines that the batch marks stale.
    ended: Vec<Place>,
    scratch: Scratch,
    /// A line's text, put together.
    text: Vec<u8>,
    tail: Tail,
    /// The series of the current scrape: only filled where some are missing.
    present: HashSet<SeriesId, foldhash::fast::RandomState>,
}

/// The lines of a batch's samples. Neighbours are told once.
#[derive(Default)]
struct Places {
    /// Where runs of neighbours begin: the sample, and its line.
    runs: Vec<(usize, Place)>,
    length: usize,
    /// The line of the next sample, if it belongs to the last run.
    next: Place,
}

impl Places {
    #[inline]
    fn push(&mut self, place: Place) {
        if place != self.next || self.length == 0 {
            self.runs.push((self.length, place));
        }
        self.length += 1;
        self.next = place + 1;
    }

    /// The line of a sample; `None` for those that are not of lines.
    fn get(&self, sample: usize) -> Option<Place> {
        let run = self.runs.partition_point(|(begin, _)| *begin <= sample).checked_sub(1)?;
        let (begin, place) = self.runs[run];
        (sample < self.length).then(|| place + (sample - begin) as Place)
    }

    fn clear(&mut self) {
        self.runs.clear();
        self.length = 0;
    }
}

/// A sample of a new series.
struct Pending<'a> {
    place: Place,
    labels: Labels,
    timestamp: i64,
    value: f64,
    exemplar: Option<Exemplar<'a>>,
}

/// Where the reading of one body stands.
struct Pass<'a, 'b> {
    body: Body<'a>,
    series: &'b mut TargetSeries,
    counts: Counts,
    /// Samples that were or would have been appended.
    limited: u64,
    limit: u64,
    pending: Vec<Pending<'a>>,
    /// How many lines were known before.
    lines_before: usize,
    /// For each line since then its place in `pending`; comments and dropped series have none.
    pending_of: Vec<u32>,
}

impl Ingester {
    /// An ingester of its own for each worker. Setup.
    pub fn new(db: &Db) -> Self {
        Ingester {
            appender: db.appender(),
            batch: Places::default(),
            collect: None,
            seen: Bits::default(),
            tracked: Bits::default(),
            ended: Vec::new(),
            scratch: Scratch::new(),
            text: Vec::new(),
            tail: Tail::default(),
            present: HashSet::default(),
        }
    }

    /// Reads `body` into the batch, with staleness markers for what it no longer has.
    ///
    /// # Errors
    /// The body cannot be read or exceeds a limit: the batch is empty, and the counts say how far it
    /// went.
    pub fn read(
        &mut self,
        series: &mut TargetSeries,
        body: Body<'_>,
    ) -> Result<Counts, (Fault, Counts)> {
        let _stage = profiler::stage("parse");
        self.rollback();
        self.appender.stay_with(series.reports[0]);
        series.known.generation += 1;
        let lines_before = series.known.len();
        self.seen.reset(lines_before);
        self.tracked.reset(lines_before);
        self.tail.forget();
        let limit = body.config.limits.samples.unwrap_or(u64::MAX);
        let mut pass = Pass {
            body,
            series,
            counts: Counts::default(),
            limited: 0,
            limit,
            pending: Vec::new(),
            lines_before,
            pending_of: Vec::new(),
        };
        let result = pass.walk(self).and_then(|()| pass.settle(self));
        match result {
            Ok(()) => {
                let counts = pass.counts;
                self.mark_missing(series, body.now_ms);
                self.collect = Some(body.format);
                Ok(counts)
            }
            Err(kind) => {
                // Of a scrape that fails nothing is added, whatever was new in it.
                let counts = Counts { series_added: 0, ..pass.counts };
                series.known.truncate(lines_before);
                self.rollback();
                Err((Fault { kind }, counts))
            }
        }
    }

    /// Marks every series of the target stale: after a failed scrape, and when the target is gone.
    pub fn mark_all_stale(&mut self, series: &mut TargetSeries, now_ms: i64) {
        self.rollback();
        let known = &mut series.known;
        for place in known.live.iter() {
            self.ended.push(place as Place);
            if let Some(id) = known.id(place as Place) {
                self.appender.append(id, now_ms, STALE);
            }
        }
        known.live.clear();
        for &id in &known.orphans {
            self.appender.append(id, now_ms, STALE);
        }
    }

    /// Adds what the server says about a scrape itself.
    ///
    /// # Errors
    /// The store takes no more series.
    pub fn report(
        &mut self,
        series: &mut TargetSeries,
        labels: &Labels,
        now_ms: i64,
        report: &Report,
    ) -> Result<(), store::Error> {
        let _stage = profiler::stage("append");
        let values = report.values();
        for (index, name) in REPORTS.iter().enumerate() {
            let Some(value) = values[index] else { continue };
            let id = match series.reports[index] {
                Some(id) => id,
                None => {
                    let mut own = labels.to_builder();
                    own.set(METRIC_NAME, name);
                    *series.reports[index].insert(self.appender.series(&own.build())?)
                }
            };
            self.appender.append(id, now_ms, value);
        }
        Ok(())
    }

    /// Commits the batch, and adds what the store refused to `counts`. Says whether the scrape has to
    /// be taken again, because the store had forgotten some of its series.
    ///
    /// # Errors
    /// The journal cannot be written. The batch is gone, and little or nothing of it is stored; what
    /// lived before and what the body brought is to be marked stale by the next batch that can be
    /// written.
    pub fn commit(
        &mut self,
        series: &mut TargetSeries,
        counts: &mut Counts,
    ) -> Result<bool, store::Error> {
        let _stage = profiler::stage("append");
        let committed = match self.appender.commit() {
            Ok(committed) => committed,
            Err(error) => {
                series.known.revive(&self.ended);
                self.rollback();
                return Err(error);
            }
        };
        let mut again = false;
        for &(index, reason) in &committed.rejected {
            let Some(place) = self.batch.get(index) else {
                // Staleness markers and reports: expected when a target comes back. Only reports must
                // not get lost; a marker has nothing to end where the series is forgotten.
                if reason == Rejected::UnknownSeries {
                    again |= series.reports.iter().any(Option::is_some);
                    series.reports = Default::default();
                }
                continue;
            };
            match reason {
                Rejected::OutOfOrder => counts.out_of_order += 1,
                Rejected::DuplicateTimestamp => counts.duplicates += 1,
                Rejected::TooOld => counts.out_of_bounds += 1,
                Rejected::UnknownSeries => {
                    series.known.forget(place);
                    again = true;
                    continue;
                }
            }
            // Somebody else writes this series: its end is not ours to mark.
            series.known.live.unset(place as usize);
        }
        series.known.orphans.clear();
        if let Some(format) = self.collect.take()
            && series.known.collect(&self.seen)
        {
            retain_families(series, format);
        }
        self.rollback();
        Ok(again)
    }

    /// Forgets the batch.
    pub fn rollback(&mut self) {
        self.appender.rollback();
        self.batch.clear();
        self.ended.clear();
        self.collect = None;
    }

    /// Marks what was live and is missing. Costs next to nothing where what was live came back.
    fn mark_missing(&mut self, series: &mut TargetSeries, now_ms: i64) {
        let known = &mut series.known;
        if self.tracked.same(&known.live) && known.orphans.is_empty() {
            return;
        }
        let missing = known.live.without(&self.tracked).next().is_some();
        if missing || !known.orphans.is_empty() {
            // One series can stand in the body under several spellings.
            self.present.clear();
            let tracked = self.tracked.iter();
            self.present.extend(tracked.filter_map(|place| known.id(place as Place)));
        }
        for place in known.live.without(&self.tracked) {
            let Some(id) = known.id(place as Place) else { continue };
            if !self.present.contains(&id) {
                self.appender.append(id, now_ms, STALE);
                self.ended.push(place as Place);
            }
        }
        for id in &known.orphans {
            if !self.present.contains(id) {
                self.appender.append(*id, now_ms, STALE);
            }
        }
        known.live.copy(&self.tracked);
        self.present.clear();
    }
}

impl<'a> Pass<'a, '_> {
    /// Reads the whole body.
    fn walk(&mut self, ingester: &mut Ingester) -> Result<(), FaultKind> {
        let mut reader = Reader::new(self.body.bytes, self.body.format);
        let mut before = NOWHERE;
        let mut expected = self.series.known.follower(before);
        // Where the expected line is told, if it is by its difference from the line taken last.
        let mut straight = None;
        loop {
            let known = &self.series.known;
            let kind = known.kind(expected).unwrap_or(LineKind::Forgotten);
            if kind != LineKind::Forgotten {
                let (line, behind) = match straight.and_then(|at| known.lines.read(at)) {
                    Some(line) => line,
                    None => {
                        let behind = known.lines.locate(expected, &mut ingester.text);
                        (Expected::from(&ingester.text[..]), behind)
                    }
                };
                let taken = if kind == LineKind::Comment {
                    let taken = reader.comment_if(line);
                    if taken {
                        ingester.seen.set(expected as usize);
                    }
                    taken
                } else if let Some(reading) = reader.sample_if(line) {
                    self.sample(expected, kind, reading.map_err(FaultKind::Read)?, ingester);
                    true
                } else {
                    false
                };
                if taken {
                    before = expected;
                    expected = self.series.known.follower(before);
                    straight = (expected == before + 1).then_some(behind);
                    continue;
                }
            }
            straight = None;
            let Some(event) = reader.next() else { break };
            let place = match event.map_err(FaultKind::Read)? {
                Event::Sample(sample) => self.unexpected(&sample, &reader, ingester)?,
                Event::Comment(_) => continue,
                event => self.comment(event, reader.last_line(), ingester)?,
            };
            let Some(place) = place else { continue };
            self.series.known.follow(before, place);
            before = place;
            expected = self.series.known.follower(before);
        }
        if self.limited > self.limit {
            let limit = self.limit;
            return Err(FaultKind::SampleLimit { samples: self.counts.post_relabel, limit });
        }
        Ok(())
    }

    /// Gives the new series their ids, in the order of the body.
    fn settle(&mut self, ingester: &mut Ingester) -> Result<(), FaultKind> {
        let _stage = profiler::stage("append");
        for pending in std::mem::take(&mut self.pending) {
            let id = ingester.appender.series(&pending.labels).map_err(FaultKind::Store)?;
            self.series.known.set_id(pending.place, id);
            ingester.appender.append(id, pending.timestamp, pending.value);
            ingester.batch.push(pending.place);
            if let Some(exemplar) = pending.exemplar {
                append_exemplar(&mut ingester.appender, id, &exemplar, pending.timestamp);
            }
        }
        Ok(())
    }

    /// A sample of a known line.
    #[inline]
    fn sample(
        &mut self,
        place: Place,
        kind: LineKind,
        reading: Reading<'a>,
        ingester: &mut Ingester,
    ) {
        self.counts.scraped += 1;
        let again = ingester.seen.set(place as usize);
        if kind == LineKind::Dropped {
            return;
        }
        self.counts.post_relabel += 1;
        let explicit = reading.timestamp_ms.filter(|_| self.body.config.honor_timestamps);
        if again && explicit.is_none() {
            self.counts.duplicates += 1;
            return;
        }
        let timestamp = explicit.unwrap_or(self.body.now_ms);
        self.limited += 1;
        if self.limited > self.limit {
            return;
        }
        if timestamp > self.body.now_ms + MOST_AHEAD_MS {
            self.counts.out_of_bounds += 1;
            return;
        }
        // A new series that stands twice in the body with timestamps of its own has no id yet.
        let Some(id) = self.series.known.id(place) else {
            let first = self.pending_of.get(place as usize - self.lines_before);
            if let Some(first) = first.and_then(|first| self.pending.get(*first as usize)) {
                let (labels, value) = (first.labels.clone(), reading.value);
                let exemplar = reading.exemplar;
                self.pending.push(Pending { place, labels, timestamp, value, exemplar });
            }
            return;
        };
        ingester.appender.append(id, timestamp, reading.value);
        ingester.batch.push(place);
        if explicit.is_none() || self.body.config.track_timestamps_staleness {
            ingester.tracked.set(place as usize);
        }
        if let Some(exemplar) = &reading.exemplar {
            append_exemplar(&mut ingester.appender, id, exemplar, timestamp);
        }
    }

    /// A sample that is not where it was, or is new. `None`: not to be remembered.
    #[cold]
    fn unexpected(
        &mut self,
        sample: &Sample<'a>,
        reader: &Reader<'a>,
        ingester: &mut Ingester,
    ) -> Result<Option<Place>, FaultKind> {
        let text = sample.series.as_bytes();
        let known = &mut self.series.known;
        if let Some(place) = known.find(text, &mut ingester.text) {
            let kind = known.kind(place).unwrap_or(LineKind::Forgotten);
            self.sample(place, kind, sample.reading, ingester);
            return Ok(Some(place));
        }
        let line_number = || {
            let before = &self.body.bytes[..reader.offset().saturating_sub(1)];
            1 + memchr::memchr_iter(b'\n', before).count() as u64
        };
        self.counts.scraped += 1;
        let relabelling = profiler::stage("relabel");
        let resolved = resolve(sample, self.body.labels, self.body.config, &mut ingester.scratch)
            .map_err(|refused| match refused {
            Refused::Invalid(reason) => FaultKind::Invalid(reason, line_number()),
            Refused::Limit(reason) => FaultKind::LabelLimit(reason, line_number()),
        })?;
        drop(relabelling);
        let labels = match resolved {
            Resolved::Keep(labels) => labels,
            Resolved::Drop => {
                let place = self.remember(text, LineKind::Dropped, ingester)?;
                return Ok(Some(place));
            }
        };
        self.counts.post_relabel += 1;
        let explicit = sample.reading.timestamp_ms.filter(|_| self.body.config.honor_timestamps);
        let timestamp = explicit.unwrap_or(self.body.now_ms);
        self.limited += 1;
        if self.limited > self.limit {
            // Only the number of samples still counts. Nothing is remembered of a scrape that fails.
            return Ok(None);
        }
        if timestamp > self.body.now_ms + MOST_AHEAD_MS {
            self.counts.out_of_bounds += 1;
            return Ok(None);
        }
        let place = self.remember(text, LineKind::Series, ingester)?;
        self.counts.series_added += 1;
        if explicit.is_none() || self.body.config.track_timestamps_staleness {
            ingester.tracked.set(place as usize);
        }
        let Reading { value, exemplar, .. } = sample.reading;
        self.pending.push(Pending { place, labels, timestamp, value, exemplar });
        Ok(Some(place))
    }

    /// A comment that is not where it was, or is new.
    #[cold]
    fn comment(
        &mut self,
        event: Event<'a>,
        text: &[u8],
        ingester: &mut Ingester,
    ) -> Result<Option<Place>, FaultKind> {
        let mut name = String::new();
        let mut said = String::new();
        let families = &self.series.families;
        match event {
            Event::Help { family, text } => {
                families.say(family.resolve(&mut name), &Said::Help(text.resolve(&mut said)));
            }
            Event::Type { family, kind } => {
                families.say(family.resolve(&mut name), &Said::Kind(kind));
            }
            Event::Unit { family, unit } => {
                families.say(family.resolve(&mut name), &Said::Unit(unit.resolve(&mut said)));
            }
            Event::Comment(_) | Event::Sample(_) => return Ok(None),
        }
        match self.series.known.find(text, &mut ingester.text) {
            Some(place) => {
                ingester.seen.set(place as usize);
                Ok(Some(place))
            }
            None => self.remember(text, LineKind::Comment, ingester).map(Some),
        }
    }

    /// Adds a line of this body to those that are known.
    fn remember(
        &mut self,
        text: &[u8],
        kind: LineKind,
        ingester: &mut Ingester,
    ) -> Result<Place, FaultKind> {
        let pending = if kind == LineKind::Series { self.pending.len() as u32 } else { NOWHERE };
        self.pending_of.push(pending);
        let known = &mut self.series.known;
        let place = known.add(text, kind, &mut ingester.tail).ok_or(FaultKind::Memory)?;
        ingester.seen.grow(known.len());
        ingester.tracked.grow(known.len());
        ingester.seen.set(place as usize);
        Ok(place)
    }
}

/// Forgets the families that no remembered comment names.
fn retain_families(series: &TargetSeries, format: Format) {
    let mut named = HashSet::<String, foldhash::fast::RandomState>::default();
    let known = &series.known;
    known.comments(|text| {
        if let Some(Ok(
            Event::Help { family, .. } | Event::Type { family, .. } | Event::Unit { family, .. },
        )) = Reader::new(text, format).next()
        {
            named.insert(family.to_cow().into_owned());
        }
    });
    series.families.retain(|name| named.contains(name));
}

fn append_exemplar(appender: &mut Appender, id: SeriesId, exemplar: &Exemplar<'_>, timestamp: i64) {
    let timestamp = exemplar.timestamp_ms.unwrap_or(timestamp);
    let plain = exemplar
        .labels()
        .all(|label| label.name.as_plain().is_some() && label.value.as_plain().is_some());
    if plain {
        let labels = exemplar
            .labels()
            .filter_map(|label| Some((label.name.as_plain()?, label.value.as_plain()?)));
        appender.exemplar(id, labels, exemplar.value, timestamp);
    } else {
        let own: Vec<_> =
            exemplar.labels().map(|label| (label.name.to_cow(), label.value.to_cow())).collect();
        let labels = own.iter().map(|(name, value)| (&**name, &**value));
        appender.exemplar(id, labels, exemplar.value, timestamp);
    }
}

/// The series that the server adds to each target, in the order of [`Report::values`].
const REPORTS: [&str; 8] = [
    "up",
    "scrape_duration_seconds",
    "scrape_samples_scraped",
    "scrape_samples_post_metric_relabeling",
    "scrape_series_added",
    "scrape_timeout_seconds",
    "scrape_sample_limit",
    "scrape_body_size_bytes",
];

/// What the server says about a scrape.
#[derive(Clone, Copy, Debug)]
pub enum Report {
    /// It took place.
    Scraped {
        /// Whether it worked.
        up: bool,
        /// How long it took, in seconds.
        seconds: f64,
        /// What it brought.
        counts: Counts,
        /// For `extra_scrape_metrics`.
        extra: Option<Extra>,
    },
    /// The target is gone.
    Gone {
        /// Whether the target had the extra series.
        extra: bool,
    },
}

/// What `extra_scrape_metrics` adds.
#[derive(Clone, Copy, Debug)]
pub struct Extra {
    /// The timeout in seconds.
    pub timeout_seconds: f64,
    /// `sample_limit`, 0 for none.
    pub sample_limit: u64,
    /// Bytes of the inflated body; -1 when `body_size_limit` was exceeded.
    pub body_bytes: i64,
}

impl Report {
    fn values(&self) -> [Option<f64>; REPORTS.len()] {
        match self {
            Report::Scraped { up, seconds, counts, extra } => [
                Some(f64::from(u8::from(*up))),
                Some(*seconds),
                Some(counts.scraped as f64),
                Some(counts.post_relabel as f64),
                Some(counts.series_added as f64),
                extra.map(|extra| extra.timeout_seconds),
                extra.map(|extra| extra.sample_limit as f64),
                extra.map(|extra| extra.body_bytes as f64),
            ],
            Report::Gone { extra } => {
                std::array::from_fn(|index| (index < 5 || *extra).then_some(STALE))
            }
        }
    }
}
