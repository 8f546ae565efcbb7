use tx_infer::{Bundle, BundleInfo};

use crate::{
    Run, Workshop,
    cli::resuming::{NOISY, assert_same_from},
    set,
};

/// Pairs of words, the targets of which start with `target`.
pub fn lines(words: [&str; 3], target: &str, count: usize) -> String {
    let pair =
        |i: usize| format!("{} {}\t{target} {}\n", words[i % 3], words[(i / 3) % 3], i % 7 * i);
    (0..count).map(pair).collect()
}

/// Folder with three corpora, one of them in two files, and two validation sets.
fn workshop() -> Workshop {
    let workshop = Workshop::new();
    workshop.write("a-1.tsv", lines(["one", "two", "three"], "uno", 9));
    workshop.write("a-2.tsv", lines(["ten", "two", "three"], "dieci", 9));
    workshop.write("b.tsv", lines(["four", "five", "six"], "quattro", 12));
    workshop.write("c.tsv", lines(["eight", "nine", "six"], "otto", 6));
    workshop.write("first.tsv", "one six\tuno sei\ntwo five\tdue cinque\n");
    workshop.write("second.tsv", "nine one\tnove uno\n");
    workshop
}

const CONFIG: &str = r#"
recipe = "small"
tokenizer = { kind = "word", joint = true }
model = { d_model = 8, n_heads = 2, encoder_layers = 1, decoder_layers = 1, d_ff = 16, max_len = 12 }

[data.clean]
identical = "keep"
duplicates = "keep"

[train]
epochs = 3
batch = { sentences = 8 }
schedule = "constant"
warmup_steps = 0
learning_rate = 0.01

[metrics]
every_steps = 1

[[data.valid]]
name = "first"
file = "first.tsv"

[[data.valid]]
file = "second.tsv"
"#;

fn train(workshop: &Workshop, run: &str, entries: &str, settings: &[&str]) -> Run {
    workshop.write("config.toml", format!("{CONFIG}{entries}"));
    workshop.train(&[&["--config", "config.toml", "--run", run][..], settings].concat())
}

const THREE: &str = r#"
[[data.train]]
file = "a-*.tsv"

[[data.train]]
name = "synthetic"
file = "b.tsv"
tag = "<bt>"
weight = 0.5

[[data.train]]
file = "c.tsv"
weight = 2
last_epoch = 2
"#;

/// 18 pairs, half of 12, and twice 6 pairs: 36 in each of the first two epochs, 24 in the third; in
/// batches of 8.
#[test]
fn corpora_are_mixed_by_weight_and_stage() {
    let workshop = workshop();
    let run = train(&workshop, "run", THREE, &[]).trained();
    run.logged(&[
        "mixture: a-*.tsv: 18 of 18 pairs in each epoch (50.0 %)",
        "mixture: synthetic: 6 of 12 pairs in each epoch (16.7 %)",
        "mixture: c.tsv: 12 of 6 pairs in each epoch (33.3 %)",
        "validation: first:",
        "    first: loss ",
        "    second.tsv: loss ",
    ]);
    let metrics = workshop.metrics("run");
    let updates = |epoch: u64| {
        let is_update = |r: &&serde_json::Value| r["kind"] == "training" && r["epoch"] == epoch;
        metrics.iter().filter(is_update).count()
    };
    assert_eq!([updates(1), updates(2), updates(3)], [5, 5, 3]);

    let validation = metrics.iter().rfind(|record| record["kind"] == "validation").unwrap();
    let sets = validation["sets"].as_array().unwrap();
    assert_eq!([&sets[0]["name"], &sets[1]["name"]], ["first", "second.tsv"]);
    for metric in ["loss", "accuracy", "bleu", "chrf", "exact_match"] {
        let of = |record: &serde_json::Value| record[metric].as_f64().unwrap();
        assert_eq!(of(validation), (of(&sets[0]) + of(&sets[1])) / 2.0, "{metric}");
    }
    assert_eq!(validation["samples"].as_array().unwrap().len(), 3);

    let bundle = Bundle::open(workshop.path("run")).unwrap();
    assert!(bundle.tokenizers.source.special_id("<bt>").is_some());
    let info = BundleInfo::read(&workshop.path("run")).unwrap();
    let corpora = info.provenance["corpora"].as_array().unwrap();
    let per_epoch: Vec<_> =
        corpora.iter().map(|corpus| corpus["pairs_per_epoch"].as_integer().unwrap()).collect();
    assert_eq!(per_epoch, [18, 6, 12]);
    assert_eq!(corpora[1]["tag"].as_str(), Some("<bt>"));

    // The second set alone ranks models.
    let run = train(&workshop, "second", THREE, &set(&["validation.best_set=second.tsv"]));
    run.trained();
    let metrics = workshop.metrics("second");
    let validation = metrics.iter().rfind(|record| record["kind"] == "validation").unwrap();
    assert_eq!(validation["loss"], validation["sets"][1]["loss"]);
}

