//! The steady paths of chunks allocate nothing: appending, decoding, and reading on in a block.

use std::hint::black_box;

use store::block::{Block, BlockWriter, ChunkData, Meta};
use store::chunk::{self, Encoder, Encoding};
use store::disk::Directory;
use store::{Labels, Samples, Series};
use testkit::allocations::{Count, Counting, count};
use ulid::Ulid;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

#[test]
fn steady_paths_allocate_nothing() {
    let mut buffer = vec![0; 4_096];
    let mut encoder = Encoder::new();
    let append = || {
        for index in 0..240_i64 {
            encoder.append(&mut buffer, index * 15_000 + index % 3, index as f64 * 1.5).unwrap();
        }
    };
    assert_eq!(count(append), Count::ZERO, "append");
    let bytes = &buffer[..encoder.len()];

    let mut samples = Samples::default();
    chunk::decode(Encoding::XOR, bytes, i64::MIN, i64::MAX, &mut samples).unwrap();
    let decode = || {
        samples.clear();
        chunk::decode(Encoding::XOR, bytes, 1_000, i64::MAX, &mut samples).unwrap();
    };
    assert_eq!(count(decode), Count::ZERO, "decode");
    assert_eq!(samples.len(), 239);

    let root = std::env::temp_dir().join(format!("unladen-block-alloc-{}", std::process::id()));
    let disk = Directory::open(&root).unwrap();
    let meta = Meta::of_head(Ulid::nil(), 0, 1 << 40);
    let mut writer = BlockWriter::create(&disk, meta).unwrap();
    writer.series(&Labels::from_pairs([("a", "b")])).unwrap();
    for part in 0..20_i64 {
        let mut encoder = Encoder::new();
        let first = part * 1_000_000;
        for index in 0..100 {
            encoder.append(&mut buffer, first + index * 1_000, index as f64).unwrap();
        }
        let bytes = &buffer[..encoder.len()];
        let (min_time, max_time) = (first, first + 99_000);
        writer.chunk(&ChunkData { min_time, max_time, encoding: Encoding::XOR, bytes }).unwrap();
    }
    writer.finish().unwrap();
    let block = Block::open(&disk, Ulid::nil()).unwrap();
    let series = block.select(&[], i64::MIN, i64::MAX).unwrap();
    let mut cursor = series[0].cursor();
    samples.clear();
    assert!(cursor.next(&mut samples).unwrap());
    let read_on = || {
        let mut chunks = 0;
        samples.clear();
        while cursor.next(&mut samples).unwrap() {
            samples.clear();
            chunks += 1;
        }
        assert_eq!(black_box(chunks), 19);
    };
    assert_eq!(count(read_on), Count::ZERO, "the next chunks of a series");
    std::fs::remove_dir_all(root).unwrap();
}
