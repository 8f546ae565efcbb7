use std::{collections::BTreeMap, fs};

use serde_json::Value;
use tx_infer::{
    Bundle, EarlyStopping, ModelTask, SearchOptions,
    bundle::{LanguagePlacement, Languages, NewBundle, NewWeight},
};
use tx_train::tx_text::{Tokenizer, Tokenizers};

use crate::{
    FILES, Workshop,
    cli::{
        resuming::{NOISY, assert_same, assert_same_from},
        training::weights,
    },
    set,
};

/// One update too small to change a weight that is not 0.
const ALMOST_NO_UPDATE: [&str; 2] = ["train.max_steps=1", "train.learning_rate=1e-30"];

/// Settings of a run of four batches an epoch that continues `base`.
const TUNED: [&str; 8] = [
    "train.epochs=2",
    "train.batch={ sentences = 8 }",
    "train.schedule=constant",
    "train.warmup_steps=0",
    "train.learning_rate=0.01",
    "validation.samples=1",
    "validation.best_by=loss",
    "metrics.every_steps=1",
];

/// Targets of LoRA in both stacks.
const LORA: &str = r#"train.lora={ rank = 2, targets = ["query", "feed_forward.outer"] }"#;

/// Folder with a bundle `base`, and a corpus of other pairs in `new.tsv` and `old.tsv`.
fn workshop() -> Workshop {
    let workshop = Workshop::new();
    workshop.train_tiny("base", &[]).trained();
    let lines = |words: [&str; 3]| {
        let pair = |i: usize| format!("{} {}\tuno {}\n", words[i % 3], words[i / 3], i % 7);
        (0..9).map(pair).collect::<String>()
    };
    workshop.write("new.tsv", lines(["one", "two", "three"]));
    workshop.write("old.tsv", lines(["four", "five", "six"]));
    workshop
}

/// Continues `base` into `run`.
fn tune(workshop: &Workshop, run: &str, settings: &[&str]) -> crate::Run {
    tune_from(workshop, "base", run, settings)
}

