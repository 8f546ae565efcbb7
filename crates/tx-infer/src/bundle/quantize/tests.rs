use std::{fs, path::Path};

use tempfile::TempDir;
use tx_engine::PackedTransformer;
use tx_model::Tying;

use crate::{
    Bundle, BundleInfo, Device, InferError, Precision, SearchOptions, Translator,
    bundle::{NewBundle, NewWeight, QUANTIZED_FORMAT, WEIGHTS, new::tests::bundle, vocabulary},
};

/// Bundles with this tying, in single precision and quantized.
fn folders(tying: Tying) -> (TempDir, [std::path::PathBuf; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["f32", "int8"].map(|name| folder.path().join(name));
    let mut new = bundle();
    new.config.tying = tying;
    let sizes = new.config.padded(vocabulary(&new.tokenizers));
    let weights = new.config.weight_shapes(sizes).into_iter().map(|weight| {
        let count: usize = weight.shape.iter().product();
        let phase = weight.name.len() as f32;
        let values = move || (0..count).map(|index| (index as f32 + phase).sin()).collect();
        NewWeight { name: weight.name, shape: weight.shape, values: Box::new(values) }
    });
    let new = NewBundle { weights: weights.collect(), ..new };
    new.save(&paths[0]).unwrap();
    Bundle::open(&paths[0]).unwrap().quantize(&paths[1]).unwrap();
    (folder, paths)
}

fn logits(bundle: &Bundle, precision: Precision) -> Vec<f32> {
    let model = bundle.pack::<PackedTransformer>(precision).unwrap();
    let mut decoding = model.start(&[&[4, 5, 2], &[6, 2]]);
    [decoding.step_logits(&[1, 1]), decoding.step_logits(&[4, 5])].concat()
}

/// Quantizing when packing and quantizing into a file give the same numbers, and the file has the
/// names, shapes and nearly the values of the weights.
#[test]
fn a_quantized_bundle_computes_as_one_that_is_quantized_when_packed() {
    for tying in [Tying::None, Tying::Decoder, Tying::All] {
        let (_folder, [single, int8]) = folders(tying);
        let [single, int8] = [single, int8].map(|path| Bundle::open(path).unwrap());
        assert_eq!((single.precision(), int8.precision()), (Precision::F32, Precision::Int8));
        let expected = logits(&single, Precision::Int8);
        assert_eq!(logits(&int8, Precision::Int8), expected, "{tying:?}");
        assert!(expected.iter().all(|logit| logit.is_finite()));
        assert_eq!(int8.weight_names().count(), single.weight_names().count());
        for name in single.weight_names() {
            let ((shape, values), (found, quantized)) =
                (single.weight(name).unwrap(), int8.weight(name).unwrap());
            assert_eq!(shape, found, "{name}");
            for (value, quantized) in values.iter().zip(&*quantized) {
                // Half a step. Values have magnitudes up to 1, so pairs have sums up to 2.
                assert!((value - quantized).abs() <= 1.01 / 127.0, "{name}: {value} {quantized}");
            }
        }
        // On a CPU without instructions for bytes, it computes in single precision.
        let close = |(a, b): (&f32, &f32)| (a - b).abs() < 0.5;
        assert!(logits(&int8, Precision::F32).iter().zip(&expected).all(close), "{tying:?}");
    }
}

#[test]
fn a_quantized_bundle_keeps_everything_else() {
    let (_folder, [single, int8]) = folders(Tying::All);
    let [before, after] = [&single, &int8].map(|path| BundleInfo::read(path).unwrap());
    assert_eq!((before.format, after.format), (2, QUANTIZED_FORMAT));
    assert_eq!((&before.config, &before.search), (&after.config, &after.search));
    assert_eq!((before.parameters(), before.parts()), (after.parameters(), after.parts()));
    assert!(after.memory(100).weights < before.memory(100).weights);
    let text = |path: &Path| {
        let translator = Translator::open(path, &Device::Cpu).unwrap();
        let options = SearchOptions { beam: 2, ..SearchOptions::default() };
        translator.with_options(options).unwrap().translate("one two three").unwrap()
    };
    assert_eq!(text(&int8), text(&int8));
    assert!(matches!(
        Bundle::open(&int8).unwrap().quantize(&single),
        Err(InferError::QuantizedWeights { .. })
    ));
}

/// A copy is independent of the file: another process overwrites it in place.
#[test]
fn copied_weights_do_not_depend_on_the_file() {
    let (_folder, [_, path]) = folders(Tying::All);
    let translate = |bundle: Bundle| {
        let translator = Translator::new(bundle, &Device::Cpu).unwrap();
        move || translator.translate("one two three").unwrap().text
    };
    let mapped = translate(Bundle::open_for_model(&path).unwrap())();
    let copied = Bundle::open_copied(&path).unwrap();
    let translate = translate(copied.clone());
    let weights = path.join(WEIGHTS);
    fs::write(&weights, b"overwritten").unwrap();
    assert_eq!(translate(), mapped);
    // Packing again, also in single precision, does not read the file either.
    for precision in [Precision::Int8, Precision::F32, Precision::Int8] {
        copied.pack::<PackedTransformer>(precision).unwrap();
    }
    assert_eq!(translate(), mapped);
    assert!(matches!(Bundle::open_copied(&path), Err(InferError::Weights { .. })));
}

mod mutated;

/// Each byte of the weights file, changed: the bundle is rejected, or translates.
#[test]
fn a_changed_file_is_rejected_or_translates() {
    let (_folder, [_, path]) = folders(Tying::Decoder);
    let good = fs::read(path.join(WEIGHTS)).unwrap();
    let mut rejected = 0;
    for place in (0..good.len()).step_by(97) {
        let mut bytes = good.clone();
        bytes[place] ^= 0x81;
        fs::write(path.join(WEIGHTS), &bytes).unwrap();
        match Bundle::open(&path) {
            Err(_) => rejected += 1,
            Ok(bundle) => {
                bundle.pack::<PackedTransformer>(Precision::Int8).unwrap().start(&[&[4, 2]]).step(
                    &[1],
                    &[],
                    2,
                );
            }
        }
    }
    assert!(rejected > 100, "{rejected}");
}

#[test]
fn scales_sums_and_padding_are_checked() {
    let (_folder, [_, path]) = folders(Tying::Decoder);
    let good = fs::read(path.join(WEIGHTS)).unwrap();
    let header = u64::from_le_bytes(*good.first_chunk().unwrap()) as usize;
    assert_eq!((8 + header) % 64, 0, "panels are aligned");
    let entries: serde_json::Value = serde_json::from_slice(&good[8..8 + header]).unwrap();
    let name = "decoder.layers.0.feed_forward.inner.weight";
    for (tensor, offset, bytes, problem) in [
        (format!("{name}.scale"), 0, f32::NAN.to_le_bytes(), "has the scale NaN"),
        (format!("{name}.scale"), 4, (-1.0_f32).to_le_bytes(), "has the scale -1"),
        (format!("{name}.sum"), 0, 77_777_i32.to_le_bytes(), "has a sum that is not"),
        // Inputs 8 to 11 of column 0, of a matrix with 8 inputs.
        (name.to_owned(), 256, [1, 255, 0, 0], "has padding that is not zero"),
        // Inputs 0 to 3 of column 8, of a matrix with 8 outputs.
        (name.to_owned(), 32, [1, 255, 0, 0], "has padding that is not zero"),
        (
            "source_embedding.weight.scale".into(),
            0,
            f32::INFINITY.to_le_bytes(),
            "has the scale inf",
        ),
        (
            "decoder.layers.0.feed_forward.inner.bias".into(),
            0,
            f32::NAN.to_le_bytes(),
            "not finite",
        ),
    ] {
        let start = entries[&tensor]["data_offsets"][0].as_u64().unwrap() as usize;
        let start = 8 + header + start + offset;
        let mut changed = good.clone();
        changed[start..start + 4].copy_from_slice(&bytes);
        fs::write(path.join(WEIGHTS), &changed).unwrap();
        let error = Bundle::open(&path).unwrap_err().to_string();
        assert!(error.contains(problem), "{tensor}: {error}");
    }
}

/// The key `weights` and the dtypes of the file must agree.
#[test]
fn dtype_and_configuration_must_agree() {
    let (_folder, [single, int8]) = folders(Tying::All);
    let config = |path: &Path| fs::read_to_string(path.join("config.toml")).unwrap();
    let (f32_config, int8_config) = (config(&single), config(&int8));
    assert!(int8_config.contains("weights = \"int8\""), "{int8_config}");
    let error = |path: &Path, config: &str| {
        fs::write(path.join("config.toml"), config).unwrap();
        Bundle::open(path).unwrap_err().to_string()
    };
    assert!(error(&single, &int8_config).contains("weight `source_embedding.weight` has the"));
    assert!(error(&int8, &f32_config).contains("weight `source_embedding.weight` has the"));
    let old = int8_config.replace("format = 3", "format = 2");
    assert!(error(&int8, &old).contains("`weights` is not part of format 2"));
    let new = int8_config.replace("format = 3", "format = 4");
    assert!(error(&int8, &new).contains("format 4"));
}
