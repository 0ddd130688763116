//! The templates of a fleet, and bodies made of them.

use std::io::Write;

use super::connection::Order;
use super::identity::Churn;
use super::options::Options;
use super::shape::{self, Plan};
use super::template::Template;
use super::value::Moment;
use super::world::World;

/// What bodies are made of.
pub(super) struct Stock {
    /// Of each shape in turn: text, and OpenMetrics where it is asked for.
    kinds: Vec<Kind>,
    packed: Packed,
    head: Vec<u8>,
}

struct Kind {
    text: Ready,
    openmetrics: Option<Ready>,
}

/// A template with the head of its answers.
struct Ready {
    template: Template,
    head: Vec<u8>,
}

/// The compressed body that was made last.
struct Packed {
    compressor: libdeflater::Compressor,
    /// As long as the longest needs.
    bytes: Vec<u8>,
    length: usize,
    of: Option<Order>,
}

/// A part of an answer.
pub(super) struct Piece<'s> {
    pub(super) head: &'s [u8],
    pub(super) body: &'s [u8],
    /// Bytes of the whole answer.
    pub(super) all: usize,
}

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
const OPENMETRICS: &str =
    "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores";

impl Stock {
    /// *Setup.*
    ///
    /// # Errors
    /// Where there is churn, and a shape has too few series for anything that comes and goes.
    pub(super) fn new(options: &Options, tick_seconds: f64) -> Result<Self, String> {
        let mut kinds = Vec::new();
        for shape in options.shape.kinds() {
            let ready = |openmetrics: bool| -> Result<Ready, String> {
                let plan = Plan {
                    shape,
                    series: options.series,
                    values: options.values,
                    openmetrics,
                    seed: options.seed,
                };
                let mut template = shape::build(plan);
                template.churn = churn(options, &template, tick_seconds).ok_or_else(|| {
                    format!(
                        "--churn: of {} series of the shape {} none comes and goes: ask for more \
                             with --series",
                        options.series,
                        shape.as_str()
                    )
                })?;
                let content_type = if openmetrics { OPENMETRICS } else { TEXT };
                let head = head(content_type, template.len(), false);
                Ok(Ready { template, head })
            };
            let openmetrics = if options.openmetrics { Some(ready(true)?) } else { None };
            kinds.push(Kind { text: ready(false)?, openmetrics });
        }
        let compressor =
            libdeflater::Compressor::new(libdeflater::CompressionLvl::new(1).unwrap_or_default());
        let packed = Packed { compressor, bytes: Vec::new(), length: 0, of: None };
        Ok(Stock { kinds, packed, head: Vec::new() })
    }

    /// Bytes of the longest body.
    pub(super) fn longest(&self) -> usize {
        self.kinds.iter().map(|kind| kind.text.template.len()).max().unwrap_or(0)
    }

    /// Bytes that it holds.
    pub(super) fn memory_usage(&self) -> usize {
        let of = |ready: &Ready| ready.template.memory_usage();
        let kinds = self.kinds.iter();
        kinds.map(|kind| of(&kind.text) + kind.openmetrics.as_ref().map_or(0, of)).sum::<usize>()
            + self.packed.bytes.capacity()
    }

    /// What comes after the first `from` bytes of an answer, head included; at most `most` bytes of its
    /// body. *Steady*, except that a compressed body grows its buffer to the longest.
    pub(super) fn piece(
        &mut self,
        world: &World,
        order: Order,
        from: usize,
        most: usize,
    ) -> Piece<'_> {
        let place = order.number % self.kinds.len();
        let kind = &mut self.kinds[place];
        let ready = match &mut kind.openmetrics {
            Some(ready) if order.openmetrics => ready,
            _ => &mut kind.text,
        };
        if order.gzip {
            if self.packed.of != Some(order) {
                ready.template.load(world.target_seed(order.number), order.moment);
                let body = ready.template.render(0..ready.template.len());
                self.packed.pack(body);
                self.packed.of = Some(order);
                let content_type = if order.openmetrics { OPENMETRICS } else { TEXT };
                self.head.clear();
                // Writing to a Vec never fails.
                let _ = write_head(&mut self.head, content_type, self.packed.length, true);
            }
            let (head, body) = (&self.head, &self.packed.bytes[..self.packed.length]);
            let begin = from.saturating_sub(head.len()).min(body.len());
            let end = body.len().min(begin + most);
            let all = head.len() + body.len();
            return Piece { head: &head[from.min(head.len())..], body: &body[begin..end], all };
        }
        ready.template.load(world.target_seed(order.number), order.moment);
        let (head, length) = (&ready.head, ready.template.len());
        let begin = from.saturating_sub(head.len()).min(length);
        let end = length.min(begin + most);
        let all = head.len() + length;
        Piece { head: &head[from.min(head.len())..], body: ready.template.render(begin..end), all }
    }

    /// The lines of a target's text that begin within its first `most` bytes.
    pub(super) fn lines(
        &mut self,
        world: &World,
        number: usize,
        moment: Moment,
        most: usize,
    ) -> String {
        let place = number % self.kinds.len();
        let template = &mut self.kinds[place].text.template;
        template.load(world.target_seed(number), moment);
        let end = template.len().min(most);
        let mut text = String::from_utf8_lossy(template.render(0..end)).into_owned();
        text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
        text
    }
}

impl Packed {
    fn pack(&mut self, body: &[u8]) {
        let bound = self.compressor.gzip_compress_bound(body.len());
        if self.bytes.len() < bound {
            self.bytes.resize(bound, 0);
        }
        // The bound leaves no way to fail.
        self.length = self.compressor.gzip_compress(body, &mut self.bytes).unwrap_or(0);
    }
}

/// When units are replaced such that the promised share of all series is; `None` where none can be.
pub(super) fn churn(options: &Options, template: &Template, tick_seconds: f64) -> Option<Churn> {
    let Some(churn) = options.churn else {
        return Some(Churn { life_ticks: f64::INFINITY });
    };
    if template.replaceable == 0 {
        return None;
    }
    let period_ticks = churn.period.as_secs_f64() / tick_seconds;
    let share_of_units = churn.share * template.series as f64 / template.replaceable as f64;
    Some(Churn { life_ticks: period_ticks / share_of_units })
}

fn head(content_type: &str, length: usize, gzip: bool) -> Vec<u8> {
    let mut head = Vec::new();
    // Writing to a Vec never fails.
    let _ = write_head(&mut head, content_type, length, gzip);
    head
}

fn write_head(
    out: &mut Vec<u8>,
    content_type: &str,
    length: usize,
    gzip: bool,
) -> std::io::Result<()> {
    let encoding = if gzip { "Content-Encoding: gzip\r\n" } else { "" };
    write!(
        out,
        "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n{encoding}Content-Length: {length}\r\n\r\n"
    )
}
