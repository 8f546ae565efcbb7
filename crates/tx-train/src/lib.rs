//! Train Transformers for translation with the Burn Learner.