#[test]
fn a_run_on_a_mixture_resumes_exactly() {
    let workshop = workshop();
    let settings = ["checkpoint.keep_last=100", "checkpoint.every=1 step", "validation.samples=1"];
    let arguments = [&NOISY[..], &set(&settings)].concat();
    train(&workshop, "whole", THREE, &arguments).trained();
    train(&workshop, "parts", THREE, &arguments).trained();
    for (step, position) in
        [(12, "epoch 2 and 2 batches"), (7, "epoch 1 and 2 batches"), (3, "epoch 0 and 3 batches")]
    {
        assert_same_from(&workshop, step, position);
    }
    workshop.append("c.tsv", "six six\totto 1\n");
    let resume = ["--resume", "parts", "--set", "train.epochs=4"];
    workshop.train(&resume).failed(1, &["the training data has changed"]);
}

/// A temperature of 2 gives √18 : √12 : √6 of 36 pairs.
#[test]
fn a_temperature_makes_corpora_more_equal() {
    let workshop = workshop();
    let entries = "[[data.train]]\nfile = \"a-*.tsv\"\n[[data.train]]\nfile = \"b.tsv\"\n\
                   [[data.train]]\nfile = \"c.tsv\"\n";
    let settings = set(&["data.temperature=2", "train.max_steps=1"]);
    train(&workshop, "run", entries, &settings).trained().logged(&[
        "a-*.tsv: 15 of 18 pairs in each epoch",
        "b.tsv: 12 of 12 pairs in each epoch",
        "c.tsv: 9 of 6 pairs in each epoch",
    ]);
}

/// One model of two directions: its bundle selects the language by a token, and so does validation.
#[test]
fn a_multilingual_model_is_trained_and_continued() {
    let workshop = workshop();
    let entries = r#"
[[data.train]]
file = "a-*.tsv"
source_language = "en"
target_language = "it"

[[data.train]]
file = "b.tsv"
source_language = "en"
target_language = "la"
tag = "<old>"
"#;
    let config = CONFIG
        .replace("file = \"first.tsv\"", "file = \"first.tsv\"\ntarget_language = \"it\"")
        .replace("file = \"second.tsv\"", "file = \"second.tsv\"\ntarget_language = \"la\"");
    let config = config + entries;
    let train = |run: &str, text: &str, settings: &[&str]| {
        workshop.write("config.toml", format!("{config}{text}"));
        workshop.train(&[&["--config", "config.toml", "--run", run][..], settings].concat())
    };
    let languages = ["data.source_language=en", "data.language_tokens=target-in-source"];
    train("run", "", &set(&languages[..1]))
        .failed(2, &["the target languages it, la need `language_tokens` = \"target-in-source\""]);
    train("run", "", &set(&languages)).trained();
    let info = BundleInfo::read(&workshop.path("run")).unwrap();
    let found = info.languages.unwrap();
    assert_eq!(found.target, ["it", "la"]);
    assert_eq!(found.source, ["en"]);
    let source = &info.tokenizers.source;
    assert!(source.special_id(">>it<<").is_some() && source.special_id(">>la<<").is_some());

    let resume = ["--resume", "run", "--set", "train.epochs=4"];
    workshop.train(&resume).trained();
    // The bundle's languages and special tokens are known to a run that continues it.
    let from = ["--from", "run"];
    let settings = [&from[..], &set(&languages[..1])].concat();
    train("tuned", "", &settings).trained();
    let other = config.replace("<old>", "<new>");
    workshop.write("config.toml", other);
    let run = workshop.train(&[&["--config", "config.toml", "--run", "x"][..], &settings].concat());
    run.failed(2, &["`tag` = \"<new>\" is no special token of the bundle"]);
}

