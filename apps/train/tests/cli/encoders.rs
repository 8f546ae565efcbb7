use std::fs;

use crate::{FILES, Workshop, cli::training::weights, set, tiny};

/// One update too small to change a weight that is not 0.
const ALMOST_NO_UPDATE: [&str; 2] = ["train.max_steps=1", "train.learning_rate=1e-30"];

const FROM_MASKED: &str = "model.encoder_from=masked";

/// Settings of a translation model whose encoder fits that of the other tasks.
const ONE_SIDED: [&str; 2] = ["model.tying=none", "tokenizer.joint=false"];

fn workshop() -> Workshop {
    let workshop = Workshop::new();
    workshop.train_task("fill-mask", "masked", &set(&["model.positions=learned"])).trained();
    workshop
}

/// Compares the weights of two bundles whose names start with the prefixes.
fn assert_taken(workshop: &Workshop, [new, old]: [&str; 2], prefixes: &[[&str; 2]]) {
    let [new, old] = [new, old].map(|run| weights(&workshop.path(run)));
    for [of_new, of_old] in prefixes {
        let found: Vec<_> = new.iter().filter(|(name, _)| name.starts_with(of_new)).collect();
        assert!(!found.is_empty(), "{of_new}: {:?}", new.keys());
        for (name, values) in found {
            let old = &old[&name.replacen(of_new, of_old, 1)];
            assert_eq!(values.len(), old.len(), "{name}");
            for (new, old) in values.iter().zip(old) {
                assert!((new - old).abs() <= 1e-29, "{name}: {new} and {old}");
            }
        }
    }
}

#[test]
fn a_classifier_starts_from_a_masked_language_model() {
    let workshop = workshop();
    let settings = [&ALMOST_NO_UPDATE[..], &[FROM_MASKED, "model.positions=learned"]].concat();
    let run = workshop.train_task("classify", "run", &set(&settings)).trained();
    run.logged(&[
        "taken from masked: embedding.weight, encoder.layers.0 (",
        "initialized: output.bias, output.weight\n",
    ]);
    let same = [["embedding.", "embedding."], ["encoder.", "encoder."], ["input.", "input."]];
    assert_taken(&workshop, ["run", "masked"], &same);
    // The classifier records that its texts were cleaned, which those of the other model were not.
    let tokenizer = |run: &str| {
        let file = fs::read(workshop.path(run).join("tokenizer.json")).unwrap();
        let mut file: serde_json::Value = serde_json::from_slice(&file).unwrap();
        file.as_object_mut().unwrap().remove("normalizer").unwrap();
        file
    };
    assert!(tokenizer("run") == tokenizer("masked"));
    assert!(!run.stderr.contains("note: "), "{}", run.stderr);
    let info = tx_infer::BundleInfo::read(&workshop.path("run")).unwrap();
    assert_eq!(info.provenance["encoder_from"].as_str(), Some("masked"));

    // A resumed run needs the other bundle no more.
    fs::remove_dir_all(workshop.path("masked")).unwrap();
    let resume = ["--resume", "run", "--set", "train.max_steps=3"];
    let run = workshop.train(&resume).trained();
    run.logged(&["resuming after epoch 0 and 1 batches (update 1)"]);
    assert!(!run.stderr.contains("taken from"), "{}", run.stderr);
}

#[test]
fn a_run_that_starts_from_another_resumes_exactly() {
    let workshop = workshop();
    let settings = set(&[FROM_MASKED, "model.positions=learned", "validation.every_steps=3"]);
    workshop.train_task("classify", "whole", &settings).trained();
    let stop = [&settings[..], &["--set", "train.max_steps=3"]].concat();
    workshop.train_task("classify", "parts", &stop).trained();
    workshop.train(&["--resume", "parts", "--set", "train.max_steps=1000"]).trained();
    crate::cli::resuming::assert_same(&workshop, "whole", "parts");
}

#[test]
fn a_classifier_starts_from_a_translation_model() {
    let workshop = Workshop::new();
    workshop.train_tiny("translation", &set(&ONE_SIDED)).trained();
    let settings =
        [&ALMOST_NO_UPDATE[..], &["model.encoder_from=translation", "model.positions=sinusoidal"]]
            .concat();
    let run = workshop.train_task("classify", "run", &set(&settings)).trained();
    run.logged(&["taken from translation: embedding.weight, encoder.layers.0 ("]);
    let same = [["embedding.", "source_embedding."], ["encoder.", "encoder."]];
    assert_taken(&workshop, ["run", "translation"], &same);
}

