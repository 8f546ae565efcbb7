use serde_json::Value;
use tx_eval::{Bleu, Chrf};

use super::*;
use crate::Hypothesis;

/// chrF2 of single characters.
fn characters() -> NgramMetric {
    Chrf { char_order: 1, ..Chrf::default() }.into()
}

fn scored(text: &str, log_probability: f32) -> Scored {
    let hypothesis =
        Hypothesis { ids: vec![7], log_probability, score: log_probability, sources: vec![] };
    Scored { text: text.into(), hypothesis, expected_utility: None }
}

fn mbr(utility: NgramMetric, references: PseudoReferences) -> Mbr {
    Mbr { utility, references, n_best: 10 }
}

fn sampling() -> SearchOptions {
    SearchOptions::sampling(Sampling::default())
}

/// Texts and expected utilities.
fn ranked(found: &[Scored]) -> Vec<(&str, f64)> {
    found.iter().map(|it| (&*it.text, it.expected_utility.unwrap())).collect()
}

fn assert_close(found: &[Scored], expected: &[(&str, f64)]) {
    let found = ranked(found);
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.0 == expected.0 && (found.1 - expected.1).abs() < 1e-4, "{found:?}");
    }
}

/// The samples are ab, a, a and c. With β = 2, chrF = 5 P R / (4 P + R):
///
/// ```text
/// u(ab, a): P = 1/2, R = 1, 5/6     u(a, ab): P = 1, R = 1/2, 5/9
/// E u(ab) = (1 + 2 · 5/6 + 0) / 4 = 2/3
/// E u(a)  = (5/9 + 2 · 1 + 0) / 4 = 23/36
/// E u(c)  = 1/4
/// ```
///
/// The most frequent sample is `a`.
#[test]
fn samples_estimate_the_expected_utility() {
    let samples = [("ab", -3.0), ("a", -1.0), ("a", -1.0), ("c", -2.0)];
    let samples: Vec<Scored> = samples.iter().map(|it| scored(it.0, it.1)).collect();
    let expected = [("ab", 200.0 / 3.0), ("a", 2300.0 / 36.0), ("c", 25.0)];
    let own = mbr(characters(), PseudoReferences::Candidates { scale: 5.0 });
    assert_close(&own.select(samples.clone(), &[], &sampling()).unwrap(), &expected);

    // The same samples as pseudo-references of other candidates.
    let other = mbr(characters(), PseudoReferences::Samples(Sampling::default()));
    let texts: Vec<String> = samples.iter().map(|sample| sample.text.clone()).collect();
    let candidates = vec![scored("d", -1.0), scored("ab", -9.0)];
    let found = other.select(candidates, &texts, &SearchOptions::default()).unwrap();
    assert_close(&found, &[("ab", 200.0 / 3.0), ("d", 0.0)]);
}

/// Scores of ln 0.3 and ln 0.1 give 3/4 and 1/4 with scale 1, 9/10 and 1/10 with scale 2, and 1/2 each
/// with scale 0.
#[test]
fn a_list_is_weighted_by_the_score() {
    let list = || vec![scored("a", 0.3_f32.ln()), scored("ab", 0.1_f32.ln())];
    for (scale, a, ab) in [(1.0, 0.75, 0.25), (2.0, 0.9, 0.1), (0.0, 0.5, 0.5)] {
        let mbr = mbr(characters(), PseudoReferences::Candidates { scale });
        let mut expected =
            [("a", 100.0_f64 * (a + ab * 5.0 / 9.0)), ("ab", 100.0 * (a * 5.0 / 6.0 + ab))];
        expected.sort_by(|x, y| y.1.total_cmp(&x.1));
        assert_close(&mbr.select(list(), &[], &SearchOptions::default()).unwrap(), &expected);
    }
}

