//! Statistics of a corpus before training: sizes, lengths, vocabulary, overlap.

use std::{fmt, sync::atomic::AtomicBool};

use serde::Serialize;
use tx_data::{
    CleaningReport,
    near_duplicate::{Overlap, OverlapFinder},
    prepared::ShardPart,
    source::named::CorpusCache,
};
use tx_infer::TaskKind;
use tx_text::{SentencePair, Tokenizer, Tokenizers, VocabularyReport};

use crate::{
    config::TrainConfig,
    data::{DataAccess, load},
    error::TrainError,
};

/// Number of bins of a histogram, and width of its longest bar.
const BINS: usize = 12;
const BAR: usize = 40;

/// Statistics of the data of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Statistics {
    /// Counts of each cleaning step; `None` for generated pairs.
    pub cleaning: Option<CleaningReport>,
    /// Statistics of the training pairs.
    pub training: PartStatistics,
    /// Statistics of the validation pairs.
    pub validation: PartStatistics,
    /// Validation pairs that are in training too.
    pub overlap: Overlap,
    /// Training pairs dropped as near duplicates of validation pairs.
    pub overlap_left_out: usize,
    /// Maximum length of a side used for training, in tokens, special tokens included.
    pub max_len: usize,
}

/// Statistics of one part of a corpus.
#[derive(Debug, Clone, Serialize)]
pub struct PartStatistics {
    /// Number of pairs.
    pub pairs: usize,
    /// Statistics of the sources.
    pub source: SideStatistics,
    /// Statistics of the targets.
    pub target: SideStatistics,
    /// Number of pairs with a side longer than `max_len`.
    pub too_long: usize,
}

/// Statistics of one side of a part.
#[derive(Debug, Clone, Serialize)]
pub struct SideStatistics {
    /// Coverage by the vocabulary, which is learned from the training pairs.
    pub vocabulary: VocabularyReport,
    /// Lengths in tokens, special tokens included.
    pub lengths: Lengths,
}

/// Distribution of sentence lengths, in tokens.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lengths {
    /// Mean length.
    pub mean: f64,
    /// Median length.
    pub median: usize,
    /// 99th percentile.
    pub percentile_99: usize,
    /// Maximum length.
    pub longest: usize,
    /// Width of a bin of the histogram.
    pub bin_width: usize,
    /// Number of sentences in each bin; the last bin includes all longer ones.
    pub histogram: Vec<usize>,
}

impl Lengths {
    /// Computes the distribution of `lengths`.
    pub fn of(mut lengths: Vec<usize>) -> Self {
        lengths.sort_unstable();
        let count = lengths.len();
        let quantile = |fraction: f64| {
            let rank = (count as f64 * fraction).ceil() as usize;
            lengths.get(rank.saturating_sub(1)).copied().unwrap_or(0)
        };
        let percentile_99 = quantile(0.99);
        let bin_width = percentile_99.div_ceil(BINS - 1).max(1);
        let mut histogram = vec![0; BINS];
        for length in &lengths {
            histogram[(length / bin_width).min(BINS - 1)] += 1;
        }
        Self {
            mean: lengths.iter().sum::<usize>() as f64 / count.max(1) as f64,
            median: quantile(0.5),
            percentile_99,
            longest: lengths.last().copied().unwrap_or(0),
            bin_width,
            histogram,
        }
    }
}

impl Statistics {
    /// Reads the data of `config` into memory, learns its vocabularies and computes the statistics.
    /// Named corpora are read from `cache`.
    ///
    /// # Errors
    ///
    /// If the task is not translation, or the data cannot be read or tokenized.
    pub fn of(config: &TrainConfig, cache: Option<&CorpusCache>) -> Result<Self, TrainError> {
        if config.task != TaskKind::Translate {
            return Err(TrainError::Problems {
                problems: vec![format!(
                    "statistics are of sentence pairs, and `task` = \"{}\" has none",
                    config.task
                )],
            });
        }
        let stop = &AtomicBool::new(false);
        let access = DataAccess { cache, part: ShardPart::ALL, stop, print: &|_| {} };
        let corpus = load(config, &access)?;
        let cleaning = (!config.data.is_generated()).then(|| corpus.cleaning.clone());
        let overlap_left_out = corpus.overlap_dropped;
        let mut parts = corpus.into_split();
        parts.validation.truncate(config.data.valid_pairs.unwrap_or(usize::MAX));
        let tokenizers = match &config.from {
            Some(parent) => parent.read()?.tokenizers,
            None => Tokenizers::train(&config.tokenizer, &parts.train)?,
        };
        let mut finder = OverlapFinder::new(&parts.validation);
        for pair in &parts.train {
            finder.meet(pair);
        }
        let part = |pairs: &[SentencePair]| part(pairs, &tokenizers, config.max_len());
        Ok(Self {
            cleaning,
            training: part(&parts.train)?,
            validation: part(&parts.validation)?,
            overlap: finder.overlap(),
            overlap_left_out,
            max_len: config.max_len(),
        })
    }

