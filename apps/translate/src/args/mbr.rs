//! Options of minimum Bayes risk decoding, and their conversion into those of `tx-infer`.

use std::num::NonZero;

use clap::ValueEnum;
use tx_eval::{Bleu, Chrf, NgramMetric};
use tx_infer::{Mbr, PseudoReferences, Sampling, SearchOptions, mbr::DEFAULT_SCALE};

/// Arguments of minimum Bayes risk decoding: see [`SearchArgs`](super::search::SearchArgs).
#[derive(Debug, Clone, Copy)]
pub struct MbrArgs {
    /// Utility; `None` without minimum Bayes risk decoding.
    pub mbr: Option<UtilityName>,
    /// Candidates per sentence.
    pub mbr_candidates: Option<NonZero<u16>>,
    /// Samples per sentence that are the pseudo-references.
    pub mbr_samples: Option<usize>,
    /// Scale of the weights of candidates as pseudo-references.
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
    /// Returns the search for candidates, and the choice among them, of `n_best` of which are returned
    /// [default: 1]; `None` without `--mbr`. `sampling` are the options of pseudo-references.
    pub fn options(
        self,
        search: SearchOptions,
        n_best: Option<usize>,
        sampling: Sampling,
    ) -> Option<(SearchOptions, Mbr)> {
        let Self { mbr, mbr_candidates, mbr_samples, mbr_scale } = self;
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
