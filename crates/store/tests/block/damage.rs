//! Whatever a disk does to a block, reading it gives the right samples or an error.

use std::collections::BTreeMap;

use store::block::Block;
use store::{Labels, Matcher};
use testkit::random::Random;
use ulid::Ulid;

use crate::corpus::{self, Model, Scratch};

/// How reading the damaged block went.
#[derive(Default, Debug)]
struct Outcome {
    refused: u32,
    failed: u32,
    unharmed: u32,
}

fn check(scratch: &Scratch, model: &Model, what: &str, outcome: &mut Outcome) {
    let block = match Block::open(&scratch.disk, Ulid::nil()) {
        Ok(block) => block,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            outcome.refused += 1;
            return;
        }
    };
    let mut harmed = !block.damages().is_empty();
    for matchers in [vec![], vec![Matcher::equal("job", "v1")]] {
        let expected = corpus::expected(model, &matchers, i64::MIN, i64::MAX);
        let series = match block.select(&matchers, i64::MIN, i64::MAX) {
            Ok(series) => series,
            Err(error) => {
                assert!(
                    error.is_corrupt() && error.to_string().contains("at byte"),
                    "{what}: {error}"
                );
                harmed = true;
                continue;
            }
        };
        let mut found: BTreeMap<&Labels, _> = BTreeMap::new();
        for series in &series {
            use store::Series;
            match corpus::read(series) {
                Ok(samples) => {
                    found.insert(series.labels(), samples);
                }
                Err(error) => {
                    let text = error.to_string();
                    assert!(error.is_corrupt() && text.contains("chunks/"), "{what}: {text}");
                    harmed = true;
                    // A chunk is lost, and not more.
                    let expected = &expected[series.labels()];
                    let rest = read_around(series);
                    assert!(rest.iter().all(|(t, v)| expected.get(t) == Some(v)), "{what}");
                    found.insert(series.labels(), expected.clone());
                }
            }
        }
        assert!(found.into_iter().eq(expected.iter().map(|(l, s)| (l, s.clone()))), "{what}");
    }
    for name in ["job", "__name__"] {
        harmed |= block.label_values(name, &[]).is_err();
    }
    harmed |= block.postings_statistics(10).is_err();
    *(if harmed { &mut outcome.failed } else { &mut outcome.unharmed }) += 1;
}

/// What a series still has beside its damaged chunks.
fn read_around(series: &dyn store::Series) -> BTreeMap<i64, u64> {
    let mut samples = store::Samples::default();
    let mut cursor = series.cursor();
    while !matches!(cursor.next(&mut samples), Ok(false)) {}
    let values = samples.values.iter().map(|value| value.to_bits());
    samples.timestamps.iter().copied().zip(values).collect()
}

#[test]
fn a_flipped_byte_is_an_error_or_harmless() {
    let scratch = Scratch::new("flip");
    let mut random = Random::new(5);
    let range = (0, 1_000_000);
    let mut model = corpus::random_model(&mut random, 25, range.0, range.1);
    for samples in model.values_mut() {
        *samples = std::mem::take(samples).into_iter().take(250).collect();
    }
    corpus::write(&scratch.disk, &model, Ulid::nil(), range, 4_000);
    let mut files: Vec<String> = vec!["index".to_owned(), "tombstones".to_owned()];
    let chunks = std::fs::read_dir(scratch.file(format!("{}/chunks", Ulid::nil()))).unwrap();
    files.extend(chunks.map(|file| format!("chunks/{}", file.unwrap().file_name().display())));
    assert!(files.len() > 4, "the chunks take several files");
    let mut outcome = Outcome::default();
    for file in files {
        let path = scratch.file(format!("{}/{file}", Ulid::nil()));
        let whole = std::fs::read(&path).unwrap();
        let step = (whole.len() / 300).max(1);
        for region in (0..whole.len()).step_by(step) {
            let at = (region + random.below(step as u64) as usize).min(whole.len() - 1);
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << random.below(8);
            std::fs::write(&path, &bytes).unwrap();
            check(&scratch, &model, &format!("{file} at {at}"), &mut outcome);
        }
        for _ in 0..20 {
            let length = random.below(whole.len() as u64) as usize;
            std::fs::write(&path, &whole[..length]).unwrap();
            check(&scratch, &model, &format!("{file} cut to {length}"), &mut outcome);
        }
        std::fs::remove_file(&path).unwrap();
        check(&scratch, &model, &format!("{file} removed"), &mut outcome);
        std::fs::write(&path, &whole).unwrap();
    }
    check(&scratch, &model, "nothing", &mut outcome);
    // Of each kind there must have been some, or the damage was none.
    assert!(outcome.refused > 50 && outcome.failed > 500 && outcome.unharmed > 0, "{outcome:?}");
}

#[test]
fn a_damaged_meta_never_panics() {
    let scratch = Scratch::new("meta");
    let mut random = Random::new(6);
    let model = corpus::random_model(&mut random, 5, 0, 100_000);
    corpus::write(&scratch.disk, &model, Ulid::nil(), (0, 100_000), 1 << 20);
    let path = scratch.file(format!("{}/meta.json", Ulid::nil()));
    let whole = std::fs::read(&path).unwrap();
    let mut refused = 0;
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << random.below(7);
        std::fs::write(&path, &bytes).unwrap();
        match Block::open(&scratch.disk, Ulid::nil()) {
            Ok(block) => {
                corpus::selected(&block, &[], i64::MIN, i64::MAX).unwrap();
            }
            Err(error) => {
                assert!(error.to_string().contains("meta.json"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 50, "{refused}");
}
