//! Norms of the gradients and weights of each layer, for TensorBoard.

use burn::{
    module::{Module, ModuleVisitor, Param},
    optim::GradientsParams,
    tensor::{Tensor, Transaction},
};
use tx_model::kernels::sum_of_squares;

use super::optimizer::MODEL;

/// Norms of a layer in an update.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LayerNorms {
    /// Name of a layer, such as `encoder.layers.0`, or of a module outside of layers, such as
    /// `source_embedding`.
    pub name: String,
    /// Norm of its gradients before clipping; 0 if none of its weights is trained.
    pub gradient: f64,
    /// Norm of its weights before the update.
    pub weight: f64,
}

/// Computes the norms of each layer of `model` in its order. `gradients` are those of the update,
/// which clipping has multiplied by `clip_factor`. Reads from the device once.
pub(crate) fn layer_norms<M: Module>(
    model: &M,
    gradients: &GradientsParams,
    clip_factor: f64,
) -> Vec<LayerNorms> {
    let mut squares = Squares { gradients, path: Vec::new(), layers: Vec::new() };
    model.visit(&mut squares);
    let (mut transaction, mut names) = (Transaction::default(), Vec::new());
    for Layer { name, weights, gradients } in squares.layers {
        let gradients = gradients.unwrap_or_else(|| weights.zeros_like());
        transaction = transaction.register(weights).register(gradients);
        names.push(name);
    }
    let norms = transaction.execute().into_iter();
    let norms = norms.map(|data| data.iter::<f64>().next().unwrap_or_default().sqrt());
    let norms: Vec<f64> = norms.collect();
    let (pairs, _) = norms.as_chunks();
    (names.into_iter().zip(pairs))
        .map(|(name, &[weight, gradient])| LayerNorms {
            name,
            gradient: gradient / clip_factor,
            weight,
        })
        .collect()
}

/// Sums of squares of a layer: `[1]` each.
struct Layer {
    name: String,
    weights: Tensor<1>,
    gradients: Option<Tensor<1>>,
}

/// Visitor that adds up the squares of each layer.
struct Squares<'a> {
    gradients: &'a GradientsParams,
    path: Vec<String>,
    layers: Vec<Layer>,
}

impl ModuleVisitor for Squares<'_> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let name = layer_of(&self.path);
        let weights = sum_of_squares(param.val().inner());
        let gradients = self.gradients.get::<D>(param.id).map(sum_of_squares);
        match self.layers.iter_mut().find(|layer| layer.name == name) {
            None => self.layers.push(Layer { name, weights, gradients }),
            Some(layer) => {
                layer.weights = layer.weights.clone() + weights;
                layer.gradients = match (layer.gradients.take(), gradients) {
                    (Some(sum), Some(gradients)) => Some(sum + gradients),
                    (sum, gradients) => sum.or(gradients),
                };
            }
        }
    }
}

/// Returns the name of the layer of a weight: its path up to the index of a layer, or without its last
/// part.
fn layer_of(path: &[String]) -> String {
    let path = match path {
        [first, rest @ ..] if first == MODEL => rest,
        path => path,
    };
    let index = path.iter().position(|part| part.parse::<usize>().is_ok());
    let end = index.map_or(path.len().saturating_sub(1), |index| index + 1);
    path[..end].join(".")
}

#[cfg(test)]
mod tests {
    use tx_data::{EncodedPair, Seq2SeqBatch};
    use tx_model::{ModelConfig, NormPlacement, Transformer, VocabSizes};
    use tx_text::special::BOS;

    use super::*;
    use crate::{
        training::gradients::{UpdateGradients, compute_gradients},
        translation::seq2seq::Seq2Seq,
    };
    use burn::tensor::Device;

    fn model(device: &Device) -> Seq2Seq {
        let config = ModelConfig {
            d_model: 8,
            n_heads: 2,
            d_ff: 16,
            encoder_layers: 2,
            decoder_layers: 1,
            max_len: 16,
            norm: NormPlacement::Pre,
            ..ModelConfig::default()
        };
        let vocab = VocabSizes { source: 12, target: 12 };
        Seq2Seq::new(Transformer::new(&config, vocab, device).unwrap(), 0.1)
    }

    /// The squares of the layers add up to the square of the norm over all weights, clipped or not.
    #[test]
    fn norms_of_layers_add_up_to_the_norm_before_clipping() {
        let device = Device::flex().autodiff();
        let model = model(&device);
        let pair = EncodedPair::new(vec![5, 6, 7, 2], vec![1, 7, 9, 2]);
        for clip_norm in [0.0, 0.01] {
            let batch = Seq2SeqBatch::new(&[&pair], BOS, &device);
            let UpdateGradients { gradients, norm, .. } =
                compute_gradients(&model, vec![batch], &[], clip_norm);
            let factor = if clip_norm > 0.0 { clip_norm / norm } else { 1.0 };
            let layers = layer_norms(&model, &gradients, factor);
            let names: Vec<&str> = layers.iter().map(|layer| &*layer.name).collect();
            assert_eq!(
                names,
                [
                    "source_embedding",
                    "encoder.layers.0",
                    "encoder.layers.1",
                    "encoder.norm",
                    "decoder.layers.0",
                    "decoder.norm",
                    "projection"
                ]
            );
            let squares: f64 = layers.iter().map(|layer| layer.gradient.powi(2)).sum();
            assert!((squares.sqrt() - norm).abs() < 1e-5 * norm, "{}, {norm}", squares.sqrt());
        }
    }

    /// γ of the final norm is 1 and β is 0 at first, so its norm is √d_model. A layer without
    /// gradients has the gradient norm 0.
    #[test]
    fn norms_of_weights_include_those_that_are_not_trained() {
        let device = Device::flex().autodiff();
        let layers = layer_norms(&model(&device), &GradientsParams::new(), 1.0);
        let norm = layers.iter().find(|layer| layer.name == "encoder.norm").unwrap();
        assert!((norm.weight - 8_f64.sqrt()).abs() < 1e-6, "{}", norm.weight);
        assert!(layers.iter().all(|layer| layer.gradient == 0.0));
    }
}
