//! What a profile is made of.

/// A place in a profile's table of strings; 0 is the empty string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StringId(pub u32);

/// Names a mapping within a profile; 0 means none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MappingId(pub u64);

/// Names a location within a profile, from 1. Any numbers do; those that count up from 1 are short on the
/// wire and are found without a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocationId(pub u64);

/// Names a function within a profile, from 1, like [`LocationId`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub u64);

/// What a column of values means: `cpu` in `nanoseconds`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValueType {
    /// What is measured.
    pub kind: StringId,
    /// In which unit.
    pub unit: StringId,
}

/// A stack and what was measured at it. Its lists are iterators, so that a sample that is read can be
/// written as it is.
#[derive(Clone, Copy, Debug)]
pub struct Sample<L, V, B> {
    /// The stack, innermost location first.
    pub locations: L,
    /// A value for each of the profile's types, in their order.
    pub values: V,
    /// Where else the values belong: a thread, a request.
    pub labels: B,
}

/// A name and a value that a sample carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Its name.
    pub key: StringId,
    /// Its value.
    pub value: LabelValue,
}

/// A label's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelValue {
    /// Text. An empty one is dropped by Go's reader.
    Text(StringId),
    /// A number, 0 of no unit being dropped by Go's reader.
    Number {
        /// How many.
        value: i64,
        /// Of what; 0 for not known.
        unit: StringId,
    },
}

/// A loaded file that addresses fall into. By convention the first is the program itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Not 0.
    pub id: MappingId,
    /// The first address.
    pub memory_start: u64,
    /// Behind the last.
    pub memory_limit: u64,
    /// Where in the file `memory_start` is.
    pub file_offset: u64,
    /// The file's path, or a name like `[vdso]`.
    pub filename: StringId,
    /// What tells one build from the other: GNU's build id in hexadecimal digits.
    pub build_id: StringId,
    /// Its locations have functions.
    pub has_functions: bool,
    /// Their functions have files.
    pub has_filenames: bool,
    /// Their lines have numbers.
    pub has_line_numbers: bool,
    /// Inlined functions have lines of their own.
    pub has_inline_frames: bool,
}

/// An address and what stands there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Location<L> {
    /// Not 0.
    pub id: LocationId,
    /// The file that the address falls into; 0 for not known.
    pub mapping: MappingId,
    /// The address; 0 for not known.
    pub address: u64,
    /// The functions at the address: those inlined there, innermost first, and the one they were inlined
    /// into last. None for an address without symbols.
    pub lines: L,
    /// Several functions share this code and the lines name one of them.
    pub is_folded: bool,
}

/// A place in a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The function.
    pub function: FunctionId,
    /// The line in the function's file; 0 for not known.
    pub line: i64,
    /// The column in that line; 0 for not known.
    pub column: i64,
}

/// A function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Not 0.
    pub id: FunctionId,
    /// Its name as people read it.
    pub name: StringId,
    /// Its name as the linker has it.
    pub system_name: StringId,
    /// The source file.
    pub filename: StringId,
    /// Where in the file it begins; 0 for not known.
    pub start_line: i64,
}

/// The numbers of the fields, by message.
pub(crate) mod field {
    pub(crate) mod profile {
        pub(crate) const SAMPLE_TYPE: u32 = 1;
        pub(crate) const SAMPLE: u32 = 2;
        pub(crate) const MAPPING: u32 = 3;
        pub(crate) const LOCATION: u32 = 4;
        pub(crate) const FUNCTION: u32 = 5;
        pub(crate) const STRING_TABLE: u32 = 6;
        pub(crate) const DROP_FRAMES: u32 = 7;
        pub(crate) const KEEP_FRAMES: u32 = 8;
        pub(crate) const TIME_NANOS: u32 = 9;
        pub(crate) const DURATION_NANOS: u32 = 10;
        pub(crate) const PERIOD_TYPE: u32 = 11;
        pub(crate) const PERIOD: u32 = 12;
        pub(crate) const COMMENT: u32 = 13;
        pub(crate) const DEFAULT_SAMPLE_TYPE: u32 = 14;
        pub(crate) const DOC_URL: u32 = 15;
    }
    pub(crate) mod value_type {
        pub(crate) const TYPE: u32 = 1;
        pub(crate) const UNIT: u32 = 2;
    }
    pub(crate) mod sample {
        pub(crate) const LOCATION_ID: u32 = 1;
        pub(crate) const VALUE: u32 = 2;
        pub(crate) const LABEL: u32 = 3;
    }
    pub(crate) mod label {
        pub(crate) const KEY: u32 = 1;
        pub(crate) const STR: u32 = 2;
        pub(crate) const NUM: u32 = 3;
        pub(crate) const NUM_UNIT: u32 = 4;
    }
    pub(crate) mod mapping {
        pub(crate) const ID: u32 = 1;
        pub(crate) const MEMORY_START: u32 = 2;
        pub(crate) const MEMORY_LIMIT: u32 = 3;
        pub(crate) const FILE_OFFSET: u32 = 4;
        pub(crate) const FILENAME: u32 = 5;
        pub(crate) const BUILD_ID: u32 = 6;
        pub(crate) const HAS_FUNCTIONS: u32 = 7;
        pub(crate) const HAS_FILENAMES: u32 = 8;
        pub(crate) const HAS_LINE_NUMBERS: u32 = 9;
        pub(crate) const HAS_INLINE_FRAMES: u32 = 10;
    }
    pub(crate) mod location {
        pub(crate) const ID: u32 = 1;
        pub(crate) const MAPPING_ID: u32 = 2;
        pub(crate) const ADDRESS: u32 = 3;
        pub(crate) const LINE: u32 = 4;
        pub(crate) const IS_FOLDED: u32 = 5;
    }
    pub(crate) mod line {
        pub(crate) const FUNCTION_ID: u32 = 1;
        pub(crate) const LINE: u32 = 2;
        pub(crate) const COLUMN: u32 = 3;
    }
    pub(crate) mod function {
        pub(crate) const ID: u32 = 1;
        pub(crate) const NAME: u32 = 2;
        pub(crate) const SYSTEM_NAME: u32 = 3;
        pub(crate) const FILENAME: u32 = 4;
        pub(crate) const START_LINE: u32 = 5;
    }
}
