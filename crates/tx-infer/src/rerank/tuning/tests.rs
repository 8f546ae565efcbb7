use tx_eval::{Bleu, Chrf, Ter};

use super::*;

fn list(lines: &[&str]) -> NBestList {
    NBestList::parse(lines.iter().map(|line| Ok::<_, InferError>((*line).to_owned()))).unwrap()
}

/// Lines `-x`, `1` and `x`, and `x / 2 + 0.4`, which is below them: `-x = 1` at -1, `1 = x` at 1.
#[test]
fn an_envelope_has_the_largest_line_of_each_point() {
    let piece = |from, line| Piece { from, line };
    let lines = vec![(0.0, 1.0, 0), (1.0, 0.0, 1), (-1.0, 0.0, 2), (0.5, 0.4, 3)];
    assert_eq!(upper_envelope(lines), [piece(f64::NEG_INFINITY, 2), piece(-1.0, 0), piece(1.0, 1)]);
    // Equal and parallel lines.
    let lines = vec![(1.0, 0.0, 5), (1.0, 2.0, 4), (1.0, 2.0, 3)];
    assert_eq!(upper_envelope(lines), [piece(f64::NEG_INFINITY, 3)]);
    // Three lines through one point.
    let lines = vec![(-1.0, 0.0, 0), (0.0, 0.0, 1), (1.0, 0.0, 2)];
    assert_eq!(upper_envelope(lines), [piece(f64::NEG_INFINITY, 0), piece(0.0, 2)]);
    assert_eq!(upper_envelope(vec![]), []);
}

#[test]
fn an_envelope_equals_the_maximum_at_each_point() {
    let mut random = 7;
    let mut next = || {
        random = mix(random + 1);
        (random % 21) as f64 - 10.0
    };
    for _ in 0..200 {
        let lines: Vec<(f64, f64, usize)> = (0..8).map(|index| (next(), next(), index)).collect();
        let envelope = upper_envelope(lines.clone());
        for step in -400..400 {
            let x = f64::from(step) * 0.05 + 0.0123;
            let at = |(slope, intercept, _): &(f64, f64, usize)| slope * x + intercept;
            let max = lines.iter().map(at).fold(f64::NEG_INFINITY, f64::max);
            let piece = envelope.iter().rev().find(|piece| piece.from <= x).unwrap();
            assert!((at(&lines[piece.line]) - max).abs() < 1e-9, "{lines:?} {x}");
        }
    }
}

/// The good hypothesis of sentence 0 needs a weight of x above 1 (its score is lower by 1, its x
/// larger by 1), and that of sentence 1 a weight below 2. The optimum is the middle, 1.5: BLEU is 100.
#[test]
fn the_optimum_of_one_weight_is_in_the_middle_of_its_interval() {
    let list = list(&[
        "0 ||| this is wrong indeed ||| x= 0 ||| 0",
        "0 ||| a small red house ||| x= 1 ||| -1",
        "1 ||| all of it is wrong ||| x= 1 ||| -2",
        "1 ||| the cat is here ||| x= 0 ||| 0",
    ]);
    let references = vec![vec!["a small red house".to_owned(), "the cat is here".to_owned()]];
    let bleu = Bleu::default();
    let search = Search {
        features: ["x", "score"].map(|name| list.feature(name).unwrap()).into(),
        statistics: statistics(&list, &references, &bleu).unwrap(),
        list: &list,
        metric: &bleu,
    };
    assert_eq!(search.optimum(&[0.0, 1.0], 0), 1.5);
    assert!((search.score(&[1.5, 1.0]) - 100.0).abs() < 1e-9);
    // At the ends: below 1 and above 2.
    assert!(search.score(&[0.9, 1.0]) < 60.0 && search.score(&[2.1, 1.0]) < 60.0);
    let found = tune(&list, &references, &bleu, TuningOptions { restarts: 0, seed: 0 }).unwrap();
    assert!((found.after.unwrap() - 100.0).abs() < 1e-9);
    assert!((found.weights.values().map(|weight| weight.abs()).sum::<f64>() - 1.0).abs() < 1e-12);
    assert!((found.weights["x"] / found.weights["score"] - 1.5).abs() < 1e-12, "{found:?}");
    let mut ranked = list.clone();
    ranked.rank(&found.scores(&list).unwrap());
    ranked.truncate(1);
    assert_eq!(ranked.entries()[0].text, "a small red house");
    assert_eq!(ranked.entries()[1].text, "the cat is here");
}

