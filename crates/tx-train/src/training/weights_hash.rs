//! Hash of all weights, by which ranks find out whether they have the same model.

use burn::{
    module::{Module, ModuleVisitor, Param},
    tensor::Tensor,
};
use sha2::{Digest, Sha256};
use tx_text::hash::hexadecimal;

/// Returns the SHA-256 of all weights of `model`, which is on a device with autodiff, in hexadecimal.
pub(crate) fn weights_hash<M: Module>(model: &M) -> String {
    let mut hash = Hash(Sha256::new());
    model.visit(&mut hash);
    hexadecimal(&hash.0.finalize())
}

struct Hash(Sha256);

impl ModuleVisitor for Hash {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.update(param.val().inner().into_data().as_bytes());
    }
}