    /// Returns the statistics as JSON.
    ///
    /// # Errors
    ///
    /// If a value cannot be serialized; no such value is known.
    pub fn to_json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

fn part(
    pairs: &[SentencePair],
    tokenizers: &Tokenizers,
    max_len: usize,
) -> Result<PartStatistics, TrainError> {
    let sources: Vec<&str> = pairs.iter().map(|pair| pair.source.as_str()).collect();
    let targets: Vec<&str> = pairs.iter().map(|pair| pair.target.as_str()).collect();
    let (source, source_lengths) = side(&tokenizers.source, sources)?;
    let (target, target_lengths) = side(&tokenizers.target, targets)?;
    let both = source_lengths.iter().zip(&target_lengths);
    let too_long = both.filter(|&(&source, &target)| source.max(target) > max_len).count();
    Ok(PartStatistics { pairs: pairs.len(), source, target, too_long })
}

fn side(
    tokenizer: &Tokenizer,
    texts: Vec<&str>,
) -> Result<(SideStatistics, Vec<usize>), TrainError> {
    let vocabulary = VocabularyReport::new(tokenizer, texts.iter().copied())?;
    let mut lengths = Vec::with_capacity(texts.len());
    for part in texts.chunks(8_192) {
        lengths.extend(tokenizer.par_encode_batch(part)?.iter().map(Vec::len));
    }
    let of_side = SideStatistics { vocabulary, lengths: Lengths::of(lengths.clone()) };
    Ok((of_side, lengths))
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(cleaning) = &self.cleaning {
            writeln!(f, "{cleaning}\n")?;
        }
        let parts = [("training", &self.training), ("validation", &self.validation)];
        writeln!(
            f,
            "{:<22}{:>12}{:>12}{:>12}{:>12}",
            "", "pairs", "words", "tokens", "characters"
        )?;
        for (name, part) in parts {
            for (side, of_side) in [("source", &part.source), ("target", &part.target)] {
                let VocabularyReport { words, tokens, characters, .. } = of_side.vocabulary;
                let name = format!("{name} {side}");
                writeln!(f, "{name:<22}{:>12}{words:>12}{tokens:>12}{characters:>12}", part.pairs)?;
            }
        }
        for (name, part) in parts {
            for (side, of_side) in [("sources", &part.source), ("targets", &part.target)] {
                let Lengths { mean, median, percentile_99, longest, .. } = of_side.lengths;
                writeln!(
                    f,
                    "\n{name} {side}: mean {mean:.1} tokens, median {median}, 99 % at most \
                     {percentile_99}, longest {longest}"
                )?;
                if name == "training" {
                    f.write_str(&histogram(&of_side.lengths))?;
                }
            }
            writeln!(f, "{name}: {} pairs longer than {} tokens", part.too_long, self.max_len)?;
        }
        writeln!(
            f,
            "\n{:<22}{:>8}{:>10}{:>12}{:>14}{:>14}",
            "vocabulary", "ids", "used", "unknown", "tokens/word", "chars/token"
        )?;
        for (name, part) in parts {
            for (side, of_side) in [("source", &part.source), ("target", &part.target)] {
                let report = &of_side.vocabulary;
                let name = format!("{name} {side}");
                writeln!(
                    f,
                    "{name:<22}{:>8}{:>10}{:>10.3} %{:>14.2}{:>14.2}",
                    report.size,
                    report.used,
                    100.0 * report.unknown_rate(),
                    report.tokens_per_word(),
                    report.characters_per_token()
                )?;
            }
        }
        for (side, of_side) in
            [("source", &self.training.source), ("target", &self.training.target)]
        {
            let VocabularyReport { longest, rarest, .. } = &of_side.vocabulary;
            let rarest: Vec<String> =
                rarest.iter().map(|(token, count)| format!("{token} ({count})")).collect();
            writeln!(f, "longest {side} tokens: {}", longest.join("  "))?;
            writeln!(f, "rarest {side} tokens: {}", rarest.join("  "))?;
        }
        let Overlap { validation, pairs, sources, targets, near, first_near, .. } = self.overlap;
        writeln!(
            f,
            "\nvalidation pairs that are in training: {pairs} of {validation}; their sources: \
             {sources}; their targets: {targets}; near duplicates of either: {near}{}",
            first_near.map_or(String::new(), |first| format!(" (first: {first})"))
        )?;
        if self.overlap_left_out > 0 {
            writeln!(f, "training pairs dropped for that reason: {}", self.overlap_left_out)?;
        }
        Ok(())
    }
}

/// Text histogram, one line with a bar for each bin.
fn histogram(lengths: &Lengths) -> String {
    let Lengths { bin_width, histogram, longest, .. } = lengths;
    let most = histogram.iter().copied().max().unwrap_or(0).max(1);
    let mut text = String::new();
    for (bin, &count) in histogram.iter().enumerate() {
        let first = bin * bin_width;
        let last = if bin + 1 == BINS { (*longest).max(first) } else { first + bin_width - 1 };
        let bar = "█".repeat((count * BAR).div_ceil(most));
        text += &format!("  {:>11}  {count:>9}  {bar}\n", format!("{first}–{last}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 sentences: 1 to 99 tokens and one of 500. 99 % have at most 99 tokens. Bins are ⌈99/11⌉
    /// = 9 wide; the first has no length of 0, and the last starts at 99.
    #[test]
    fn lengths_equal_those_computed_by_hand() {
        let lengths = Lengths::of((1..100).chain([500]).collect());
        assert_eq!((lengths.median, lengths.percentile_99, lengths.longest), (50, 99, 500));
        assert_eq!(lengths.mean, (99.0 * 50.0 + 500.0) / 100.0);
        assert_eq!(lengths.bin_width, 9);
        assert_eq!(lengths.histogram, [8, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 2]);
        let text = histogram(&lengths);
        assert_eq!(
            text.lines().next(),
            Some(&*format!("  {:>11}  {:>9}  {}", "0–8", 8, "█".repeat(36)))
        );
        assert!(text.ends_with(&format!("  {:>11}  {:>9}  {}\n", "99–500", 2, "█".repeat(9))));
    }

    #[test]
    fn no_sentences_have_no_lengths() {
        let lengths = Lengths::of(Vec::new());
        assert_eq!((lengths.mean, lengths.longest, lengths.bin_width), (0.0, 0, 1));
    }
}
