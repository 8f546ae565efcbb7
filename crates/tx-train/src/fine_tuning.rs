//! Fine-tuning: the bundle that a run starts from, and training of some weights only.

pub(crate) mod lineage;
pub(crate) mod selection;