fn tune_from(workshop: &Workshop, from: &str, run: &str, settings: &[&str]) -> crate::Run {
    let arguments = [&FILES[..], &["--from", from, "--run", run], &set(&TUNED)].concat();
    workshop.train(&[&arguments[..], settings].concat())
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn a_run_continues_a_bundle() {
    let workshop = workshop();
    let run = tune(&workshop, "tuned", &set(&ALMOST_NO_UPDATE)).trained();
    let names = weights(&workshop.path("base")).len();
    run.logged(&[
        &format!("taken from base: all {names} weights\n"),
        "vocabulary: 16 source and 16 target tokens\n",
    ]);
    let [base, tuned] = ["base", "tuned"].map(|name| weights(&workshop.path(name)));
    assert_eq!(base.len(), tuned.len());
    for (name, before) in &base {
        for (before, after) in before.iter().zip(&tuned[name]) {
            assert!((before - after).abs() <= 1e-29, "{name}: {before} and {after}");
        }
    }
    for file in ["source.tokenizer.json", "target.tokenizer.json", "config.toml"] {
        let read = |run: &str| fs::read(workshop.path(run).join(file)).unwrap();
        assert_eq!(read("base"), read("tuned"), "{file}");
    }

    // A third run has both bundles as ancestors.
    tune_from(&workshop, "tuned", "again", &set(&ALMOST_NO_UPDATE)).trained();
    let info = tx_infer::BundleInfo::read(&workshop.path("again")).unwrap();
    let parents = info.provenance["parents"].as_array().unwrap();
    let names: Vec<_> = parents.iter().map(|parent| parent["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["tuned", "base"]);
    let hash = |run: &str| {
        let info = tx_infer::BundleInfo::read(&workshop.path(run)).unwrap();
        info.files[0].sha256.clone()
    };
    for (parent, run) in parents.iter().zip(["tuned", "base"]) {
        assert_eq!(parent["sha256"].as_str(), Some(&*hash(run)));
        assert!(parent["validation"]["step"].is_integer(), "{parent:?}");
    }

    // A resumed run needs the other bundle no more, and keeps its ancestors.
    fs::remove_dir_all(workshop.path("base")).unwrap();
    fs::remove_dir_all(workshop.path("tuned")).unwrap();
    let settings = ["train.max_steps=30", "train.epochs=4", "train.learning_rate=0.01"];
    let run = workshop.train(&[&["--resume", "again"], &set(&settings)[..]].concat()).trained();
    run.logged(&["resuming after epoch 0 and 1 batches (update 1)"]);
    assert!(!run.stderr.contains("taken from"), "{}", run.stderr);
    let info = tx_infer::BundleInfo::read(&workshop.path("again")).unwrap();
    assert_eq!(info.provenance["parents"].as_array().unwrap().len(), 2);
    assert!(info.provenance["validation"]["step"].as_integer().unwrap() > 1);
}

#[test]
fn settings_of_another_model_are_refused_together_with_other_problems() {
    let workshop = workshop();
    let settings = set(&[
        "model.d_ff=64",
        "model.norm=post",
        "train.epochs=0",
        r#"train.freeze=["encodr"]"#,
        "task=classify",
        "data.replay.fraction=1.5",
    ]);
    tune(&workshop, "tuned", &settings).failed(
        2,
        &[
            "[model] `d_ff` = 64 differs from that of `from`: `base` has 16",
            "[model] `norm` = \"post\" differs from that of `from`: `base` has \"pre\"",
            "`task` = \"classify\" differs from that of `from`: `base` has \"translate\"",
            "[train] `epochs` must be at least 1",
            "[train] `freeze`: \"encodr\" selects no weight (did you mean \"encoder\"?)",
            "[data] `replay` needs `source` and `target`, or `file`",
            "[data] `replay.fraction` = 1.5 must be between 0 and 1",
        ],
    );
    assert!(!workshop.path("tuned").exists());
    // Equal values, dropout and initialization are accepted; keys of a recipe have no effect.
    let settings = [
        &["--recipe", "base"],
        &set(&["model.d_ff=16", "model.dropout.residual=0.3", "model.init=normal"])[..],
        &set(&ALMOST_NO_UPDATE),
    ];
    tune(&workshop, "tuned", &settings.concat()).trained();
    let config = fs::read_to_string(workshop.path("tuned/train.toml")).unwrap();
    assert!(config.contains("d_model = 16") && config.contains("residual = 0.3"), "{config}");
    // An unknown key is named.
    tune(&workshop, "x", &set(&["model.d_modl=16"])).failed(2, &["unknown field `d_modl`"]);
}

#[test]
fn a_bundle_that_is_missing_or_does_not_fit_is_refused() {
    let workshop = workshop();
    tune_from(&workshop, "no/bundle", "tuned", &[]).failed(1, &["no/bundle"]);
    fs::create_dir(workshop.path("empty")).unwrap();
    tune_from(&workshop, "empty", "tuned", &[]).failed(1, &["empty"]);
    let both = set(&["model.encoder_from=base"]);
    tune(&workshop, "tuned", &both).failed(2, &["`encoder_from` and `from` exclude each other"]);
    let prepared = set(&["data.prepared=folder"]);
    tune(&workshop, "tuned", &prepared).failed(2, &["`prepared` is not available with `from`"]);
    let config = "from = 3\n";
    workshop.write("number.toml", config);
    workshop.train(&["--config", "number.toml"]).failed(2, &["expected the folder of a bundle"]);
    let run = workshop.train(&["--resume", "base", "--from", "base"]);
    run.failed(2, &["--from", "--resume", "hint: `--step STEP` selects the checkpoint"]);
    let run = workshop.train(&["--resume", "base", "--set", "from=base"]);
    run.failed(2, &["`from`: a resumed run keeps the bundle that it started from"]);
}

/// A saved configuration names the hash of the weights.
#[test]
fn a_configuration_starts_from_the_same_weights_only() {
    let workshop = workshop();
    tune(&workshop, "tuned", &set(&ALMOST_NO_UPDATE)).trained();
    let config = ["--config", "tuned/train.toml", "--run"];
    workshop.train(&[&config[..], &["again"]].concat()).trained();
    assert!(workshop.weights("tuned") == workshop.weights("again"));
    tune(&workshop, "other", &set(&["train.max_steps=2"])).trained();
    fs::copy(workshop.path("other/model.safetensors"), workshop.path("base/model.safetensors"))
        .unwrap();
    let run = workshop.train(&[&config[..], &["third"]].concat());
    run.failed(2, &["the weights of `base` have changed since this configuration was written"]);
}

/// A file names the bundle with the key `from`.
#[test]
fn a_configuration_file_names_the_bundle() {
    let workshop = workshop();
    let file = "from = \"base\"\n[data]\ntrain_file = \"new.tsv\"\nvalid_share = 0.0\n[train]\n\
                max_steps = 1\n[model.dropout]\nembedding = 0.25\n";
    workshop.write("tune.toml", file);
    workshop.train(&["--config", "tune.toml", "--run", "tuned"]).trained();
    let config = fs::read_to_string(workshop.path("tuned/train.toml")).unwrap();
    assert!(config.contains("[from_bundle]\npath = \"base\"\nsha256 = "), "{config}");
    assert!(config.contains("d_model = 16") && config.contains("embedding = 0.25"), "{config}");
}

#[test]
fn frozen_weights_stay_bit_identical() {
    let workshop = workshop();
    let settings = [
        r#"train.freeze=["embeddings", "encoder", "decoder.layers.0.self_attention", "norms"]"#,
        "train.optimizer=adam-w",
        "train.weight_decay=0.1",
        "train.clip_norm=0.1",
    ];
    let run = tune(&workshop, "tuned", &[&NOISY[..], &set(&settings)].concat()).trained();
    let [base, tuned] = ["base", "tuned"].map(|name| weights(&workshop.path(name)));
    let is_frozen = |name: &str| {
        ["embedding", "encoder.", "decoder.layers.0.self_attention.", "norm."]
            .iter()
            .any(|part| name.contains(part))
    };
    let (mut frozen, mut all) = (0, 0);
    for (name, before) in &base {
        assert_eq!(bits(before) == bits(&tuned[name]), is_frozen(name), "{name}");
        frozen += usize::from(is_frozen(name)) * before.len();
        all += before.len();
    }
    let trained = all - frozen;
    run.logged(&[&format!("model: {all} parameters, {trained} trained (")]);
    // Also their average over checkpoints.
    workshop.train(&["average", "tuned", "--last", "1", "--output", "last"]).trained();
    let last = weights(&workshop.path("last"));
    for (name, before) in base.iter().filter(|(name, _)| is_frozen(name)) {
        assert_eq!(bits(before), bits(&last[name]), "{name}");
    }
    let info = tx_infer::BundleInfo::read(&workshop.path("tuned")).unwrap();
    assert_eq!(info.provenance["parameters"].as_integer(), Some(all as i64));
    assert_eq!(info.provenance["trained_parameters"].as_integer(), Some(trained as i64));
    let compared = workshop.train(&["compare", "base", "tuned"]);
    for words in ["trained parameters", &trained.to_string()] {
        assert!(compared.stdout.contains(words), "{}", compared.stdout);
    }
    let report = fs::read_to_string(workshop.path("tuned/report.html")).unwrap();
    assert!(report.contains(&format!("{trained} of {all} parameters trained")), "no count");
}

#[test]
fn a_bundle_contains_the_sum_of_weights_and_lora() {
    let workshop = workshop();
    let settings = [LORA, "train.epochs=3", "checkpoint.every=1 epoch", "checkpoint.keep_last=3"];
    tune(&workshop, "tuned", &set(&settings)).trained();
    let [base, tuned] = ["base", "tuned"].map(|name| weights(&workshop.path(name)));
    let names = |weights: &BTreeMap<String, Vec<f32>>| weights.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&base), names(&tuned));
    let mut adapted = 0;
    for (name, before) in &base {
        let is_adapted = ["query.weight", "feed_forward.outer.weight"]
            .iter()
            .any(|target| name.ends_with(target));
        assert_eq!(bits(before) != bits(&tuned[name]), is_adapted, "{name}");
        adapted += usize::from(is_adapted);
    }
    assert_eq!(adapted, 5);
    // The last of the checkpoints is the best model, unless the loss rose again.
    workshop.train(&["average", "tuned", "--last", "1", "--output", "last"]).trained();
    let last = weights(&workshop.path("last"));
    assert_eq!(names(&base), names(&last));
    assert!(workshop.weights("last") == workshop.weights("tuned"));
    workshop.train(&["average", "tuned", "--last", "2", "--output", "mean"]).trained();
    let run = workshop.train(&["--resume", "tuned", "--set", "train.lora.rank=4"]);
    run.failed(1, &["checkpoint `"]);
}

/// Settings of each kind of fine-tuning.
fn kinds() -> Vec<Vec<&'static str>> {
    let freeze = r#"train.freeze=["embeddings", "encoder"]"#;
    let rates = r#"train.learning_rates=[{ weights = "encoder", factor = 0.1 }]"#;
    vec![
        set(&[freeze, rates.replace("encoder", "decoder").leak(), "train.weight_decay=0.1"]),
        set(&[LORA, rates]),
        [&["--replay", "old.tsv"], &set(&["data.replay.fraction=0.3"])[..]].concat(),
    ]
}

