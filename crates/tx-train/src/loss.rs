//! Training losses: label-smoothed cross-entropy (section 5.4 of the paper, Szegedy et al. 2016),
//! and guided alignment. The model computes that of R-Drop ([`kernels::r_drop`]), and
//! [`kernels::distillation`] that of distillation.
//!
//! Axis letters: `B` batch, `H` heads, `T` target tokens, `S` source tokens, `V` target vocabulary.

use burn::tensor::{Int, Tensor};
use tx_model::kernels::{self, CrossEntropy, CrossEntropyConfig, Targets};
use tx_text::special::PAD;

use crate::task::BatchLoss;

/// Labels of a batch.
#[derive(Debug, Clone)]
pub struct Labels {
    /// Ids `[B, T]`; padding does not count.
    pub target: Tensor<2, Int>,
    /// Weights of the rows in the loss, `[B]`; `None` if all are 1.
    pub weights: Option<Tensor<1>>,
    /// Label smoothing ε.
    pub smoothing: f64,
}

impl Labels {
    /// Creates labels with weight 1.
    pub fn new(target: Tensor<2, Int>, smoothing: f64) -> Self {
        Self { target, weights: None, smoothing }
    }

    /// Returns ids and weights of the tokens, `[B · T]` each, and the options of their loss.
    pub fn flat(self) -> (Targets, CrossEntropyConfig) {
        let [batch, len] = self.target.dims();
        let weights = self.weights.map(|weights| {
            weights.unsqueeze_dim::<2>(1).expand([batch, len]).reshape([batch * len])
        });
        let config = CrossEntropyConfig { smoothing: self.smoothing, ignore_index: PAD };
        (Targets { ids: self.target.reshape([batch * len]), weights }, config)
    }
}

/// Label-smoothed cross-entropy of a batch, without padding. [`kernels::cross_entropy`] gives the
/// formula, which is PyTorch's.
///
/// # Shapes
///
/// - `logits`: `[B, T, V]`
pub fn smoothed_cross_entropy(logits: Tensor<3>, labels: Labels) -> BatchLoss {
    let [batch, len, vocabulary] = logits.dims();
    let logits = logits.reshape([batch * len, vocabulary]);
    let (Targets { ids, weights }, config) = labels.flat();
    kernels::cross_entropy(logits, ids, weights, config).into()
}

impl From<CrossEntropy> for BatchLoss {
    fn from(CrossEntropy { loss, nll, correct }: CrossEntropy) -> Self {
        Self { sum: loss, nll, correct }
    }
}

/// Added to attention weights before the logarithm, because a weight can underflow to 0.
const LEAST_WEIGHT: f64 = 1e-9;

