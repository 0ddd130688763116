//! What the lines of a family begin with, made ready once per family.

use std::ops::Range;

use super::chunk::Chunk;
use super::metric::Family;
use crate::exposition::name::is_legacy_metric;
use crate::exposition::negotiate::Negotiated;
use crate::exposition::stored::{LabelsRef, NUL, push_escaped};
use crate::exposition::{Format, Kind};

/// Which of a family's series a line is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suffix {
    /// The value itself.
    Own,
    /// `_bucket`
    Bucket,
    /// `_sum`, in OpenMetrics `_gsum` for a gauge histogram.
    Sum,
    /// `_count`, in OpenMetrics `_gcount` for a gauge histogram.
    Count,
    /// `_created`
    Created,
}

/// A beginning in three forms.
#[derive(Clone, Default)]
struct Span {
    /// `name{`, for labels that hold the common ones already.
    open: Range<usize>,
    /// `name{common,`, for the series' own labels.
    with: Range<usize>,
    /// `name` or `name{common}`, where there are none.
    bare: Range<usize>,
}

/// The beginnings of the current family's lines; kept from family to family for the memory.
pub(super) struct Heads {
    /// The name as it is spelt, in OpenMetrics with what its samples add to the family's.
    name: String,
    /// How much of the name belongs to the family; the rest is `_total` or `_info`.
    family_length: usize,
    /// The name stands in quotes.
    quoted: bool,
    kind: Kind,
    text: String,
    spans: [Span; 5],
    longest: usize,
    /// The beginning of the lines that most lines are, and its length: a copy of a size that the compiler
    /// knows takes a few instructions and no call. Empty where it is longer.
    short: ([u8; SHORT_HEAD], usize),
}

/// What nearly all names fit.
pub(super) const SHORT_HEAD: usize = 64;

impl Default for Heads {
    fn default() -> Self {
        Heads {
            name: String::new(),
            family_length: 0,
            quoted: false,
            kind: Kind::Unknown,
            text: String::new(),
            spans: Default::default(),
            longest: 0,
            short: ([0; SHORT_HEAD], 0),
        }
    }
}

impl Heads {
    /// Takes the name as `negotiated` wants it, and gives the kind that the format can tell.
    pub(super) fn spell(&mut self, family: &Family<'_>, negotiated: Negotiated) -> Kind {
        self.name.clear();
        negotiated.escaping.metric_into(family.name, &mut self.name);
        self.quoted = !is_legacy_metric(&self.name);
        if self.quoted && self.name.contains('\0') {
            self.name = self.name.replace('\0', NUL);
        }
        let (suffix, kind) = self.suffix_and_kind(family.kind, negotiated.format);
        self.family_length = self.name.len() - suffix.len();
        self.kind = kind;
        kind
    }

