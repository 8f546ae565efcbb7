//! Beam search with a beam for all targets, against a list of all targets.
//!
//! The list is built without search and without a cache: each target is scored by teacher forcing,
//! and the effect of an option on the scores is implemented here independently.

use tx_infer::{EarlyStopping, LengthNorm};

use super::*;

/// Vocabulary size; ids 0 to 2 are padding, `<bos>` and `<eos>`.
const VOCABULARY: usize = 7;

/// Maximum target length in tokens.
const LENGTH: usize = 4;

/// Outputs of models for one source.
struct ModelOutputs {
    /// All targets.
    targets: Vec<Vec<u32>>,
    /// Logits at each position of each target of each model: `[models][targets][T, V]`.
    logits: Vec<Vec<Vec<f32>>>,
    /// Attention of each target token to each source token, averaged over the heads of the recorded
    /// decoder layer, per target: `[T, S]`.
    attention: Vec<Vec<f32>>,
    source_len: usize,
}

impl ModelOutputs {
    /// Outputs of `models`; attention is that of the first.
    fn new(models: &[&Subject], source: &[u32], layer: usize) -> Self {
        // Includes targets that end at a lower length limit.
        let mut targets: Vec<Vec<u32>> = (1..=LENGTH).flat_map(all_targets).collect();
        targets.sort();
        targets.dedup();
        let (mut logits, mut attention) = (Vec::new(), Vec::new());
        for (index, subject) in models.iter().enumerate() {
            let device = &subject.device;
            let inputs: Vec<Vec<u32>> =
                targets.iter().map(|target| subject.inputs(target)).collect();
            let rows = |rows: &[Vec<u32>]| {
                padded(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>(), device)
            };
            let sources = rows(&vec![source.to_vec(); targets.len()]);
            let (scores, maps) = subject.model.forward_with_attention(TransformerInput {
                source_blocked: mask::padding(&sources),
                source: sources,
                target: rows(&inputs),
                target_blocked: mask::causal(LENGTH, device),
            });
            let scores = values(&scores.into_data());
            logits.push(scores.chunks(LENGTH * VOCABULARY).map(<[f32]>::to_vec).collect());
            if index == 0 {
                let weights = maps.decoder.cross[layer].clone().mean_dim(1);
                let weights = values(&weights.into_data());
                attention = weights.chunks(LENGTH * source.len()).map(<[f32]>::to_vec).collect();
            }
        }
        Self { targets, logits, attention, source_len: source.len() }
    }

    /// All possible targets with log-probability and score, best first.
    fn ranked(&self, case: &Case) -> Vec<(Vec<u32>, f32, f32)> {
        let mut ranked = Vec::new();
        for (index, target) in self.targets.iter().enumerate() {
            let at_limit = target.len() == case.limit(self.source_len);
            let ended = target.last() == Some(&EOS);
            if target.len() > case.limit(self.source_len) || !(ended || at_limit) {
                continue;
            }
            let log_probability: f64 = (0..target.len())
                .map(|place| {
                    let rows: Vec<&[f32]> = self
                        .logits
                        .iter()
                        .map(|model| &model[index][place * VOCABULARY..][..VOCABULARY])
                        .collect();
                    case.log_prob(&rows, target, place, self.source_len)
                })
                .sum();
            if log_probability.is_finite() {
                let coverage: f64 = (0..self.source_len)
                    .map(|key| {
                        let taken = |place| self.attention[index][place * self.source_len + key];
                        let all: f32 = (0..target.len()).map(taken).sum();
                        f64::from(all.min(1.0)).ln()
                    })
                    .sum();
                let length = target.len() as f64;
                let alpha = f64::from(case.options.length_penalty);
                let divisor = match case.options.length_norm {
                    LengthNorm::None => 1.0,
                    LengthNorm::Power => length.powf(alpha),
                    LengthNorm::Wu => ((5.0 + length) / 6.0).powf(alpha),
                    other => panic!("no formula for {other:?}"),
                };
                let penalty = f64::from(case.options.word_penalty) * length;
                let score = (log_probability - penalty) / divisor
                    + f64::from(case.options.coverage_penalty) * coverage;
                ranked.push((target.clone(), log_probability as f32, score as f32));
            }
        }
        ranked.sort_by(|a, b| b.2.total_cmp(&a.2));
        ranked
    }
}

/// Search option with its expected effect.
#[derive(Default)]
struct Case {
    options: SearchOptions,
    forced_first: Option<u32>,
    prefix: Vec<u32>,
}

impl Case {
    fn request<'a>(&'a self, source: &'a [u32]) -> Request<'a> {
        let Self { forced_first, prefix, .. } = self;
        Request { source, forced_first: *forced_first, prefix, ..Request::default() }
    }

