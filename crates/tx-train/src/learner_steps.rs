//! Steps of Burn's Learner.

/// Implements the traits of Burn's Learner for a [`Trainable`](crate::task::Trainable) model.
macro_rules! learner_steps {
    ($model:ty, $batch:ty) => {
        impl burn::train::TrainStep for $model {
            type Input = $batch;
            type Output = $crate::task::StepOutput;

            fn step(&self, batch: $batch) -> burn::train::TrainOutput<Self::Output> {
                let update =
                    $crate::training::gradients::compute_gradients(self, vec![batch], &[], 0.0);
                burn::train::TrainOutput { grads: update.gradients, item: update.output }
            }
        }

        impl burn::train::InferenceStep for $model {
            type Input = $batch;
            type Output = $crate::task::StepOutput;

            fn step(&self, batch: $batch) -> Self::Output {
                let counts = $crate::task::Batch::token_counts(&batch);
                let loss = $crate::task::Trainable::validation_loss(self, batch);
                let read = $crate::training::gradients::read_loss(loss.without_autodiff());
                read.with_counts(&counts)
            }
        }
    };
}
pub(crate) use learner_steps;
