//! Numbers of kernel launches, which do not depend on the machine.

use tx_infer::{bench::Searching, search::Engine};
use tx_model::{ModelConfig, Transformer, VocabSizes};
use tx_train::{
    ConfigBuilder,
    bench::{Phase, Updates},
    ranks::Alone,
};

use super::test_device;

/// Upper limits of the launches of an update: forward, backward, norm and optimizer. SwiftShader binds
/// few buffers, so the copy of the gradients takes 13 launches of the norm, and 4 for `reverse`.
const LIMITS: [(&str, &str, [usize; 4]); 4] = [
    ("multi30k-tiny", "train.r_drop=0.0", [105, 229, 16, 1]),
    ("multi30k-tiny", "train.r_drop=5.0", [120, 233, 16, 1]),
    ("multi30k-tiny", "model.positions=\"relative\"", [113, 253, 17, 1]),
    ("reverse", "train.r_drop=0.0", [34, 62, 7, 1]),
];

/// Copy to another layout, which autotune chooses with some products of matrices and not with others.
const COPY: &str = "CopyKernel";

/// An update of one batch launches no more kernels than it did when the limits were set. If a change
/// lowers a figure, lower its limit, too.
#[test]
fn launches_of_an_update_do_not_grow() {
    let Some((_, device)) = test_device() else { return };
    for (recipe, setting, limits) in LIMITS {
        let mut builder = ConfigBuilder::from_recipe(recipe).unwrap();
        // The widths do not matter, and a software driver is slow. The norm is clipped.
        let small =
            ["train.accumulate=1", "train.clip_norm=1e-9", "model.d_model=64", "model.d_ff=64"];
        for setting in small.into_iter().chain([setting]) {
            builder.set(setting).unwrap();
        }
        builder.use_generated_without_files();
        let config = builder.build().unwrap();
        let updates = Updates { vocab: VocabSizes { source: 40, target: 40 }, pairs: 2, len: 5 };
        let measured =
            updates.measure_on(&Alone, &config, std::slice::from_ref(&device), 1).unwrap();
        let launches = measured.launches.expect("launches of a CubeCL device");
        let found = Phase::UPDATE.map(|phase| {
            let kernels = launches.kernels(phase).filter(|(name, _)| *name != COPY);
            kernels.map(|(_, count)| count).sum::<usize>()
        });
        println!("{recipe}, {setting}: {found:?} launches, {} with copies", launches.total());
        println!("{}", serde_json::to_string_pretty(&launches).unwrap());
        for (found, limit) in found.iter().zip(limits) {
            assert!(*found <= limit, "{recipe}, {setting}: {found:?} instead of {limits:?}");
        }
        // The indices of relative positions, of encoder and decoder.
        assert!(launches.uploads() <= 2, "{} uploads", launches.uploads());
        assert_eq!(launches.readbacks(), 1);
    }
}

/// Maximum launches of a step of a decoder with four layers, with a beam of 1 and of 4.
const STEP_LIMITS: [(usize, f64); 2] = [(1, 53.0), (4, 54.0)];

/// Embedding, twelve launches a layer, projection, and choice of the tokens. Eight steps are read together.
#[test]
fn launches_of_a_decoding_step_do_not_grow() {
    let Some((_, device)) = test_device() else { return };
    let config = ModelConfig {
        d_model: 64,
        n_heads: 2,
        d_ff: 64,
        encoder_layers: 1,
        decoder_layers: 4,
        ..ModelConfig::default()
    };
    let vocab = VocabSizes { source: 40, target: 40 };
    device.seed(1);
    let model = Transformer::new(&config, vocab, &device).unwrap();
    let engine = Engine::from_transformer(model, 32, &device.into());
    for (beam, limit) in STEP_LIMITS {
        let searching = Searching {
            sentences: 3,
            batch: 3,
            beam,
            source_len: 5,
            target_len: 16,
            threads: 1,
            first_tokens: [None; 2],
        };
        let (_, counts) = searching.measure(&engine, vocab.source, 1).unwrap();
        let counts = counts.expect("launches of a CubeCL device");
        println!("beam {beam}: {counts:?}");
        let copies = counts.kernels.get(COPY).copied().unwrap_or(0.0);
        assert!(counts.launches_per_step - copies <= limit, "{counts:?}");
        assert!(counts.readbacks_per_step <= 1.0 / 8.0, "{counts:?}");
        // Sources, lengths, suppressed ids, first tokens and rows, and for each eight steps tokens and scores.
        assert!(counts.uploads_per_step <= 1.0, "{counts:?}");
    }
}
