//! Options of Marian's decoder as search options of a bundle.

use tx_infer::{EarlyStopping, LengthNorm, SearchOptions};

use super::files::Decoder;
use crate::error::ConvertError;

/// Beam of a decoder without options.
const BEAM: usize = 12;
/// Maximum number of target tokens for each source token, `<eos>` included.
const LENGTH_FACTOR: f32 = 3.0;
/// The same in Firefox.
const FIREFOX_LENGTH_FACTOR: f32 = 2.0;

/// Options of the decoder that are about files, speed and output.
const IGNORED: [&str; 30] = [
    "authors",
    "beam-size",
    "cite",
    "alignment",
    "allow-special",
    "cpu-threads",
    "devices",
    "dump-config",
    "fp16",
    "gemm-precision",
    "input",
    "log",
    "log-level",
    "maxi-batch",
    "maxi-batch-sort",
    "mini-batch",
    "mini-batch-words",
    "models",
    "n-best",
    "normalize",
    "num-devices",
    "optimize",
    "output",
    "port",
    "precision",
    "quiet",
    "quiet-translation",
    "relative-paths",
    "vocabs",
    "workspace",
];

/// Returns the search options of a decoder, or those of Marian without one, and notes on options that
/// are not part of them. `suppressed` are ids that Marian does not generate.
///
/// # Errors
///
/// If a number is damaged or out of range.
pub(super) fn read(
    decoder: Option<&Decoder>,
    suppressed: Vec<u32>,
) -> Result<(SearchOptions, Vec<String>), ConvertError> {
    let mut notes = Vec::new();
    let mut problems = Vec::new();
    let mut number = |key: &str, default: f32| {
        let Some(decoder) = decoder else { return default };
        match (decoder.options.get(key), decoder.options.scalar(key)) {
            (None, _) => default,
            // Flags without a value have their usual one.
            (Some(_), Some("true")) if key == "normalize" => 1.0,
            (Some(_), Some("false")) if key == "normalize" => 0.0,
            (Some(value), scalar) => {
                scalar.and_then(|text| text.parse().ok()).unwrap_or_else(|| {
                    problems.push(format!("`{key}` is {value}, expected a number"));
                    default
                })
            }
        }
    };
    let beam = number("beam-size", BEAM as f32);
    let alpha = number("normalize", 0.0);
    let factor = number("max-length-factor", LENGTH_FACTOR);
    let word_penalty = number("word-penalty", 0.0);
    let allows_unknown =
        decoder.and_then(|decoder| decoder.options.scalar("allow-unk")) == Some("true");
    let suppress = match allows_unknown {
        true => suppressed.into_iter().filter(|&id| id != tx_text::special::UNK).collect(),
        false => suppressed,
    };
    let search = SearchOptions {
        beam: beam as usize,
        length_norm: if alpha == 0.0 { LengthNorm::None } else { LengthNorm::Power },
        length_penalty: if alpha == 0.0 { 1.0 } else { alpha },
        word_penalty,
        early_stopping: EarlyStopping::Narrowing,
        max_len_ratio: factor,
        max_len_extra: 0,
        max_repeats: 0,
        suppress,
        ..SearchOptions::default()
    };
    let search = if search.beam == 1 {
        let LengthNorms { length_norm, length_penalty } = LengthNorms::of(&search);
        SearchOptions { length_norm, length_penalty, ..search.with_one_hypothesis() }
    } else {
        search
    };
    if let Some(decoder) = decoder {
        let known =
            ["allow-unk", "max-length-factor", "word-penalty", "max-length", "max-length-crop"];
        let others = decoder
            .options
            .iter()
            .filter(|(key, _)| !IGNORED.contains(key) && !known.contains(key));
        notes.extend(
            others.map(|(key, value)| format!("`{key}` = {value} of the decoder is ignored")),
        );
        problems.extend(search.problems());
        if !problems.is_empty() {
            return Err(ConvertError::Unsupported { path: decoder.path.clone(), problems });
        }
    }
    Ok((search, notes))
}

/// Search options of Firefox: greedy search, and at most two target tokens for each source token.
pub(super) fn of_firefox(suppress: Vec<u32>) -> SearchOptions {
    SearchOptions {
        max_len_ratio: FIREFOX_LENGTH_FACTOR,
        max_len_extra: 0,
        max_repeats: 0,
        suppress,
        ..SearchOptions::default().with_one_hypothesis()
    }
}

/// Options of the normalization of scores.
struct LengthNorms {
    length_norm: LengthNorm,
    length_penalty: f32,
}

impl LengthNorms {
    fn of(options: &SearchOptions) -> Self {
        Self { length_norm: options.length_norm, length_penalty: options.length_penalty }
    }
}
