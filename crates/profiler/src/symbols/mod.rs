//! From addresses to functions, files and lines.
//!
//! ```text
//! Resolver  a batch of addresses → names, with those inlined there
//! source    which file an address belongs to, and where its debug information is
//! image     a file in memory: build id, segments, debug sections
//! split     debug information that compilers leave in other files
//! dwarf     functions and lines of a batch, in one pass, a unit at a time
//! table     names from symbol tables, where there is nothing better
//! names     the text of a batch; demangling
//! ```
//! Never used where a sample is taken: a batch opens files, allocates, and takes from a millisecond for a
//! library to seconds for a program with gigabytes of debug information. What was read is dropped at the
//! end of the batch; names and places stay until the next.
//!
//! What is refused: a file that is not the one that was mapped; debug information compressed by zstd or in
//! relocatable objects. There is then no name, or the one in the symbol table.

mod dwarf;
mod image;
mod names;
mod source;
mod split;
mod table;

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use dwarf::{Answer, Batch, Dwarf, Patience, Place};
use image::{Image, Segments, Slice};
use names::{Names, Text};
use split::SplitFiles;

use crate::Error;
use crate::profile::{Mapping, Symbol, Symbolize};

/// The time for a file and a batch. Programs with gigabytes of debug information take some seconds.
const FILE_TIME: Duration = Duration::from_secs(20);

/// Says what addresses stand for: of this process, or of one file.
///
/// *Setup*: nothing is read before the first batch. A batch ([`Symbolize::prepare`]) opens each file once and
/// maps it, reads it unit by unit, and unmaps it; asking for what it found takes no time and no memory. An
/// address that was not in the batch is a batch of its own.
pub struct Resolver {
    source: Source,
    directories: Vec<PathBuf>,
    names: Names,
    places: Vec<Place>,
    /// Sorted.
    known: Vec<(u64, Answer)>,
}

enum Source {
    Process,
    File(PathBuf),
}

impl Resolver {
    /// For this process.
    pub fn of_process() -> Self {
        Resolver::of(Source::Process)
    }

    /// For profiles of any process that ran the file at `path`, whose addresses its mapping translates.
    /// Addresses without a mapping are those in the file's own symbols. A mapping with another build id
    /// gets no names.
    ///
    /// # Errors
    /// If it cannot be read or is not ELF.
    pub fn of_file(path: impl AsRef<Path>) -> Result<Self, Error> {
        open(path.as_ref())?;
        Ok(Resolver::of(Source::File(path.as_ref().to_path_buf())))
    }

    /// Where to look for debug files by build id and by link, instead of `/usr/lib/debug`.
    pub fn debug_directories(mut self, directories: impl IntoIterator<Item = PathBuf>) -> Self {
        self.directories = directories.into_iter().collect();
        self
    }

    /// The bytes that the last batch's names and places take.
    pub fn memory_usage(&self) -> usize {
        self.names.memory_usage()
            + self.places.capacity() * size_of::<Place>()
            + self.known.capacity() * size_of::<(u64, Answer)>()
    }

    fn of(source: Source) -> Self {
        Resolver {
            source,
            directories: vec![PathBuf::from(source::DEBUG_DIRECTORY)],
            names: Names::new(),
            places: Vec::new(),
            known: Vec::new(),
        }
    }

    /// Forgets the last batch and reads about `asked`: pairs of an address and its mapping.
    fn batch(&mut self, mut asked: Vec<(u64, Option<&Mapping>)>) {
        self.names = Names::new();
        self.places = Vec::new();
        asked.sort_unstable_by_key(|asked| asked.0);
        asked.dedup_by_key(|asked| asked.0);
        self.known = asked.iter().map(|asked| (asked.0, Answer::default())).collect();
        let same = |a: &(u64, Option<&Mapping>), b: &(u64, Option<&Mapping>)| match (a.1, b.1) {
            (Some(a), Some(b)) => std::ptr::eq(a, b),
            (None, None) => true,
            _ => false,
        };
        let mut from = 0;
        for run in asked.chunk_by(same) {
            self.run(run[0].1, from..from + run.len());
            from += run.len();
        }
    }

