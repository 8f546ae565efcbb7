//! A GPU computes while the program queues more work. Each wait for a result costs that overlap.

use burn::{
    tensor::{Tensor, capture},
    train::Learner,
};
use tx_infer::device::Adapter;
use tx_model::{DropoutConfig, ModelConfig, Transformer, VocabSizes};
use tx_train::{
    adam::Adam,
    config::OptimizationConfig,
    schedule::{LearningRate, Schedule},
    step::{QueuedGradients, Seq2Seq},
};

use super::{batch, checked};
use crate::laws::VOCABULARY;

/// CubeCL can record the kernels that an operation launches, and refuses whatever is not a launch: a
/// read, a wait, a copy from the host. So a forward pass with dropout, a backward pass and an update
/// of Adam that can be recorded do not wait for the GPU. What `Seq2Seq::gradients` does besides is
/// one read.
#[test]
fn an_update_is_queued_without_waiting() {
    for (name, device) in checked() {
        if Adapter::of(&device).is_none() {
            continue;
        }
        let autodiff = device.clone().autodiff();
        let dropout =
            DropoutConfig { attention: 0.1, activation: 0.1, embedding: 0.1, residual: 0.1 };
        let config = ModelConfig {
            d_model: 8,
            n_heads: 2,
            d_ff: 12,
            encoder_layers: 1,
            decoder_layers: 1,
            max_len: 16,
            dropout,
            ..ModelConfig::default()
        };
        let vocab = VocabSizes { source: VOCABULARY, target: VOCABULARY };
        let model = Transformer::new(&config, vocab, &autodiff).unwrap();
        let rate = LearningRate {
            schedule: Schedule::Constant,
            peak: 1e-3,
            warmup_steps: 0,
            total_steps: 10,
            d_model: 8,
            step: 0,
            reduction: 1.0,
        };
        let model = Seq2Seq::new(model, 0.1, 1.0);
        let mut learner =
            Learner::new(model, Adam::new(&OptimizationConfig::default()).into(), rate);
        let batch = batch(&autodiff);
        let mut step = 0;
        let graph = capture(&device, || {
            step += 1;
            autodiff.seed(step);
            let model = learner.model();
            let queued = model.queue_gradients(vec![batch.clone()], &[]);
            drop(model);
            let QueuedGradients { gradients, .. } = queued;
            learner.lr_step();
            learner.optimizer_step(gradients);
        });
        assert!(graph.is_hardware(), "{name}: something in an update waits for the device");

        // The recorder does refuse a read.
        let x = Tensor::<1>::ones([4], &device);
        let read = || {
            let sum = capture(&device, || x.clone().sum().try_into_scalar::<f32>().ok());
            sum.output().is_none() || !sum.is_hardware()
        };
        assert!(read(), "{name}: a read can be recorded");
    }
}
