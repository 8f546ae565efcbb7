//! On the device that `TX_TEST_DEVICE` names: a GPU, or a graphics driver that stands in for one.

use std::env;

use crate::{
    Workshop,
    cli::resuming::{NOISY, assert_same},
    tiny,
};

/// With the same kernels, which CubeCL keeps from the first run on. Panics that a graphics library
/// recovers from are its own affair: it tries how much memory it gets.
#[test]
fn a_resumed_run_there_equals_an_uninterrupted_one_bit_for_bit() {
    let Ok(device) = env::var("TX_TEST_DEVICE") else {
        eprintln!("SKIPPED: TX_TEST_DEVICE is not set, no GPU is tested");
        return;
    };
    let workshop = Workshop::new();
    let train = |arguments: &[&str]| {
        let output = workshop.command(arguments).args(["--device", &device]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let files = ["--source", "source.txt", "--target", "target.txt.gz"];
    train(&tiny(&files, "whole", &[&NOISY[..], &["--set", "train.epochs=2"]].concat()));
    train(&tiny(&files, "parts", &[&NOISY[..], &["--set", "train.epochs=1"]].concat()));
    train(&["--resume", "parts", "--set", "train.epochs=2"]);
    assert_same(&workshop, "whole", "parts");
}