    /// Reads about the addresses at `range`, all in one mapping.
    fn run(&mut self, mapping: Option<&Mapping>, range: std::ops::Range<usize>) {
        let addresses: Vec<u64> = self.known[range.clone()].iter().map(|known| known.0).collect();
        let image = match (&self.source, mapping) {
            (Source::Process, Some(mapping)) if !mapping.file.is_empty() => {
                source::of_process(mapping, &addresses)
            }
            (Source::Process, _) => return self.compiled_at_run_time(&addresses, range.start),
            (Source::File(path), _) => Image::open(path).ok(),
        };
        let Some(image) = image else { return };
        // Readers of damaged files are fuzzed and return errors; should one panic all the same, the
        // program that is profiled must not stop for it.
        let found = catch_unwind(AssertUnwindSafe(|| {
            read(&image, mapping, &addresses, &self.directories, &mut self.names, &mut self.places)
        }));
        for (known, answer) in self.known[range].iter_mut().zip(found.unwrap_or_default()) {
            known.1 = answer;
        }
    }

    /// Names of code that no file has.
    fn compiled_at_run_time(&mut self, addresses: &[u64], from: usize) {
        let Resolver { names, places, known, .. } = self;
        source::perf_map(addresses, &mut |at, name| {
            let system = names.keep(name);
            known[from + at].1 = Answer { first: places.len() as u32, count: 1 };
            places.push(Place { name: names.demangle(system), system, ..Place::default() });
        });
    }
}

impl Symbolize for Resolver {
    fn prepare(&mut self, addresses: &[u64], mappings: &[Mapping]) {
        let mapping = |address| mappings.iter().find(|m| m.start <= address && address < m.limit);
        self.batch(addresses.iter().map(|&address| (address, mapping(address))).collect());
    }

