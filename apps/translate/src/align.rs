//! Which word came from which.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum, ValueHint};
use serde_json::json;
use tx_infer::{
    Aligner, Alignment, AlignmentOptions, Bundle, InferError, Tokens, Translation,
    device::DeviceName,
    tx_text::TextError,
    tx_text::{Lines, Tokenizers},
};

use crate::{
    terminal::stdout,
    usage::{Usage, numbered},
};

/// Most pairs aligned together.
const CHUNK: usize = 1_000;

/// No more pairs are aligned together once they have so many weights between their words: 64 MiB.
const CHUNK_WEIGHTS: usize = 1 << 24;

/// What to align and how.
#[derive(Debug, Args)]
pub struct AlignArgs {
    /// Folder written by `train`: weights, configuration and tokenizers
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub model: PathBuf,

    /// File of sentences, one per line, plain or gzip
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub source: PathBuf,

    /// File of their translations, one per line, plain or gzip
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub target: PathBuf,

    /// How alignments are written
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = AlignmentFormat::Pharaoh)]
    pub format: AlignmentFormat,

    /// From where they are taken
    #[command(flatten)]
    pub from: AlignmentFrom,

    /// Device to run on: auto, cpu, ndarray, wgpu, vulkan or cuda, with :N for the Nth
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: DeviceName,
}

/// From where alignments are taken.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct AlignmentFrom {
    /// Decoder layer that alignments are taken from, counted from 1 [default: the last]
    #[arg(long, value_name = "N")]
    pub alignment_layer: Option<usize>,

    /// Head that alignments are taken from, counted from 1 [default: the mean of all]
    #[arg(long, value_name = "N")]
    pub alignment_head: Option<usize>,
}

/// How alignments are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AlignmentFormat {
    /// Links of source word and target word, from 0: 0-0 1-2 2-1
    Pharaoh,
    /// An object a line: words, links, and the weight of every pair of words
    Json,
}

impl AlignmentFrom {
    /// Whether anything else than the default was asked for.
    pub fn is_given(self) -> bool {
        self.alignment_layer.or(self.alignment_head).is_some()
    }

    /// As the library counts; a layer or head that `bundle` does not have is wrong usage.
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

/// Prints the alignments of the pairs that `args` name.
pub fn align(args: AlignArgs) -> anyhow::Result<()> {
    let (_, device) = args.device.open()?;
    let bundle = Bundle::open(&args.model)?;
    let options = args.from.options(&bundle)?;
    let texts = TextAligner::new(&bundle, Aligner::new(bundle.engine(&device)?, options));
    let mut pairs = Pairs::open(&args)?;
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

/// The lines of two files side by side.
struct Pairs<'a> {
    paths: [&'a Path; 2],
    lines: [Lines; 2],
    count: usize,
}

impl<'a> Pairs<'a> {
    fn open(args: &'a AlignArgs) -> Result<Self, TextError> {
        let paths = [&*args.source, &*args.target];
        let [source, target] = paths.map(Lines::open);
        Ok(Self { paths, lines: [source?, target?], count: 0 })
    }

    /// The next pair; none after the last.
    fn next(&mut self) -> Result<Option<(String, String)>, TextError> {
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

/// Aligns texts: an [`Aligner`] with what makes tokens of text.
pub struct TextAligner {
    aligner: Aligner,
    tokenizers: Tokenizers,
    max_len: usize,
}

impl TextAligner {
    /// With the tokenizers of `bundle`, whose model `aligner` has.
    pub fn new(bundle: &Bundle, aligner: Aligner) -> Self {
        Self { aligner, tokenizers: bundle.tokenizers.clone(), max_len: bundle.config.max_len }
    }

    /// Aligns texts with what they were translated to.
    pub fn translations(
        &self,
        texts: &[impl AsRef<str>],
        translations: &[Translation],
    ) -> Result<Vec<Alignment>, InferError> {
        let pairs = texts
            .iter()
            .zip(translations)
            .map(|(text, translation)| match translation.hypotheses.first() {
                Some(best) => self.found(text.as_ref(), &best.hypothesis.ids),
                None => Ok((Tokens::default(), Tokens::default())),
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(self.aligner.align(&pairs))
    }

    /// A text and ids that were found for it.
    pub fn found(&self, text: &str, ids: &[u32]) -> Result<(Tokens, Tokens), InferError> {
        Ok((self.source(text)?, Tokens::of_hypothesis(&self.tokenizers.target, ids, self.max_len)?))
    }

    /// A text and a translation; without words on a side there is nothing to align.
    pub fn pair(&self, source: &str, target: &str) -> Result<(Tokens, Tokens), InferError> {
        let target = Tokens::of_target(&self.tokenizers.target, target, self.max_len)?;
        let source = self.source(source)?;
        if source.is_empty() || target.is_empty() {
            return Ok((Tokens::default(), Tokens::default()));
        }
        Ok((source, target))
    }

    fn source(&self, text: &str) -> Result<Tokens, InferError> {
        Tokens::of_source(&self.tokenizers.source, text, self.max_len)
    }
}

/// A translation with its alignment as one line: as Marian writes it, or JSON.
pub fn line(format: AlignmentFormat, translation: &str, alignment: &Alignment) -> String {
    match format {
        AlignmentFormat::Pharaoh => format!("{translation} ||| {}", alignment.pharaoh()),
        AlignmentFormat::Json => to_json(alignment, Some(translation)),
    }
}

fn to_json(alignment: &Alignment, translation: Option<&str>) -> String {
    // Six digits: what is beyond is rounding of the model.
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
