//! `translate lexicon`: the words of the training text, for a bundle that has none.

use std::{io::Write, path::PathBuf};

use clap::{Args, ValueHint};
use tx_cli::terminal::stderr;
use tx_infer::{Bundle, LexiconBuilder, TaskKind, bundle::saved_tokenizers, lexicon::MAX_WORDS};

use crate::{
    align::Pairs,
    args::model::{PairArgs, bundle_path},
    usage::Usage,
};

/// Arguments of `translate lexicon`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  translate lexicon --model runs/de-en --source train.de --target train.en")]
pub struct LexiconArgs {
    /// Bundle to add the lexicon to: the folder of a training run
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, value_parser = bundle_path())]
    pub model: PathBuf,

    /// Sentences and their translations: the training text of the model
    #[command(flatten)]
    pub pairs: PairArgs,
}

/// Writes the lexicon of the pairs into the bundle.
pub fn lexicon(args: &LexiconArgs) -> anyhow::Result<()> {
    // A bundle with a damaged lexicon does not open.
    let tokenizers = match saved_tokenizers(&args.model, TaskKind::Translate)? {
        Some(tokenizers) => tokenizers,
        None => {
            let bundle = Bundle::open_for_model(&args.model)?;
            bundle.expect(TaskKind::Translate)?;
            bundle.tokenizers
        }
    };
    let mut builder = LexiconBuilder::default();
    let mut pairs = Pairs::open(&args.pairs)?;
    while let Some((source, target)) = pairs.next()? {
        builder.add(&source, &target);
    }
    let Some(lexicon) = builder.finish(&tokenizers.target)? else {
        let problem = format!(
            "the text has more than {MAX_WORDS} different words: a model of so much text needs no lexicon"
        );
        return Err(Usage::new(problem).into());
    };
    Bundle::write_lexicon(&args.model, &lexicon)?;
    writeln!(stderr(), "added a lexicon to `{}`", args.model.display())?;
    Ok(())
}
