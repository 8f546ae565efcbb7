//! Choice of the program's work by the task of the bundle.

use std::io::Write;

use anyhow::Context;
use tx_cli::{allocator::SmallPages, terminal::stderr};
use tx_infer::{Bundle, TaskKind};

use crate::{args::TranslateArgs, classify, file, fill_mask, generate, text, usage::Usage};

/// Arguments that every model has.
const ALL: [&str; 12] = [
    "model",
    "text",
    "input",
    "interactive",
    "json",
    "invalid",
    "batch-size",
    "quiet",
    "batch-tokens",
    "threads",
    "device",
    "precision",
];

/// Argument of models that generate text, and of those that list labels or tokens.
const LIST: &str = "top-k";

/// Other arguments of models that generate text.
const GENERATION: [&str; 25] = [
    "beam",
    "diversity",
    "early-stopping",
    "ensemble",
    "force-eos",
    "groups",
    "length-norm",
    "length-penalty",
    "max-len",
    "max-repeats",
    "min-len",
    "n-best",
    "no-repeat-ngram",
    "no-unk",
    "patience",
    "renormalize",
    "repetition-penalty",
    "sample",
    "samples",
    "seed",
    "suppress",
    "suppress-id",
    "temperature",
    "top-p",
    "word-penalty",
];

/// Runs the model of `args` on a text or the lines of an input.
pub fn run(args: TranslateArgs) -> anyhow::Result<()> {
    let model = args.model.clone().context("`--model` is required")?;
    let (_, device) = args.translator.device.open()?;
    let small_pages = SmallPages::new();
    let bundle = Bundle::open_for_model(&model)?;
    let small_pages = small_pages.while_packing(bundle.weight_bytes());
    let kind = bundle.task.kind();
    check_arguments(kind, &args.given)?;
    if let Some(note) = args.translator.precision.note(&bundle)?.filter(|_| !args.quiet) {
        writeln!(stderr(), "note: {note}")?;
    }
    match kind {
        TaskKind::Translate => match args.file_format()? {
            Some(format) => file::translate(&args, format, &model, bundle, &device, small_pages),
            None => text::translate(args, &model, bundle, &device, small_pages),
        },
        TaskKind::Classify => classify::classify(args, &bundle, &device, small_pages),
        TaskKind::Generate => generate::generate(args, &model, &bundle, &device, small_pages),
        TaskKind::FillMask => fill_mask::fill_mask(args, &bundle, &device, small_pages),
    }
}

/// Rejects the first argument of `given` that a model of this kind does not have.
fn check_arguments(kind: TaskKind, given: &[String]) -> Result<(), Usage> {
    let has = |name: &str| {
        let is_general = name == LIST || ALL.contains(&name);
        match kind {
            TaskKind::Translate => true,
            TaskKind::Generate => is_general || GENERATION.contains(&name),
            TaskKind::Classify | TaskKind::FillMask => is_general,
        }
    };
    match given.iter().find(|name| !has(name)) {
        None => Ok(()),
        Some(name) => {
            Err(Usage::new(format!("`--{name}` conflicts with the task of the bundle, `{kind}`")))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    /// Arguments of translation only.
    const SOURCE: [&str; 29] = [
        "alignment",
        "alignment-layer",
        "alignment-head",
        "as-written",
        "attention-layer",
        "confidence",
        "context",
        "coverage-penalty",
        "format",
        "glossary",
        "glossary-languages",
        "glossary-use",
        "lexicon",
        "max-len-extra",
        "max-len-ratio",
        "mbr",
        "mbr-candidates",
        "mbr-samples",
        "mbr-scale",
        "min-len-ratio",
        "output",
        "prefix",
        "prefix-file",
        "replace-unk",
        "shortlist",
        "source-lang",
        "split",
        "split-language",
        "target-lang",
    ];

    /// A new or renamed argument would be accepted or rejected by mistake.
    #[test]
    fn each_argument_of_the_program_is_in_one_list() {
        let command = Cli::command();
        let mut known: Vec<&str> = command.get_arguments().filter_map(|it| it.get_long()).collect();
        let mut listed = [&ALL[..], &GENERATION, &SOURCE, &[LIST]].concat();
        known.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, known);
    }

    #[test]
    fn arguments_of_other_tasks_are_named() {
        let check = |kind, name: &str| check_arguments(kind, &["model".into(), name.into()]);
        assert!(check(TaskKind::Translate, "prefix").is_ok());
        assert!(check(TaskKind::Generate, "beam").is_ok());
        assert!(check(TaskKind::Classify, "top-k").is_ok());
        for (kind, name) in [
            (TaskKind::Classify, "beam"),
            (TaskKind::FillMask, "sample"),
            (TaskKind::Generate, "prefix"),
        ] {
            let problem = check(kind, name).unwrap_err().to_string();
            assert_eq!(
                problem,
                format!("`--{name}` conflicts with the task of the bundle, `{kind}`")
            );
        }
    }
}