/// Resumes from checkpoints before, at and after a validation, and at the end of an epoch.
#[test]
fn a_fine_tuned_run_resumes_exactly_from_any_checkpoint() {
    for kind in kinds() {
        let workshop = workshop();
        let settings = [
            "train.epochs=3",
            "validation.every_steps=3",
            "checkpoint.keep_last=100",
            "checkpoint.every=1 step",
        ];
        let arguments = [&NOISY[..], &set(&settings), &kind].concat();
        tune(&workshop, "whole", &arguments).trained();
        tune(&workshop, "parts", &arguments).trained();
        fs::remove_dir_all(workshop.path("base")).unwrap();
        let steps = crate::cli::resuming::saved(&workshop.path("whole")).unwrap().0;
        let epoch = steps / 3;
        for step in [steps - 1, 2 * epoch, epoch + 2, 2] {
            let (before, batches) = ((step - 1) / epoch, (step - 1) % epoch + 1);
            assert_same_from(&workshop, step, &format!("epoch {before} and {batches} batches"));
        }
    }
}

#[test]
fn a_share_of_each_epoch_is_replayed() {
    let workshop = workshop();
    // 33 training pairs, as a tenth is held out, and 9 old ones.
    let settings = [&["--replay", "old.tsv"], &set(&["data.replay.fraction=0.2"])[..]].concat();
    let run = tune(&workshop, "tuned", &settings).trained();
    run.logged(&["; each epoch has 8 of them and "]);
    let others: usize = {
        let line = run.stderr.lines().find(|line| line.contains("each epoch has 8")).unwrap();
        line.split("and ").last().unwrap().split(' ').next().unwrap().parse().unwrap()
    };
    run.logged(&[&format!("({:.1} %)", 800.0 / (8 + others) as f64)]);
    let updates = workshop.metrics("tuned").iter().filter(|r| r["kind"] == "training").count();
    assert_eq!(updates, 2 * (8 + others).div_ceil(8));
    let info = tx_infer::BundleInfo::read(&workshop.path("tuned")).unwrap();
    assert_eq!(info.provenance["replay_pairs"].as_integer(), Some(9));
    assert_eq!(info.provenance["replay_pairs_per_epoch"].as_integer(), Some(8));

    workshop.append("old.tsv", "one five\tuno cinque\n");
    let resume = ["--resume", "tuned", "--set", "train.epochs=3"];
    workshop.train(&resume).failed(1, &["the training data has changed", "replay: 10 pairs"]);
    workshop.write("old.tsv", "");
    tune(&workshop, "x", &settings).failed(1, &["`old.tsv` is empty"]);
    let missing = ["--replay", "missing.tsv"];
    tune(&workshop, "x", &missing).failed(1, &["missing.tsv"]);
    let sides = ["--replay", "source.txt", "target.txt.gz"];
    tune(&workshop, "sides", &[&sides[..], &set(&ALMOST_NO_UPDATE)].concat()).trained();
}

