//! Inference with trained Transformers: bundles on disk, search, text.
//!
//! A [`Bundle`] is a folder with weights, configuration and tokenizers. A [`Translator`] opens one
//! and translates text; an [`Engine`] finds target ids for source ids. The other tasks have their own
//! types: a [`Classifier`] labels texts, a [`Generator`] continues them, and [`FillMask`] replaces
//! masks in them.
//!
//! Without features, models run on the CPU with the packed engine of [`tx_engine`],
//! and no machine-learning framework is compiled. The feature `burn` adds all other devices, half
//! precision, and saving bundles; `ndarray`, `wgpu`, `vulkan` and `cuda` imply it.
//!
//! ```no_run
//! use tx_infer::{Device, SearchOptions, Translator};
//!
//! let translator = Translator::open("runs/phrasebook", &Device::Cpu)?;
//! assert_eq!(translator.translate("Where is the cat?")?.text, "Dov'è il gatto?");
//!
//! let wide = translator.with_options(SearchOptions { beam: 8, ..SearchOptions::default() })?;
//! for translation in wide.translate_batch(&["The house is red.", "", "We eat."])? {
//!     println!("{}", translation.text);
//!     if translation.truncated || !translation.unknown.is_empty() {
//!         eprintln!("not translated in full: {:?}", translation.unknown);
//!     }
//! }
//! # Ok::<(), tx_infer::InferError>(())
//! ```

pub mod bundle;
pub mod task;

mod calibration;
pub mod classifier;
pub mod confidence;
pub mod fill_mask;
pub mod generator;
pub mod glossary;
pub mod lexicon;
pub mod mbr;
pub mod rerank;
pub mod search;
pub mod shortlist;
pub mod translator;

pub mod alignment;
pub mod attention;
pub mod attention_page;
pub mod figure;
pub mod inside;
pub mod inside_page;
pub mod pair_tokenizer;
pub mod reading;
pub mod tokens;

pub mod pool;

mod bundle_engine;
mod capitals;
mod json;
mod letter_case;
mod model;
mod runner;
mod text_stream;
mod weights;

pub mod bench;
pub mod check;

pub mod cancellation;
pub mod deadline;
pub mod device;
pub mod error;
pub mod file;
#[cfg(test)]
#[cfg(feature = "burn")]
mod fixture;
pub mod precision;

pub use alignment::{Aligner, Alignment, AlignmentOptions};
pub use attention::{Attention, AttentionKind};
pub use bundle::{Bundle, BundleInfo, LanguagePlacement, Languages, NewBundle, NewWeight};
#[cfg(feature = "burn")]
pub use bundle::{BundleModel, Initialized, ModuleBundle};
pub use calibration::Calibration;
pub use cancellation::Cancellation;
pub use classifier::{Classification, Classifier, LabelScore};
pub use confidence::{Confidence, Reliability, WordConfidence};
pub use deadline::Deadline;
pub use device::Device;
pub use error::InferError;
pub use fill_mask::{FillMask, Filled, MaskToken};
pub use generator::{Continuation, Generator, Prompt, ScoredText, TextScore};
pub use glossary::{Glossary, GlossaryFormat, GlossaryLanguages, Term, TermAccuracy, TermCount};
pub use inside::Inside;
pub use lexicon::{Lexicon, LexiconBuilder};
pub use mbr::{Mbr, PseudoReferences};
pub use model::PackedModel;
pub use pair_tokenizer::PairTokenizer;
pub use pool::{Failure, Observer, Pool, Priority};
pub use precision::Precision;
pub use reading::Reading;
pub use search::{
    EarlyStopping, Engine, GlossaryUse, Hypothesis, LengthNorm, LexiconUse, Request, Sampling,
    SearchOptions,
};
pub use shortlist::{Shortlist, ShortlistBuilder, ShortlistOptions};
pub use task::{ModelTask, TaskKind};
pub use tokens::Tokens;
pub use translator::{
    Line, Scored, SentenceTranslation, TargetScore, TextTranslation, Translation, Translator,
};
// Types of the public interface.
pub use tx_engine::{self, Ablation};
pub use {serde_json, toml, tx_eval, tx_model, tx_text};
