use tx_infer::{
    Aligner, AlignmentOptions, Bundle, Device, Tokens, Translator, tx_text::SentencePair,
};

use crate::{
    FILES, Workshop,
    cli::resuming::{NOISY, assert_same},
    corpus, set,
};

/// Settings that overfit the pairs and validate on them.
const OVERFIT: [&str; 4] = [
    "train.epochs=30",
    "data.valid_share=0",
    "model.dropout={ embedding = 0.0, residual = 0.0 }",
    "train.label_smoothing=0",
];

/// The 36 pairs of two words.
fn pairs() -> Vec<SentencePair> {
    let (source, target) = corpus();
    source
        .lines()
        .zip(target.lines())
        .map(|(source, target)| SentencePair::new(source, target))
        .collect()
}

/// The links are those of the other word, which no model finds without them.
#[test]
fn a_model_learns_the_given_alignments() {
    let workshop = Workshop::new();
    workshop.write("crossed.align", "0-1 1-0\n".repeat(36));
    let settings = ["data.alignments=crossed.align", "train.guided_alignment={ weight = 2.0 }"];
    let run = workshop.train_tiny("run", &set(&[&OVERFIT[..], &settings].concat())).trained();
    run.logged(&["annotations: 36 of 36 pairs with links, mean weight 1.000"]);
    let bundle = Bundle::open(workshop.path("run")).unwrap();
    let layers = bundle.search.as_ref().and_then(|search| search.attention_layer);
    assert_eq!((layers, bundle.alignment_layer()), (Some(1), 0));
    let aligner = Aligner::new(bundle.engine(&Device::Cpu).unwrap(), AlignmentOptions::default());
    let tokens = |pair: &SentencePair| {
        let source = Tokens::of_source(&bundle.tokenizers.source, &pair.source, 16).unwrap();
        (source, Tokens::of_target(&bundle.tokenizers.target, &pair.target, 16).unwrap())
    };
    let pairs: Vec<_> = pairs().iter().map(tokens).collect();
    for alignment in aligner.align(&pairs) {
        assert_eq!(alignment.pharaoh(), "0-1 1-0");
    }
}

/// Each source has two translations, the second with weight 0.
#[test]
fn a_pair_with_weight_0_is_not_learned() {
    let workshop = Workshop::new();
    let line =
        |pair: &SentencePair| format!("{}\t{}\n{}\tno no\n", pair.source, pair.target, pair.source);
    workshop.write("pairs.tsv", pairs().iter().map(line).collect::<String>());
    workshop.write("pairs.weights", "1\n0\n".repeat(36));
    let settings = ["data.pair_weights=pairs.weights", "train.r_drop=0.5"];
    let settings = set(&[&OVERFIT[..], &settings].concat());
    let valid = ["--valid-source", "source.txt", "--valid-target", "target.txt.gz"];
    let files = [&["--file", "pairs.tsv"], &valid[..]].concat();
    let run = workshop.train_tiny_on(&files, "run", &settings).trained();
    run.logged(&["annotations: 0 of 72 pairs with links, mean weight 0.500"]);
    let translator = Translator::open(workshop.path("run"), &Device::Cpu).unwrap();
    for SentencePair { source, target, .. } in pairs() {
        assert_eq!(translator.translate(&source).unwrap().text, target);
    }
}

/// With dropout, in one corpus and in a list; other links are another corpus.
#[test]
fn a_run_with_weights_and_links_resumes_exactly() {
    let workshop = Workshop::new();
    workshop.write("pairs.align", "0-0 1-1\n".repeat(36));
    workshop.write("pairs.weights", "0.5\n1\n2\n".repeat(12));
    let entry = "data.train=[{ source = \"source.txt\", target = \"target.txt.gz\", \
                 alignments = \"pairs.align\", pair_weights = \"pairs.weights\" }]";
    let valid = "data.valid=[{ source = \"source.txt\", target = \"target.txt.gz\" }]";
    let plain = ["data.alignments=pairs.align", "data.pair_weights=pairs.weights"];
    for (files, keys) in [(&FILES[..], plain), (&["--recipe", "small"], [entry, valid])] {
        let [whole, parts] = ["whole", "parts"].map(|run| format!("{run}-{}", files.len()));
        let settings = [&keys[..], &["train.guided_alignment={ layer = 1 }"]].concat();
        let settings = [&set(&settings)[..], &NOISY].concat();
        workshop.train_tiny_on(files, &whole, &settings).trained();
        let stop = set(&["train.max_steps=6"]);
        workshop.train_tiny_on(files, &parts, &[&settings[..], &stop].concat()).trained();
        workshop.train(&["--resume", &parts, "--set", "train.max_steps=1000"]).trained();
        assert_same(&workshop, &whole, &parts);
    }
    workshop.write("pairs.align", "0-0 1-0\n".repeat(36));
    let resume = ["--resume", "whole-4", "--set", "train.epochs=3"];
    workshop.train(&resume).failed(1, &["the training data has changed"]);
}

#[test]
fn problems_with_the_files_name_the_line() {
    let workshop = Workshop::new();
    workshop.write("short.weights", "1\n".repeat(35));
    workshop.write("long.weights", "1\n".repeat(37));
    workshop.write("bad.weights", format!("{}one\n", "1\n".repeat(35)));
    workshop.write("far.align", format!("0-0\n1-2\n{}", "\n".repeat(34)));
    let guided = "train.guided_alignment={}";
    for (settings, expected) in [
        (&["data.pair_weights=short.weights"][..], "`short.weights` has 35 lines, fewer than"),
        (
            &["data.pair_weights=long.weights"],
            "`long.weights` has 37 lines, and the corpus has 36 pairs",
        ),
        (
            &["data.pair_weights=bad.weights"],
            "`bad.weights` line 36: found `one`, expected a number",
        ),
        (&["data.pair_weights=none.weights"], "cannot read `none.weights`"),
        (
            &["data.alignments=far.align", guided],
            "`far.align` line 2: the link `1-2` exceeds the pair",
        ),
    ] {
        workshop.train_tiny("run", &set(settings)).failed(1, &[expected]);
    }
    let settings = set(&["data.alignments=far.align"]);
    let expected = "[data] `alignments` needs `train.guided_alignment`";
    workshop.train_tiny("run", &settings).failed(2, &[expected]);
}
