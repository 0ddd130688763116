//! Random blocks answer as a map does.

use std::collections::BTreeSet;

use store::block::{Block, BlockWriter, ChunkData, Meta, catalog};
use store::chunk::Encoding;
use store::select::merge::merge;
use store::{Disk, Labels, MatchOp, Matcher, Series};
use testkit::random::Random;
use ulid::Ulid;

use crate::corpus::{self, Model, NAMES, Scratch};

const PATTERNS: [&str; 18] = [
    "wért .*",
    "wért 1.+",
    "(wért|v)[ 1].*",
    "v1|v1|v[1-3]",
    "",
    ".*",
    ".+",
    "v.*",
    "v[0-2]",
    "v1|v3",
    "0|v1",
    "(v1)?",
    "w.rt 1.",
    "metric_[0-4]",
    "metric_1",
    "nothing",
    "v1|",
    "wért 1|wért 2|wért 77",
];

fn random_matchers(random: &mut Random) -> Vec<Matcher> {
    let count = random.below(4);
    (0..count)
        .map(|_| {
            let name = match random.below(9) as usize {
                0 | 1 => "__name__",
                2 => "absent",
                at => NAMES[at - 3],
            };
            let (op, value) = match random.below(6) {
                0 => (MatchOp::Match, PATTERNS[random.below(PATTERNS.len() as u64) as usize]),
                1 => (MatchOp::NotMatch, PATTERNS[random.below(PATTERNS.len() as u64) as usize]),
                2 => (MatchOp::NotEqual, ["", "v1", "0", "nothing"][random.below(4) as usize]),
                _ => (
                    MatchOp::Equal,
                    ["", "v1", "0", "metric_2", "metric_5", "wért 3"][random.below(6) as usize],
                ),
            };
            Matcher::new(op, name, value).unwrap()
        })
        .collect()
}

#[test]
fn a_block_answers_as_the_model_does() {
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let scratch = Scratch::new(&format!("model-{seed}"));
        let range = (1_000_000, 8_200_000);
        let model =
            corpus::random_model(&mut random, [3, 40, 500][seed as usize % 3], range.0, range.1);
        let ulid = Ulid::from_parts(7, u128::from(seed));
        let meta = corpus::write(&scratch.disk, &model, ulid, range, 60_000);
        let block = Block::open(&scratch.disk, ulid).unwrap();
        assert!(block.damages().is_empty());
        assert_eq!(*block.meta(), meta);
        assert_eq!(meta.stats.num_series, model.len() as u64);
        let samples: usize = model.values().map(|samples| samples.len()).sum();
        assert_eq!(meta.stats.num_samples, samples as u64);

        for round in 0..80 {
            let matchers = random_matchers(&mut random);
            let (mut from, mut to) = (i64::MIN, i64::MAX);
            if round % 2 == 0 {
                from = 900_000 + random.below(7_400_000) as i64;
                to = from + random.below(2_000_000) as i64;
            }
            let expected = corpus::expected(&model, &matchers, from, to);
            let found = corpus::selected(&block, &matchers, from, to).unwrap();
            assert_eq!(found, expected, "seed {seed}: {matchers:?} {from}..={to}");

            let matching = corpus::expected(&model, &matchers, i64::MIN, i64::MAX);
            let names: BTreeSet<&str> =
                matching.keys().flat_map(|labels| labels.iter().map(|(name, _)| name)).collect();
            assert!(block.label_names(&matchers).unwrap().into_iter().eq(names), "{matchers:?}");
            let name = ["__name__", "job", "région", "absent"][random.below(4) as usize];
            let values: BTreeSet<&str> =
                matching.keys().filter_map(|labels| labels.get(name)).collect();
            let found = block.label_values(name, &matchers).unwrap();
            assert!(found.into_iter().eq(values), "{name} {matchers:?}");
        }
    }
}

