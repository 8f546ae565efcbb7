//! Stopping criteria and diverse beam groups.

use tx_infer::{EarlyStopping, LengthNorm};

use super::*;

/// Returns `true` if both are equal except for rounding.
fn same(one: &[Vec<Hypothesis>], other: &[Vec<Hypothesis>]) -> bool {
    one.iter().zip(other).all(|(one, other)| {
        let close =
            |a: &Hypothesis, b: &Hypothesis| a.ids == b.ids && (a.score - b.score).abs() <= LIMIT;
        one.len() == other.len() && one.iter().zip(other).all(|(a, b)| close(a, b))
    })
}

/// With infinite patience, a search continues to the length limit. No continuation is better than
/// the hypotheses at which `never` stopped.
#[test]
fn never_stopping_early_loses_nothing_that_waiting_finds() {
    let mut differs = 0;
    for subject in subjects(7) {
        for (length_norm, length_penalty) in [
            (LengthNorm::None, 1.0),
            (LengthNorm::Power, 0.6),
            (LengthNorm::Power, 1.0),
            (LengthNorm::Power, -0.5),
            (LengthNorm::Wu, 1.0),
        ] {
            for (beam, groups, n_best, coverage_penalty) in [
                (2, 1, 1, 0.0),
                (3, 1, 3, 0.0),
                (3, 1, 2, 0.3),
                (2, 2, 1, 0.0),
                (4, 2, 1, 0.0),
                (6, 2, 3, 0.3),
                (6, 3, 4, 0.0),
            ] {
                let base = SearchOptions {
                    beam,
                    groups,
                    n_best,
                    length_norm,
                    length_penalty,
                    coverage_penalty,
                    ..SearchOptions::default()
                };
                let forever = SearchOptions { patience: 1e6, ..base.clone() };
                let never = SearchOptions { early_stopping: EarlyStopping::Never, ..base.clone() };
                let [base, forever, never] =
                    [&base, &forever, &never].map(|options| subject.search(&SOURCES, options));
                let what = format!("{}, {groups} groups, {length_norm:?}", subject.name);
                assert!(same(&never, &forever), "{what}: {never:?} {forever:?}");
                differs += usize::from(!same(&base, &never));
            }
        }
    }
    assert!(differs > 10, "{differs} differences to stopping when the beam is full");
}

/// A search that waits for an improvement continues one that does not, and less long than one that
/// never stops early. A beam that narrows finds as many hypotheses as it has places.
#[test]
fn other_rules_are_between_the_first_and_the_last() {
    let mut differs = 0;
    for subject in subjects(7) {
        for (beam, length_penalty) in [(2, 1.0), (4, 0.6), (5, 1.0)] {
            let of = |early_stopping| {
                let options = SearchOptions {
                    beam,
                    n_best: beam,
                    length_penalty,
                    early_stopping,
                    ..SearchOptions::default()
                };
                subject.search(&SOURCES, &options)
            };
            let [first, improved, last, narrowed] = [
                EarlyStopping::Finished,
                EarlyStopping::Improvement,
                EarlyStopping::Never,
                EarlyStopping::Narrowing,
            ]
            .map(of);
            for (index, improved) in improved.iter().enumerate() {
                let what = format!("{}, beam {beam}", subject.name);
                assert_eq!((improved.len(), narrowed[index].len()), (beam, beam), "{what}");
                for (rank, improved) in improved.iter().enumerate() {
                    assert!(improved.score >= first[index][rank].score - LIMIT, "{what}");
                    assert!(improved.score <= last[index][rank].score + LIMIT, "{what}");
                }
            }
            differs +=
                usize::from(!same(&first, &improved)) + usize::from(!same(&first, &narrowed));
        }
    }
    assert!(differs > 10, "{differs} differences to stopping when the beam is full");
}

#[test]
fn more_patience_finds_no_worse_hypotheses() {
    let mut better = 0;
    for subject in subjects(7) {
        for beam in [2, 4] {
            let mut last: Option<Vec<f32>> = None;
            for patience in [0.5, 1.0, 2.0, 4.0] {
                let options = SearchOptions { beam, patience, ..SearchOptions::default() };
                let found = subject.search(&SOURCES, &options);
                let found: Vec<f32> = found.iter().map(|found| found[0].score).collect();
                if let Some(last) = &last {
                    for (last, found) in last.iter().zip(&found) {
                        assert!(*found >= last - LIMIT, "{}, beam {beam}", subject.name);
                        better += usize::from(*found > last + LIMIT);
                    }
                }
                last = Some(found);
            }
        }
    }
    assert!(better > 5, "{better} times better");
}

