//! Training loop and its parts, generic over a [`Task`](crate::task::Task).

pub mod adam;
pub(crate) mod ema;
pub mod gradients;
pub(crate) mod optimizer;
pub mod precision;
pub mod schedule;
pub mod update_seeds;

mod flat_gradients;
pub(crate) mod layer_norms;
mod weights_hash;

pub(crate) mod agreement;
pub(crate) mod checkpointing;
pub(crate) mod run_handle;
pub(crate) mod training_loop;
pub(crate) mod validation_policy;

pub(crate) mod launch;
