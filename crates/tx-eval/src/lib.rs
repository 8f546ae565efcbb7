//! Machine-translation metrics identical to sacreBLEU, plus CER and WER.
//!
//! Hypotheses and references are lists of lines; every score is in percent.
//!
//! | metric | is | better |
//! |---|---|---|
//! | [`Bleu`] | n-gram precision with a brevity penalty, as sacreBLEU 2.6.0 computes it | higher |
//! | [`cer`], [`wer`] | character and word edits per unit of the reference | lower |
//! | [`exact_match`] | share of lines equal to the reference | higher |
//!
//! Each result says what it was computed from (counts, lengths) and, in its [`Signature`], what it
//! was computed with. BLEU prints sacreBLEU's signature; its `version` names the sacreBLEU release
//! whose numbers are reproduced. This crate reads no file, prints nothing and knows no model.
//!
//! ```
//! use tx_eval::{Bleu, exact_match};
//!
//! let hypotheses = ["The dog bit the man.", "It was not unexpected."];
//! let reference = ["The dog bit the man.", "It was not surprising."];
//!
//! // Words with punctuation apart: 6 + 4 of 6 + 5 match, then 5 + 2, 4 + 1, 3 + 0 n-grams.
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

mod bleu;
mod error_rate;

mod tokenizer;
mod tokenizer_13a;

mod ngram;

mod score;
mod signature;

mod error;

pub use bleu::{Bleu, BleuScore, Smoothing};
pub use error::ScoreError;
pub use error_rate::{ErrorRate, ExactMatch, Unit, cer, exact_match, wer};
pub use score::Score;
pub use signature::Signature;
pub use tokenizer::Tokenizer;
