//! Noise: changed copies of training pairs, so that a model translates text that its corpus lacks.
//!
//! Each kind of noise has a share `p`. A training pair is followed by a copy with this noise with
//! probability `p`, independently of other kinds, unless it has nothing to change, so a corpus of `n` pairs
//! has at most about `n (1 + Σ p)` pairs. The pairs themselves stay unchanged. A copy depends on the seed, the pair, its index and the
//! pair before it, so every pass over a corpus, in memory or on disk, has the same copies.
//!
//! Copies of some kinds change or mark a word of the source and its translation. These words are found in
//! the [word alignment](crate::annotation) of the pair, or by the [`Lexicon`] of the corpus.
//!
//! ```
//! use tx_data::noise::{Kind, Noise, NoiseConfig};
//! use tx_text::SentencePair;
//!
//! let mut config = NoiseConfig::default();
//! config.upper_case = Some(1.0);
//! let noise = Noise::new(&config, 1).unwrap();
//! let pair = SentencePair::new("ein Hund", "a dog");
//! assert_eq!(noise.copies(0, &pair, None, None), [SentencePair::new("EIN HUND", "A DOG")]);
//! ```

mod invented;
mod kind;
mod lexicon;
mod linked;
mod typos;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use tx_text::{SentencePair, hash::hash64};

use crate::encoded_pair::Link;

pub use kind::Kind;
pub use lexicon::{Lexicon, LexiconBuilder};

/// Mixed into the seed of noise, so that its random numbers differ from those of the split.
const NOISE: u64 = 0xd6e8_feb8_6659_fd93;

/// Shares of the kinds of noise: the keys of `[data.noise]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NoiseConfig {
    /// Whether kinds without a share have that of [`Kind::robust`] instead of 0.
    pub robust: bool,
    /// Share of [`Kind::UpperCase`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upper_case: Option<f64>,
    /// Share of [`Kind::TitleCase`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title_case: Option<f64>,
    /// Share of [`Kind::LowerCase`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lower_case: Option<f64>,
    /// Share of [`Kind::Punctuation`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub punctuation: Option<f64>,
    /// Share of [`Kind::Typos`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub typos: Option<f64>,
    /// Share of [`Kind::Symbols`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symbols: Option<f64>,
    /// Share of [`Kind::Placeholders`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placeholders: Option<f64>,
    /// Share of [`Kind::Tags`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<f64>,
    /// Share of [`Kind::Concatenation`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concatenation: Option<f64>,
    /// Share of [`Kind::Names`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub names: Option<f64>,
    /// Share of [`Kind::Numbers`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numbers: Option<f64>,
    /// Share of [`Kind::Terms`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terms: Option<f64>,
    /// Share of [`Kind::Copies`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies: Option<f64>,
}

impl NoiseConfig {
    /// Returns the share of a kind.
    pub fn share(&self, kind: Kind) -> f64 {
        let share = match kind {
            Kind::UpperCase => self.upper_case,
            Kind::TitleCase => self.title_case,
            Kind::LowerCase => self.lower_case,
            Kind::Punctuation => self.punctuation,
            Kind::Typos => self.typos,
            Kind::Symbols => self.symbols,
            Kind::Placeholders => self.placeholders,
            Kind::Tags => self.tags,
            Kind::Concatenation => self.concatenation,
            Kind::Names => self.names,
            Kind::Numbers => self.numbers,
            Kind::Terms => self.terms,
            Kind::Copies => self.copies,
        };
        share.unwrap_or(if self.robust { kind.robust() } else { 0.0 })
    }

    /// Returns `true` if no pair has copies.
    pub fn is_off(&self) -> bool {
        Kind::ALL.into_iter().all(|kind| self.share(kind) == 0.0)
    }

    /// Lists all broken rules; empty if the shares are valid.
    pub fn problems(&self) -> Vec<String> {
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        let wrong = Kind::ALL.into_iter().filter(|kind| !is_share(self.share(*kind)));
        let problem =
            |kind: Kind| format!("`noise.{}` = {} must be in 0..1", kind.key(), self.share(kind));
        wrong.map(problem).collect()
    }
}

/// Source of the noisy copies of a corpus.
#[derive(Debug, Clone)]
pub struct Noise {
    /// Kinds with their shares, those above 0.
    shares: Vec<(Kind, f64)>,
    seed: u64,
    lexicon: Lexicon,
}

impl Noise {
    /// Creates a source without lexicon; `None` if all shares are 0.
    pub fn new(config: &NoiseConfig, seed: u64) -> Option<Self> {
        let shares = Kind::ALL.map(|kind| (kind, config.share(kind)));
        let shares: Vec<_> = shares.into_iter().filter(|(_, share)| *share > 0.0).collect();
        (!shares.is_empty()).then(|| Self { shares, seed, lexicon: Lexicon::default() })
    }

    /// Returns `true` if a kind uses translations of words.
    pub fn needs_lexicon(&self) -> bool {
        self.shares.iter().any(|(kind, _)| kind.needs_links())
    }

    /// Finds the translations of words in `lexicon`, in pairs without word alignment.
    pub fn with_lexicon(self, lexicon: Lexicon) -> Self {
        Self { lexicon, ..self }
    }

    /// Returns the noisy copies of a training pair, with its context. `previous` is the training pair before it, `links` its
    /// word alignment.
    pub fn copies(
        &self,
        index: usize,
        pair: &SentencePair,
        previous: Option<&SentencePair>,
        links: Option<&[Link]>,
    ) -> Vec<SentencePair> {
        let hash = hash64(&[pair.source.as_bytes(), pair.target.as_bytes()]);
        let mut random = ChaCha8Rng::seed_from_u64(self.seed ^ NOISE ^ hash);
        random.set_stream(index as u64);
        let mut chosen = Vec::new();
        for &(kind, share) in &self.shares {
            if random.random::<f64>() < share {
                chosen.push(kind);
            }
        }
        let mut copies = Vec::with_capacity(chosen.len());
        for kind in chosen {
            let copy = kind.apply(pair, previous, links, &self.lexicon, &mut random);
            // The previous pair, which is part of a concatenation, would be in its context, too.
            let has_context = kind != Kind::Concatenation;
            let context = || if has_context { pair.context.clone() } else { Vec::new() };
            copies.extend(copy.map(|copy| SentencePair { context: context(), ..copy }));
        }
        copies
    }
}

#[cfg(test)]
mod tests;
