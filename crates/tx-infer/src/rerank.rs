//! Reranking of n-best lists with a log-linear model: Och & Ney (2002), "Discriminative Training and
//! Maximum Entropy Models for Statistical Machine Translation".
//!
//! ```text
//! ŷ = argmax_y Σ_k λ_k h_k(x, y)
//! ```
//!
//! The features `h_k` of a hypothesis are those of its [list](n_best_list), and those of
//! [other models](features): the probability of the source given the hypothesis, and that of the
//! hypothesis alone, as in the noisy-channel model of Yee et al. (2019). [`tuning`] finds the weights
//! `λ_k` with the best corpus-level score of a validation set, and [`weights`] apply them.

pub mod features;
pub mod n_best_list;
pub mod tuning;
pub mod weights;