#[test]
fn any_task_is_continued() {
    for task in crate::TASKS {
        let workshop = Workshop::new();
        workshop.train_task(task, "base", &set(&["model.positions=learned"])).trained();
        let file = if task == "classify" { "--file" } else { "--source" };
        let data = if task == "classify" { "labeled.tsv" } else { "text.txt" };
        let arguments = ["--from", "base", file, data, "--run"];
        let settings = [&set(&TUNED)[..], &set(&[LORA])].concat();
        let train = |run: &str, more: &[&str]| {
            workshop.train(&[&arguments[..], &[run], &settings, more].concat())
        };
        train("tuned", &[]).trained().logged(&["taken from base: all "]);
        let [base, tuned] = ["base", "tuned"].map(|run| weights(&workshop.path(run)));
        let changed = base.iter().filter(|(name, before)| bits(before) != bits(&tuned[*name]));
        // Query and feed-forward layer of each layer.
        assert_eq!(changed.count() % 2, 0);
        train("replayed", &["--replay", "text.txt"])
            .failed(2, &[&format!("`replay` is not available for the task \"{task}\"")]);
        train("other", &["--recipe", "reverse", "--set", "task=translate"])
            .failed(2, &[&format!("`base` has \"{task}\"")]);
    }
}

/// Other labels have an output layer of their own.
#[test]
fn a_classifier_continues_with_other_labels() {
    let workshop = Workshop::new();
    workshop.train_task("classify", "base", &set(&["classification.pooling=first"])).trained();
    let other = fs::read_to_string(workshop.path("labeled.tsv")).unwrap().replace("equal", "same");
    workshop.write("other.tsv", other);
    let arguments = ["--from", "base", "--file", "other.tsv", "--run", "tuned"];
    let run = workshop.train(&[&arguments[..], &set(&TUNED)].concat()).trained();
    run.logged(&["initialized: output.bias, output.weight\n"]);
    let info = tx_infer::BundleInfo::read(&workshop.path("tuned")).unwrap();
    assert_eq!(info.labels(), ["reversed", "same", "sorted"]);
    let mean = [&arguments[..], &set(&["classification.pooling=mean"])].concat();
    workshop.train(&mean).failed(
        2,
        &["[classification] `pooling` = \"mean\" differs from that of `from`: `base` has \"first\""],
    );
}

