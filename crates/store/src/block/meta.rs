//! `meta.json`: what a block covers, what it holds and where it came from.
//!
//! Holds Prometheus' fields and keeps those that it doesn't know (Thanos adds a section), so that a
//! rewritten block does not lose them. Refuses other versions than 1.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use ulid::Ulid;

use crate::Error;

/// The version of a block's directory.
const VERSION: u32 = 1;

/// The content of a block's `meta.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Meta {
    /// Name of the block and of its directory.
    #[serde(with = "text")]
    pub ulid: Ulid,
    /// The time, in milliseconds, from which on the block may hold samples.
    pub min_time: i64,
    /// The time, in milliseconds, before which all its samples lie.
    pub max_time: i64,
    /// What is in it.
    #[serde(default)]
    pub stats: Stats,
    /// Where it came from.
    pub compaction: Compaction,
    /// Always 1.
    pub version: u32,
    /// Fields of others.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// What a block holds. As in Prometheus, a count of zero is left out of the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Stats {
    /// Samples of all kinds.
    #[serde(skip_serializing_if = "zero")]
    pub num_samples: u64,
    /// Samples that are floats.
    #[serde(skip_serializing_if = "zero")]
    pub num_float_samples: u64,
    /// Samples that are native histograms.
    #[serde(skip_serializing_if = "zero")]
    pub num_histogram_samples: u64,
    /// Series.
    #[serde(skip_serializing_if = "zero")]
    pub num_series: u64,
    /// Chunks.
    #[serde(skip_serializing_if = "zero")]
    pub num_chunks: u64,
    /// Intervals of series that were deleted after the block was written.
    #[serde(skip_serializing_if = "zero")]
    pub num_tombstones: u64,
    /// Fields of others.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The blocks that a block was made of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Compaction {
    /// How often the samples were rewritten: 1 for a block cut from the head.
    pub level: u32,
    /// The blocks that were once cut from the head and whose samples are in here.
    #[serde(default, with = "texts", skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Ulid>,
    /// Whether the block turned out to hold nothing and may go.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deletable: bool,
    /// Fields of others, and those of Prometheus that nothing here depends on.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

fn zero(count: &u64) -> bool {
    *count == 0
}

impl Meta {
    /// The meta of a block that is cut from the head, over `min_time..max_time`.
    pub fn of_head(ulid: Ulid, min_time: i64, max_time: i64) -> Self {
        Meta {
            ulid,
            min_time,
            max_time,
            stats: Stats::default(),
            compaction: Compaction { level: 1, sources: vec![ulid], ..Compaction::default() },
            version: VERSION,
            extra: Map::new(),
        }
    }

    /// Reads the file's content; `path` is for the error.
    ///
    /// # Errors
    /// No JSON, a field missing, or another version.
    pub fn parse(bytes: &[u8], path: &str) -> Result<Self, Error> {
        let meta: Meta = serde_json::from_slice(bytes)
            .map_err(|error| Error::corrupt(path, error.to_string()))?;
        if meta.version != VERSION {
            return Err(Error::corrupt(path, format!("version {} is not {VERSION}", meta.version)));
        }
        if meta.min_time > meta.max_time {
            let reason = format!("minTime {} is after maxTime {}", meta.min_time, meta.max_time);
            return Err(Error::corrupt(path, reason));
        }
        Ok(meta)
    }

    /// Whether Prometheus cut the block from samples that came out of order: the head it lies beside
    /// may have others of the same time.
    pub(crate) fn is_late(&self) -> bool {
        let hints = self.compaction.extra.get("hints").and_then(Value::as_array);
        hints.is_some_and(|hints| hints.iter().any(|hint| hint == "from-out-of-order"))
    }

    /// The file's content.
    pub fn to_json(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let tabs = serde_json::ser::PrettyFormatter::with_indent(b"\t");
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, tabs);
        self.serialize(&mut serializer).expect("writing to memory, with strings as keys");
        bytes
    }
}

/// A ULID as its text.
mod text {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use ulid::Ulid;

    pub(super) fn serialize<S: Serializer>(ulid: &Ulid, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(ulid)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Ulid, D::Error> {
        let text = String::deserialize(from)?;
        Ulid::from_string(&text)
            .map_err(|error| D::Error::custom(format!("ULID {text:?}: {error}")))
    }
}

/// ULIDs as their texts. Go writes an empty list as `null`.
mod texts {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use ulid::Ulid;

    pub(super) fn serialize<S: Serializer>(ulids: &[Ulid], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(ulids.iter().map(Ulid::to_string))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Ulid>, D::Error> {
        let texts = Option::<Vec<String>>::deserialize(from)?.unwrap_or_default();
        let parse = |text: String| {
            Ulid::from_string(&text)
                .map_err(|error| D::Error::custom(format!("ULID {text:?}: {error}")))
        };
        texts.into_iter().map(parse).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ULID: &str = "01HXYZ0000000000000000ABCD";

    #[test]
    fn what_is_not_known_is_kept() {
        let json = format!(
            r#"{{"ulid": "{ULID}", "minTime": 0, "maxTime": 7200000, "version": 1,
                "stats": {{"numSamples": 10, "numMagic": 3}},
                "compaction": {{"level": 2, "sources": ["{ULID}"], "hints": ["from-out-of-order"],
                    "parents": [{{"ulid": "{ULID}", "minTime": 0, "maxTime": 1}}]}},
                "thanos": {{"labels": {{"replica": "a"}}, "downsample": {{"resolution": 0}}}}}}"#
        );
        let meta = Meta::parse(json.as_bytes(), "meta.json").unwrap();
        assert_eq!(meta.ulid.to_string(), ULID);
        assert_eq!((meta.compaction.level, meta.stats.num_samples), (2, 10));
        assert!(meta.is_late() && !Meta::of_head(Ulid::nil(), 1, 2).is_late());
        let again = Meta::parse(&meta.to_json(), "meta.json").unwrap();
        assert_eq!(again, meta);
        let written: Value = serde_json::from_slice(&meta.to_json()).unwrap();
        assert_eq!(written["thanos"]["labels"]["replica"], "a");
        assert_eq!(written["stats"]["numMagic"], 3);
        assert_eq!(written["compaction"]["hints"][0], "from-out-of-order");
    }

    #[test]
    fn what_is_wrong_is_refused_with_its_place() {
        let good = String::from_utf8(Meta::of_head(Ulid::nil(), 1, 2).to_json()).unwrap();
        Meta::parse(good.as_bytes(), "x").unwrap();
        for (from, to, says) in [
            ("\"version\": 1", "\"version\": 2", "version 2"),
            ("\"minTime\": 1", "\"minTime\": 3", "after maxTime"),
            ("\"minTime\": 1,", "", "minTime"),
            ("00000", "!!", "ULID"),
            ("{", "", "line 2"),
        ] {
            let error = Meta::parse(good.replacen(from, to, 1).as_bytes(), "b/meta.json");
            let text = error.unwrap_err().to_string();
            assert!(text.contains("b/meta.json") && text.contains(says), "{from}: {text}");
        }
    }
}
