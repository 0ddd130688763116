//! Series and samples of several sources as one.
//!
//! A series may have its past in blocks and its present in the head, and blocks may overlap. Sources
//! are listed with the one first that is believed where two have a sample of the same time.
//!
//! Samples are merged in runs: of the source with the earliest sample, all that lies before the next
//! source's earliest is copied at once. Sources one behind the other therefore cost a comparison per
//! run and not per sample. Each source has one run in memory.

use crate::Error;
use crate::labels::Labels;
use crate::select::{Cursor, Samples, Series};

/// Merges lists of series that are each sorted by labels into one, sorted by labels, without
/// duplicates. Of a series that stands in one list only, nothing is wrapped or copied.
pub fn merge<'a>(lists: Vec<Vec<Box<dyn Series + 'a>>>) -> Vec<Box<dyn Series + 'a>> {
    let mut lists: Vec<_> = lists.into_iter().filter(|list| !list.is_empty()).collect();
    if lists.len() < 2 {
        return lists.pop().unwrap_or_default();
    }
    let mut all: Vec<Box<dyn Series + 'a>> = lists.into_iter().flatten().collect();
    // A stable sort finds the sorted runs and merges them; equals stay in the order of their sources.
    all.sort_by(|a, b| a.labels().cmp(b.labels()));
    let mut merged: Vec<Box<dyn Series + 'a>> = Vec::with_capacity(all.len());
    let mut rest = all.into_iter().peekable();
    while let Some(first) = rest.next() {
        let mut same = Vec::new();
        while let Some(next) = rest.next_if(|next| next.labels() == first.labels()) {
            same.push(next);
        }
        if same.is_empty() {
            merged.push(first);
        } else {
            same.insert(0, first);
            merged.push(Box::new(MergedSeries { sources: same }));
        }
    }
    merged
}

/// One series of several sources, at least one.
struct MergedSeries<'a> {
    sources: Vec<Box<dyn Series + 'a>>,
}

impl Series for MergedSeries<'_> {
    fn labels(&self) -> &Labels {
        self.sources[0].labels()
    }

    fn cursor(&self) -> Box<dyn Cursor + '_> {
        Box::new(MergedCursor::new(self.sources.iter().map(|source| source.cursor()).collect()))
    }
}

/// Reads several cursors as one: in the order of time, each timestamp once.
pub struct MergedCursor<'a> {
    sources: Vec<Source<'a>>,
    last: Option<i64>,
}

struct Source<'a> {
    cursor: Box<dyn Cursor + 'a>,
    run: Samples,
    at: usize,
    finished: bool,
}

impl Source<'_> {
    fn front(&self) -> Option<i64> {
        self.run.timestamps.get(self.at).copied()
    }

    /// Moves behind `last`; reads on where the run is used up.
    fn advance(&mut self, last: Option<i64>) -> Result<(), Error> {
        loop {
            if let Some(last) = last {
                let rest = &self.run.timestamps[self.at..];
                self.at += rest.partition_point(|&timestamp| timestamp <= last);
            }
            if self.at < self.run.len() || self.finished {
                return Ok(());
            }
            self.run.clear();
            self.at = 0;
            self.finished = !self.cursor.next(&mut self.run)?;
        }
    }
}

impl<'a> MergedCursor<'a> {
    /// The first of the cursors is believed most.
    pub fn new(cursors: Vec<Box<dyn Cursor + 'a>>) -> Self {
        let source = |cursor| Source { cursor, run: Samples::default(), at: 0, finished: false };
        MergedCursor { sources: cursors.into_iter().map(source).collect(), last: None }
    }

    /// Copies from the source that is next in time up to where another one is; `false` when none has
    /// anything left.
    fn copy_run(&mut self, samples: &mut Samples) -> bool {
        let mut next: Option<(i64, usize)> = None;
        let mut limit: Option<i64> = None;
        for (index, source) in self.sources.iter().enumerate() {
            let Some(front) = source.front() else { continue };
            match next {
                Some((earliest, _)) if earliest <= front => {
                    limit = Some(limit.map_or(front, |limit| limit.min(front)));
                }
                _ => {
                    limit = next.map(|(earliest, _)| earliest);
                    next = Some((front, index));
                }
            }
        }
        let Some((front, index)) = next else { return false };
        let source = &mut self.sources[index];
        let rest = &source.run.timestamps[source.at..];
        let length = match limit {
            None => rest.len(),
            // Another one has it too: this one is believed, for this sample.
            Some(limit) if limit == front => 1,
            Some(limit) => rest.partition_point(|&timestamp| timestamp < limit),
        };
        let end = source.at + length;
        samples.extend_from(&source.run, source.at..end);
        self.last = source.run.timestamps.get(end - 1).copied();
        source.at = end;
        true
    }
}

