//! BLEU, chrF and TER identical to sacreBLEU, with its significance tests; CER and WER.
//!
//! Hypotheses and references are lists of lines. Every score is in percent.
//!
//! | metric | definition | better |
//! |---|---|---|
//! | [`Bleu`] | n-gram precision with a brevity penalty | higher |
//! | [`Chrf`], [`chrf()`] | F-score of character n-grams; chrF++ adds word n-grams | higher |
//! | [`Ter`] | word edits, including shifts, per word of the reference | lower |
//! | [`cer`], [`wer`], [`ErrorRate`] | character and word edits per unit of the reference | lower |
//! | [`exact_match`] | lines equal to the reference | higher |
//!
//! BLEU, chrF and TER equal those of sacreBLEU 2.6.0, and so do [`confidence`] intervals and
//! [`paired`] significance tests.
//!
//! Each result contains its components (counts, lengths) and a [`Signature`] of its settings. BLEU,
//! chrF and TER print sacreBLEU's signature; its `version` is the release whose numbers are
//! reproduced. This crate reads no file, prints nothing and depends on no model.
//!
//! ```
//! use tx_eval::{Bleu, exact_match};
//!
//! let hypotheses = ["The dog bit the man.", "It was not unexpected."];
//! let reference = ["The dog bit the man.", "It was not surprising."];
//!
//! // With punctuation split off, 6 + 4 of 6 + 5 words match, then 5 + 2, 4 + 1, 3 + 0 n-grams.
//! let bleu = Bleu::default().corpus_score(&hypotheses, &[reference])?;
//! assert_eq!(bleu.counts, [10, 7, 5, 3]);
//! assert_eq!(bleu.totals, [11, 9, 7, 5]);
//! assert_eq!(
//!     bleu.to_string(),
//!     "BLEU = 74.19 90.9/77.8/71.4/60.0 (BP = 1.000 ratio = 1.000 hyp_len = 11 ref_len = 11)",
//! );
//! assert_eq!(
//!     bleu.signature.to_string(),
//!     "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0",
//! );
//!
//! assert_eq!(exact_match(&hypotheses, &reference)?.score, 50.0);
//! # Ok::<(), tx_eval::ScoreError>(())
//! ```

mod corpus;
mod metric;

mod bleu;
mod chrf;
mod error_rate;
mod ter;

mod pairwise;

pub mod confidence;
pub mod paired;

mod tokenizer;

mod levenshtein;
mod ngram;
mod numpy_random;
mod real;
mod replace;

mod score;
mod signature;

mod error;

pub use bleu::{Bleu, BleuScore, Smoothing};
pub use chrf::{Chrf, ChrfScore, chrf};
pub use corpus::{Corpus, ReferenceLine, SegmentStatistics};
pub use error::ScoreError;
pub use error_rate::{
    ErrorRate, ErrorRateScore, ExactMatch, ExactMatchScore, Unit, cer, exact_match, wer,
};
pub use metric::Metric;
pub use pairwise::{NgramMetric, Pairs};
pub use score::Score;
pub use signature::Signature;
pub use ter::{Ter, TerScore};
pub use tokenizer::Tokenizer;
