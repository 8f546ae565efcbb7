//! Statistics of a corpus before training: sizes, lengths, vocabulary, overlap.

mod lengths;

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
pub use lengths::Lengths;

/// Statistics of the data of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Statistics {
    /// Counts of each cleaning step; `None` for generated pairs.
    pub cleaning: Option<CleaningReport>,
    /// Statistics of the training pairs.
    pub training: PartStatistics,
    /// Statistics of the validation pairs.
    pub validation: PartStatistics,
    /// [Distances](Lengths::distance) of the lengths of training and validation: those of sources and targets.
    pub length_distances: [f64; 2],
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
        let (training, validation) = (part(&parts.train)?, part(&parts.validation)?);
        let length_distances = [
            training.source.lengths.distance(&validation.source.lengths),
            training.target.lengths.distance(&validation.target.lengths),
        ];
        Ok(Self {
            cleaning,
            training,
            validation,
            length_distances,
            overlap: finder.overlap(),
            overlap_left_out,
            max_len: config.max_len(),
        })
    }

    /// Largest distance between the lengths of a corpus and of validation pairs that represent it: that which two random
    /// samples exceed in one of a thousand cases (Smirnov 1948), or 0.1 if that is more.
    fn usual_distance(&self) -> f64 {
        let [a, b] = [&self.training, &self.validation].map(|part| part.pairs.max(1) as f64);
        (1.95 * ((a + b) / (a * b)).sqrt()).max(0.1)
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
                    f.write_str(&of_side.lengths.bars())?;
                }
            }
            writeln!(f, "{name}: {} pairs longer than {} tokens", part.too_long, self.max_len)?;
        }
        let [source, target] = self.length_distances;
        let judgement = match source.max(target) > self.usual_distance() {
            true => "validation does not represent training",
            false => "validation represents training",
        };
        writeln!(
            f,
            "lengths of training and validation: Kolmogorov-Smirnov distance {source:.3} of sources, {target:.3} of \
             targets: {judgement}"
        )?;
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
