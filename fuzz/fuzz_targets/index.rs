//! The files of a block: whatever stands in one of them, opening and reading end with an answer or an
//! error. A good block is there; the input replaces one of its files, or some bytes of its index.
//! Checksums hold under the fuzzer, so that what it invents is read.
#![no_main]

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, LazyLock, Mutex};

use libfuzzer_sys::fuzz_target;
use store::block::{Block, BlockWriter, ChunkData, Meta};
use store::chunk::{Encoder, Encoding};
use store::disk::{Bytes, Disk, File, Held};
use store::{Labels, MatchOp, Matcher, Samples, Series};
use ulid::Ulid;

type Files = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

#[derive(Clone, Default)]
struct Memory(Files);

struct Appender(Files, String);

impl File for Appender {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap().entry(self.1.clone()).or_default().extend_from_slice(bytes);
        Ok(())
    }
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
    fn size(&self) -> u64 {
        self.0.lock().unwrap().get(&self.1).map_or(0, |file| file.len() as u64)
    }
}

impl Disk for Memory {
    fn create(&self, path: &str) -> io::Result<Box<dyn File>> {
        self.0.lock().unwrap().insert(path.to_owned(), Vec::new());
        Ok(Box::new(Appender(self.0.clone(), path.to_owned())))
    }
    fn open_append(&self, path: &str) -> io::Result<Box<dyn File>> {
        Ok(Box::new(Appender(self.0.clone(), path.to_owned())))
    }
    fn map(&self, path: &str) -> io::Result<Bytes> {
        let files = self.0.lock().unwrap();
        Ok(Arc::new(files.get(path).ok_or(io::ErrorKind::NotFound)?.clone()))
    }
    fn read_at(&self, _: &str, _: u64, _: &mut [u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn len(&self, path: &str) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().get(path).ok_or(io::ErrorKind::NotFound)?.len() as u64)
    }
    fn truncate(&self, _: &str, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        let files = self.0.lock().unwrap();
        let below = files.keys().filter_map(|path| path.strip_prefix(directory)?.strip_prefix('/'));
        Ok(below.map(str::to_owned).collect())
    }
    fn create_dir(&self, _: &str) -> io::Result<()> {
        Ok(())
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = self.0.lock().unwrap();
        let renamed = std::mem::take(&mut *files).into_iter().map(|(path, file)| {
            (path.strip_prefix(from).map_or(path.clone(), |rest| format!("{to}{rest}")), file)
        });
        *files = renamed.collect();
        Ok(())
    }
    fn remove(&self, path: &str) -> io::Result<()> {
        self.0.lock().unwrap().remove(path);
        Ok(())
    }
    fn remove_dir(&self, path: &str) -> io::Result<()> {
        self.0.lock().unwrap().retain(|file, _| !file.starts_with(path));
        Ok(())
    }
    fn sync_dir(&self, _: &str) -> io::Result<()> {
        Ok(())
    }
    fn lock(&self) -> io::Result<Held> {
        Ok(Box::new(()))
    }
}

static GOOD: LazyLock<BTreeMap<String, Vec<u8>>> = LazyLock::new(|| {
    let disk = Memory::default();
    let mut writer = BlockWriter::create(&disk, Meta::of_head(Ulid::nil(), 0, 100_000)).unwrap();
    for series in 0..40 {
        writer
            .series(&Labels::from_pairs([
                ("__name__", format!("m{}", series / 8).as_str()),
                ("instance", format!("host{series:02}").as_str()),
                ("é", ["", "x", "y"][series % 3]),
            ]))
            .unwrap();
        for part in 0..2_i64 {
            let mut encoder = Encoder::new();
            let mut bytes = Vec::new();
            for index in 0..10 {
                let timestamp = part * 50_000 + index * 1_000;
                encoder.append_growing(&mut bytes, timestamp, index as f64).unwrap();
            }
            let (min_time, max_time) = (part * 50_000, part * 50_000 + 9_000);
            let encoding = Encoding::XOR;
            writer.chunk(&ChunkData { min_time, max_time, encoding, bytes: &bytes }).unwrap();
        }
    }
    writer.finish().unwrap();
    let files = disk.0.lock().unwrap().clone();
    files
});

static MATCHERS: LazyLock<Vec<Vec<Matcher>>> = LazyLock::new(|| {
    let matcher = |op, name, value| Matcher::new(op, name, value).unwrap();
    vec![
        vec![],
        vec![matcher(MatchOp::Equal, "__name__", "m1"), matcher(MatchOp::NotEqual, "é", "x")],
        vec![matcher(MatchOp::Match, "instance", "host1.*"), matcher(MatchOp::Equal, "é", "")],
        vec![matcher(MatchOp::NotMatch, "instance", "host(01|02|3.)")],
    ]
});

fuzz_target!(|input: &[u8]| {
    let Some((&kind, rest)) = input.split_first() else { return };
    let mut files = GOOD.clone();
    let path = |name: &str| format!("{}/{name}", Ulid::nil());
    match kind {
        0 => drop(files.insert(path("index"), rest.to_vec())),
        1 => drop(files.insert(path("chunks/000001"), rest.to_vec())),
        2 => drop(files.insert(path("tombstones"), rest.to_vec())),
        3 => drop(files.insert(path("meta.json"), rest.to_vec())),
        _ => {
            // Triples of a place in the index and the byte that shall stand there.
            let index = files.get_mut(&path("index")).expect("it was written");
            for &[high, low, byte] in rest.as_chunks::<3>().0 {
                let place = usize::from(u16::from_be_bytes([high, low])) % index.len();
                index[place] = byte;
            }
        }
    }
    let disk = Memory(Arc::new(Mutex::new(files)));
    let Ok(block) = Block::open(&disk, Ulid::nil()) else { return };
    let mut samples = Samples::default();
    for matchers in MATCHERS.iter() {
        if let Ok(series) = block.select(matchers, 5_000, 60_000) {
            for series in series.iter().take(200) {
                samples.clear();
                let mut cursor = series.cursor();
                for _ in 0..200 {
                    if matches!(cursor.next(&mut samples), Ok(false)) {
                        break;
                    }
                }
            }
        }
        let _ = block.label_names(matchers);
        let _ = block.label_values("instance", matchers);
    }
    let _ = block.postings_statistics(5);
});
