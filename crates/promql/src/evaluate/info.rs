//! `info()`: adds the labels of info metrics, such as `target_info`, to the series of the same
//! `instance` and `job`.

use hashbrown::{HashMap, HashSet};
use store::labels::METRIC_NAME;
use store::{Labels, LabelsBuilder, MatchOp, Matcher};

use super::column::{Column, Grid, Item};
use super::context::Context;
use super::plan::{Selection, When};
use super::selector::{SelectorSource, Wanted};
use super::source::{Held, Meta, Vector, collect, same_labelset};
use crate::ast::{RangeExtension, Span};
use crate::error::QueryError;

/// The labels by which an info series and a series find each other.
const IDENTIFYING: [&str; 2] = ["instance", "job"];

/// An info metric's series of one identity.
struct Identity {
    series: Vec<usize>,
}

/// Adds labels to `base`. `selector` are the matchers of the second argument, `when` is the time that
/// the samples of `base` are of.
pub(crate) fn info(
    context: &Context<'_>,
    base: &[Held],
    selector: &[Matcher],
    when: When,
    grid: Grid,
) -> Result<Vec<Held>, QueryError> {
    let names = name_matchers(selector);
    let data: Vec<&Matcher> = selector.iter().filter(|m| m.name() != METRIC_NAME).collect();
    let is_info =
        |labels: &Labels| names.iter().all(|matcher| matcher.matches(labels.metric_name()));
    let ignored: Vec<bool> = base.iter().map(|held| is_info(&held.meta.labels)).collect();
    let found = fetch(context, base, &ignored, &names, &data, (when, grid))?;
    let mut join = Join { data, grid, info: found, results: Vec::new(), places: HashMap::new() };
    let identities = join.identities();
    join.check_duplicates(base, &identities)?;
    for (held, ignored) in base.iter().zip(ignored) {
        if ignored {
            for step in (0..grid.count).filter(|step| held.column.is_present(*step)) {
                join.put(held.meta.labels.clone(), step, held)?;
            }
        } else {
            join.enrich(held, &identities)?;
        }
    }
    Ok(join.results)
}

/// The conditions on the info metrics' names.
fn name_matchers(selector: &[Matcher]) -> Vec<Matcher> {
    let names: Vec<Matcher> =
        selector.iter().filter(|m| m.name() == METRIC_NAME).cloned().collect();
    if names.iter().any(|m| matches!(m.op(), MatchOp::Equal | MatchOp::Match)) {
        return names;
    }
    if names.is_empty() {
        return vec![Matcher::equal(METRIC_NAME, "target_info")];
    }
    let any_info = Matcher::new(MatchOp::Match, METRIC_NAME, ".+_info");
    any_info.into_iter().chain(names).collect()
}

/// A pattern that matches the text alone.
fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    for character in text.chars() {
        if r"\.+*?()|[]{}^$".contains(character) {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    quoted
}

/// The info series that may belong to `base`; their values are the times of their samples.
fn fetch(
    context: &Context<'_>,
    base: &[Held],
    ignored: &[bool],
    names: &[Matcher],
    data: &[&Matcher],
    (when, grid): (When, Grid),
) -> Result<Vec<Held>, QueryError> {
    let mut matchers: Vec<Matcher> = Vec::new();
    for label in IDENTIFYING {
        let wanted = base.iter().zip(ignored).filter(|(_, ignored)| !**ignored);
        let mut values: Vec<&str> =
            wanted.filter_map(|(held, _)| held.meta.labels.get(label)).collect();
        values.sort_unstable();
        values.dedup();
        if !values.is_empty() {
            let pattern = values.iter().map(|value| quote(value)).collect::<Vec<_>>().join("|");
            let matcher = Matcher::new(MatchOp::Match, label, &pattern)
                .map_err(|error| QueryError::execution(error.to_string()))?;
            matchers.push(matcher);
        }
    }
    if matchers.is_empty() {
        return Ok(Vec::new());
    }
    matchers.extend(data.iter().map(|matcher| (*matcher).clone()));
    matchers.extend(names.iter().cloned());
    let selection = Selection {
        matchers: &matchers,
        extension: RangeExtension::None,
        when,
        statistics_only: false,
    };
    let source =
        SelectorSource::new(context, selection, grid, Wanted::InfoTimestamp, Span::default())?;
    collect(context, Vector::Lazy(Box::new(source)), grid.count)
}

struct Join<'a> {
    data: Vec<&'a Matcher>,
    grid: Grid,
    info: Vec<Held>,
    results: Vec<Held>,
    places: HashMap<Labels, usize>,
}

/// Info metric's name, instance, job.
type IdentityKey = (String, [String; 2]);

