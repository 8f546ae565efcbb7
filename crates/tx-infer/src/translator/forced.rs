//! The probability of translations that are given.

use std::sync::{Mutex, PoisonError};

use tx_data::special::BOS;

use super::Translator;
use crate::error::InferError;

/// How likely a model finds a given translation.
#[derive(Debug, Clone, PartialEq)]
pub struct Forced {
    /// Token ids of the translation, ending with `<eos>`.
    pub ids: Vec<u32>,
    /// Natural logarithm of the probability of each, given the source and those before it.
    pub log_probabilities: Vec<f32>,
    /// Whether the source was cut because it is longer than the model can read.
    pub cut: bool,
}

impl Forced {
    /// Natural logarithm of the probability of the whole translation.
    pub fn log_probability(&self) -> f64 {
        self.log_probabilities.iter().map(|&x| f64::from(x)).sum()
    }

    /// `e^(-log P / tokens)`: as if the model had so many tokens to choose from, each as likely.
    pub fn perplexity(&self) -> f64 {
        (-self.log_probability() / self.ids.len().max(1) as f64).exp()
    }
}

impl Translator {
    /// How likely each target is, given its source: forced decoding. Results come in the order of
    /// `pairs`, sources first. `first` is the number of the first pair, from 0, for messages.
    ///
    /// Search options do not count: probabilities are the model's own.
    ///
    /// # Errors
    ///
    /// When a text cannot be tokenized, or a target is longer than the model can write.
    pub fn force(
        &self,
        pairs: &[(impl AsRef<str>, impl AsRef<str>)],
        first: u64,
    ) -> Result<Vec<Forced>, InferError> {
        let texts: Vec<&str> = pairs.iter().map(|(source, _)| source.as_ref().trim()).collect();
        let (sources, was_cut) = self.read_sources(&texts)?;
        let targets: Vec<&str> = pairs.iter().map(|(_, target)| target.as_ref()).collect();
        let mut targets = self.tokenizers.target.encode_batch(targets)?;
        let most = self.config.max_len;
        for (target, line) in targets.iter_mut().zip(first + 1..) {
            target.retain(|id| *id != BOS);
            if target.len() > most {
                return Err(InferError::LongTarget { line, found: target.len(), most });
            }
        }
        let len = |index: usize| sources[index].len().max(targets[index].len());
        let mut order: Vec<usize> = (0..pairs.len()).collect();
        order.sort_by_key(|&index| std::cmp::Reverse(len(index)));
        let batches = self.batches(&order, len);
        let found = Mutex::new(vec![Vec::new(); pairs.len()]);
        self.share_out(&batches, |batch| {
            let batch_pairs: Vec<(&[u32], &[u32])> =
                batch.iter().map(|&index| (&sources[index][..], &targets[index][..])).collect();
            let log_probabilities = self.engine.log_probabilities(&batch_pairs);
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            for (&index, log_probabilities) in batch.iter().zip(log_probabilities) {
                found[index] = log_probabilities;
            }
            true
        });
        let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        let rows = targets.into_iter().zip(found).zip(was_cut);
        Ok(rows
            .map(|((ids, log_probabilities), cut)| Forced { ids, log_probabilities, cut })
            .collect())
    }
}