/// Ranked by probability alone, the first finished hypothesis that ranks best exceeds every
/// continuation.
#[test]
fn stopping_at_the_first_end_is_exact_without_a_length_penalty() {
    let mut differs = 0;
    for subject in subjects(7) {
        for beam in [2, 5] {
            let base = SearchOptions { beam, ..SearchOptions::default() };
            let first = SearchOptions { early_stopping: EarlyStopping::First, ..base.clone() };
            let exact = SearchOptions { length_norm: LengthNorm::None, ..first.clone() };
            let never = SearchOptions { early_stopping: EarlyStopping::Never, ..exact.clone() };
            let [base, first, exact, never] =
                [base, first, exact, never].map(|options| subject.search(&SOURCES, &options));
            assert!(same(&exact, &never), "{}: {exact:?} {never:?}", subject.name);
            differs += usize::from(!same(&first, &base));
        }
    }
    assert!(differs > 2, "{differs} differences");
}

/// Groups of size one are greedy searches in sequence; each is penalized for tokens that earlier
/// groups generated at the same position.
#[test]
fn groups_of_one_are_greedy_searches_that_avoid_each_other() {
    let mut differs = 0;
    for subject in subjects(7) {
        for engine in subject.engines() {
            for diversity in [0.0, 0.5, 30.0] {
                let options = SearchOptions {
                    beam: 4,
                    n_best: 4,
                    groups: 4,
                    diversity,
                    max_repeats: 0,
                    ..SearchOptions::default()
                };
                for source in SOURCES {
                    let found = engine.search(&[source], &options).unwrap().remove(0);
                    let expected = diverse_greedy_searches(&subject, source, 4, diversity);
                    let what = format!("{}, {source:?}, λ {diversity}", subject.name);
                    let mut distinct = expected.clone();
                    distinct.sort();
                    distinct.dedup();
                    let mut ids: Vec<Vec<u32>> = found.iter().map(|h| h.ids.clone()).collect();
                    ids.sort();
                    assert_eq!(ids, distinct, "{what}");
                    assert!(found.is_sorted_by(|a, b| a.score >= b.score), "{what}");
                    if diversity == 0.0 {
                        assert_eq!(ids.len(), 1, "{what}");
                    }
                    differs += usize::from(ids.len() > 2);
                    // The penalty affects the selection only, not the score.
                    let ids: Vec<Vec<u32>> = found.iter().map(|h| h.ids.clone()).collect();
                    let expected = subject.log_probabilities(source, &ids);
                    for (found, expected) in found.iter().zip(expected) {
                        assert!((found.log_probability - expected).abs() <= LIMIT, "{what}");
                    }
                }
            }
        }
    }
    assert!(differs > 20, "{differs} results with more than two hypotheses");
}

/// Expected tokens of `groups` greedy searches with diversity penalty, step by step without a
/// cache.
fn diverse_greedy_searches(
    subject: &Subject,
    source: &[u32],
    groups: usize,
    diversity: f32,
) -> Vec<Vec<u32>> {
    let limit = (2 * source.len() + 10).min(MAX_LEN);
    let mut targets: Vec<Vec<u32>> = vec![Vec::new(); groups];
    for place in 0..limit {
        let mut taken = Vec::new();
        for target in &mut targets {
            if target.len() < place || target.last() == Some(&EOS) {
                continue;
            }
            let possible: Vec<Vec<u32>> = (2..7).map(|id| [&target[..], &[id]].concat()).collect();
            let log_probs = subject.log_probabilities(source, &possible);
            let rank = |index: usize| {
                let times = taken.iter().filter(|&&id| id == possible[index][place]).count();
                log_probs[index] - diversity * times as f32
            };
            let best =
                (0..possible.len()).max_by(|&a, &b| rank(a).total_cmp(&rank(b)).then(b.cmp(&a)));
            *target = possible[best.unwrap()].clone();
            if target[place] != EOS {
                taken.push(target[place]);
            }
        }
    }
    targets
}

#[test]
fn groups_without_diversity_find_what_a_beam_of_their_width_finds() {
    for subject in subjects(7) {
        let narrow = SearchOptions { beam: 2, n_best: 2, ..SearchOptions::default() };
        let groups = SearchOptions { beam: 6, groups: 3, diversity: 0.0, ..narrow.clone() };
        let one = SearchOptions { groups: 1, diversity: 9.0, ..narrow.clone() };
        let expected = subject.search(&SOURCES, &narrow);
        let apart = SearchOptions { diversity: 0.7, n_best: 6, ..groups.clone() };
        let mut differs = 0;
        for (((groups, one), apart), expected) in subject
            .search(&SOURCES, &groups)
            .iter()
            .zip(subject.search(&SOURCES, &one))
            .zip(subject.search(&SOURCES, &apart))
            .zip(&expected)
        {
            assert_same(&subject.name, groups, expected);
            assert_same(&subject.name, &one, expected);
            differs += usize::from(apart.len() > 2);
        }
        assert!(differs > 3, "{}: {differs}", subject.name);
    }
}
