//! YAML as a tree of nodes that know where they stand.
//!
//! The tree is what go-yaml would have decoded from: YAML 1.1 scalars whose text is kept as written
//! (the field decides what it means), anchors and aliases, merge keys, `!!binary`. A key that occurs
//! twice is an error.
//!
//! The steps: 1. granit-parser turns text into events; 2. a stack of open collections turns events
//! into nodes, an alias into a copy of what it names; 3. a finished mapping takes in its merge keys.
//! Aliases can multiply what stands in the text, in number and depth: both are bounded.

use std::collections::HashMap;

use base64::Engine as _;
use granit_parser::{Event, Parser, ScalarStyle, Span, Tag};

use super::error::Position;

/// Nodes that aliases may add to those that stand in the text.
const EXPANDED_MAX: usize = 1_000_000;
/// Collections within collections, aliases expanded.
const DEPTH_MAX: usize = 255;

/// A value and its place.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) at: Position,
    pub(super) content: Content,
}

#[derive(Clone, Debug)]
pub(super) enum Content {
    /// Nothing, `~` or `null`.
    Null,
    /// Text; `plain` if it was written without quotes and may therefore mean a number or a boolean.
    Scalar {
        text: String,
        plain: bool,
    },
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// The key of a mapping's entry.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) at: Position,
    pub(super) text: String,
    /// `<<` without quotes.
    merges: bool,
}

/// Why a text is not a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) at: Position,
    /// The path of the value that is at fault; empty where there is none.
    pub(super) path: String,
    pub(super) message: String,
}

#[cold]
fn fault(at: Position, message: impl Into<String>) -> Fault {
    Fault { at, path: String::new(), message: message.into() }
}

impl Node {
    /// What kind of thing it is, for messages.
    pub(super) fn describe(&self) -> String {
        match &self.content {
            Content::Null => "nothing".to_owned(),
            Content::Scalar { text, plain: true } => format!("`{text}`"),
            Content::Scalar { text, plain: false } => format!("the text {text:?}"),
            Content::List(_) => "a list".to_owned(),
            Content::Map(_) => "a mapping".to_owned(),
        }
    }
}

/// Reads the one document of `text`. An empty text is a null node.
pub(super) fn parse(text: &str) -> Result<Node, Fault> {
    let mut options = granit_parser::options! {};
    options.set_emit_comments(false);
    let mut builder = Builder::default();
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| {
            fault(position(error.marker().line(), error.marker().col()), error.info())
        })?;
        builder.event(event, &span).map_err(|fault| match fault.path.is_empty() {
            true => Fault { path: builder.path(), ..fault },
            false => fault,
        })?;
    }
    Ok(builder.root.unwrap_or(Node { at: Position { line: 1, column: 1 }, content: Content::Null }))
}

fn position(line: usize, column_from_zero: usize) -> Position {
    Position { line: line.max(1), column: column_from_zero + 1 }
}

#[derive(Default)]
struct Builder {
    root: Option<Node>,
    open: Vec<Open>,
    anchors: HashMap<usize, Anchor>,
    /// Nodes that aliases have added.
    expanded: usize,
    /// The key of the current mapping that waits for its value, one for each open mapping.
    keys: Vec<Option<Key>>,
}

struct Open {
    node: Node,
    anchor: usize,
    /// The deepest nesting below it.
    height: usize,
}

struct Anchor {
    node: Node,
    size: usize,
    height: usize,
}