impl Cursor for MergedCursor<'_> {
    fn next(&mut self, samples: &mut Samples) -> Result<bool, Error> {
        for source in &mut self.sources {
            source.advance(self.last)?;
        }
        let mut any = false;
        while self.copy_run(samples) {
            any = true;
            let last = self.last;
            let mut used_up = false;
            for source in &mut self.sources {
                let rest = &source.run.timestamps[source.at..];
                source.at += rest.partition_point(|&timestamp| Some(timestamp) <= last);
                used_up |= source.front().is_none() && !source.finished;
            }
            if used_up {
                // What that source has next may be the earliest: the next call reads it.
                break;
            }
        }
        Ok(any)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    struct Fixed {
        labels: Labels,
        runs: Vec<Vec<(i64, f64)>>,
    }

    impl Series for Fixed {
        fn labels(&self) -> &Labels {
            &self.labels
        }

        fn cursor(&self) -> Box<dyn Cursor + '_> {
            Box::new(FixedCursor(self.runs.iter()))
        }
    }

    struct FixedCursor<'a>(std::slice::Iter<'a, Vec<(i64, f64)>>);

    impl Cursor for FixedCursor<'_> {
        fn next(&mut self, samples: &mut Samples) -> Result<bool, Error> {
            let Some(run) = self.0.next() else { return Ok(false) };
            if run.iter().any(|&(_, value)| value < 0.0) {
                return Err(Error::corrupt("run", "bad"));
            }
            run.iter().for_each(|&(timestamp, value)| samples.push(timestamp, value));
            Ok(true)
        }
    }

    fn fixed(name: &str, runs: Vec<Vec<(i64, f64)>>) -> Box<dyn Series> {
        Box::new(Fixed { labels: Labels::from_pairs([("n", name)]), runs })
    }

    fn read(series: &dyn Series) -> Vec<(i64, f64)> {
        let mut cursor = series.cursor();
        let mut samples = Samples::default();
        while cursor.next(&mut samples).unwrap() {}
        samples.timestamps.into_iter().zip(samples.values).collect()
    }

    #[test]
    fn series_are_joined_by_their_labels() {
        let lists = vec![
            vec![fixed("a", vec![vec![(1, 1.0)]]), fixed("c", vec![vec![(1, 3.0)]])],
            vec![],
            vec![fixed("b", vec![vec![(1, 2.0)]]), fixed("c", vec![vec![(1, 9.0), (2, 4.0)]])],
            vec![fixed("a", vec![vec![(5, 5.0)]])],
        ];
        let merged: Vec<_> = merge(lists)
            .iter()
            .map(|s| (s.labels().get("n").unwrap().to_owned(), read(&**s)))
            .collect();
        let expected = [
            ("a".to_owned(), vec![(1, 1.0), (5, 5.0)]),
            ("b".to_owned(), vec![(1, 2.0)]),
            ("c".to_owned(), vec![(1, 3.0), (2, 4.0)]),
        ];
        assert_eq!(merged, expected);
    }

    #[test]
    fn runs_of_consecutive_sources_pass_whole() {
        let run = |from: i64| (from..from + 100).map(|t| (t, t as f64)).collect::<Vec<_>>();
        let sources = [fixed("x", vec![run(200), run(300)]), fixed("x", vec![run(0), run(100)])];
        let mut cursor = MergedCursor::new(sources.iter().map(|s| s.cursor()).collect());
        let mut samples = Samples::default();
        let mut lengths = Vec::new();
        while cursor.next(&mut samples).unwrap() {
            lengths.push(samples.len());
        }
        assert_eq!(lengths, [100, 200, 300, 400]);
        assert!(samples.timestamps.iter().copied().eq(0..400));
    }

    #[test]
    fn an_error_costs_the_run_it_stands_for() {
        let sources = [
            fixed("x", vec![vec![(1, 1.0)], vec![(2, -1.0)], vec![(7, 7.0)]]),
            fixed("x", vec![vec![(3, 3.0), (8, 8.0)]]),
        ];
        let mut cursor = MergedCursor::new(sources.iter().map(|s| s.cursor()).collect());
        let mut samples = Samples::default();
        let mut errors = 0;
        loop {
            match cursor.next(&mut samples) {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => errors += 1,
            }
        }
        assert_eq!((errors, samples.timestamps), (1, vec![1, 3, 7, 8]));
    }

    proptest! {
        #[test]
        fn it_is_the_union_with_the_first_source_believed(
            sources in prop::collection::vec(
                (prop::collection::btree_set(0..60_i64, 0..40), 1..7_usize), 0..5),
        ) {
            let mut expected = BTreeMap::new();
            let mut series = Vec::new();
            for (index, (times, run)) in sources.iter().enumerate() {
                let value = index as f64;
                let samples: Vec<_> = times.iter().map(|&t| (t, value)).collect();
                for &(t, v) in &samples {
                    expected.entry(t).or_insert(v);
                }
                series.push(fixed("x", samples.chunks(*run).map(<[_]>::to_vec).collect()));
            }
            let merged = MergedSeries { sources: series };
            if !merged.sources.is_empty() {
                prop_assert_eq!(read(&merged), expected.into_iter().collect::<Vec<_>>());
            }
        }
    }
}
