//! The envelope of successful answers: `{"status":"success","data":…,"warnings":[…],"infos":[…]}`.

use super::json;
use super::reply::{Answer, Out};

/// An answer whose `data` is written by `data`.
pub(super) fn success(data: impl FnOnce(&mut Out) + Send + 'static) -> Answer {
    success_with(Vec::new(), Vec::new(), data)
}

/// An answer with warnings and infos.
pub(super) fn success_with(
    warnings: Vec<String>,
    infos: Vec<String>,
    data: impl FnOnce(&mut Out) + Send + 'static,
) -> Answer {
    Answer::json(move |out| {
        out.text("{\"status\":\"success\",\"data\":");
        data(out);
        for (name, texts) in [("warnings", warnings), ("infos", infos)] {
            if !texts.is_empty() {
                out.text(",\"");
                out.text(name);
                out.text("\":");
                json::strings(out, &texts);
            }
        }
        out.text("}");
    })
}