impl Builder {
    fn event(&mut self, event: Event<'_>, span: &Span) -> Result<(), Fault> {
        let at = position(span.start.line(), span.start.col());
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let node = Node { at, content: scalar(&text, style, tag.as_deref(), at)? };
                if anchor != 0 {
                    self.anchors.insert(anchor, Anchor { node: node.clone(), size: 1, height: 0 });
                }
                self.place(node, matches!(style, ScalarStyle::Plain), 0)
            }
            Event::SequenceStart(_, anchor, _) => self.start(at, Content::List(Vec::new()), anchor),
            Event::MappingStart(_, anchor, _) => {
                self.start(at, Content::Map(Vec::new()), anchor)?;
                self.keys.push(None);
                Ok(())
            }
            Event::SequenceEnd => self.end(),
            Event::MappingEnd => {
                self.keys.pop();
                self.end()
            }
            Event::Alias(anchor) => {
                let Some(known) = self.anchors.get(&anchor) else {
                    return Err(fault(at, "this alias is within the value that it names"));
                };
                self.expanded += known.size;
                let height = known.height;
                // Bounded before the copy is made.
                if self.expanded > EXPANDED_MAX {
                    return Err(fault(
                        at,
                        format!("aliases stand for more than {EXPANDED_MAX} values"),
                    ));
                }
                let node = self.anchors[&anchor].node.clone();
                self.place(node, false, height)
            }
            _ => Ok(()),
        }
    }

    /// The path of what is being read.
    fn path(&self) -> String {
        let mut keys = self.keys.iter();
        let mut path = String::new();
        for open in &self.open {
            match &open.node.content {
                Content::List(items) => path.push_str(&format!("[{}]", items.len())),
                _ => {
                    if let Some(Some(key)) = keys.next() {
                        path = super::section::join(&path, &key.text);
                    }
                }
            }
        }
        path
    }

    fn start(&mut self, at: Position, content: Content, anchor: usize) -> Result<(), Fault> {
        if self.open.len() >= DEPTH_MAX {
            return Err(fault(at, format!("values are nested deeper than {DEPTH_MAX}")));
        }
        if self.expects_key() {
            return Err(fault(at, "the key of a mapping must be a text"));
        }
        self.open.push(Open { node: Node { at, content }, anchor, height: 0 });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Fault> {
        let mut open = self.open.pop().expect("the parser pairs its events");
        if let Content::Map(entries) = &mut open.node.content {
            merge(entries)?;
        }
        let height = open.height + 1;
        if open.anchor != 0 {
            let anchor = Anchor { size: count(&open.node), node: open.node.clone(), height };
            self.anchors.insert(open.anchor, anchor);
        }
        self.place(open.node, false, height)
    }

    /// Whether the next node is a key.
    fn expects_key(&self) -> bool {
        matches!(self.open.last(), Some(Open { node: Node { content: Content::Map(_), .. }, .. }))
            && matches!(self.keys.last(), Some(None))
    }

    fn place(&mut self, node: Node, plain: bool, height: usize) -> Result<(), Fault> {
        if self.open.len() + height > DEPTH_MAX {
            return Err(fault(node.at, format!("values are nested deeper than {DEPTH_MAX}")));
        }
        let expects_key = self.expects_key();
        let Some(open) = self.open.last_mut() else {
            return self.place_root(node);
        };
        open.height = open.height.max(height);
        match &mut open.node.content {
            Content::List(items) => items.push(node),
            Content::Map(_) if expects_key => {
                *self.keys.last_mut().expect("a mapping is open") = Some(key(node, plain)?);
            }
            Content::Map(entries) => {
                let key = self.keys.last_mut().and_then(Option::take).expect("a key waits");
                if let Some((first, _)) =
                    entries.iter().find(|(other, _)| other.text == key.text && !key.merges)
                {
                    let message = format!("the field is already set on line {}", first.at.line);
                    let at = key.at;
                    *self.keys.last_mut().expect("a mapping is open") = Some(key);
                    return Err(fault(at, message));
                }
                entries.push((key, node));
            }
            Content::Null | Content::Scalar { .. } => unreachable!("only collections are open"),
        }
        Ok(())
    }

    fn place_root(&mut self, node: Node) -> Result<(), Fault> {
        match &self.root {
            None => self.root = Some(node),
            // A closing `---` begins a document with nothing in it.
            Some(_) if matches!(node.content, Content::Null) => {}
            Some(_) => {
                return Err(fault(
                    node.at,
                    "a second document begins here; a configuration is one document",
                ));
            }
        }
        Ok(())
    }
}

fn count(node: &Node) -> usize {
    // Depth is bounded by DEPTH_MAX.
    1 + match &node.content {
        Content::Null | Content::Scalar { .. } => 0,
        Content::List(items) => items.iter().map(count).sum(),
        Content::Map(entries) => entries.iter().map(|(_, value)| 1 + count(value)).sum(),
    }
}

fn key(node: Node, plain: bool) -> Result<Key, Fault> {
    let at = node.at;
    match node.content {
        Content::Scalar { text, .. } => Ok(Key { at, merges: plain && text == "<<", text }),
        // A bare `null:` or `~:` is a key of that name to everything that reads texts.
        Content::Null => Ok(Key { at, text: String::new(), merges: false }),
        Content::List(_) | Content::Map(_) => Err(fault(at, "the key of a mapping must be a text")),
    }
}

/// Takes the entries of `<<` into the mapping. What the mapping says itself wins, then what comes
/// first.
fn merge(entries: &mut Vec<(Key, Node)>) -> Result<(), Fault> {
    while let Some(at) = entries.iter().position(|(key, _)| key.merges) {
        let (_, value) = entries.remove(at);
        let sources = match value.content {
            Content::List(items) => items,
            content => vec![Node { at: value.at, content }],
        };
        for source in sources {
            let Content::Map(more) = source.content else {
                return Err(fault(source.at, "a merge needs a mapping or a list of mappings"));
            };
            for (key, value) in more {
                if !entries.iter().any(|(other, _)| other.text == key.text) {
                    entries.push((key, value));
                }
            }
        }
    }
    Ok(())
}

fn scalar(
    text: &str,
    style: ScalarStyle,
    tag: Option<&Tag>,
    at: Position,
) -> Result<Content, Fault> {
    let core = tag.map(|tag| tag.parts()).map(|(handle, suffix)| format!("{handle}{suffix}"));
    match core.as_deref().map(|tag| tag.trim_start_matches("tag:yaml.org,2002:")) {
        Some("binary") => {
            let compact: String = text.split_ascii_whitespace().collect();
            let bytes = base64::engine::general_purpose::STANDARD
                .decode(compact)
                .map_err(|error| fault(at, format!("the !!binary value is not base64: {error}")))?;
            let text = String::from_utf8(bytes)
                .map_err(|_| fault(at, "the !!binary value is not valid UTF-8 text"))?;
            Ok(Content::Scalar { text, plain: false })
        }
        Some("null") => Ok(Content::Null),
        Some("int" | "float" | "bool") => {
            Ok(Content::Scalar { text: text.to_owned(), plain: true })
        }
        Some(_) => Ok(Content::Scalar { text: text.to_owned(), plain: false }),
        None if !matches!(style, ScalarStyle::Plain) => {
            Ok(Content::Scalar { text: text.to_owned(), plain: false })
        }
        None if matches!(text, "" | "~" | "null" | "Null" | "NULL") => Ok(Content::Null),
        None => Ok(Content::Scalar { text: text.to_owned(), plain: true }),
    }
}
