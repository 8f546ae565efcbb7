//! `translate align`: word alignments of given translations.

use std::{io::Write, path::Path};

use clap::{Args, ValueEnum};
use serde_json::json;
use tx_cli::terminal::stdout;
use tx_infer::{
    Aligner, Alignment, AlignmentOptions, Bundle, InferError, PairTokenizer, TaskKind, Tokens,
    Translation,
    tx_text::{Lines, TextError},
};

use crate::{
    args::model::{DeviceArgs, LanguageArgs, ModelArgs, PairArgs},
    usage::{Usage, numbered},
};

/// Maximum number of pairs aligned together.
const CHUNK: usize = 1_000;

/// Number of word-to-word weights at which a chunk is full: 64 MiB.
const CHUNK_WEIGHTS: usize = 1 << 24;

/// Arguments of `translate align`.
#[derive(Debug, Args)]
pub struct AlignArgs {
    /// Bundle to open
    #[command(flatten)]
    pub model: ModelArgs,

    /// Sentences and their translations
    #[command(flatten)]
    pub pairs: PairArgs,

    /// Output format of alignments
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = AlignmentFormat::Pharaoh)]
    pub format: AlignmentFormat,

    /// Layer and head of alignments
    #[command(flatten)]
    pub from: AlignmentFrom,

    /// Languages of a multilingual model
    #[command(flatten)]
    pub languages: LanguageArgs,

    /// Device to run on
    #[command(flatten)]
    pub device: DeviceArgs,
}

/// Layer and head of alignments.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct AlignmentFrom {
    /// Decoder layer of alignments, from 1 [default: that of the bundle]
    #[arg(long, value_name = "N")]
    pub alignment_layer: Option<usize>,

    /// Attention head of alignments, from 1 [default: the mean of all]
    #[arg(long, value_name = "N")]
    pub alignment_head: Option<usize>,
}

/// Output format of alignments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AlignmentFormat {
    /// Pairs of source and target word indices, from 0: 0-0 1-2 2-1
    Pharaoh,
    /// One object per line: words, links, and the weight of every pair of words
    Json,
}

impl AlignmentFrom {
    /// Whether any option was given.
    pub fn is_given(self) -> bool {
        self.alignment_layer.or(self.alignment_head).is_some()
    }

    /// Converts the numbers to indices.
    ///
    /// # Errors
    ///
    /// When `bundle` has no such layer or head.
    pub fn options(self, bundle: &Bundle) -> Result<AlignmentOptions, Usage> {
        let (layers, heads) = (bundle.config.decoder_layers, bundle.config.n_heads);
        let among = |option, wanted: Option<usize>, count| {
            wanted.map(|wanted| numbered(option, wanted, count)).transpose()
        };
        Ok(AlignmentOptions {
            layer: among("--alignment-layer", self.alignment_layer, layers)?,
            head: among("--alignment-head", self.alignment_head, heads)?,
        })
    }
}

/// Prints the alignment of each pair of lines.
pub fn align(args: AlignArgs) -> anyhow::Result<()> {
    let (_, device) = args.device.open()?;
    let bundle = Bundle::open_for_model(&args.model.model)?;
    bundle.expect(TaskKind::Translate)?;
    let options = args.from.options(&bundle)?;
    let texts = args.languages.texts(&bundle)?;
    let texts = TextAligner::new(texts, Aligner::new(bundle.engine(&device)?, options));
    let mut pairs = Pairs::open(&args.pairs)?;
    loop {
        let mut tokens = Vec::new();
        let mut weights = 0;
        while tokens.len() < CHUNK && weights < CHUNK_WEIGHTS {
            let Some((source, target)) = pairs.next()? else { break };
            let pair = texts.pair(&source, &target)?;
            weights += pair.0.words.len() * pair.1.words.len();
            tokens.push(pair);
        }
        if tokens.is_empty() {
            return Ok(());
        }
        let mut output = stdout();
        for alignment in texts.aligner.align(&tokens) {
            match args.format {
                AlignmentFormat::Pharaoh => writeln!(output, "{}", alignment.pharaoh())?,
                AlignmentFormat::Json => writeln!(output, "{}", to_json(&alignment, None))?,
            }
        }
        output.flush()?;
    }
}

