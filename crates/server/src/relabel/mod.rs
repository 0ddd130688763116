//! Relabelling: rules that keep, drop and rewrite label sets, of targets before they are scraped and of
//! series before they are stored.
//!
//! A [`Rule`] is checked when it is built; applying it cannot fail. Rules run once for each new target
//! or series, on borrowed text: [`Scratch::start`] lends an empty [`LabelSet`], [`LabelSet::lend`]
//! fills it, [`LabelSet::apply`] runs the rules. What no rule touches is never copied.

mod apply;
mod labels;
mod rule;

pub use labels::{LabelSet, Scratch};
pub use rule::{Action, Rule, RuleError, RuleText};

#[cfg(test)]
mod tests;