    fn limit(&self, source_len: usize) -> usize {
        let wanted = (source_len as f32 * self.options.max_len_ratio).ceil() as usize
            + self.options.max_len_extra;
        let given = usize::from(self.forced_first.is_some()) + self.prefix.len();
        wanted.min(self.options.max_len.unwrap_or(LENGTH)).max(given + 1)
    }

    /// Log-probability of token `place` of `target` after its predecessors; `logits` of each model.
    fn log_prob(&self, logits: &[&[f32]], target: &[u32], place: usize, source_len: usize) -> f64 {
        let SearchOptions {
            repetition_penalty,
            no_repeat_ngram: n,
            min_len,
            min_len_ratio,
            renormalize,
            ..
        } = self.options;
        let (before, token) = (&target[..place], target[place]);
        let sum = |scores: &[f64]| scores.iter().map(|score| score.exp()).sum::<f64>();
        // Mean of the models' probabilities; a single model's own scores.
        let mut scores: Vec<f64> = match logits {
            [one] => one.iter().map(|&x| f64::from(x)).collect(),
            several => {
                let mut mean = vec![0.0; VOCABULARY];
                for scores in several {
                    let scores: Vec<f64> = scores.iter().map(|&x| f64::from(x)).collect();
                    let whole = sum(&scores) * several.len() as f64;
                    mean.iter_mut().zip(&scores).for_each(|(mean, x)| *mean += x.exp() / whole);
                }
                mean.into_iter().map(f64::ln).collect()
            }
        };
        let certain = |forced| if token == forced { 0.0 } else { f64::NEG_INFINITY };
        let first = usize::from(self.forced_first.is_some());
        if let Some(forced) = self.forced_first.filter(|_| place == 0) {
            return certain(forced);
        }
        if let Some(&forced) = self.prefix.get(place - first) {
            let possible = token == forced;
            let found = scores[token as usize] - sum(&scores).ln();
            return if possible { found } else { f64::NEG_INFINITY };
        }
        if self.options.force_eos && place + 1 >= self.limit(source_len) {
            return certain(EOS);
        }
        for (id, score) in scores.iter_mut().enumerate() {
            if before.contains(&(id as u32)) {
                let theta = f64::from(repetition_penalty);
                *score = if *score < 0.0 { *score * theta } else { *score / theta };
            }
        }
        let may_end = place >= min_len && place as f32 >= source_len as f32 * min_len_ratio;
        let forbidden = |id: u32| {
            let with = [before, &[id]].concat();
            let again = n > 0
                && with.len() > n
                && with[..with.len() - 1].windows(n).any(|seen| seen == &with[with.len() - n..]);
            [PAD, BOS].contains(&id)
                || (id == EOS && !may_end)
                || again
                || self.options.suppress.contains(&id)
        };
        if forbidden(token) {
            return f64::NEG_INFINITY;
        }
        let own = scores[token as usize];
        if renormalize {
            for (id, score) in scores.iter_mut().enumerate() {
                if forbidden(id as u32) {
                    *score = f64::NEG_INFINITY;
                }
            }
        }
        own - sum(&scores).ln()
    }
}

