use burn::{
    module::{Module, ModuleMapper, Param},
    tensor::{Tensor, TensorData},
};
use tx_data::special::EOS;
use tx_model::{DropoutConfig, ModelConfig, NormPlacement, Positions, Tying, VocabSizes};

use super::*;

/// [`search`] takes the greedy road for a beam of 1, so both roads are called by name here.
#[test]
fn a_beam_of_one_is_greedy_search() {
    let sources: [&[u32]; 4] = [&[5, 9, 4, 10, 2], &[6, 2], &[8, 3, 7, 9, 9, 4, 5, 6, 2], &[4, 2]];
    let requests = sources.map(|source| Request::new(source, 0));
    let options = SearchOptions::greedy();
    let mut lengths = Vec::new();
    for (positions, norm) in [
        (Positions::Sinusoidal, NormPlacement::Post),
        (Positions::Rotary, NormPlacement::Pre),
        (Positions::Relative, NormPlacement::Pre),
        (Positions::Learned, NormPlacement::SublayerOutput),
    ] {
        for seed in 0..4 {
            for engine in engines(|device| model(positions, norm, seed, device)) {
                let greedy = greedy::search(engine.read(&requests, 16, &options));
                let beam = beam::search(engine.read(&requests, 16, &options));
                for (greedy, beam) in greedy.iter().zip(&beam) {
                    let ([greedy], [beam]) = (&greedy[..], &beam[..]) else {
                        panic!("one hypothesis each: {greedy:?} and {beam:?}")
                    };
                    assert_eq!(greedy.ids, beam.ids, "{positions:?} {norm:?} {seed}");
                    let gap = greedy.log_probability - beam.log_probability;
                    assert!(gap.abs() < 1e-4, "{greedy:?} and {beam:?}");
                    assert!((greedy.score - beam.score).abs() < 1e-4);
                    lengths.push((greedy.ids.len(), greedy.ids.last() == Some(&EOS)));
                }
            }
        }
    }
    // Some stop by themselves and some at the limit, or the test would test half of it.
    assert!(lengths.iter().any(|(length, ended)| *length > 1 && *ended), "{lengths:?}");
    assert!(lengths.iter().any(|(_, ended)| !ended), "{lengths:?}");
}

/// The devices, and on the processor both ways to decode.
fn engines(model: impl Fn(&Device) -> Transformer) -> Vec<Engine> {
    let mut engines: Vec<Engine> =
        devices().iter().map(|device| Engine::on_tensors(model(device), device)).collect();
    #[cfg(feature = "cpu")]
    engines.push(Engine::new(model(&Device::flex()), &Device::flex()));
    engines
}

#[expect(deprecated, reason = "tx supports ndarray as long as Burn has it")]
fn devices() -> [Device; 2] {
    [Device::flex(), Device::ndarray()]
}

/// Small, with weights that depend on nothing but the arguments.
fn model(positions: Positions, norm: NormPlacement, seed: u64, device: &Device) -> Transformer {
    let config = ModelConfig {
        d_model: 8,
        n_heads: 2,
        d_ff: 12,
        encoder_layers: 1,
        decoder_layers: 2,
        max_len: 16,
        tying: Tying::None,
        dropout: DropoutConfig::none(),
        positions,
        norm,
        ..ModelConfig::default()
    };
    let vocab = VocabSizes { source: 11, target: 11 };
    Transformer::new(&config, vocab, device).unwrap().map(&mut Weights { state: seed })
}

/// Numbers in -1..1 from SplitMix64 (Steele et al. 2014): the device's own random numbers are one
/// stream for all tests of a process.
struct Weights {
    state: u64,
}

impl ModuleMapper for Weights {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|old| {
            let values: Vec<f32> = (0..old.dims().iter().product()).map(|_| self.next()).collect();
            Tensor::from_data(TensorData::new(values, old.dims().to_vec()), &old.device())
        })
    }
}

impl Weights {
    fn next(&mut self) -> f32 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}
