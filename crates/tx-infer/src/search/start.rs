//! First input of the decoder.

use tx_model::DecoderStart;
use tx_text::special::{BOS, EOS, PAD};

/// Returns the id that the decoder reads before the first target token.
pub fn start_id(start: DecoderStart) -> u32 {
    match start {
        DecoderStart::Pad => PAD,
        // The model replaces the embedding of the first input.
        DecoderStart::Bos | DecoderStart::Zero => BOS,
        DecoderStart::Eos => EOS,
    }
}