fn identity(labels: &Labels) -> [String; 2] {
    IDENTIFYING.map(|name| labels.get(name).unwrap_or("").to_owned())
}

fn time_of(column: &Column, step: usize) -> Option<i64> {
    match column.get(step) {
        Some(Item::Float(time)) => Some(time as i64),
        _ => None,
    }
}

impl Join<'_> {
    fn identities(&self) -> HashMap<IdentityKey, Identity> {
        let mut identities: HashMap<IdentityKey, Identity> = HashMap::new();
        for (index, held) in self.info.iter().enumerate() {
            let labels = &held.meta.labels;
            let key = (labels.metric_name().to_owned(), identity(labels));
            identities
                .entry(key)
                .or_insert_with(|| Identity { series: Vec::new() })
                .series
                .push(index);
        }
        identities
    }

    /// Two info series of one identity must not have samples of the same time.
    fn check_duplicates(
        &self,
        base: &[Held],
        identities: &HashMap<IdentityKey, Identity>,
    ) -> Result<(), QueryError> {
        for step in 0..self.grid.count {
            if !base.iter().any(|held| held.column.is_present(step)) {
                continue;
            }
            for identity in identities.values().filter(|identity| identity.series.len() > 1) {
                let mut newest: Option<(i64, usize)> = None;
                for index in &identity.series {
                    let Some(time) = time_of(&self.info[*index].column, step) else { continue };
                    match newest {
                        Some((best, _)) if best > time => {}
                        Some((best, existing)) if best == time => {
                            return Err(QueryError::execution(format!(
                                "found duplicate series for info metric: existing {} @ {best}, \
                                 new {} @ {time}",
                                self.info[existing].meta.labels, self.info[*index].meta.labels
                            )));
                        }
                        _ => newest = Some((time, *index)),
                    }
                }
            }
        }
        Ok(())
    }

    fn newest(&self, identity: &Identity, step: usize) -> Option<usize> {
        let times = identity.series.iter();
        let present = times.filter_map(|i| Some((time_of(&self.info[*i].column, step)?, *i)));
        present.max_by_key(|(time, _)| *time).map(|(_, index)| index)
    }

    fn enrich(
        &mut self,
        held: &Held,
        identities: &HashMap<IdentityKey, Identity>,
    ) -> Result<(), QueryError> {
        let own = identity(&held.meta.labels);
        let mut names: Vec<&str> = identities.keys().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let mine: Vec<&Identity> = names
            .iter()
            .filter_map(|name| identities.get(&((*name).to_owned(), own.clone())))
            .collect();
        let mut latest: Option<(Vec<usize>, Option<Labels>)> = None;
        for step in (0..self.grid.count).filter(|step| held.column.is_present(*step)) {
            let chosen: Vec<usize> =
                mine.iter().filter_map(|identity| self.newest(identity, step)).collect();
            let labels = match &latest {
                Some((before, labels)) if *before == chosen => labels.clone(),
                _ => {
                    let labels = self.labels(&held.meta, &chosen)?;
                    latest = Some((chosen, labels.clone()));
                    labels
                }
            };
            if let Some(labels) = labels {
                self.put(labels, step, held)?;
            }
        }
        Ok(())
    }

    /// The labels of a series with those of its info series; none if the series is left out.
    fn labels(&self, meta: &Meta, chosen: &[usize]) -> Result<Option<Labels>, QueryError> {
        let wanted: HashSet<&str> = self.data.iter().map(|matcher| matcher.name()).collect();
        if chosen.is_empty() && self.data.iter().any(|matcher| !matcher.matches_empty()) {
            return Ok(None);
        }
        let mut added = LabelsBuilder::new();
        for index in chosen {
            for (name, value) in &self.info[*index].meta.labels {
                if name == METRIC_NAME || (!wanted.is_empty() && !wanted.contains(name)) {
                    continue;
                }
                if added.get(name).is_some_and(|other| other != value) {
                    return Err(QueryError::execution(format!("conflicting label: {name}")));
                }
                if meta.labels.get(name).is_none() {
                    added.set(name, value);
                }
            }
        }
        let mut builder = meta.labels.to_builder();
        for (name, value) in added.iter() {
            builder.set(name, value);
        }
        Ok(Some(builder.build()))
    }

    fn put(&mut self, labels: Labels, step: usize, held: &Held) -> Result<(), QueryError> {
        let place = *self.places.entry(labels).or_insert_with_key(|labels| {
            let meta = Meta { labels: labels.clone(), drop_name: held.meta.drop_name };
            self.results.push(Held { meta, column: Column::new(self.grid.count) });
            self.results.len() - 1
        });
        let column = &mut self.results[place].column;
        if column.is_present(step) {
            return Err(same_labelset());
        }
        column.set(step, held.column.output(step));
        Ok(())
    }
}