#[test]
fn statistics_count_series() {
    let scratch = Scratch::new("statistics");
    let mut random = Random::new(3);
    let range = (0, 100_000);
    let model = corpus::random_model(&mut random, 200, range.0, range.1);
    corpus::write(&scratch.disk, &model, Ulid::nil(), range, 1 << 20);
    let block = Block::open(&scratch.disk, Ulid::nil()).unwrap();
    let statistics = block.postings_statistics(3).unwrap();
    let pairs: BTreeSet<_> = model.keys().flat_map(Labels::iter).collect();
    assert_eq!(statistics.label_pairs, pairs.len() as u64);
    assert_eq!(statistics.series_by_metric.len(), 3);
    for (name, count) in &statistics.series_by_metric {
        let series = model.keys().filter(|labels| labels.metric_name() == name).count();
        assert_eq!(*count, series as u64, "{name}");
    }
    for (pair, count) in &statistics.series_by_pair {
        let (name, value) = pair.split_once('=').unwrap();
        let series = model.keys().filter(|labels| labels.get(name) == Some(value)).count();
        assert_eq!(*count, series as u64, "{pair}");
    }
    assert!(statistics.series_by_pair.is_sorted_by(|a, b| a.1 >= b.1));
    let (name, values) = &statistics.values_by_label[0];
    let distinct: BTreeSet<_> = model.keys().filter_map(|labels| labels.get(name)).collect();
    assert_eq!(*values, distinct.len() as u64);
    let size: u64 = ["meta.json", "index", "tombstones", "chunks/000001"]
        .iter()
        .map(|file| scratch.disk.len(&format!("{}/{file}", Ulid::nil())).unwrap())
        .sum();
    assert_eq!(block.size(), size);
}

#[test]
fn blocks_merge_and_copies_of_them_are_the_same() {
    let scratch = Scratch::new("merge");
    let mut random = Random::new(11);
    // Neighbours, and one that overlaps both. Where it has the same series, the first one is believed.
    let ranges = [(0, 50_000), (50_000, 100_000), (25_000, 75_000)];
    let mut blocks = Vec::new();
    let mut expected = Model::new();
    for (index, range) in ranges.into_iter().enumerate() {
        let model = corpus::random_model(&mut random, 4_000, range.0, range.1);
        let model: Model = model
            .into_iter()
            .filter(|(labels, _)| labels.len() < 4)
            .take(150)
            .map(|(labels, samples)| (labels, samples.into_iter().take(60).collect()))
            .collect();
        let ulid = Ulid::from_parts(index as u64, 0);
        corpus::write(&scratch.disk, &model, ulid, range, 1 << 20);
        blocks.push(Block::open(&scratch.disk, ulid).unwrap());
        for (labels, samples) in model {
            let series = expected.entry(labels).or_default();
            for (timestamp, value) in samples {
                series.entry(timestamp).or_insert(value);
            }
        }
    }
    assert_eq!(catalog::list(&scratch.disk).unwrap().len(), 3);
    let lists = blocks
        .iter()
        .map(|block| {
            let series = block.select(&[], i64::MIN, i64::MAX).unwrap();
            series.into_iter().map(|series| Box::new(series) as Box<dyn Series>).collect()
        })
        .collect();
    let merged = merge(lists);
    let found: Model = merged
        .iter()
        .map(|series| (series.labels().clone(), corpus::read(&**series).unwrap()))
        .collect();
    assert_eq!(found.len(), merged.len(), "each series once");
    assert_eq!(found, expected);

    // Chunks copied verbatim make the same files.
    let copy = Ulid::from_parts(9, 9);
    let meta = Meta { ulid: copy, ..blocks[0].meta().clone() };
    let mut writer = BlockWriter::create(&scratch.disk, meta).unwrap();
    for series in blocks[0].select(&[], i64::MIN, i64::MAX).unwrap() {
        writer.series(series.labels()).unwrap();
        for chunk in series.chunks() {
            writer.chunk(&chunk.unwrap()).unwrap();
        }
    }
    assert_eq!(writer.finish().unwrap().unwrap().stats, blocks[0].meta().stats);
    for file in ["index", "chunks/000001", "tombstones"] {
        let bytes = |ulid: Ulid| std::fs::read(scratch.file(format!("{ulid}/{file}"))).unwrap();
        assert!(bytes(copy) == bytes(blocks[0].ulid()), "{file}");
    }
}

