//! Invariants of models without a decoder: classifiers and masked language models.

use tx_text::special::BOS;

use super::{CheckResult, Inputs, deviation, largest};
use crate::{
    attention::AttentionMap, bundle::Bundle, classifier::Classifier, device::Device,
    error::InferError, fill_mask::FillMask,
};

/// Checks a classifier.
pub(super) fn check_classifier(
    bundle: &Bundle,
    device: &Device,
    limit: f64,
) -> Result<Vec<CheckResult>, InferError> {
    check(bundle, device, limit, |device| Classifier::new(bundle, device))
}

/// Checks a masked language model.
pub(super) fn check_fill_mask(
    bundle: &Bundle,
    device: &Device,
    limit: f64,
) -> Result<Vec<CheckResult>, InferError> {
    check(bundle, device, limit, |device| FillMask::new(bundle, device))
}

/// Model whose scores of a text have one part or one for each token.
trait Encoder {
    /// Returns the scores of each text of a batch.
    fn scores(&self, texts: &[&[u32]]) -> Vec<Vec<f32>>;

    /// Returns the attention weights of a text: for each layer, a map for each head.
    fn attention(&self, text: &[u32]) -> Vec<Vec<AttentionMap>>;
}

impl Encoder for Classifier {
    fn scores(&self, texts: &[&[u32]]) -> Vec<Vec<f32>> {
        let logits = self.logits(texts);
        logits.chunks_exact(self.labels().len().max(1)).map(<[f32]>::to_vec).collect()
    }

    fn attention(&self, text: &[u32]) -> Vec<Vec<AttentionMap>> {
        self.maps(text)
    }
}

impl Encoder for FillMask {
    fn scores(&self, texts: &[&[u32]]) -> Vec<Vec<f32>> {
        let positions: Vec<Vec<usize>> =
            texts.iter().map(|text| (0..text.len()).collect()).collect();
        let texts: Vec<(&[u32], &[usize])> =
            texts.iter().zip(&positions).map(|(text, all)| (*text, &all[..])).collect();
        self.logits(&texts)
    }

    fn attention(&self, text: &[u32]) -> Vec<Vec<AttentionMap>> {
        self.maps(text)
    }
}

fn check<M: Encoder>(
    bundle: &Bundle,
    device: &Device,
    limit: f64,
    open: impl Fn(&Device) -> Result<M, InferError>,
) -> Result<Vec<CheckResult>, InferError> {
    let inputs = Inputs::new(bundle.vocabulary(), bundle.config.max_len, BOS);
    let texts: Vec<Vec<u32>> = inputs
        .pairs
        .into_iter()
        .map(|pair| {
            let mut text = [&[BOS], &pair.source[..]].concat();
            text.truncate(bundle.config.max_len);
            text
        })
        .collect();
    let texts: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
    let model = open(device)?;
    let alone: Vec<Vec<f32>> = texts.iter().flat_map(|text| model.scores(&[text])).collect();
    let differences = |found: &[Vec<f32>]| {
        let each = found.iter().zip(&alone).map(|(found, alone)| deviation(found, alone));
        each.fold(0.0, f64::max)
    };
    let is_finite = alone.iter().flatten().all(|score| score.is_finite());
    let sums: Vec<f32> = texts
        .iter()
        .flat_map(|text| model.attention(text).concat())
        .flat_map(|map| map.rows().map(|row| row.iter().sum::<f32>() - 1.0).collect::<Vec<_>>())
        .collect();
    let result = |invariant, deviation| CheckResult::new(invariant, deviation, limit);
    let results = vec![
        result("scores are finite", if is_finite { 0.0 } else { f64::INFINITY }),
        result("attention sums to 1", largest(&sums)),
        result("padding and batching change no score", differences(&model.scores(&texts))),
    ];
    #[cfg(feature = "burn")]
    let results = {
        // The packed engine, or for it the module on the same device.
        let other = match device {
            Device::Cpu => open(&Device::Burn(device.to_burn()))?,
            Device::Burn(_) => open(&Device::Cpu)?,
        };
        let found: Vec<Vec<f32>> = texts.iter().flat_map(|text| other.scores(&[text])).collect();
        let agreement = result("the packed engine gives the same scores", differences(&found));
        [results, vec![agreement]].concat()
    };
    Ok(results)
}