#[test]
fn the_order_of_candidates_changes_no_bit() {
    let texts =
        ["the cat sat", "the cat sits", "a cat sat", "the dog", "cat sat the", "the cat sat"];
    let list: Vec<Scored> = texts
        .iter()
        .zip([-1.0, -1.5, -2.25, -0.5, -3.0, -4.0])
        .map(|(t, p)| scored(t, p))
        .collect();
    for utility in [
        Chrf::default().into(),
        NgramMetric::from(Bleu { effective_order: true, ..Bleu::default() }),
    ] {
        let mbr = mbr(utility, PseudoReferences::Candidates { scale: 0.7 });
        let first = mbr.select(list.clone(), &[], &SearchOptions::default()).unwrap();
        assert_eq!(first.len(), 5, "equal texts are one");
        assert_eq!(first.iter().find(|it| it.text == texts[0]).unwrap().hypothesis.score, -1.0);
        for rotated in 0..list.len() {
            for swapped in 1..list.len() {
                let mut list = list.clone();
                list.rotate_left(rotated);
                list.swap(0, swapped);
                let found = mbr.select(list, &[], &SearchOptions::default()).unwrap();
                assert_eq!(found, first);
            }
        }
    }
}

/// Without a common character all utilities are equal.
#[test]
fn ties_go_to_the_larger_score_then_to_the_first_text() {
    let mbr = Mbr { n_best: 3, ..mbr(characters(), PseudoReferences::Candidates { scale: 0.0 }) };
    let list = vec![scored("d", -2.0), scored("c", -1.0), scored("b", -2.0), scored("a", -3.0)];
    let found = mbr.select(list, &[], &SearchOptions::default()).unwrap();
    assert_eq!(ranked(&found), [("c", 25.0), ("b", 25.0), ("d", 25.0)]);
    assert_eq!(mbr.select(vec![], &[], &SearchOptions::default()).unwrap(), []);
}

/// Expected utilities of sacreBLEU's sentence scores: `tests/fixtures/mbr/generate.py`.
#[test]
fn expected_utilities_equal_those_of_sacrebleu() {
    let lists: Vec<Value> =
        serde_json::from_str(include_str!("../../tests/fixtures/mbr/expected_utilities.json"))
            .unwrap();
    let texts = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect()
    };
    for list in &lists {
        let (candidates, references) = (texts(&list["candidates"]), texts(&list["references"]));
        let candidates: Vec<&str> = candidates.iter().map(|it| &**it).collect();
        let weights = list["weights"].as_array().unwrap().iter().map(|it| it.as_f64().unwrap());
        let references: Vec<(&str, f64)> = references.iter().map(|it| &**it).zip(weights).collect();
        let bleu = Bleu { effective_order: true, ..Bleu::default() };
        for (name, utility) in [
            ("chrf", NgramMetric::from(Chrf::default())),
            ("chrf++", Chrf::PLUS_PLUS.into()),
            ("bleu", bleu.into()),
        ] {
            let found = expected_utilities(&utility, &candidates, &references).unwrap();
            let expected = list[name].as_array().unwrap();
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(expected) {
                let gap = found - expected.as_f64().unwrap();
                assert!(gap.abs() < 1e-10, "{name}: {found} {expected}");
            }
        }
    }
    assert!(lists.len() > 2);
}

#[test]
fn options_are_checked() {
    let base = mbr(characters(), PseudoReferences::Candidates { scale: 1.0 });
    let search = SearchOptions { beam: 12, n_best: 12, ..SearchOptions::default() };
    assert_eq!(base.problems(&search), [""; 0]);
    let nothing = Chrf { char_order: 0, ..Chrf::default() };
    let samples = |samples| PseudoReferences::Samples(Sampling { samples, ..Sampling::default() });
    for (mbr, word) in [
        (Mbr { utility: nothing.into(), ..base }, "order 0"),
        (Mbr { n_best: 0, ..base }, "`n_best` = 0"),
        (Mbr { n_best: 13, ..base }, "the number of candidates, 12"),
        (Mbr { references: PseudoReferences::Candidates { scale: f32::NAN }, ..base }, "NaN"),
        (Mbr { references: samples(0), ..base }, "`samples` = 0"),
    ] {
        let problems = mbr.problems(&search);
        assert!(problems.len() == 1 && problems[0].contains(word), "{problems:?}");
    }
    assert_eq!(Mbr { references: samples(99), ..base }.rows(&search), 99);
    assert_eq!(base.rows(&search), search.rows());
}
