//! Exponential moving average of the weights over the updates, which often generalizes better than
//! the weights themselves (Polyak and Juditsky 1992; Kingma and Ba 2015, section 7.2).

use burn::{
    module::{Module, ModuleMapper, ModuleVisitor, Param},
    tensor::Tensor,
};

/// Exponential moving average of the weights of a model.
#[derive(Debug, Clone)]
pub struct MovingAverage<M> {
    decay: f64,
    /// For each weight, whether it is trained.
    is_trained: Vec<bool>,
    /// Without autodiff.
    model: M,
}

impl<M: Module> MovingAverage<M> {
    /// Starts at the weights of `model`, which has no autodiff. Weights that are not trained, as
    /// `is_trained` tells in their order, keep their exact values.
    pub fn new(decay: f64, model: M, is_trained: Vec<bool>) -> Self {
        Self { decay, is_trained, model }
    }

    /// Returns the model with the averaged weights.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// Updates the average with the weights of `model`, without autodiff, after update `step`, from
    /// 1: `d · average + (1 - d) · weights`.
    ///
    /// `d` is the decay, but at most `(1 + step) / (10 + step)`, so that the initial weights soon
    /// lose their influence.
    pub fn update(&mut self, model: &M, step: usize) {
        let step = step as f64;
        let decay = self.decay.min((1.0 + step) / (10.0 + step));
        let mut weights = Weights::default();
        model.visit(&mut weights);
        let weights = weights.flat.into_iter().zip(self.is_trained.clone());
        let weights = weights.map(|(weight, is_trained)| is_trained.then_some(weight));
        let mut mix = Mix { weights: weights.collect::<Vec<_>>().into_iter(), decay };
        self.model = self.model.clone().map(&mut mix);
    }
}

/// Visitor that collects all weights in order, each as a vector.
#[derive(Default)]
struct Weights {
    flat: Vec<Tensor<1>>,
}

impl ModuleVisitor for Weights {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.flat.push(param.val().reshape([-1]));
    }
}

/// Mapper that mixes weights into the average.
struct Mix {
    /// Weights to mix into the average; `None` for those that are not trained.
    weights: std::vec::IntoIter<Option<Tensor<1>>>,
    decay: f64,
}

impl ModuleMapper for Mix {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let decay = self.decay;
        match self.weights.next().flatten() {
            Some(weights) => param.map(|average| {
                let weights = weights.reshape(average.dims());
                average * decay + weights * (1.0 - decay)
            }),
            None => param,
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use tx_model::{ModelConfig, Transformer, VocabSizes};

    use super::*;

    /// Model whose weights are all `value`.
    fn filled(value: f64) -> Transformer {
        struct Fill(f64);
        impl ModuleMapper for Fill {
            fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
                param.map(|weights| weights.full_like(self.0))
            }
        }
        let config = ModelConfig {
            d_model: 4,
            n_heads: 2,
            d_ff: 8,
            encoder_layers: 1,
            decoder_layers: 1,
            max_len: 8,
            ..ModelConfig::default()
        };
        let vocab = VocabSizes { source: 6, target: 6 };
        let model = Transformer::new(&config, vocab, &Device::flex()).unwrap();
        model.map(&mut Fill(value))
    }

    /// Decay 0.5 from 1: 2/11 after the first update, 3/12 after the second, then 4/13; from 8 on,
    /// where (1 + 8) / (10 + 8) is one half, 0.5.
    #[test]
    fn the_average_follows_the_formula() {
        let model = filled(1.0);
        let mut count = Weights::default();
        model.visit(&mut count);
        let mut average = MovingAverage::new(0.5, model, vec![true; count.flat.len()]);
        let mut expected = 1.0;
        for (step, weight, decay) in [
            (1, 3.0, 2.0 / 11.0),
            (2, -1.0, 3.0 / 12.0),
            (3, 0.5, 4.0 / 13.0),
            (8, 2.0, 0.5),
            (9, 4.0, 0.5),
        ] {
            average.update(&filled(weight), step);
            expected = decay * expected + (1.0 - decay) * weight;
            let mut weights = Weights::default();
            average.model().visit(&mut weights);
            assert!(weights.flat.len() > 20);
            for weights in weights.flat {
                for found in weights.into_data().iter::<f64>() {
                    assert!((found - expected).abs() < 1e-6, "{found} after update {step}");
                }
            }
        }
    }

    /// 1/3 has no exact representation, so a mean with itself could change it.
    #[test]
    fn weights_that_are_not_trained_keep_their_bits() {
        let frozen = 1.0 / 3.0;
        let model = filled(frozen);
        let mut count = Weights::default();
        model.visit(&mut count);
        let is_trained: Vec<bool> = (0..count.flat.len()).map(|index| index % 2 == 0).collect();
        let mut average = MovingAverage::new(0.9, model, is_trained.clone());
        (1..20).for_each(|step| average.update(&filled(frozen), step));
        average.update(&filled(5.0), 20);
        let mut weights = Weights::default();
        average.model().visit(&mut weights);
        for (weights, is_trained) in weights.flat.into_iter().zip(is_trained) {
            for found in weights.into_data().iter::<f32>() {
                assert_eq!(found.to_bits() != (frozen as f32).to_bits(), is_trained);
            }
        }
    }
}
