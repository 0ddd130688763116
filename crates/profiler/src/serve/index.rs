//! The page that leads to the others: what there is, what is on, and what it costs.
//!
//! Plain HTML of one piece, without scripts; everything that comes from the program is escaped.

use std::fmt::Write;

use super::query::Kind;

/// What the page shows.
pub(super) struct Index<'i> {
    /// The program's name.
    pub(super) program: &'i str,
    /// Why a profile can't be had; none where it can.
    pub(super) is_off: &'i dyn Fn(Kind) -> Option<&'static str>,
    /// What the profiler says about itself: names and figures.
    pub(super) facts: &'i [(&'static str, String)],
}

/// The page's look: the reader's own colours, light or dark.
const STYLE: &str = "\
:root{color-scheme:light dark;--dim:light-dark(#5c6470,#9aa4b2);--line:light-dark(#e3e6ea,#30363d);\
--link:light-dark(#0b5cad,#7ab7ff)}\
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2.5rem auto;padding:0 1.25rem}\
h1{font-size:1.35rem;margin:0}h2{font-size:1rem;margin:2rem 0 .4rem}\
p{color:var(--dim);margin:.2rem 0 1.2rem}\
table{border-collapse:collapse;width:100%}\
td,th{text-align:left;vertical-align:top;padding:.45rem 1.2rem .45rem 0;\
border-top:1px solid var(--line)}\
th{font-weight:600;white-space:nowrap;width:9rem}td.links{white-space:nowrap;width:1%;padding-right:0}\
.off,.note{color:var(--dim)}a{color:var(--link);text-decoration:none;margin-right:.7rem}\
a:hover{text-decoration:underline}code{font-size:.92em}\
td.figure{font-variant-numeric:tabular-nums}";

/// A profile's place on the page: what it shows, and links with their words.
type Entry = (Kind, &'static str, &'static [(&'static str, &'static str)]);

const ENTRIES: [Entry; 5] = [
    (
        Kind::Cpu,
        "CPU time, by stack, over <code>seconds</code> from now on (30 unless given).",
        &[("?seconds=30", "30 s"), ("?seconds=5", "5 s"), ("?seconds=5&amp;debug=1", "text")],
    ),
    (
        Kind::Wall,
        "Elapsed time of all threads, busy or waiting, over <code>seconds</code> from now on.",
        &[("?seconds=30", "30 s"), ("?seconds=5", "5 s"), ("?seconds=5&amp;debug=1", "text")],
    ),
    (
        Kind::Heap,
        "A sample of what is allocated now. With <code>seconds</code>, what changes meanwhile.",
        &[("", "now"), ("?seconds=30", "30 s"), ("?debug=1", "text")],
    ),
    (
        Kind::Allocs,
        "A sample of all allocations since the start, freed or not.",
        &[("", "all"), ("?seconds=30", "30 s"), ("?debug=1", "text")],
    ),
    (
        Kind::Threads,
        "Where each thread is now.",
        &[("", "now"), ("?debug=1", "grouped"), ("?debug=2", "each")],
    ),
];

impl Index<'_> {
    /// The page. *Setup.*
    pub(super) fn write(&self) -> String {
        let mut page = String::with_capacity(8 << 10);
        let program = escape(self.program);
        // Writing to a String never fails.
        let _ = write!(
            page,
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n\
             <title>Profiles of {program}</title>\n<style>{STYLE}</style>\n\
             <h1>Profiles of {program}</h1>\n\
             <p><code>go tool pprof</code> opens them: give it the address of one.</p>\n<table>\n"
        );
        for (kind, what, links) in ENTRIES {
            let name = kind.name();
            if let Some(reason) = (self.is_off)(kind) {
                let _ = writeln!(
                    page,
                    "<tr class=\"off\"><th>{name}<td>{what}<br>Off: {reason}.<td class=\"links\">"
                );
                continue;
            }
            let _ = write!(page, "<tr><th><a href=\"{name}\">{name}</a><td>{what}");
            page.push_str("<td class=\"links\">");
            for (query, word) in links {
                let _ = write!(page, "<a href=\"{name}{query}\">{word}</a>");
            }
            page.push('\n');
        }
        page.push_str(
            "<tr><th><a href=\"cmdline\">cmdline</a><td>The program's command line.<td>\n\
             <tr><th><a href=\"symbol\">symbol</a>\
             <td>Names of addresses, for tools: <code>symbol?0x1234+0x5678</code>, or posted.<td>\n\
             </table>\n<p class=\"note\">Without <code>debug</code>, the format of pprof, packed. \
             <code>symbolize=false</code> leaves names out and build ids in.</p>\n",
        );
        if !self.facts.is_empty() {
            page.push_str("<h2>The profiler itself</h2>\n<table>\n");
            for (name, figure) in self.facts {
                let figure = escape(figure);
                let _ = writeln!(page, "<tr><th>{name}<td class=\"figure\">{figure}");
            }
            page.push_str("</table>\n");
        }
        page.push_str("</html>\n");
        page
    }
}

/// Text that no markup comes out of.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_says_what_is_on_and_escapes_what_it_shows() {
        let facts = [("Budget", "<2% & \"more\"".to_owned())];
        let off = |kind| (kind == Kind::Heap).then_some("no allocator");
        let page = Index { program: "<script>'x'", is_off: &off, facts: &facts }.write();
        for part in [
            "<title>Profiles of &lt;script&gt;&#39;x&#39;</title>",
            "<a href=\"profile?seconds=5&amp;debug=1\">text</a>",
            "<a href=\"threads?debug=2\">",
            "Off: no allocator.",
            "<td class=\"figure\">&lt;2% &amp; &quot;more&quot;",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("href=\"heap"));
        assert!(!page.contains("<script"));
    }
}