/// Loss of guided alignment (Chen et al. 2016): cross-entropy between the links of a word
/// alignment and the attention weights `a`, the mean over the heads of a cross-attention. For a target
/// token `t` that is linked to `n_t` source tokens:
///
/// ```text
/// -1 / n_t Σ_s ln a_ts    over the linked tokens s
/// ```
///
/// Tokens without links have no loss. Returns the sum over all tokens, `[1]`.
///
/// # Shapes
///
/// - `weights`: `[B, H, T, S]`; `alignment`: `[B, T, S]`, see [`Seq2SeqBatch`](tx_data::Seq2SeqBatch)
pub fn guided_alignment(weights: Tensor<4>, alignment: Tensor<3>) -> Tensor<1> {
    let mean = weights.mean_dim(1).squeeze_dim::<3>(1);
    -(alignment * (mean + LEAST_WEIGHT).log()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, TensorData, Tolerance};
    use tx_model::kernels::Distillation;

    /// V = 4, logits (0, 0, ln 2, 0), target 2, so that softmax is (1, 1, 2, 1) / 5.
    ///
    /// ```text
    /// ε = 0      ln 5 - ln 2
    /// ε = 0.1    ln 5 - 0.9 ln 2 - 0.1 · ln 2 / 4 = ln 5 - 0.925 ln 2
    /// ```
    ///
    /// The second row of the batch is padding and has no effect.
    #[test]
    fn padding_adds_nothing_to_the_loss_of_a_token() {
        let device = Device::flex();
        let ln2 = 2.0_f32.ln();
        let logits =
            Tensor::<3>::from_data([[[0.0, 0.0, ln2, 0.0]], [[9.0, -9.0, 3.0, 1.0]]], &device);
        let target = Tensor::<2, Int>::from_data([[2], [PAD as i32]], &device);
        for (smoothing, expected) in [(0.0, 5.0_f32.ln() - ln2), (0.1, 5.0_f32.ln() - 0.925 * ln2)]
        {
            let loss =
                smoothed_cross_entropy(logits.clone(), Labels::new(target.clone(), smoothing));
            let expected = TensorData::from([expected]);
            loss.sum.into_data().assert_approx_eq::<f32>(&expected, Tolerance::default());
            assert_eq!(loss.correct.into_scalar::<i64>(), 1);
        }
    }

    fn r_drop(logits: Tensor<3>, labels: Labels, alpha: f64) -> BatchLoss {
        let [batch, len, vocabulary] = logits.dims();
        let (targets, config) = labels.flat();
        kernels::r_drop(logits.reshape([batch * len, vocabulary]), targets, config, alpha).into()
    }

    /// V = 2, p = (1/4, 3/4), q = (1/2, 1/2), target 1: CE is ln 4/3 and ln 2, and the divergences
    /// add up to 1/4 ln 3. The second token is padding.
    #[test]
    fn r_drop_follows_its_equation() {
        let device = Device::flex();
        let ln3 = 3.0_f32.ln();
        let first = [[0.0, ln3], [5.0, 1.0]];
        let logits = Tensor::<3>::from_data([first, [[2.0, 2.0], [0.0, 9.0]]], &device);
        let target = Tensor::<2, Int>::from_data([[1, PAD as i32]], &device);
        let loss = r_drop(logits, Labels::new(target, 0.0), 5.0);
        let expected = 0.5 * ((4.0_f32 / 3.0).ln() + 2.0_f32.ln()) + 5.0 / 16.0 * ln3;
        let found = loss.sum.into_scalar::<f32>();
        assert!((found - expected).abs() < 1e-6, "{found}, {expected}");
    }

    fn distillation(
        logits: Tensor<3>,
        teachers: Tensor<4>,
        labels: Labels,
        settings: Distillation,
    ) -> BatchLoss {
        let [batch, len, vocabulary] = logits.dims();
        let logits = logits.reshape([batch * len, vocabulary]);
        let (targets, config) = labels.flat();
        kernels::distillation(logits, teachers.flatten(1, 2), targets, config, settings).into()
    }

    /// V = 2, p = (1/4, 3/4), q = (1/2, 1/2), target 1. The second token is padding. Two teachers with
    /// (1/4, 3/4) and (3/4, 1/4) have the mean q.
    ///
    /// ```text
    /// τ = 1   CE = ln 4/3, -Σ q ln p = ½ (ln 4 + ln 4/3)
    /// τ = 2   p_τ = (1, √3) / (1 + √3), q_τ = q: τ² ½ (2 ln (1 + √3) - ½ ln 3)
    /// ```
    #[test]
    fn distillation_follows_its_equation() {
        let device = Device::flex().autodiff();
        let ln3 = 3.0_f32.ln();
        let logits = || Tensor::<3>::from_data([[[0.0, ln3], [5.0, 1.0]]], &device);
        let teachers: [&[f32]; 2] =
            [&[2.0, 2.0, 0.0, 9.0], &[0.0, ln3, 0.0, 9.0, ln3, 0.0, 3.0, 1.0]];
        let target = || Tensor::<2, Int>::from_data([[1, PAD as i32]], &device);
        let ce = (4.0_f32 / 3.0).ln();
        let root = 3.0_f32.sqrt();
        for (temperature, crossed) in [
            (1.0, 0.5 * (4.0_f32.ln() + ce)),
            (2.0, 4.0 * 0.5 * (2.0 * (1.0 + root).ln() - 0.5 * ln3)),
        ] {
            for teachers in teachers {
                let data = TensorData::new(teachers.to_vec(), [teachers.len() / 4, 1, 2, 2]);
                let teachers = Tensor::<4>::from_data(data, &device);
                let settings = Distillation { weight: 0.25, temperature };
                let loss = distillation(logits(), teachers, Labels::new(target(), 0.0), settings);
                let found = loss.sum.into_scalar::<f32>();
                let expected = 0.75 * ce + 0.25 * crossed;
                assert!((found - expected).abs() < 1e-6, "{temperature}: {found}, {expected}");
                assert_eq!(loss.correct.into_scalar::<i64>(), 1);
            }
        }
    }

    /// A loss of logits with named settings.
    type Loss<'a> = dyn Fn(Tensor<3>, &dyn Fn(&str) -> f64) -> BatchLoss + 'a;

    /// Values and gradients of `fixtures/losses.py`.
    #[test]
    fn losses_and_gradients_are_those_of_pytorch() {
        let fixture: serde_json::Value =
            serde_json::from_str(include_str!("fixtures/losses.json")).unwrap();
        let numbers = |value: &serde_json::Value| -> Vec<f32> {
            value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect()
        };
        let sizes: Vec<usize> = numbers(&fixture["shape"]).iter().map(|&n| n as usize).collect();
        let [batch, len, vocabulary] = sizes[..] else { panic!("{sizes:?}") };
        let device = Device::flex().autodiff();
        let of = |name: &str, rows: usize, device: &Device| {
            let data = TensorData::new(numbers(&fixture[name]), [rows, len, vocabulary]);
            Tensor::<3>::from_data(data, device)
        };
        let target: Vec<i32> = numbers(&fixture["target"]).iter().map(|&id| id as i32).collect();
        let target = Tensor::<2, Int>::from_data(TensorData::new(target, [batch, len]), &device);
        let check = |name: &str, loss: &Loss<'_>| {
            for case in fixture[name].as_array().unwrap() {
                let logits = of("logits", 2 * batch, &device).require_grad();
                let setting = |name: &str| case[name].as_f64().unwrap();
                let sum = loss(logits.clone(), &setting).sum;
                let gradients = sum.backward();
                let found = sum.into_scalar::<f32>();
                let expected = setting("loss") as f32;
                assert!((found - expected).abs() < 1e-4, "{name}: {found}, {expected}");
                let found =
                    logits.grad(&gradients).unwrap().into_data().try_into_vec::<f32>().unwrap();
                for (found, expected) in found.iter().zip(numbers(&case["gradient"])) {
                    assert!((found - expected).abs() < 1e-4, "{name}: {found}, {expected}");
                }
            }
        };
        let weights = TensorData::new(numbers(&fixture["weights"]), [batch]);
        let labels = |setting: &dyn Fn(&str) -> f64| {
            let weights = || Tensor::<1>::from_data(weights.clone(), &device);
            let weights = (setting("weighted") == 1.0).then(weights);
            Labels { target: target.clone(), weights, smoothing: setting("smoothing") }
        };
        check("cross_entropy", &|logits, setting| {
            smoothed_cross_entropy(logits.narrow(0, 0, batch), labels(setting))
        });
        check("r_drop", &|logits, setting| r_drop(logits, labels(setting), setting("alpha")));
        check("distillation", &|logits, setting| {
            let teachers = of("teacher", batch, &device).unsqueeze_dim(0);
            let settings =
                Distillation { weight: setting("weight"), temperature: setting("temperature") };
            distillation(logits.narrow(0, 0, batch), teachers, labels(setting), settings)
        });
    }

    /// Value and gradient of `fixtures/losses.py`.
    #[test]
    fn guided_alignment_is_that_of_pytorch() {
        let fixture: serde_json::Value =
            serde_json::from_str(include_str!("fixtures/losses.json")).unwrap();
        let fixture = &fixture["guided_alignment"];
        let numbers = |name: &str| -> Vec<f32> {
            let numbers = fixture[name].as_array().unwrap().iter();
            numbers.map(|number| number.as_f64().unwrap() as f32).collect()
        };
        let sizes: Vec<usize> = numbers("shape").iter().map(|&size| size as usize).collect();
        let [batch, heads, len, sources] = sizes[..] else { panic!("{sizes:?}") };
        let device = Device::flex().autodiff();
        let data = TensorData::new(numbers("attention"), [batch, heads, len, sources]);
        let weights = Tensor::<4>::from_data(data, &device).require_grad();
        let data = TensorData::new(numbers("alignment"), [batch, len, sources]);
        let sum = guided_alignment(weights.clone(), Tensor::from_data(data, &device));
        let gradients = sum.backward();
        let (found, expected) = (sum.into_scalar::<f32>(), fixture["loss"].as_f64().unwrap());
        assert!((f64::from(found) - expected).abs() < 1e-4, "{found}, {expected}");
        let gradient = weights.grad(&gradients).unwrap().into_data();
        let expected = TensorData::new(numbers("gradient"), [batch, heads, len, sources]);
        gradient.assert_approx_eq::<f32>(&expected, Tolerance::absolute(1e-4));
    }

    /// Two heads with the weights (1/2, 1/2) and (1, 0) for a token linked to both sources:
    /// -½ (ln 3/4 + ln 1/4). The second token has no links.
    #[test]
    fn guided_alignment_follows_its_equation() {
        let device = Device::flex();
        let heads = [[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]];
        let weights = Tensor::<4>::from_data([heads], &device);
        let alignment = Tensor::<3>::from_data([[[0.5, 0.5], [0.0, 0.0]]], &device);
        let found = guided_alignment(weights, alignment).into_scalar::<f32>();
        let expected = -0.5 * (0.75_f32.ln() + 0.25_f32.ln());
        assert!((found - expected).abs() < 1e-6, "{found}, {expected}");
    }

    #[test]
    fn the_loss_of_huge_logits_is_finite() {
        let device = Device::flex();
        let logits = Tensor::<3>::from_data([[[1e30, -1e30, 0.0]]], &device);
        let target = Tensor::<2, Int>::from_data([[1]], &device);
        let loss =
            smoothed_cross_entropy(logits, Labels::new(target, 0.0)).sum.into_scalar::<f32>();
        assert!(loss.is_finite() && loss > 1e30, "{loss}");
    }
}