/// Every option that changes the possible targets or their ranking, and some combinations.
fn cases() -> Vec<(&'static str, Case)> {
    let base = || SearchOptions {
        beam: 400,
        n_best: 400,
        max_len_ratio: 0.0,
        max_len_extra: LENGTH,
        length_penalty: 0.6,
        ..SearchOptions::default()
    };
    let case = |options| Case { options, ..Case::default() };
    vec![
        ("plain", case(base())),
        ("no norm", case(SearchOptions { length_norm: LengthNorm::None, ..base() })),
        ("mean", case(SearchOptions { length_penalty: 1.0, ..base() })),
        ("long", case(SearchOptions { length_penalty: 2.0, ..base() })),
        ("Wu", case(SearchOptions { length_norm: LengthNorm::Wu, ..base() })),
        (
            "Wu, long",
            case(SearchOptions { length_norm: LengthNorm::Wu, length_penalty: 2.0, ..base() }),
        ),
        ("word penalty", case(SearchOptions { word_penalty: 0.3, ..base() })),
        ("long words", case(SearchOptions { word_penalty: -0.7, ..base() })),
        ("coverage", case(SearchOptions { coverage_penalty: 0.4, ..base() })),
        (
            "coverage of the second layer",
            case(SearchOptions { coverage_penalty: 0.4, attention_layer: Some(2), ..base() }),
        ),
        ("longest 3", case(SearchOptions { max_len: Some(3), ..base() })),
        (
            "longest by ratio",
            case(SearchOptions { max_len_ratio: 0.5, max_len_extra: 1, ..base() }),
        ),
        ("shortest 2", case(SearchOptions { min_len: 2, ..base() })),
        ("shortest by ratio", case(SearchOptions { min_len_ratio: 0.5, ..base() })),
        ("shortest, renormalized", case(SearchOptions { min_len: 2, renormalize: true, ..base() })),
        ("repeated", case(SearchOptions { repetition_penalty: 1.7, ..base() })),
        ("repeated, liked", case(SearchOptions { repetition_penalty: 0.6, ..base() })),
        ("no word twice", case(SearchOptions { no_repeat_ngram: 1, ..base() })),
        ("no pair twice", case(SearchOptions { no_repeat_ngram: 2, ..base() })),
        (
            "no pair twice, renormalized",
            case(SearchOptions { no_repeat_ngram: 2, renormalize: true, ..base() }),
        ),
        ("suppressed", case(SearchOptions { suppress: vec![3, 5], ..base() })),
        (
            "suppressed, renormalized",
            case(SearchOptions { suppress: vec![3, 5], renormalize: true, ..base() }),
        ),
        ("prefix", Case { options: base(), prefix: vec![5, 3], ..Case::default() }),
        ("forced end", case(SearchOptions { force_eos: true, ..base() })),
        (
            "forced end of a short target",
            case(SearchOptions { force_eos: true, max_len: Some(2), min_len: 2, ..base() }),
        ),
        ("forced first", Case { options: base(), forced_first: Some(6), ..Case::default() }),
        (
            "forced first, suppressed, and a prefix",
            Case {
                options: SearchOptions { suppress: vec![6], renormalize: true, ..base() },
                forced_first: Some(6),
                prefix: vec![4],
            },
        ),
        (
            "prefix of suppressed tokens",
            Case {
                options: SearchOptions {
                    suppress: vec![5],
                    no_repeat_ngram: 1,
                    min_len: 3,
                    ..base()
                },
                prefix: vec![5, 5],
                ..Case::default()
            },
        ),
        (
            "all together",
            Case {
                options: SearchOptions {
                    coverage_penalty: 0.2,
                    length_norm: LengthNorm::Wu,
                    repetition_penalty: 1.2,
                    no_repeat_ngram: 2,
                    min_len: 1,
                    suppress: vec![6],
                    renormalize: true,
                    ..base()
                },
                prefix: vec![4],
                ..Case::default()
            },
        ),
    ]
}

/// Compares rankings.
///
/// # Panics
///
/// If the two differ. Targets with equal scores, except for rounding, may be in any order.
fn assert_ranked(what: &str, found: &[Hypothesis], expected: &[(Vec<u32>, f32, f32)]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    assert!(found.is_sorted_by(|a, b| a.score >= b.score), "{what}");
    for (found, (ids, log_probability, score)) in found.iter().zip(expected) {
        let what = format!("{what}: {found:?}, {ids:?} {log_probability} {score}");
        assert!((found.score - score).abs() <= LIMIT, "{what}");
        let (_, own, _) = expected.iter().find(|(ids, ..)| *ids == found.ids).expect(&what);
        assert!((found.log_probability - own).abs() <= LIMIT, "{what}");
    }
}

#[test]
fn each_option_gives_the_ranking_of_all_targets() {
    let source = SOURCES[0];
    let cases = cases();
    // Ranking of all targets per option.
    let mut orders: Vec<Vec<Vec<u32>>> = vec![Vec::new(); cases.len()];
    let subjects = subjects(VOCABULARY).into_iter().chain(subjects_with_other_starts(VOCABULARY));
    for subject in subjects {
        // Of two layers, the last is the default.
        let outputs = ModelOutputs::new(&[&subject], source, 1);
        for engine in subject.engines() {
            for ((name, case), order) in cases.iter().zip(&mut orders) {
                assert_eq!(case.options.problems(), [""; 0], "{name}");
                let expected = outputs.ranked(case);
                let request = case.request(source);
                let found = search_requests(&engine, &[request], &case.options).remove(0);
                let what = format!("{}, {name}", subject.name);
                assert_ranked(&what, &found, &expected);
                order.extend(found.into_iter().map(|found| found.ids));
            }
        }
    }
    // An option without any effect would not be tested.
    for ((name, _), order) in cases.iter().zip(&orders).skip(1) {
        assert_ne!(*order, orders[0], "{name} changes nothing");
    }
}

/// With a beam for all targets, every rule that ends a search finds all of them.
#[test]
fn every_rule_finds_the_ranking_of_all_targets() {
    let source = SOURCES[0];
    for subject in subjects(VOCABULARY) {
        let outputs = ModelOutputs::new(&[&subject], source, 1);
        for early_stopping in
            [EarlyStopping::Never, EarlyStopping::Improvement, EarlyStopping::Narrowing]
        {
            for (name, mut case) in cases().into_iter().take(6) {
                case.options.early_stopping = early_stopping;
                let expected = outputs.ranked(&case);
                for engine in subject.engines() {
                    let request = case.request(source);
                    let found = search_requests(&engine, &[request], &case.options).remove(0);
                    let what = format!("{}, {name}, {early_stopping:?}", subject.name);
                    assert_ranked(&what, &found, &expected);
                }
            }
        }
    }
}