/// A list whose hypotheses and features are hashes.
fn random_list(seed: u64) -> (NBestList, Vec<Vec<String>>) {
    const WORDS: [&str; 5] = ["red", "house", "cat", "dog", "the"];
    let mut random = seed;
    let mut next = |n: u64| {
        random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(random) % n
    };
    let text = |min: u64, next: &mut dyn FnMut(u64) -> u64| -> String {
        let n = min + next(4);
        (0..n).map(|_| WORDS[next(5) as usize]).collect::<Vec<_>>().join(" ")
    };
    let (mut lines, mut references) = (Vec::new(), Vec::new());
    for sentence in 0..6 {
        references.push(text(3, &mut next));
        for _ in 0..4 {
            let hypothesis = text(2, &mut next);
            let (x, score) = (next(100) as f64 / 10.0, next(100) as f64 / 10.0);
            lines.push(format!("{sentence} ||| {hypothesis} ||| x= {x} ||| {score}"));
        }
    }
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    (list(&lines), vec![references])
}

/// A grid of the weight finds nothing better than the optimum, for metrics of both directions.
#[test]
fn no_weight_of_a_grid_is_better_than_the_optimum() {
    let metrics: [&dyn Metric; 3] = [&Bleu::default(), &Chrf::default(), &Ter::default()];
    for seed in 0..20 {
        let (list, references) = random_list(seed);
        for metric in metrics {
            let search = Search {
                features: ["x", "score"].map(|name| list.feature(name).unwrap()).into(),
                statistics: statistics(&list, &references, metric).unwrap(),
                list: &list,
                metric,
            };
            let optimum = search.score(&[search.optimum(&[0.3, 1.0], 0), 1.0]);
            for step in -2_000..2_000 {
                let other = search.score(&[f64::from(step) * 0.01 + 0.001_23, 1.0]);
                assert!(!search.better(other, optimum), "{seed} {step}: {other} {optimum}");
            }
        }
    }
}

#[test]
fn tuning_never_loses_to_the_search_and_is_reproducible() {
    for seed in 0..10 {
        let (list, references) = random_list(seed + 100);
        let options = TuningOptions { restarts: 5, seed };
        let found = tune(&list, &references, &Chrf::default(), options).unwrap();
        assert!(found.after >= found.before, "{found:?}");
        assert_eq!(found, tune(&list, &references, &Chrf::default(), options).unwrap());
        // The score is that of the selected hypotheses.
        let mut ranked = list.clone();
        ranked.rank(&found.scores(&list).unwrap());
        ranked.truncate(1);
        let texts: Vec<&str> = ranked.entries().iter().map(|entry| &*entry.text).collect();
        let score = Chrf::default().corpus_score(&texts, &references).unwrap().score;
        assert!((score - found.after.unwrap()).abs() < 1e-9, "{score} {found:?}");
    }
}

#[test]
fn the_number_of_references_must_fit() {
    let (list, mut references) = random_list(1);
    references[0].pop();
    let error = tune(&list, &references, &Bleu::default(), TuningOptions::default()).unwrap_err();
    assert!(error.to_string().contains("6 sentences, but a reference 5"), "{error}");
    let error = tune(&list, &[], &Bleu::default(), TuningOptions::default()).unwrap_err();
    assert!(error.to_string().contains("no reference"), "{error}");
}
