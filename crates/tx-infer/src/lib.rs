//! Translate with trained Transformer bundles: search, cache, detokenized text.
