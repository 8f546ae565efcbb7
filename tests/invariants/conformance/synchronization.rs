//! Synchronization with a GPU, which computes while the program queues more work. Each wait for a
//! result loses that overlap.

use burn::{
    backend::{Backend, Dispatch, ExecutionError},
    tensor::{Device, Tensor},
    train::Learner,
};
use tx_infer::device::Adapter;
use tx_model::{DropoutConfig, ModelConfig, Transformer, VocabSizes};
use tx_train::{
    config::{OptimizationConfig, Schedule},
    training::{
        adam::Adam,
        gradients::{QueuedGradients, queue_gradients},
        schedule::{Curve, Decay, LearningRate},
    },
    translation::seq2seq::Seq2Seq,
};

use super::{batch, checked};
use crate::invariants::VOCABULARY;

/// While CubeCL captures the launched kernels, it rejects reads, waits and measurements, and Burn
/// panics on a failed read. So a forward pass with dropout, a backward pass and an Adam update that
/// complete do not wait for the GPU. The only additional operation of `compute_gradients` is one
/// read.
#[test]
fn an_update_is_queued_without_waiting() {
    for (name, device) in checked() {
        if Adapter::of(&device.clone().into()).is_none() {
            continue;
        }
        let autodiff = device.clone().autodiff();
        let dropout = DropoutConfig {
            attention: 0.1,
            activation: 0.1,
            token: 0.1,
            ..DropoutConfig::paper(0.1)
        };
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
        let rate = LearningRate::new(Curve {
            schedule: Schedule::Constant,
            peak: 1e-3,
            warmup_steps: 0,
            total_steps: 10,
            d_model: 8,
            decay: Decay::default(),
        });
        let model = Seq2Seq::new(model, 0.1);
        let mut learner =
            Learner::new(model, Adam::new(&OptimizationConfig::default()).into(), rate);
        let batch = batch(&autodiff);
        let mut step = 0;
        let update = || {
            step += 1;
            autodiff.seed(step);
            let model = learner.model();
            let QueuedGradients { gradients, .. } =
                queue_gradients(&model, vec![batch.clone()], &[]);
            drop(model);
            learner.lr_step();
            learner.optimizer_step(gradients);
        };
        record(&device, update).unwrap();

        // Confirms that a read is rejected.
        let x = Tensor::<1>::ones([4], &device);
        let mut reads = Vec::new();
        record(&device, || reads.push(x.clone().sum().try_into_scalar::<f32>().is_ok())).unwrap();
        assert_eq!(reads, [true, true, false], "{name}");
    }
}

/// Runs `work` twice, which selects its kernels, and once more while CubeCL captures.
fn record(device: &Device, mut work: impl FnMut()) -> Result<(), ExecutionError> {
    let device = device.as_dispatch();
    Dispatch::graph_prepare(device)?;
    for _ in 0..2 {
        work();
        Dispatch::sync(device)?;
    }
    Dispatch::graph_start_capture(device)?;
    work();
    // The graph is not used and may lack memory, because nothing can be allocated during the
    // capture.
    drop(Dispatch::graph_stop_capture(device));
    Ok(())
}
