//! Options of minimum Bayes risk decoding, and their conversion into those of `tx-infer`.

use std::num::NonZero;

use clap::{Args, ValueEnum};
use tx_eval::{Bleu, Chrf, NgramMetric};
use tx_infer::{Mbr, PseudoReferences, Sampling, SearchOptions, mbr::DEFAULT_SCALE};

/// Options of minimum Bayes risk decoding.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Minimum Bayes risk")]
#[group(requires = "model")]
pub struct MbrArgs {
    /// Choose the translation with the largest expected utility among the hypotheses of the search:
    /// the mean of this sentence-level metric over pseudo-references
    #[arg(long, value_enum, value_name = "METRIC")]
    pub mbr: Option<UtilityName>,

    /// Candidates per sentence, of beam search with at least this beam; they are also the
    /// pseudo-references, weighted by their score [default: --beam; with --sample, --samples]
    #[arg(long, value_name = "N", requires = "mbr", conflicts_with = "sample")]
    pub mbr_candidates: Option<NonZero<u16>>,

    /// Samples per sentence that are the pseudo-references, instead of the candidates
    #[arg(long, value_name = "N", requires = "mbr", group = "sampling")]
    pub mbr_samples: Option<usize>,

    #[arg(
        long,
        value_name = "ALPHA",
        requires = "mbr",
        conflicts_with_all = ["sample", "mbr_samples"],
        allow_negative_numbers = true,
        help = format!(
            "Weight of a candidate of beam search as pseudo-reference: exp(α · score), normalized; 0 \
             weights all the same [default: {DEFAULT_SCALE}]"
        )
    )]
    pub mbr_scale: Option<f32>,
}

/// Utility of minimum Bayes risk decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UtilityName {
    /// chrF2
    Chrf,
    /// BLEU of single sentences: exponential smoothing, effective order
    Bleu,
}

impl UtilityName {
    /// Returns the metric.
    pub fn metric(self) -> NgramMetric {
        match self {
            Self::Chrf => Chrf::default().into(),
            Self::Bleu => Bleu { effective_order: true, ..Bleu::default() }.into(),
        }
    }
}

impl MbrArgs {
    /// Whether an option is given.
    pub fn is_given(&self) -> bool {
        // The others need this one.
        self.mbr.is_some()
    }

    /// Returns the search for candidates, and the choice among them, of `n_best` of which are returned
    /// [default: 1]; `None` without `--mbr`. `sampling` are the options of pseudo-references.
    pub fn options(
        &self,
        search: SearchOptions,
        n_best: Option<usize>,
        sampling: Sampling,
    ) -> Option<(SearchOptions, Mbr)> {
        let Self { mbr, mbr_candidates, mbr_samples, mbr_scale } = *self;
        let references = match mbr_samples {
            Some(samples) => PseudoReferences::Samples(Sampling { samples, ..sampling }),
            None => PseudoReferences::Candidates { scale: mbr_scale.unwrap_or(DEFAULT_SCALE) },
        };
        let mbr = Mbr { utility: mbr?.metric(), references, n_best: n_best.unwrap_or(1) };
        if search.sampling.is_some() {
            return Some((search, mbr));
        }
        let candidates = mbr_candidates.map_or(search.beam, |n| n.get().into());
        let search = match search.beam {
            beam if beam < candidates => search.with_beam(candidates),
            _ => search,
        };
        Some((SearchOptions { n_best: candidates, ..search }, mbr))
    }
}
