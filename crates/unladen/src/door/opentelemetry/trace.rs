//! The span in which a thread is, if it is sampled: what OpenTelemetry's default filter, `trace_based`,
//! keeps as an exemplar.

use std::cell::Cell;
use std::panic::catch_unwind;

use ::opentelemetry::Context;
use ::opentelemetry::trace::TraceContextExt;

use crate::exemplar::Trace;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Unknown,
    Alive,
    Ended,
}

thread_local! {
    /// Whether the thread still has a context: asking for it afterwards would panic.
    static LIFE: Cell<Life> = const { Cell::new(Life::Unknown) };
    static END: End = const { End };
}

/// Is dropped before the context, because it is made after it.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        LIFE.set(Life::Ended);
    }
}

/// The sampled span that this thread is in. *Steady* after the thread's first time.
#[inline]
pub(super) fn current() -> Option<Trace> {
    match LIFE.get() {
        Life::Alive => look(),
        Life::Unknown => begin(),
        Life::Ended => None,
    }
}

#[cold]
fn begin() -> Option<Trace> {
    // A thread that is ending may have lost its context before it first came here.
    let trace = catch_unwind(look);
    let is_alive = trace.is_ok() && END.try_with(|_| ()).is_ok();
    LIFE.set(if is_alive { Life::Alive } else { Life::Ended });
    trace.unwrap_or_default()
}

#[inline]
fn look() -> Option<Trace> {
    Context::map_current(|context| {
        if !context.has_active_span() {
            return None;
        }
        let span = context.span();
        let span = span.span_context();
        (span.is_sampled() && span.is_valid()).then(|| Trace {
            trace_id: span.trace_id().to_bytes(),
            span_id: span.span_id().to_bytes(),
        })
    })
}
