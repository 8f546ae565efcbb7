//! Parallel text to padded batches: sources, tokenizers, splits, masks.