/// The second of two layers is recorded if requested.
#[test]
fn the_requested_layer_is_recorded() {
    let source = SOURCES[0];
    let options = SearchOptions {
        beam: 400,
        n_best: 400,
        max_len_ratio: 0.0,
        max_len_extra: LENGTH,
        coverage_penalty: 0.4,
        attention_layer: Some(1),
        ..SearchOptions::default()
    };
    let case = Case { options, ..Case::default() };
    for subject in subjects(VOCABULARY) {
        let expected = ModelOutputs::new(&[&subject], source, 0).ranked(&case);
        for engine in subject.engines() {
            let found = engine.search(&[source], &case.options).unwrap().remove(0);
            assert_ranked(&subject.name, &found, &expected);
        }
    }
}

/// Prefixes of different lengths and none, sources of different lengths, in one batch and
/// separately.
#[test]
fn constraints_apply_to_their_own_sentence_only() {
    let prefixes: [&[u32]; 6] = [&[5, 3], &[], &[6], &[4, 4, 4, 4, 4], &[], &[3]];
    let numbered = SOURCES.iter().zip(prefixes).zip(0..);
    let requests: Vec<Request<'_>> = numbered
        .map(|((source, prefix), number)| Request { source, prefix, number, ..Request::default() })
        .collect();
    let base = || SearchOptions { n_best: 3, ..SearchOptions::default() };
    for subject in subjects(VOCABULARY) {
        for engine in subject.engines() {
            for options in [
                base(),
                SearchOptions { min_len_ratio: 1.0, no_repeat_ngram: 2, ..base() },
                SearchOptions { coverage_penalty: 0.2, repetition_penalty: 1.3, ..base() },
                SearchOptions { groups: 2, beam: 6, ..base() },
                SearchOptions { beam: 1, n_best: 1, min_len_ratio: 1.0, ..base() },
            ] {
                let together = search_requests(&engine, &requests, &options);
                for (request, together) in requests.iter().zip(&together) {
                    let alone = search_requests(&engine, &[*request], &options);
                    let what = format!("{}, {request:?}, {options:?}", subject.name);
                    assert_same(&what, together, &alone[0]);
                    for found in together {
                        assert!(found.ids.starts_with(request.prefix), "{what}: {found:?}");
                        let words = found.ids.iter().filter(|id| **id != EOS).count();
                        let least = options.min_len_ratio * request.source.len() as f32;
                        assert!(words as f32 >= least.min(MAX_LEN as f32), "{what}: {found:?}");
                    }
                }
            }
        }
    }
}

/// Two and three models over one vocabulary, by the mean of their probabilities.
#[test]
fn an_ensemble_averages_probabilities() {
    let source = SOURCES[3];
    let subjects = subjects(VOCABULARY);
    let starts = subjects_with_other_starts(VOCABULARY);
    let mut cases = cases();
    cases.retain(|(name, _)| ["plain", "prefix", "shortest, renormalized"].contains(name));
    for (_, device) in devices() {
        let own: Vec<&Subject> = subjects.iter().filter(|s| s.device == device).collect();
        // Each has its own start.
        let others: Vec<&Subject> = starts.iter().filter(|s| s.device == device).collect();
        for members in [&own[..2], &own[1..4], &others[..]] {
            let outputs = ModelOutputs::new(members, source, 1);
            let engines = members.iter().map(|m| m.engine(&device.clone().into()));
            let engine = engines.reduce(Engine::with_member).unwrap();
            for (name, case) in &cases {
                let request = case.request(source);
                let found = search_requests(&engine, &[request], &case.options).remove(0);
                let what = format!("{} together, {name}", members.len());
                assert_ranked(&what, &found, &outputs.ranked(case));
            }
        }
    }
}

/// A model with itself equals the single model, because the mean of equal probabilities is the
/// same.
#[test]
fn a_model_in_an_ensemble_with_itself_equals_the_single_model() {
    for subject in subjects(VOCABULARY) {
        for engine in subject.engines() {
            let both = engine.clone().with_member(engine.clone());
            assert_eq!(both.gains_from_threads(), engine.gains_from_threads());
            for options in [
                SearchOptions::greedy(),
                SearchOptions { n_best: 4, ..SearchOptions::default() },
                SearchOptions { n_best: 4, coverage_penalty: 0.3, ..SearchOptions::default() },
            ] {
                let alone = engine.search(&SOURCES, &options).unwrap();
                let twice = both.search(&SOURCES, &options).unwrap();
                for (alone, twice) in alone.iter().zip(&twice) {
                    assert_same(&subject.name, twice, alone);
                }
            }
        }
    }
}