#[test]
fn lists_of_corpora_are_checked() {
    let workshop = workshop();
    let run = train(&workshop, "x", "[[data.train]]\nfile = \"z-*.tsv\"\n", &[]);
    run.failed(1, &["`z-*.tsv`: no file matches"]);
    let entry = "[[data.train]]\nsource = \"a-*.tsv\"\ntarget = \"b.tsv\"\n";
    train(&workshop, "x", entry, &[]).failed(1, &["it names 2 files, and `b.tsv` names 1"]);
    let settings = set(&["data.train_file=b.tsv", "validation.best_set=firs", "train.epochs=1"]);
    let entry = "[[data.train]]\nweight = 0\nfile = \"b.tsv\"\nfirst_epoch = 2\n";
    train(&workshop, "x", entry, &settings).failed(
        2,
        &[
            "[data] `train` 1: `weight` = 0 must be more than 0",
            "[data] `train_file` is not available with a list of `train` entries",
            "[data] no entry of `train` has pairs for epoch 1",
            "`best_set` = \"firs\" is no name of a `[[data.valid]]` (did you mean \"first\"?)",
        ],
    );
    let run = train(&workshop, "x", "[[data.train]]\nfile = \"b.tsv\"\nweigth = 2\n", &[]);
    run.failed(2, &["unknown field `weigth`", "did you mean `weight`?"]);
}

const PREPARED: &str = r#"
[[data.train]]
prepared = "shards"

[[data.train]]
file = "b.tsv"
tag = "<bt>"
weight = 0.5
"#;

/// A prepared corpus in a mixture gives the pairs that its files give, with its tokenizers, and with a
/// tag. A run on both resumes exactly.
#[test]
fn prepared_corpora_are_entries_of_a_mixture() {
    let workshop = workshop();
    // The prepared corpus has the words of both entries.
    let words = lines(["four", "five", "six"], "quattro", 12);
    workshop.write("a-3.tsv", words);
    let prepare = |folder: &str, settings: &[&str]| {
        workshop.write("prepare.toml", CONFIG.split("[[data.valid]]").next().unwrap());
        let start = ["data", "prepare", "--config", "prepare.toml", "--output", folder];
        let files = ["--file", "a-*.tsv", "--valid-file", "first.tsv"];
        workshop.train(&[&start[..], &files, settings].concat()).trained();
    };
    prepare("shards", &[]);
    train(&workshop, "from-disk", PREPARED, &[]).trained().logged(&[
        "shards: cleaning: 30 pairs in, 30 out\n",
        "training: shards: 30 pairs",
        "mixture: shards: 30 of 30 pairs in each epoch",
    ]);
    let files = PREPARED.replace("prepared = \"shards\"", "file = \"a-*.tsv\"");
    let vocabulary = ["--set", "tokenizer.file=shards/tokenizers/source.tokenizer.json"];
    train(&workshop, "from-files", &files, &vocabulary).trained();
    assert!(workshop.weights("from-disk") == workshop.weights("from-files"), "the weights differ");

    // The tag of a prepared corpus.
    let tagged = |entry: &str| PREPARED.replace("prepared = \"shards\"", entry);
    let disk = tagged("prepared = \"shards\"\ntag = \"<x>\"");
    let every = set(&["checkpoint.keep_last=100", "checkpoint.every=1 step"]);
    train(&workshop, "whole", &disk, &every).trained();
    let files = tagged("file = \"a-*.tsv\"\ntag = \"<x>\"");
    train(&workshop, "tagged", &files, &[&every[..], &vocabulary].concat()).trained();
    assert!(workshop.weights("whole") == workshop.weights("tagged"), "the weights differ");
    assert!(workshop.weights("whole") != workshop.weights("from-disk"));
    train(&workshop, "parts", &disk, &every).trained();
    assert_same_from(&workshop, 7, "epoch 1 and 2 batches");

    // A second prepared corpus with the tokenizers of the first.
    prepare("imported", &vocabulary);
    let both = PREPARED.replace("file = \"b.tsv\"", "prepared = \"imported\"");
    train(&workshop, "two", &both, &[]).trained().logged(&["mixture: imported: 15 of 30 pairs"]);

    // Other tokenizers, and a folder that does not exist.
    prepare("frequent", &["--set", "tokenizer.min_frequency=9"]);
    let both = PREPARED.replace("file = \"b.tsv\"", "prepared = \"frequent\"");
    let run = train(&workshop, "both", &both, &[]);
    run.failed(2, &["the vocabulary of the prepared corpus \"frequent\" differs"]);
    let run = train(&workshop, "changed", PREPARED, &["--set", "tokenizer.min_frequency=2"]);
    run.failed(1, &["is stale: `tokenizer.min_frequency` is 2 now, was 1"]);
    let none = PREPARED.replace("\"shards\"", "\"none\"");
    train(&workshop, "none", &none, &[])
        .failed(2, &["`prepared` = \"none\" is no prepared corpus"]);
}
