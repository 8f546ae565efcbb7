//! Arguments that several classes have.

use pyo3::{exceptions::PyTypeError, prelude::*, types::PyDict};
use tx_infer::{
    Device, LengthNorm, Precision, Sampling, SearchOptions,
    device::{DeviceError, DeviceName},
};

use crate::error::{IntoException, invalid};

/// Options of a search, with the names of CTranslate2. `None` keeps the value of the model.
#[derive(Debug, Clone, Default)]
pub(crate) struct Search {
    beam_size: Option<usize>,
    num_hypotheses: Option<usize>,
    patience: Option<f32>,
    length_penalty: Option<f32>,
    word_penalty: Option<f32>,
    coverage_penalty: Option<f32>,
    repetition_penalty: Option<f32>,
    no_repeat_ngram_size: Option<usize>,
    max_repeats: Option<usize>,
    max_decoding_length: Option<usize>,
    min_decoding_length: Option<usize>,
    sampling_topk: Option<usize>,
    sampling_topp: Option<f32>,
    sampling_temperature: Option<f32>,
    seed: Option<u64>,
    replace_unknowns: Option<bool>,
    disable_unk: Option<bool>,
}

impl Search {
    /// Reads keyword arguments.
    ///
    /// # Errors
    ///
    /// `TypeError` for a keyword that no option has, or a value of another type.
    pub(crate) fn of(keywords: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut search = Self::default();
        for (key, value) in keywords.into_iter().flatten() {
            let key: String = key.extract()?;
            match key.as_str() {
                "beam_size" => search.beam_size = value.extract()?,
                "num_hypotheses" => search.num_hypotheses = value.extract()?,
                "patience" => search.patience = value.extract()?,
                "length_penalty" => search.length_penalty = value.extract()?,
                "word_penalty" => search.word_penalty = value.extract()?,
                "coverage_penalty" => search.coverage_penalty = value.extract()?,
                "repetition_penalty" => search.repetition_penalty = value.extract()?,
                "no_repeat_ngram_size" => search.no_repeat_ngram_size = value.extract()?,
                "max_repeats" => search.max_repeats = value.extract()?,
                "max_decoding_length" => search.max_decoding_length = value.extract()?,
                "min_decoding_length" => search.min_decoding_length = value.extract()?,
                "sampling_topk" => search.sampling_topk = value.extract()?,
                "sampling_topp" => search.sampling_topp = value.extract()?,
                "sampling_temperature" => search.sampling_temperature = value.extract()?,
                "seed" => search.seed = value.extract()?,
                "replace_unknowns" => search.replace_unknowns = value.extract()?,
                "disable_unk" => search.disable_unk = value.extract()?,
                // Options of CTranslate2 that change no result: scores are always returned, and batches
                // are chosen by size.
                "return_scores" | "max_batch_size" | "batch_type" => {}
                other => {
                    let message = format!("unexpected keyword argument {other:?}");
                    return Err(PyTypeError::new_err(message));
                }
            }
        }
        Ok(search)
    }

    /// Options of a call, from those of the model.
    pub(crate) fn apply(&self, options: &SearchOptions) -> SearchOptions {
        let mut options = options.clone();
        if let Some(beam) = self.beam_size {
            options = options.with_beam(beam);
        }
        let n_best = self.num_hypotheses.unwrap_or(options.n_best);
        let samples = self.sampling_topk.is_some_and(|k| k != 1)
            || self.sampling_topp.is_some()
            || self.sampling_temperature.is_some()
            || self.seed.is_some();
        if samples {
            let sampling = Sampling {
                samples: n_best,
                temperature: self.sampling_temperature.unwrap_or(1.0),
                top_k: self.sampling_topk.unwrap_or(0),
                top_p: self.sampling_topp.unwrap_or(1.0),
                seed: self.seed.unwrap_or(0),
            };
            options = SearchOptions { sampling: Some(sampling), ..options.with_one_hypothesis() };
        } else {
            options.n_best = n_best;
        }
        if let Some(penalty) = self.word_penalty {
            options.word_penalty = penalty;
        }
        if let Some(alpha) = self.length_penalty {
            options.length_penalty = alpha;
            options.length_norm = if alpha == 0.0 { LengthNorm::None } else { LengthNorm::Power };
        }
        let set = |to: &mut f32, from: Option<f32>| *to = from.unwrap_or(*to);
        set(&mut options.patience, self.patience);
        set(&mut options.coverage_penalty, self.coverage_penalty);
        set(&mut options.repetition_penalty, self.repetition_penalty);
        let set = |to: &mut usize, from: Option<usize>| *to = from.unwrap_or(*to);
        set(&mut options.no_repeat_ngram, self.no_repeat_ngram_size);
        set(&mut options.max_repeats, self.max_repeats);
        set(&mut options.min_len, self.min_decoding_length);
        options.max_len = self.max_decoding_length.or(options.max_len);
        options.replace_unknown = self.replace_unknowns.unwrap_or(options.replace_unknown);
        let unknown = tx_text::special::UNK;
        match self.disable_unk {
            Some(true) if !options.suppress.contains(&unknown) => options.suppress.push(unknown),
            Some(false) => options.suppress.retain(|&id| id != unknown),
            Some(true) | None => {}
        }
        options
    }
}

/// Device of an argument, with the names of the programs: `cpu` or `auto`, and those of GPUs if the
/// package was built with them.
pub(crate) fn device(name: &str) -> PyResult<Device> {
    let name: DeviceName = name.parse().map_err(DeviceError::into_exception)?;
    let (_, device) = name.open().map_err(IntoException::into_exception)?;
    Ok(device)
}

/// Precision of an argument; `None` for that of the model.
pub(crate) fn precision(compute_type: &str) -> PyResult<Option<Precision>> {
    match compute_type {
        "default" | "auto" => Ok(None),
        "float32" | "f32" => Ok(Some(Precision::F32)),
        "int8" | "int8_float32" => Ok(Some(Precision::Int8)),
        other => Err(invalid(format!(
            "compute_type={other:?}, expected \"default\", \"float32\" or \"int8\""
        ))),
    }
}
