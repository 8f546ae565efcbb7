use serde_json::Value;
use tempfile::tempdir;
use tx_eval::{Chrf, Metric, NgramMetric};
use tx_infer::{
    Device, Generator, Mbr, PseudoReferences, Sampling, SearchOptions, mbr::DEFAULT_SCALE,
};

use crate::{cli::tasks::path, file, model, run, translate, translator};

const LINES: &str = "one two three\n\nseven\nsix five four three two one\n";

fn mbr(references: PseudoReferences, n_best: usize) -> Mbr {
    Mbr { utility: NgramMetric::from(Chrf::default()), references, n_best }
}

/// Each form of minimum Bayes risk with its options in the library.
#[test]
fn minimum_bayes_risk_chooses_as_the_library() {
    let lines: Vec<&str> = LINES.lines().collect();
    let own = |scale| PseudoReferences::Candidates { scale };
    let six = || SearchOptions { beam: 6, n_best: 6, ..SearchOptions::default() };
    let sampling = Sampling { samples: 9, seed: 3, top_p: 0.9, ..Sampling::default() };
    let cases = [
        ("--mbr chrf --mbr-candidates 6 --json --n-best 3", six(), mbr(own(DEFAULT_SCALE), 3)),
        ("--mbr chrf --beam 6 --mbr-scale 0 --json", six(), mbr(own(0.0), 1)),
        (
            "--mbr chrf --mbr-candidates 6 --mbr-samples 9 --seed 3 --top-p 0.9 --json --n-best 2",
            six(),
            mbr(PseudoReferences::Samples(sampling), 2),
        ),
        (
            "--mbr chrf --sample --samples 9 --seed 3 --top-p 0.9 --json --n-best 2",
            SearchOptions::sampling(sampling),
            mbr(own(DEFAULT_SCALE), 2),
        ),
    ];
    for (arguments, search, mbr) in cases {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let expected = translator(search).with_mbr(mbr).unwrap().translate_batch(&lines).unwrap();
        let printed = translate(&arguments, LINES).printed();
        assert_eq!(printed.lines().count(), lines.len());
        for (line, expected) in printed.lines().zip(expected) {
            let object: Value = serde_json::from_str(line).unwrap();
            assert_eq!(object["text"], *expected.text, "{arguments:?}");
            let found = object["translations"].as_array().unwrap();
            assert!(found.len() == expected.hypotheses.len() && found.len() <= mbr.n_best);
            for (found, expected) in found.iter().zip(expected.hypotheses) {
                assert_eq!(found["text"], *expected.text);
                // Read by the same parser, which does not round to the nearest number.
                let expected = serde_json::to_string(&expected.expected_utility).unwrap();
                let expected: Value = serde_json::from_str(&expected).unwrap();
                assert_eq!(found["expected_utility"], expected);
            }
        }
        // The same for a line, in text.
        let plain: Vec<&str> = arguments.iter().copied().filter(|it| *it != "--json").collect();
        let first = translate(&plain, "one two three\n").printed();
        assert!(plain.contains(&"--n-best") == first.contains("|||"), "{first}");
    }
}

#[test]
fn contradictions_of_minimum_bayes_risk_are_refused() {
    for (arguments, words) in [
        ("--mbr-candidates 3", &["--mbr"][..]),
        ("--mbr ter", &["chrf", "bleu"]),
        ("--mbr chrf --mbr-candidates 0", &["--mbr-candidates"]),
        ("--mbr chrf --mbr-candidates 3 --n-best 9", &["`n_best` = 9", "candidates, 3"]),
        ("--mbr chrf --sample --mbr-samples 3", &["--sample", "--mbr-samples"]),
        ("--mbr chrf --mbr-samples 0", &["`samples` = 0"]),
        ("--mbr chrf --mbr-samples 3 --mbr-scale 1", &["--mbr-samples", "--mbr-scale"]),
        ("--mbr chrf --mbr-scale -1", &["`scale` = -1"]),
    ] {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        translate(&arguments, "one\n").failed(2, words);
    }
}

