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
    /// Without autodiff.
    model: M,
}

impl<M: Module> MovingAverage<M> {
    /// Starts at the weights of `model`, which has no autodiff.
    pub fn new(decay: f64, model: M) -> Self {
        Self { decay, model }
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
        let mut mix = Mix { weights: weights.flat.into_iter(), decay };
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
    weights: std::vec::IntoIter<Tensor<1>>,
    decay: f64,
}

impl ModuleMapper for Mix {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let decay = self.decay;
        param.map(|average| match self.weights.next() {
            Some(weights) => {
                let weights = weights.reshape(average.dims());
                average * decay + weights * (1.0 - decay)
            }
            None => average,
        })
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
        let mut average = MovingAverage::new(0.5, filled(1.0));
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
}
