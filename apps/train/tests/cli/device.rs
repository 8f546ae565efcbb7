//! Tests on the device that `TX_TEST_DEVICE` names: a GPU, or a software GPU (SwiftShader).

use std::env;

use crate::{
    FILES, Workshop,
    cli::resuming::{NOISY, assert_same},
    tiny,
};

/// CubeCL chooses kernels in the first run and caches the choice. Graphics libraries may recover from
/// panics when they probe the memory, so standard error is not checked.
#[test]
fn a_resumed_run_equals_an_uninterrupted_one_bit_for_bit() {
    let Ok(device) = env::var("TX_TEST_DEVICE") else {
        eprintln!("SKIPPED: TX_TEST_DEVICE is not set, so no GPU is tested");
        return;
    };
    let workshop = Workshop::new();
    let train = |arguments: &[&str]| {
        let output = workshop.command(arguments).args(["--device", &device]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    train(&tiny(&FILES, "whole", &[&NOISY[..], &["--set", "train.epochs=2"]].concat()));
    train(&tiny(&FILES, "parts", &[&NOISY[..], &["--set", "train.epochs=1"]].concat()));
    train(&["--resume", "parts", "--set", "train.epochs=2"]);
    assert_same(&workshop, "whole", "parts");
}