/// The premise of the other tests: fine-tuning continues at the loss of the bundle.
#[test]
fn a_continued_run_starts_at_the_loss_of_the_bundle() {
    let workshop = workshop();
    let settings = set(&["validation.every_steps=1", "train.learning_rate=1e-30"]);
    tune(&workshop, "tuned", &settings).trained();
    let loss = |run: &str, is_best: bool| {
        let records = workshop.metrics(run);
        let mut found = records.iter().filter(|record| {
            record["kind"] == "validation" && (!is_best || record["best"] == true)
        });
        let record = if is_best { found.next_back() } else { found.next() };
        record.unwrap()["loss"].as_f64().unwrap()
    };
    assert!((loss("base", true) - loss("tuned", false)).abs() < 1e-9);
}

/// Writes the bundle `many`: that of `base`, with the languages `deu` and `ita`, whose tokens use ids
/// that no token had.
fn add_languages(workshop: &Workshop) {
    let base = Bundle::open(workshop.path("base")).unwrap();
    let with_tokens = |tokenizer: &Tokenizer| {
        let mut json: Value = serde_json::from_str(&tokenizer.to_json().unwrap()).unwrap();
        let ids = tokenizer.vocab_size()..;
        let tokens = [">>deu<<", ">>ita<<"].iter().zip(ids).map(|(token, id)| {
            serde_json::json!({
                "id": id, "content": token, "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false, "special": true,
            })
        });
        json["added_tokens"].as_array_mut().unwrap().extend(tokens);
        Tokenizer::from_json(json.to_string().as_bytes(), "a.json".as_ref()).unwrap()
    };
    let weight = |name: &str| {
        let (shape, values) = base.weight(name).unwrap();
        let (shape, values) = (shape.to_vec(), values.into_owned());
        NewWeight { name: name.to_owned(), shape, values: Box::new(move || values.clone()) }
    };
    let many = NewBundle {
        task: ModelTask::Translate,
        config: base.config.clone(),
        tokenizers: Tokenizers {
            source: with_tokens(&base.tokenizers.source),
            target: base.tokenizers.target.clone(),
        },
        languages: Some(Languages {
            placement: LanguagePlacement::TargetInSource,
            token: ">>{}<<".into(),
            source: Vec::new(),
            target: ["deu", "ita"].map(str::to_owned).to_vec(),
            default_source: None,
            default_target: None,
        }),
        context: 0,
        // Those of an imported model, which greedy search in validation does not have.
        search: Some(SearchOptions {
            beam: 3,
            early_stopping: EarlyStopping::Improvement,
            ..SearchOptions::default()
        }),
        provenance: base.provenance.clone(),
        weights: base.weight_names().map(weight).collect(),
    };
    many.save(&workshop.path("many")).unwrap();
}