/// Reader of two files line by line.
pub struct Pairs<'a> {
    paths: [&'a Path; 2],
    lines: [Lines; 2],
    count: usize,
}

impl<'a> Pairs<'a> {
    /// Opens both files.
    pub fn open(args: &'a PairArgs) -> Result<Self, TextError> {
        let paths = [&*args.source, &*args.target];
        let [source, target] = paths.map(Lines::open);
        Ok(Self { paths, lines: [source?, target?], count: 0 })
    }

    /// Reads the next pair; returns none after the last.
    pub fn next(&mut self) -> Result<Option<(String, String)>, TextError> {
        let [source, target] = &mut self.lines;
        match (source.next().transpose()?, target.next().transpose()?) {
            (Some(source), Some(target)) => {
                self.count += 1;
                Ok(Some((source, target)))
            }
            (None, None) if self.count == 0 => {
                Err(TextError::Empty { path: self.paths[0].to_owned() })
            }
            (None, None) => Ok(None),
            (source, target) => {
                let mut counts =
                    [source, target].map(|line| self.count + usize::from(line.is_some()));
                for (count, lines) in counts.iter_mut().zip(&mut self.lines) {
                    for line in lines {
                        line?;
                        *count += 1;
                    }
                }
                let [source_path, target_path] = self.paths.map(Path::to_owned);
                let [source_lines, target_lines] = counts;
                Err(TextError::LineCount { source_path, source_lines, target_path, target_lines })
            }
        }
    }
}

/// Aligner of texts: an [`Aligner`] with the tokenizers of its bundle.
pub struct TextAligner {
    aligner: Aligner,
    texts: PairTokenizer,
}

impl TextAligner {
    /// Combines `aligner` with the tokenizers of its model.
    pub fn new(texts: PairTokenizer, aligner: Aligner) -> Self {
        Self { aligner, texts }
    }

    /// Replaces the tokenizers by those with other languages.
    pub fn set_texts(&mut self, texts: PairTokenizer) {
        self.texts = texts;
    }

    /// Aligns texts with the best hypotheses of their translations.
    pub fn translations(
        &self,
        texts: &[impl AsRef<str>],
        translations: &[Translation],
    ) -> Result<Vec<Alignment>, InferError> {
        let pairs = texts
            .iter()
            .zip(translations)
            .map(|(text, translation)| match translation.hypotheses.first() {
                Some(best) => self.hypothesis(text.as_ref(), &best.hypothesis.ids),
                None => Ok((Tokens::default(), Tokens::default())),
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(self.aligner.align(&pairs))
    }

    /// Returns the tokens of a text and of the ids of its translation.
    pub fn hypothesis(&self, text: &str, ids: &[u32]) -> Result<(Tokens, Tokens), InferError> {
        Ok((self.texts.source(text)?, self.texts.hypothesis(ids)?))
    }

    /// Returns the tokens of a text and its translation; both are empty if either has no words.
    pub fn pair(&self, source: &str, target: &str) -> Result<(Tokens, Tokens), InferError> {
        let target = self.texts.target(target)?;
        let source = self.texts.source(source)?;
        if source.is_empty() || target.is_empty() {
            return Ok((Tokens::default(), Tokens::default()));
        }
        Ok((source, target))
    }
}

/// Formats a translation with its alignment as one line, in the format of Marian or as JSON.
pub fn line(format: AlignmentFormat, translation: &str, alignment: &Alignment) -> String {
    match format {
        AlignmentFormat::Pharaoh => format!("{translation} ||| {}", alignment.pharaoh()),
        AlignmentFormat::Json => to_json(alignment, Some(translation)),
    }
}

fn to_json(alignment: &Alignment, translation: Option<&str>) -> String {
    // Further digits are rounding errors of single precision.
    let digits = |weight: &f32| (f64::from(*weight) * 1e6).round() / 1e6;
    let row = |row: &Vec<f32>| row.iter().map(digits).collect::<Vec<_>>();
    let weights: Vec<Vec<f64>> = alignment.weights.iter().map(row).collect();
    let mut object = json!({
        "source": alignment.source,
        "target": alignment.target,
        "alignment": alignment.links(),
        "weights": weights,
    });
    if let Some(translation) = translation {
        object["translation"] = translation.into();
    }
    object.to_string()
}
