//! Which series, label names and label values there are.

use std::collections::BTreeSet;

use store::{Labels, Querier};

use super::answer::success_with;
use super::bound::Bound;
use super::error::ApiError;
use super::form::{Form, MAX_TIME, MIN_TIME};
use super::json;
use super::reply::Answer;
use crate::app::App;

const TRUNCATED: &str = "results truncated due to limit";

/// `/series`
pub(super) fn series(app: &App, form: &Form, bound: &Bound) -> Result<Answer, ApiError> {
    if form.all("match[]").next().is_none() {
        return Err(ApiError::bad_data("no match[] parameter provided"));
    }
    let limit = form.limit()?;
    let range = time_range(form)?;
    let selectors = form.selectors().map_err(|reason| ApiError::parameter("match[]", reason))?;
    let querier = querier(app, range)?;
    let mut found = Vec::new();
    for matchers in &selectors {
        bound.check()?;
        found.extend(querier.series(matchers, one_more(limit))?);
    }
    if selectors.len() > 1 {
        found.sort_unstable();
        found.dedup();
    }
    Ok(limited(found, limit, |out, labels: &Labels| json::labels(out, labels)))
}

/// `/labels`
pub(super) fn names(app: &App, form: &Form, bound: &Bound) -> Result<Answer, ApiError> {
    let limit = form.limit()?;
    let range = time_range(form)?;
    let selectors = form.selectors().map_err(ApiError::bad_data)?;
    let querier = querier(app, range)?;
    let found = match selectors.as_slice() {
        [] => querier.label_names(&[], one_more(limit))?,
        [matchers] => querier.label_names(matchers, one_more(limit))?,
        many => {
            let mut all = BTreeSet::new();
            for matchers in many {
                bound.check()?;
                all.extend(querier.label_names(matchers, one_more(limit))?);
            }
            all.into_iter().collect()
        }
    };
    Ok(limited(found, limit, |out, name: &String| json::string(out, name)))
}

/// `/label/<name>/values`; `name` is as it stands in the path.
pub(super) fn values(
    app: &App,
    form: &Form,
    name: &str,
    bound: &Bound,
) -> Result<Answer, ApiError> {
    let name = match name.starts_with("U__") {
        true => wire::exposition::name::Escaping::Values.unescape(name),
        false => name.to_owned(),
    };
    if name.is_empty() {
        let quoted = promql::quote::quoted(&name);
        return Err(ApiError::bad_data(format!("invalid label name: {quoted}")));
    }
    let limit = form.limit()?;
    let range = time_range(form)?;
    let selectors = form.selectors().map_err(ApiError::bad_data)?;
    let querier = querier(app, range)?;
    let found = match selectors.as_slice() {
        [] => querier.label_values(&name, &[], one_more(limit))?,
        [matchers] => querier.label_values(&name, matchers, one_more(limit))?,
        many => {
            let mut all = BTreeSet::new();
            for matchers in many {
                bound.check()?;
                all.extend(querier.label_values(&name, matchers, one_more(limit))?);
            }
            all.into_iter().collect()
        }
    };
    Ok(limited(found, limit, |out, value: &String| json::string(out, value)))
}

fn time_range(form: &Form) -> Result<(i64, i64), ApiError> {
    Ok((form.time_or("start", MIN_TIME)?, form.time_or("end", MAX_TIME)?))
}

fn querier(app: &App, (from, to): (i64, i64)) -> Result<Querier, ApiError> {
    Ok(app.db()?.querier(from, to))
}

/// One more than the limit, so that it shows when there is more.
fn one_more(limit: usize) -> usize {
    if limit == 0 { 0 } else { limit.saturating_add(1) }
}

/// A list of at most `limit`, with a warning where there was more.
fn limited<T: Send + 'static>(
    mut found: Vec<T>,
    limit: usize,
    write: fn(&mut super::reply::Out, &T),
) -> Answer {
    let mut warnings = Vec::new();
    if limit > 0 && found.len() > limit {
        found.truncate(limit);
        warnings.push(TRUNCATED.to_owned());
    }
    success_with(warnings, Vec::new(), move |out| {
        json::list(out, &found, write);
    })
}