#[test]
fn a_multilingual_bundle_is_continued_for_one_language() {
    let workshop = Workshop::new();
    let settings = ["model.tying=none", "tokenizer.joint=false", "model.vocab_multiple=32"];
    workshop.train_tiny("base", &set(&settings)).trained();
    add_languages(&workshop);
    tune_from(&workshop, "many", "tuned", &set(&["train.epochs=0", "train.word_dropout=0.1"]))
        .failed(
            2,
            &[
                "[data] `target_language` is needed, because the bundle has deu, ita",
                "[train] `word_dropout` is not available for a bundle with several languages",
                "[train] `epochs` must be at least 1",
            ],
        );
    tune_from(&workshop, "many", "tuned", &set(&["data.target_language=it"])).failed(
        2,
        &["`target_language` = \"it\" is no language of the bundle (did you mean \"ita\"?)"],
    );
    let italian = set(&["data.target_language=ita", "validation.every_steps=3"]);
    tune_from(&workshop, "many", "tuned", &italian).trained();
    let [many, tuned] = ["many", "tuned"].map(|name| Bundle::open(workshop.path(name)).unwrap());
    assert_eq!(tuned.languages, many.languages);
    assert_eq!(tuned.search, many.search);
    // Of the two tokens, only that of the language was in the data.
    let row = |bundle: &Bundle, token: &str| {
        let id = bundle.tokenizers.source.special_id(token).unwrap() as usize;
        let (shape, values) = bundle.weight("source_embedding.weight").unwrap();
        bits(&values[id * shape[1]..(id + 1) * shape[1]])
    };
    assert_eq!(row(&many, ">>deu<<"), row(&tuned, ">>deu<<"));
    assert_ne!(row(&many, ">>ita<<"), row(&tuned, ">>ita<<"));

    // A resumed run takes the languages from its own folder.
    let stop = [&italian[..], &set(&["train.max_steps=3"])].concat();
    tune_from(&workshop, "many", "parts", &stop).trained();
    fs::remove_dir_all(workshop.path("many")).unwrap();
    workshop.train(&["--resume", "parts", "--set", "train.max_steps=1000"]).trained();
    assert_same(&workshop, "tuned", "parts");
}