#[test]
fn a_translation_model_starts_from_a_masked_language_model() {
    let workshop = workshop();
    let settings =
        [&ALMOST_NO_UPDATE[..], &ONE_SIDED, &[FROM_MASKED, "model.positions=learned"]].concat();
    let run = workshop.train_tiny("run", &set(&settings)).trained();
    run.logged(&[
        "taken from masked: encoder.layers.0 (",
        "source_embedding.weight",
        "initialized: decoder.",
    ]);
    let same = [["source_embedding.", "embedding."], ["encoder.", "encoder."]];
    assert_taken(&workshop, ["run", "masked"], &same);
}

/// With a shared vocabulary, both sides have that of the bundle.
#[test]
fn a_translation_model_with_one_vocabulary_starts_from_a_masked_language_model() {
    let workshop = workshop();
    let settings =
        [&ALMOST_NO_UPDATE[..], &[FROM_MASKED, "model.positions=learned", "tokenizer.joint=true"]];
    let files = ["--source", "source.txt", "--target", "source.txt"];
    let run = workshop.train_tiny_on(&files, "run", &set(&settings.concat())).trained();
    run.logged(&["vocabulary: 11 source and 11 target tokens\n"]);
    let same = [["source_embedding.", "embedding."], ["encoder.", "encoder."]];
    assert_taken(&workshop, ["run", "masked"], &same);
}

#[test]
fn a_masked_language_model_needs_a_vocabulary_with_a_mask() {
    let workshop = workshop();
    workshop.train_tiny("translation", &set(&ONE_SIDED)).trained();
    let settings = set(&["model.encoder_from=translation", "model.positions=sinusoidal"]);
    let run = workshop.train_task("fill-mask", "run", &settings);
    run.failed(
        2,
        &["[model] `encoder_from`: the vocabulary of `translation` has no `<mask>`, which the task \
           \"fill-mask\" needs"],
    );
    // It continues the training of one on other text.
    let settings = [&ALMOST_NO_UPDATE[..], &[FROM_MASKED, "model.positions=learned"]].concat();
    let run = workshop.train_task("fill-mask", "again", &set(&settings)).trained();
    run.logged(&["initialized: none\n"]);
    assert_taken(&workshop, ["again", "masked"], &[["", ""]]);
}

#[test]
fn a_bundle_without_an_encoder_or_of_another_size_is_refused() {
    let workshop = workshop();
    workshop.train_task("generate", "generated", &[]).trained();
    let train = |settings: &[&str]| workshop.train_task("classify", "run", &set(settings));
    train(&["model.encoder_from=generated"]).failed(
        2,
        &["[model] `encoder_from`: `generated` is a language model, which has no encoder"],
    );
    train(&["model.encoder_from=no/bundle"]).failed(1, &["no/bundle"]);
    fs::create_dir(workshop.path("empty")).unwrap();
    train(&["model.encoder_from=empty"]).failed(1, &["empty"]);
    train(&[FROM_MASKED, "model.d_model=32"]).failed(
        2,
        &["[model] `d_model` = 32 differs from that of `encoder_from`: `masked` has 16"],
    );
    // Other positions, and feed-forward layers of another size.
    let run = train(&[FROM_MASKED, "model.d_ff=24"]).trained();
    run.logged(&[
        "taken from masked: embedding.weight, encoder.layers.0 (",
        "initialized: encoder.layers.0 (3 weights), output.bias, output.weight\n",
        "note: `model.positions` differs from that of masked\n",
    ]);
    assert!(!run.stderr.contains("`model.norm`"), "{}", run.stderr);
}

/// The vocabulary of a run that starts from a bundle is that of the bundle.
#[test]
fn words_that_the_bundle_does_not_have_are_unknown() {
    let workshop = workshop();
    workshop.append("labeled.tsv", "seven seven\tequal\n");
    let settings = ["model.positions=learned", FROM_MASKED, "tokenizer.kind=bpe"];
    let with = workshop.train_task("classify", "with", &set(&settings)).trained();
    // Six numbers and the special tokens.
    with.logged(&["vocabulary: 11 tokens\n"]);
}

#[test]
fn a_missing_bundle_is_noticed_before_the_data_is_read() {
    let workshop = Workshop::new();
    let arguments = tiny(&FILES, "run", &["--set", "model.encoder_from=no/bundle"]);
    let run = workshop.train(&arguments);
    run.failed(1, &["no/bundle"]);
    assert!(!run.stderr.contains("vocabulary"), "{}", run.stderr);
}
