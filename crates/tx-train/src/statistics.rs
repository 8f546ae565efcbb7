//! What a corpus looks like before it is trained on: sizes, lengths, vocabulary, overlap.

use std::{fmt, sync::atomic::AtomicBool};

use serde::Serialize;
use tx_data::{
    CleaningReport,
    near_duplicate::{Overlap, OverlapFinder},
    pipeline::Control,
    source::named::CorpusCache,
};
use tx_text::{SentencePair, Tokenizer, Tokenizers, VocabularyReport};

use crate::{config::TrainConfig, corpus, error::TrainError};

/// Lines of a histogram, and the width of its longest bar.
const BINS: usize = 12;
const BAR: usize = 40;

/// What there is to know of the data of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Statistics {
    /// What cleaning did; none to generated pairs.
    pub cleaning: Option<CleaningReport>,
    /// The training part.
    pub training: PartStatistics,
    /// The validation part.
    pub validation: PartStatistics,
    /// How much of validation is in training.
    pub overlap: Overlap,
    /// Training pairs left out for their likeness to validation pairs.
    pub overlap_left_out: usize,
    /// Longest side that is trained on, in tokens, special tokens included.
    pub max_len: usize,
}

/// One part of a corpus.
#[derive(Debug, Clone, Serialize)]
pub struct PartStatistics {
    /// Pairs.
    pub pairs: usize,
    /// The sources.
    pub source: SideStatistics,
    /// The targets.
    pub target: SideStatistics,
    /// Pairs of which one side is longer than `max_len`.
    pub too_long: usize,
}

/// One side of a part.
#[derive(Debug, Clone, Serialize)]
pub struct SideStatistics {
    /// How the vocabulary, learned from the training part, fits.
    pub vocabulary: VocabularyReport,
    /// Lengths in tokens, special tokens included.
    pub lengths: Lengths,
}

/// How long sentences are.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lengths {
    /// The mean.
    pub mean: f64,
    /// Half are no longer.
    pub median: usize,
    /// 99 % are no longer.
    pub percentile_99: usize,
    /// The longest.
    pub longest: usize,
    /// Tokens from the start of one bin of the histogram to the next.
    pub bin_width: usize,
    /// Sentences in each bin; the last holds all that are longer, too.
    pub histogram: Vec<usize>,
}

impl Lengths {
    /// Of sentences of these lengths.
    pub fn of(mut lengths: Vec<usize>) -> Self {
        lengths.sort_unstable();
        let count = lengths.len();
        let at = |share: f64| {
            let place = (count as f64 * share).ceil() as usize;
            lengths.get(place.saturating_sub(1)).copied().unwrap_or(0)
        };
        let percentile_99 = at(0.99);
        let bin_width = percentile_99.div_ceil(BINS - 1).max(1);
        let mut histogram = vec![0; BINS];
        for length in &lengths {
            histogram[(length / bin_width).min(BINS - 1)] += 1;
        }
        Self {
            mean: lengths.iter().sum::<usize>() as f64 / count.max(1) as f64,
            median: at(0.5),
            percentile_99,
            longest: lengths.last().copied().unwrap_or(0),
            bin_width,
            histogram,
        }
    }
}

impl Statistics {
    /// Reads the data of `config`, learns its vocabularies and looks at all of it, in memory.
    ///
    /// # Errors
    ///
    /// When the data cannot be read or tokenized.
    pub fn of(config: &TrainConfig, cache: Option<&CorpusCache>) -> Result<Self, TrainError> {
        let control = Control { stop: &AtomicBool::new(false), progress: &|_| {} };
        let corpus = corpus::load(config, cache, &control)?;
        let cleaning = (!config.data.is_generated()).then(|| corpus.cleaning.clone());
        let overlap_left_out = corpus.overlap_dropped;
        let mut parts = corpus.into_split();
        parts.validation.truncate(config.data.valid_pairs.unwrap_or(usize::MAX));
        let tokenizers = Tokenizers::train(&config.tokenizer, &parts.train)?;
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

    /// For programs.
    ///
    /// # Errors
    ///
    /// When a figure is no number; none is known.
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
                    100.0 * report.unknown_share(),
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
            writeln!(f, "training pairs left out for that: {}", self.overlap_left_out)?;
        }
        Ok(())
    }
}

/// A bar for each bin.
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

    /// 100 sentences: 1 to 99 tokens and one of 500. 99 tokens hold 99 %; bins are ⌈99/11⌉ = 9 wide,
    /// the first without a length of 0, the last from 99 on.
    #[test]
    fn lengths_by_hand() {
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
    fn nothing_has_no_lengths() {
        let lengths = Lengths::of(Vec::new());
        assert_eq!((lengths.mean, lengths.longest, lengths.bin_width), (0.0, 0, 1));
    }
}
