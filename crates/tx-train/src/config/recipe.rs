//! Recipes: named configurations.

use tx_infer::TaskKind;

use super::similar::most_similar;
use crate::error::TrainError;

/// Named configuration that is part of tx.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recipe {
    /// Name.
    pub name: &'static str,
    /// Task.
    pub task: TaskKind,
    /// Description in one line.
    pub about: &'static str,
    /// TOML file with comments.
    pub toml: &'static str,
}

macro_rules! recipes {
    ($($name:literal: $task:ident, $about:literal,)*) => {
        &[$(Recipe {
            name: $name,
            task: TaskKind::$task,
            about: $about,
            toml: include_str!(concat!("recipes/", $name, ".toml")),
        }),*]
    };
}

/// All recipes by task; the first is the default of `train`.
pub const RECIPES: &[Recipe] = recipes! {
    "phrasebook": Translate,
        "English to Italian phrases from a generated grammar; offline, minutes",
    "reverse": Translate, "reversal of random words, as published by Etienne; offline, a minute",
    "reverse-exact": Translate, "the same task with pre-norm and warm-up: over 99 % exact match",
    "toy": Translate,
        "`ich mochte ein bier` to `i want a beer`, as published by graykode; offline, seconds",
    "fra-eng": Translate,
        "English to French on 600 short pairs, as published in the d2l course; fetched",
    "small": Translate, "a small model for about 30,000 pairs of short sentences; from files",
    "multi30k-tiny": Translate,
        "benchmark on tokenized Multi30k, as published by Wu et al.; from files",
    "opus-books": Translate,
        "English to Italian books, word level, as published by Jamil; fetched",
    "base": Translate,
        "the base model and schedule of \"Attention Is All You Need\"; from files",
    "fine-tune": Translate, "continues a bundle on other data, with `--from BUNDLE`; from files",
    "classify": Classify,
        "statement, question, negation or command: English sentences; offline, a minute",
    "generate": Generate, "language model of the phrasebook's English sentences; offline, minutes",
    "fill-mask": FillMask, "masked language model of the same sentences; offline, minutes",
};

impl Recipe {
    /// Finds a recipe by name.
    ///
    /// # Errors
    ///
    /// If there is no recipe of that name; the error names the most similar one.
    pub fn find(name: &str) -> Result<&'static Self, TrainError> {
        RECIPES.iter().find(|recipe| recipe.name == name).ok_or_else(|| {
            let known: Vec<&str> = RECIPES.iter().map(|recipe| recipe.name).collect();
            let nearest = most_similar(name, known.iter().copied());
            TrainError::UnknownRecipe { name: name.into(), known, nearest }
        })
    }
}
