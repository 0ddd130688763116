//! One case: written, read by everyone, compared; and made smaller where it differs.

use std::collections::BTreeMap;

use bench::Failure;
use unladen::{Format, Kind};

use crate::canonical::Exposition;
use crate::deliberate::{self, By};
use crate::expect::expect;
use crate::model::{Case, Via};
use crate::peer::Peer;
use crate::{ours, register, write};

/// What came of one case.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What each reader has otherwise than it was written.
    pub faults: BTreeMap<By, Vec<String>>,
    /// Deliberate differences that were met, by their place in [`deliberate::ALL`].
    pub deliberate: Vec<(usize, By)>,
    /// The body.
    pub body: Vec<u8>,
}

/// Writes and reads a case.
///
/// # Errors
/// The other process failed.
pub fn run(case: &Case, peer: Option<&mut Peer>) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let body = match case.resource {
        None => write::body(case),
        Some(_) => match register::body(case) {
            Ok(body) => body,
            Err(error) => {
                outcome.faults.insert(By::Ours, vec![error.to_string()]);
                return Ok(outcome);
            }
        },
    };
    let mut expected = expect(case);
    let read = ours::read(&body, case.format);
    if let Ok(read) = &read {
        let wrong = expected.complete(read);
        if !wrong.is_empty() {
            outcome.faults.entry(By::Ours).or_default().extend(wrong);
        }
    }
    outcome.take(case.format, By::Ours, &expected.exposition, read);
    if let Some(peer) = peer {
        for answer in peer.ask(word(case.format), &body)? {
            let by = By::from_name(&answer.reader).ok_or("an unknown reader answered")?;
            outcome.take(case.format, by, &expected.exposition, answer.exposition());
        }
    }
    outcome.body = body;
    Ok(outcome)
}

/// The format as the other process calls it.
fn word(format: Format) -> &'static str {
    match format {
        Format::Text => "text",
        Format::OpenMetrics => "openmetrics",
        Format::Protobuf => "protobuf",
    }
}

impl Outcome {
    fn take(
        &mut self,
        format: Format,
        by: By,
        written: &Exposition,
        read: Result<Exposition, String>,
    ) {
        let mut read = match read {
            Ok(read) => read,
            Err(error) => {
                return self.faults.entry(by).or_default().push(format!("refused: {error}"));
            }
        };
        let mut written = written.clone();
        for (place, deliberate) in deliberate::ALL.iter().enumerate() {
            if written == read {
                break;
            }
            if !(deliberate.applies)(format, by) {
                continue;
            }
            let before = (written.clone(), read.clone());
            (deliberate.written)(&mut written);
            (deliberate.read)(&mut read);
            (written, read) = (written.sort(), read.sort());
            if before != (written.clone(), read.clone()) {
                self.deliberate.push((place, by));
            }
        }
        let told = written.differences(&read);
        if !told.is_empty() || written != read {
            self.faults.entry(by).or_default().extend(told);
        }
    }
}

/// The smallest case in which `by` still differs, found by leaving out families, series and labels.
///
/// # Errors
/// The other process failed.
pub fn shrink(case: &Case, by: By, mut peer: Option<&mut Peer>) -> Result<Case, Failure> {
    let mut smallest = case.clone();
    let mut differs = |case: &Case| -> Result<bool, Failure> {
        Ok(run(case, peer.as_deref_mut())?.faults.contains_key(&by))
    };
    loop {
        let mut is_smaller = false;
        for next in smaller(&smallest) {
            if differs(&next)? {
                smallest = next;
                is_smaller = true;
                break;
            }
        }
        if !is_smaller {
            return Ok(smallest);
        }
    }
}

/// The case with one thing less, each in its turn.
fn smaller(case: &Case) -> Vec<Case> {
    let mut all = Vec::new();
    let mut without = |change: &mut dyn FnMut(&mut Case)| {
        let mut next = case.clone();
        change(&mut next);
        all.push(next);
    };
    for at in 0..case.families.len() {
        without(&mut |next| drop(next.families.remove(at)));
    }
    if case.resource.as_ref().is_some_and(|resource| !resource.is_empty()) {
        without(&mut |next| next.resource = Some(Vec::new()));
    }
    for (at, family) in case.families.iter().enumerate() {
        // A family of declared labels has to know their names, and one without labels has its series.
        let is_declared = matches!(
            family.via,
            Via::Handles { is_open: false } | Via::Callback { is_open: false }
        );
        let least = usize::from(is_declared || family.kind == Kind::StateSet);
        for series in 0..family.series.len() {
            if family.series.len() > least {
                without(&mut |next| drop(next.families[at].series.remove(series)));
            }
        }
        if !family.help.is_empty() {
            without(&mut |next| next.families[at].help.clear());
        }
        for label in 0..family.common.len() {
            without(&mut |next| drop(next.families[at].common.remove(label)));
        }
        for (series, of) in family.series.iter().enumerate() {
            if of.timestamp_ms.is_some() {
                without(&mut |next| next.families[at].series[series].timestamp_ms = None);
            }
            if of.created_ms.is_some() {
                without(&mut |next| next.families[at].series[series].created_ms = None);
            }
            // Labels with a capital keep series apart.
            let may_go = |(name, _): &(String, String)| {
                !is_declared && !name.contains(|c: char| c.is_ascii_uppercase())
            };
            for label in (0..of.labels.len()).filter(|label| may_go(&of.labels[*label])) {
                without(&mut |next| drop(next.families[at].series[series].labels.remove(label)));
            }
        }
    }
    all
}
