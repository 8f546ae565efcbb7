//! Encoder-decoder Transformer modules on Burn.
