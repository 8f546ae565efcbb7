//! Options of all forms of training data: keys of their own, lists, replay.

use tx_infer::BundleInfo;

use super::corpora::lines;
use crate::{Run, Workshop, cli::resuming::assert_same, set};

/// Folder with three corpora and a validation set.
fn workshop() -> Workshop {
    let workshop = Workshop::new();
    workshop.write("a.tsv", lines(["one", "two", "three"], "uno", 24));
    workshop.write("b.tsv", lines(["four", "five", "six"], "quattro", 12));
    workshop.write("old.tsv", lines(["eight", "nine", "six"], "otto", 9));
    workshop.write("valid.tsv", "one six\tuno sei\ntwo five\tdue cinque\n");
    workshop
}

/// Trains a tiny model on the data of the section `data`.
fn train(workshop: &Workshop, run: &str, data: &str, more: &[&str]) -> Run {
    workshop.write(&format!("{run}.toml"), format!("recipe = \"small\"\n{data}"));
    let file = format!("{run}.toml");
    workshop.train_tiny_on(&["--config", &file], run, more)
}

const FLAT: &str = "[data]\ntrain_file = \"a.tsv\"\nvalid_file = \"valid.tsv\"\n";
const LIST: &str = "[[data.train]]\nfile = \"a.tsv\"\n[[data.valid]]\nfile = \"valid.tsv\"\n";
const REPLAY: &str = "[data.replay]\nfile = \"old.tsv\"\nfraction = 0.2\n";

#[test]
fn one_entry_gives_the_weights_of_keys_of_their_own() {
    let workshop = workshop();
    train(&workshop, "flat", FLAT, &[]).trained();
    train(&workshop, "list", LIST, &[]).trained();
    assert!(workshop.weights("flat") == workshop.weights("list"), "the weights differ");
}

/// 24 + 12 pairs, beside which 9 are a fifth of 45; the same as an entry with this fraction.
#[test]
fn pairs_are_replayed_beside_several_corpora() {
    let workshop = workshop();
    let both = format!("{LIST}[[data.train]]\nfile = \"b.tsv\"\n");
    let replay = format!("{both}{REPLAY}");
    let run = train(&workshop, "replay", &replay, &[]).trained();
    run.logged(&[
        "mixture: a.tsv: 24 of 24 pairs",
        "; each epoch has 9 of them and 36 others (20.0 %)",
    ]);
    let info = BundleInfo::read(&workshop.path("replay")).unwrap();
    assert_eq!(info.provenance["replay_pairs"].as_integer(), Some(9));
    assert_eq!(info.provenance["replay_pairs_per_epoch"].as_integer(), Some(9));

    let entry = "[[data.train]]\nfile = \"old.tsv\"\nname = \"replay\"\nfraction = 0.2\n";
    train(&workshop, "entry", &format!("{both}{entry}"), &[]).trained();
    assert!(workshop.weights("replay") == workshop.weights("entry"), "the weights differ");
    let fractions = format!("{both}{entry}{entry}").replace("0.2", "0.5");
    train(&workshop, "x", &fractions, &[])
        .failed(2, &["[data] the `fraction`s of an epoch add up to 1, not below 1"]);
    let alone = LIST.replace("file = \"a.tsv\"", "file = \"a.tsv\"\nfraction = 0.5");
    train(&workshop, "x", &alone, &[]).failed(2, &["`train` needs an entry without `fraction`"]);

    train(&workshop, "parts", &replay, &set(&["train.max_steps=5"])).trained();
    workshop.train(&["--resume", "parts", "--set", "train.max_steps=1000"]).trained();
    assert_same(&workshop, "replay", "parts");
}

/// A special token marks the replayed pairs, as it marks those of an entry.
#[test]
fn replayed_pairs_have_a_tag() {
    let workshop = workshop();
    let tagged = format!("{FLAT}{REPLAY}tag = \"<old>\"\n");
    train(&workshop, "run", &tagged, &[]).trained();
    let info = BundleInfo::read(&workshop.path("run")).unwrap();
    assert!(info.tokenizers.source.special_id("<old>").is_some());
}

/// A prepared corpus that the run creates, with a multilingual model and tagged replay.
#[test]
fn prepared_data_has_tokens_of_languages_and_tags() {
    let workshop = workshop();
    let languages = set(&[
        "data.source_language=en",
        "data.target_language=it",
        "data.language_tokens=target-in-source",
    ]);
    let data = format!("{FLAT}{REPLAY}tag = \"<old>\"\n");
    train(&workshop, "memory", &data, &languages).trained();
    let disk = [&languages[..], &["--set", "data.prepared=corpus"]].concat();
    train(&workshop, "disk", &data, &disk).trained();
    let info = BundleInfo::read(&workshop.path("disk")).unwrap();
    let source = &info.tokenizers.source;
    assert!(source.special_id("<old>").is_some() && source.special_id(">>it<<").is_some());
    assert!(workshop.weights("memory") == workshop.weights("disk"), "the weights differ");
}

/// The encoder of a bundle, whose tokenizer is that of the sources of all corpora.
#[test]
fn a_model_of_several_corpora_starts_from_an_encoder() {
    let workshop = workshop();
    let sided = ["model.tying=none", "tokenizer.joint=false"];
    train(&workshop, "base", FLAT, &set(&sided)).trained();
    let from = set(&[&sided[..], &["model.encoder_from=base"]].concat());
    train(&workshop, "flat", FLAT, &from).trained();
    train(&workshop, "list", LIST, &from).trained();
    assert!(workshop.weights("flat") == workshop.weights("list"), "the weights differ");
    let both = format!("{LIST}[[data.train]]\nfile = \"b.tsv\"\n");
    train(&workshop, "both", &both, &from).trained().logged(&["taken from base: "]);
    let [base, both] = ["base", "both"].map(|run| BundleInfo::read(&workshop.path(run)).unwrap());
    assert!(base.tokenizers.source.has_ids_of(&both.tokenizers.source).unwrap());
    assert!(both.tokenizers.target.vocab_size() > base.tokenizers.target.vocab_size());
}