    /// The part of the name that OpenMetrics takes for the samples' suffix, and the kind as it can be
    /// told: a counter that does not end in `_total` is none in OpenMetrics.
    fn suffix_and_kind(&self, kind: Kind, format: Format) -> (&'static str, Kind) {
        let suffix = match kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            _ => return ("", kind),
        };
        if format != Format::OpenMetrics {
            return ("", kind);
        }
        match self.name.strip_suffix(suffix) {
            Some(rest) if !rest.is_empty() => (suffix, kind),
            _ => ("", Kind::Unknown),
        }
    }

    /// The name under which HELP and TYPE stand.
    pub(super) fn family_name(&self) -> &str {
        &self.name[..self.family_length]
    }

    /// The kind of the last [`spell`](Heads::spell).
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether a metric of the family is more than one number.
    #[inline]
    pub(super) fn has_parts(&self) -> bool {
        matches!(self.kind, Kind::Histogram | Kind::GaugeHistogram | Kind::Summary)
    }

    /// Bytes of the longest beginning, without the labels that follow.
    #[inline]
    pub(super) fn length(&self) -> usize {
        self.longest
    }

    /// Makes the beginnings ready, with the `common` labels in them unless they have to be respelt: then
    /// every metric's own labels come with them.
    pub(super) fn prepare(&mut self, common: LabelsRef<'_>, negotiated: Negotiated) {
        let format = negotiated.format;
        let is_direct = common.is_direct(negotiated.escaping);
        let common = if is_direct { common } else { LabelsRef::EMPTY };
        self.text.clear();
        let is_gauge = format == Format::OpenMetrics && self.kind == Kind::GaugeHistogram;
        let (sum, count) = if is_gauge { ("_gsum", "_gcount") } else { ("_sum", "_count") };
        let suffixes = ["", "_bucket", sum, count, "_created"];
        // The kinds of one number have one beginning, and perhaps a creation.
        let has_parts = self.has_parts();
        for (index, suffix) in suffixes.into_iter().enumerate() {
            let is_needed = index == 0 || has_parts || suffix == "_created";
            self.spans[index] = match is_needed {
                true => self.span(suffix, common.as_str()),
                false => Span::default(),
            };
        }
        let lengths = self.spans.iter().map(|span| span.with.len().max(span.bare.len()));
        self.longest = lengths.max().unwrap_or(0);
        let head = &self.text.as_bytes()[self.spans[0].with.clone()];
        let is_short = is_direct && !has_parts && head.len() <= SHORT_HEAD;
        self.short.1 = if is_short { head.len() } else { 0 };
        self.short.0[..self.short.1].copy_from_slice(&head[..self.short.1]);
    }

    /// The beginning of a line of one value that has labels, and how much of it counts; 0 if it has to be
    /// asked for in the other way.
    #[inline]
    pub(super) fn short(&self) -> (&[u8; SHORT_HEAD], usize) {
        (&self.short.0, self.short.1)
    }

    fn span(&mut self, suffix: &str, common: &str) -> Span {
        let Heads { text, name, family_length, quoted, .. } = self;
        // `_created` belongs to the family and not to its `_total`.
        let name = if suffix.is_empty() { &name[..] } else { &name[..*family_length] };
        let begin = text.len();
        let full_name = |text: &mut String| {
            if *quoted {
                text.push_str("{\"");
                push_escaped(name, text);
                text.push_str(suffix);
                text.push('"');
            } else {
                text.push_str(name);
                text.push_str(suffix);
            }
        };
        full_name(text);
        text.push(if *quoted { ',' } else { '{' });
        let open = begin..text.len();
        text.push_str(common);
        text.push_str(if common.is_empty() { "" } else { "," });
        let with = begin..text.len();
        full_name(text);
        if !common.is_empty() {
            text.push(if *quoted { ',' } else { '{' });
            text.push_str(common);
        }
        text.push_str(if *quoted || !common.is_empty() { "}" } else { "" });
        Span { open, bare: with.end..text.len(), with }
    }

    /// The beginning of a line whose labels hold the common ones, or don't.
    #[inline]
    pub(super) fn labelled(&self, suffix: Suffix, has_common: bool) -> &[u8] {
        let span = &self.spans[suffix as usize];
        let range = if has_common { &span.open } else { &span.with };
        &self.text.as_bytes()[range.clone()]
    }

    /// The beginning of a line without labels of its own.
    #[inline]
    pub(super) fn bare(&self, suffix: Suffix) -> &[u8] {
        &self.text.as_bytes()[self.spans[suffix as usize].bare.clone()]
    }

    /// Writes `keyword`, the family's name and a blank.
    pub(super) fn metadata(&self, keyword: &[u8], out: &mut Chunk<'_>) {
        out.put(keyword);
        if self.quoted {
            out.put(b"\"");
            out.escaped(self.family_name(), true);
            out.put(b"\" ");
        } else {
            out.put(self.family_name().as_bytes());
            out.put(b" ");
        }
    }
}