    fn symbolize(
        &mut self,
        address: u64,
        mapping: Option<&Mapping>,
        found: &mut dyn FnMut(Symbol<'_>),
    ) {
        let find =
            |known: &[(u64, Answer)]| known.binary_search_by_key(&address, |known| known.0).ok();
        let at = match find(&self.known) {
            Some(at) => at,
            None => {
                self.batch(vec![(address, mapping)]);
                0
            }
        };
        let answer = self.known[at].1;
        for place in &self.places[answer.first as usize..][..answer.count as usize] {
            found(Symbol {
                name: self.names.get(place.name),
                system_name: self.names.get(place.system),
                file: self.names.get(place.file),
                line: place.line,
                start_line: place.start_line,
            });
        }
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").field("addresses", &self.known.len()).finish_non_exhaustive()
    }
}

/// The build id of the file at `path`, as hexadecimal digits; none if it has none.
///
/// # Errors
/// If it cannot be read or is not ELF.
pub fn build_id(path: impl AsRef<Path>) -> Result<Option<String>, Error> {
    let image = open(path.as_ref())?;
    let build_id = image.elf().map(|elf| image::build_id(&elf));
    Ok(build_id.filter(|build_id| !build_id.is_empty()))
}

fn open(path: &Path) -> Result<Image, Error> {
    let image = Image::open(path).map_err(|error| {
        Error::system(format!("open {} for its symbols", path.display()), error)
    })?;
    if image.elf().is_none() {
        let error = io::Error::new(io::ErrorKind::InvalidData, "not an ELF file");
        return Err(Error::system(format!("open {} for its symbols", path.display()), error));
    }
    Ok(image)
}

/// What `image` and its debug files say about `addresses`, which are sorted; one answer for each.
fn read(
    image: &Image,
    mapping: Option<&Mapping>,
    addresses: &[u64],
    directories: &[PathBuf],
    names: &mut Names,
    places: &mut Vec<Place>,
) -> Vec<Answer> {
    let nothing = vec![Answer::default(); addresses.len()];
    let Some(elf) = image.elf() else { return nothing };
    if mapping.is_some_and(|m| !m.build_id.is_empty() && m.build_id != image::build_id(&elf)) {
        return nothing;
    }
    let Some((wanted, places_of)) = translate(&elf, mapping, addresses) else { return nothing };
    let debug = (!image::has_debug_info(&elf))
        .then(|| source::debug_file(image, &elf, directories))
        .flatten();
    let debug_elf = debug.as_ref().and_then(Image::elf);
    let mut patience = Patience::of(FILE_TIME);
    let mut symbols = vec![Text::default(); wanted.len()];
    for elf in [Some(&elf), debug_elf.as_ref()].into_iter().flatten() {
        table::symbols(elf, &wanted, &mut symbols, names, &mut patience);
    }
    let mut answers = vec![Answer::default(); wanted.len()];
    let mut batch = Batch {
        wanted: &wanted,
        answers: &mut answers,
        places,
        names,
        first_code: image::first_code(&elf),
        patience,
    };
    let with_debug = debug.as_ref().unwrap_or(image);
    read_debug_info(image, with_debug, debug_elf.as_ref().unwrap_or(&elf), directories, &mut batch);
    for (answer, &symbol) in answers.iter_mut().zip(&symbols) {
        add_symbol(answer, symbol, places, names);
    }
    let mut all = nothing;
    for (at, answer) in places_of.into_iter().zip(answers) {
        all[at] = answer;
    }
    all
}

/// The addresses as the file counts them, sorted, and where each was in `addresses`; none if none is in it.
fn translate(
    elf: &object::File<'_>,
    mapping: Option<&Mapping>,
    addresses: &[u64],
) -> Option<(Vec<u64>, Vec<usize>)> {
    let segments = Segments::of(elf);
    let of = |address: u64| match mapping {
        Some(m) => segments.address(address.checked_sub(m.start)?.checked_add(m.offset)?),
        None => Some(address),
    };
    let mut pairs: Vec<(u64, usize)> = addresses
        .iter()
        .enumerate()
        .filter_map(|(at, &address)| of(address).map(|address| (address, at)))
        .collect();
    pairs.sort_unstable();
    (!pairs.is_empty()).then(|| pairs.into_iter().unzip())
}

/// Reads the DWARF in `debug`, of the program in `image`, with the file that debug files may share.
fn read_debug_info(
    image: &Image,
    debug: &Image,
    elf: &object::File<'_>,
    directories: &[PathBuf],
    batch: &mut Batch<'_>,
) {
    let Some(sections) = image::sections(elf, false) else { return };
    let shared = source::shared_debug_file(debug, elf, directories);
    let shared_elf = shared.as_ref().and_then(Image::elf);
    let shared_sections = match &shared_elf {
        Some(elf) => image::sections(elf, false),
        None => None,
    };
    let endian = split::endian(elf);
    let dwarf: Dwarf<'_> =
        sections.borrow_with_sup(shared_sections.as_ref(), |bytes| Slice::new(bytes, endian));
    dwarf::answer(&dwarf, &SplitFiles::beside([image, debug]), batch);
}

/// Names the outermost function of `answer`, where debug information does not.
fn add_symbol(answer: &mut Answer, symbol: Text, places: &mut Vec<Place>, names: &mut Names) {
    let last = (answer.first + answer.count).checked_sub(1).filter(|_| answer.count > 0);
    let Some(last) = last else {
        if symbol != Text::default() {
            *answer = Answer { first: places.len() as u32, count: 1 };
            places.push(Place { name: names.demangle(symbol), system: symbol, ..Place::default() });
        }
        return;
    };
    let place = &mut places[last as usize];
    if place.name == Text::default() && symbol == Text::default() {
        // A line without a function says nothing.
        answer.count -= 1;
        return;
    }
    // Short names of Rust and C++ leave out where the function belongs to.
    let short = !names::is_mangled(names.get(place.system)) && names::is_mangled(names.get(symbol));
    if place.name == Text::default() || short {
        place.system = symbol;
        place.name = names.demangle(symbol);
    }
}