/// The reverse model of a model with random weights is itself.
#[test]
fn weights_are_tuned_and_applied() {
    let folder = tempdir().unwrap();
    let list = translate(&["--beam", "6", "--n-best", "6"], LINES).printed();
    let list = file(&folder, "list", list);
    let source = file(&folder, "source", LINES);
    let reference = file(&folder, "reference", "one one two\n\nfour\nsix five one\n");
    let arguments =
        ["rerank", "features", "--list", &list, "--source", &source, "--reverse", model()];
    let features = run(&arguments, "").printed();
    assert!(
        features.lines().all(|line| line.contains(" reverse= -") && line.contains("logprob= "))
    );
    let features = file(&folder, "features", features);

    let weights = file(&folder, "weights.toml", "");
    let tuned = run(
        &[
            "rerank",
            "tune",
            "--list",
            &features,
            "--reference",
            &reference,
            "--metric",
            "chrf",
            "--output",
            &weights,
        ],
        "",
    );
    assert_eq!((tuned.code, &*tuned.stdout), (Some(0), ""), "{}", tuned.stderr);
    assert!(tuned.stderr.contains("chrF2 of 4 sentences: "), "{}", tuned.stderr);
    let apply = ["rerank", "apply", "--list", &features, "--weights", &weights];
    let best = run(&apply, "").printed();
    let lines: Vec<&str> = best.lines().collect();
    let references = ["one one two", "", "four", "six five one"];
    let score = Chrf::default().corpus_score(&lines, &[references]).unwrap().score;
    assert!(tuned.stderr.contains(&format!("{score:.2} after")), "{score} {}", tuned.stderr);
    let text = std::fs::read_to_string(&weights).unwrap();
    assert!(text.contains("metric = \"chrF2|nrefs:1") && text.contains("reverse = "), "{text}");
    assert_eq!(Chrf::default().name(), "chrF2");

    let first = run(&[&apply[..], &["--n-best", "2"]].concat(), "").printed();
    assert_eq!(first.lines().count(), 7, "{first}");
    let only = file(&folder, "only.toml", "[weights]\nscore = 1.0\n");
    let same = run(&["rerank", "apply", "--list", &features, "--weights", &only], "").printed();
    assert_eq!(same, translate(&["--beam", "6"], LINES).printed());

    for (arguments, words) in [
        (vec!["rerank", "features", "--list", &list], &["--reverse", "--language-model"][..]),
        (vec!["rerank", "features", "--list", &list, "--reverse", model()], &["--source"]),
    ] {
        run(&arguments, "").failed(2, words);
    }
    run(&["rerank", "apply", "--list", &list, "--weights", &weights], "")
        .failed(1, &["no feature `reverse`"]);
    run(&["rerank", "apply", "--list", &source, "--weights", &weights], "")
        .failed(1, &["line 1 of the n-best list", "expected `NUMBER"]);
    let short = file(&folder, "short", "one\n");
    run(&["rerank", "tune", "--list", &features, "--reference", &short, "--output", &weights], "")
        .failed(1, &["4 sentences, but a reference 1"]);
}

/// The feature is the mean log-probability of the tokens of a hypothesis, as `Generator::score` computes
/// it; without the feature of a reverse model, no source is needed.
#[test]
fn a_language_model_scores_hypotheses() {
    let folder = tempdir().unwrap();
    let texts = ["one two", "seven", "three four five"];
    let list =
        "0 ||| one two ||| ||| -1\n0 ||| seven ||| ||| -2\n1 ||| three four five ||| ||| -1\n";
    let list = file(&folder, "list", list);
    let language_model = path("generate");
    let arguments = ["rerank", "features", "--list", &list, "--language-model", &language_model];
    let features = run(&arguments, "").printed();
    let expected = Generator::open(&language_model, &Device::Cpu).unwrap();
    let expected = expected.score(&texts, 0).unwrap();
    assert_eq!(features.lines().count(), texts.len());
    for (line, expected) in features.lines().zip(expected) {
        let fields: Vec<&str> = line.split(" ||| ").collect();
        let (name, value) = fields[2].split_once("= ").unwrap();
        assert_eq!(name.trim(), "lm");
        let value: f64 = value.trim().parse().unwrap();
        let mean = expected.log_probability() / expected.ids.len() as f64;
        assert!((value - mean).abs() < 1e-5, "{value} {mean}: {line}");
    }
    // The list with its features can be ranked by the language model alone.
    let features = file(&folder, "features", features);
    let weights = file(&folder, "lm.toml", "[weights]\nlm = 1.0\n");
    let best = run(&["rerank", "apply", "--list", &features, "--weights", &weights], "").printed();
    assert_eq!(best.lines().count(), 2, "{best}");
    run(&["rerank", "features", "--list", &list, "--language-model", model()], "")
        .failed(1, &["for the task `translate`"]);
}
