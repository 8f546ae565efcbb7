//! Numbers of kernel launches, which do not depend on the machine.

use tx_model::VocabSizes;
use tx_train::{
    ConfigBuilder,
    bench::{Phase, Updates},
    ranks::Alone,
};

use super::test_device;

/// Upper limits of the launches of an update: forward, backward, norm and optimizer. SwiftShader binds
/// few buffers, so the copy of the gradients takes 25 launches of the norm, and 5 for `reverse`.
const LIMITS: [(&str, [usize; 4]); 2] =
    [("multi30k-tiny", [223, 343, 28, 1]), ("reverse", [47, 77, 8, 1])];

/// Copy to another layout, which autotune chooses with some products of matrices and not with others.
const COPY: &str = "CopyKernel";

/// An update of one batch launches no more kernels than it did when the limits were set. If a change
/// lowers a figure, lower its limit, too.
#[test]
fn launches_of_an_update_do_not_grow() {
    let Some((_, device)) = test_device() else { return };
    for (recipe, limits) in LIMITS {
        let mut builder = ConfigBuilder::from_recipe(recipe).unwrap();
        // The widths do not matter, and a software driver is slow. The norm is clipped.
        for setting in
            ["train.accumulate=1", "train.clip_norm=1e-9", "model.d_model=32", "model.d_ff=32"]
        {
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
        println!("{recipe}: {found:?} launches, {} with copies", launches.total());
        println!("{}", serde_json::to_string_pretty(&launches).unwrap());
        for (found, limit) in found.iter().zip(limits) {
            assert!(*found <= limit, "{recipe}: {found:?} instead of {limits:?}");
        }
    }
}