#[test]
fn an_unfinished_or_empty_block_leaves_nothing() {
    let scratch = Scratch::new("unfinished");
    let meta = Meta::of_head(Ulid::nil(), 0, 1_000);
    let labels = Labels::from_pairs([("a", "b")]);
    let mut writer = BlockWriter::create(&scratch.disk, meta.clone()).unwrap();
    writer.series(&labels).unwrap();
    assert!(writer.finish().unwrap().is_none(), "a series without chunks is none");
    assert!(scratch.disk.list("").unwrap().is_empty());

    let mut encoder = store::chunk::Encoder::new();
    let mut bytes = Vec::new();
    encoder.append_growing(&mut bytes, 10, 1.0).unwrap();
    encoder.append_growing(&mut bytes, 20, 1.0).unwrap();
    let good = ChunkData { min_time: 10, max_time: 20, encoding: Encoding::XOR, bytes: &bytes };
    // Each is refused, and the block goes on without it.
    let cases: [(&str, ChunkData<'_>); 5] = [
        ("before the block", ChunkData { min_time: -1, ..good }),
        ("after the block", ChunkData { max_time: 1_000, ..good }),
        ("backwards", ChunkData { min_time: 30, ..good }),
        ("no samples", ChunkData { bytes: &[0, 0], ..good }),
        ("overlap", ChunkData { min_time: 20, max_time: 40, ..good }),
    ];
    let mut writer = BlockWriter::create(&scratch.disk, meta.clone()).unwrap();
    writer.series(&labels).unwrap();
    writer.chunk(&good).unwrap();
    for (case, chunk) in &cases {
        let error = writer.chunk(chunk).unwrap_err();
        assert!(error.is_corrupt() && error.to_string().contains("a=\"b\""), "{case}: {error}");
    }
    for wrong in [&labels, &Labels::from_pairs([("a", "a")])] {
        assert!(writer.series(wrong).unwrap_err().is_corrupt());
    }
    let later = Labels::from_pairs([("c", "d")]);
    writer.series(&later).unwrap();
    writer.chunk(&good).unwrap();
    assert_eq!(scratch.disk.list("").unwrap().len(), 1, "it is being written");
    drop(writer);
    assert!(scratch.disk.list("").unwrap().is_empty(), "what is given up leaves nothing");

    let mut writer = BlockWriter::create(&scratch.disk, meta).unwrap();
    writer.series(&Labels::empty()).unwrap();
    writer.chunk(&good).unwrap();
    writer.series(&labels).unwrap();
    for (_, chunk) in &cases[..4] {
        writer.chunk(chunk).unwrap_err();
    }
    let meta = writer.finish().unwrap().unwrap();
    assert_eq!((meta.stats.num_series, meta.stats.num_chunks), (1, 1));
    let block = Block::open(&scratch.disk, meta.ulid).unwrap();
    let series = block.select(&[], i64::MIN, i64::MAX).unwrap();
    assert_eq!(series.len(), 1);
    assert_eq!(corpus::read(&series[0]).unwrap().len(), 2);
}

/// A file of tombstones that deletes `from..=to` of each of the first series' references.
fn tombstones(from: i64, to: i64) -> Vec<u8> {
    let mut stones = Vec::new();
    let varint = |stones: &mut Vec<u8>, mut number: u64| {
        while number >= 0x80 {
            stones.push(number as u8 | 0x80);
            number >>= 7;
        }
        stones.push(number as u8);
    };
    for reference in 0..5_000 {
        varint(&mut stones, reference);
        for time in [from, to] {
            varint(&mut stones, (time << 1 ^ time >> 63) as u64);
        }
    }
    let mut file = vec![0x01, 0x30, 0xba, 0x30, 1];
    file.extend_from_slice(&stones);
    file.extend_from_slice(&crc32c::crc32c(&stones).to_be_bytes());
    file
}

#[test]
fn what_was_deleted_is_not_shown() {
    let scratch = Scratch::new("deleted");
    let mut random = Random::new(29);
    let range = (-500_000, 500_000);
    let model = corpus::random_model(&mut random, 60, range.0, range.1);
    corpus::write(&scratch.disk, &model, Ulid::nil(), range, 1 << 20);
    let index = scratch.disk.len(&format!("{}/index", Ulid::nil())).unwrap();
    assert!(index < 5_000 * 16, "the references of all series are deleted");
    for (from, to) in [(-100_000, 100_000), (i64::MIN, -1), (7, 7), (i64::MIN, i64::MAX)] {
        let file = tombstones(from, to);
        std::fs::write(scratch.file(format!("{}/tombstones", Ulid::nil())), file).unwrap();
        let block = Block::open(&scratch.disk, Ulid::nil()).unwrap();
        assert!(block.damages().is_empty() && block.tombstones() == 5_000);
        let mut expected = model.clone();
        expected.values_mut().for_each(|samples| samples.retain(|t, _| *t < from || *t > to));
        expected.retain(|_, samples| !samples.is_empty());
        let found = corpus::selected(&block, &[], i64::MIN, i64::MAX).unwrap();
        assert!(found == expected, "{from}..={to}");
    }
    let damaged = scratch.file(format!("{}/tombstones", Ulid::nil()));
    std::fs::write(damaged, b"\x01\x30\xba\x30").unwrap();
    let block = Block::open(&scratch.disk, Ulid::nil()).unwrap();
    assert!(block.damages()[0].contains("tombstones"), "it is said, and the block is there");
    assert!(corpus::selected(&block, &[], i64::MIN, i64::MAX).unwrap() == model);
}
