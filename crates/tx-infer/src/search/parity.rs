//! Rules that end a search, with decoders whose scores are a function of the tokens so far: by hand,
//! against an independent search, and against recorded results of transformers.

use serde_json::Value;
use tx_kernels::formulas::log_softmax;
use tx_model::random::mix;
use tx_text::{
    Tokenizer, TokenizerConfig, WordTable,
    special::{BOS, EOS, PAD, SpecialTokens},
};

use super::{
    Constraint, Constraints, EarlyStopping, Form, Hypothesis, Request, SearchOptions, beam,
    decoder::{IncrementalDecoder, Next},
    greedy,
    scores::{best_of_row, suppress},
    state::{Limits, ModelLimits, SearchState},
};
use crate::cancellation::Cancellation;

/// Vocabulary of the hashed scores.
const VOCABULARY: u32 = 8;

/// Decoder of one sentence whose logits after the tokens of a row, `<bos>` included, are
/// `logits(tokens)`.
struct Table<F> {
    logits: F,
    rows: Vec<Vec<u32>>,
}

impl<F: Fn(&[u32]) -> Vec<f32>> IncrementalDecoder for Table<F> {
    fn step(&mut self, tokens: &[u32], suppressed: &[u32], count: usize) -> Vec<Vec<Next>> {
        let mut scores = self.logits(tokens);
        let rows = scores.chunks_exact_mut(self.width());
        let best = rows.map(|row| {
            log_softmax(row);
            suppress(row, suppressed);
            best_of_row(row, count)
        });
        best.collect()
    }

    fn logits(&mut self, tokens: &[u32]) -> Vec<f32> {
        self.rows.iter_mut().zip(tokens).for_each(|(row, &token)| row.push(token));
        self.rows.iter().flat_map(|row| (self.logits)(row)).collect()
    }

    fn attention(&self, _: usize) -> &[f32] {
        &[]
    }

    fn select(&mut self, rows: &[usize]) {
        self.rows = rows.iter().map(|&row| self.rows[row].clone()).collect();
    }
}

impl<F: Fn(&[u32]) -> Vec<f32>> Table<F> {
    fn width(&self) -> usize {
        (self.logits)(&[BOS]).len()
    }
}

/// Finds targets of one sentence with the scores of `logits`.
fn search(
    logits: impl Fn(&[u32]) -> Vec<f32>,
    options: &SearchOptions,
    forced_first: Option<u32>,
) -> Vec<Hypothesis> {
    search_request(logits, options, Request { forced_first, ..Request::new(&[EOS], 0) })
}

fn search_request(
    logits: impl Fn(&[u32]) -> Vec<f32>,
    options: &SearchOptions,
    request: Request<'_>,
) -> Vec<Hypothesis> {
    assert_eq!(options.problems(), [""; 0]);
    let decoder = Box::new(Table { logits, rows: vec![Vec::new()] });
    let never = Cancellation::new();
    let model = ModelLimits {
        start: BOS,
        padding: 0..0,
        limits: Limits::Source,
        max_len: 100,
        lexicon: None,
    };
    let state = SearchState::new(decoder, &[request], model, options, &never);
    let found = if options.rows_are_independent() {
        greedy::search(state, &mut |_| {})
    } else {
        beam::search(state, None)
    };
    found.unwrap().remove(0)
}

/// Logits that are a hash of the tokens; the same as in `fixtures/record.py`.
fn hashed(seed: u64) -> impl Fn(&[u32]) -> Vec<f32> {
    move |tokens| {
        let next = |state: u64, token: u32| {
            mix(state.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(token)))
        };
        let state = tokens.iter().fold(seed, |state, &token| next(state, token));
        let logit = |id: u32| (mix(state.wrapping_add(u64::from(id))) >> 49) as f32 / 8192.0;
        (0..VOCABULARY).map(logit).collect()
    }
}

/// Options without other limits than `max_tokens`.
fn options(beam: usize, max_tokens: usize) -> SearchOptions {
    SearchOptions {
        beam,
        n_best: beam,
        max_len_ratio: 0.0,
        max_len_extra: max_tokens,
        max_repeats: 0,
        ..SearchOptions::default()
    }
}

/// Probabilities of the tokens `a` = 3, `b` = 4 and of the end, after each target:
///
/// ```text
///         a    b   end
///        .5   .2   .3
/// a      .6    0   .4
/// b      .1    0   .9
/// …       0    0    1
/// ```
///
/// A beam of two, with scores `ln P / n`:
///
/// ```text
/// step 1   a .5 | end .3 (-1.204) | b .2
/// step 2   aa .3 (-0.602) | a end .2 (-0.805) | b end .18 | ba .02
/// step 3   aa end .3 (-0.401) | ba end .02
/// ```
///
/// Two are finished after step 2. `aa` is better than the worst of them, so the rule `improvement`
/// continues. A narrowing beam has one place after step 1, for `aa`, which ends in step 3.
#[test]
fn three_rules_find_three_pairs() {
    let (a, b) = (3, 4);
    let logits = |tokens: &[u32]| {
        let after = |p: [f32; 3]| vec![0.0, 0.0, p[2], p[0], p[1]];
        let probabilities = match &tokens[1..] {
            [] => after([0.5, 0.2, 0.3]),
            [token] if *token == a => after([0.6, 0.0, 0.4]),
            [token] if *token == b => after([0.1, 0.0, 0.9]),
            _ => after([0.0, 0.0, 1.0]),
        };
        probabilities.into_iter().map(f32::ln).collect()
    };
    let (short, middle, long) = (vec![EOS], vec![a, EOS], vec![a, a, EOS]);
    for (early_stopping, expected) in [
        (EarlyStopping::Finished, [(&middle, 0.2), (&short, 0.3)]),
        (EarlyStopping::Improvement, [(&long, 0.3), (&middle, 0.2)]),
        (EarlyStopping::Never, [(&long, 0.3), (&middle, 0.2)]),
        (EarlyStopping::Narrowing, [(&long, 0.3), (&short, 0.3)]),
    ] {
        let options = SearchOptions { early_stopping, ..options(2, 9) };
        let found = search(logits, &options, None);
        assert_eq!(found.len(), 2, "{early_stopping:?}");
        for (found, (ids, probability)) in found.iter().zip(expected) {
            assert_eq!(&found.ids, ids, "{early_stopping:?}");
            let score = f32::ln(probability) / ids.len() as f32;
            assert!((found.score - score).abs() < 1e-6, "{early_stopping:?}: {found:?}");
        }
    }
}

/// With `ln P` alone as score, a live hypothesis cannot become better, so waiting for an improvement
/// finds what never stopping early finds.
#[test]
fn waiting_for_an_improvement_is_exact_without_a_length_penalty() {
    let mut differs = 0;
    for seed in 0..40 {
        for beam in [2, 3, 5] {
            let with = |early_stopping, length_penalty| {
                let options = SearchOptions { early_stopping, length_penalty, ..options(beam, 12) };
                search(hashed(seed), &options, None)
            };
            let exact = with(EarlyStopping::Never, 0.0);
            assert_eq!(with(EarlyStopping::Improvement, 0.0), exact, "{seed} {beam}");
            let [first, improved, best] =
                [EarlyStopping::Finished, EarlyStopping::Improvement, EarlyStopping::Never]
                    .map(|stopping| with(stopping, 1.0));
            assert!(improved[0].score >= first[0].score && improved[0].score <= best[0].score);
            differs += usize::from(improved != first);
        }
    }
    assert!(differs > 20, "{differs} differences");
}

/// Search with a narrowing beam, written from its description: sorts all continuations of a step.
fn narrowing(seed: u64, options: &SearchOptions) -> Vec<(Vec<u32>, f32)> {
    let mut live = vec![(Vec::new(), 0.0)];
    let mut finished = Vec::new();
    for len in 1..=options.max_len_extra {
        let mut longer: Vec<(Vec<u32>, f32)> = Vec::new();
        for (ids, log_probability) in &live {
            let mut scores = hashed(seed)(&[&[BOS], &ids[..]].concat());
            log_softmax(&mut scores);
            for (id, score) in (0..).zip(scores).filter(|(id, _)| ![PAD, BOS].contains(id)) {
                longer.push(([&ids[..], &[id]].concat(), log_probability + score));
            }
        }
        longer.sort_by(|x, y| y.1.total_cmp(&x.1));
        longer.truncate(options.beam - finished.len());
        live.clear();
        for hypothesis in longer {
            let ends = hypothesis.0.last() == Some(&EOS) || len == options.max_len_extra;
            if ends { finished.push(hypothesis) } else { live.push(hypothesis) }
        }
    }
    for (ids, score) in &mut finished {
        *score /= (ids.len() as f32).powf(options.length_penalty);
    }
    finished.sort_by(|x, y| y.1.total_cmp(&x.1));
    finished
}

#[test]
fn a_narrowing_beam_equals_an_independent_search() {
    let mut differs = 0;
    for seed in 0..60 {
        for (beam, max_tokens, length_penalty) in
            [(2, 12, 1.0), (3, 12, 0.6), (6, 9, 1.0), (6, 3, 0.0), (12, 8, 1.0)]
        {
            let options = SearchOptions {
                early_stopping: EarlyStopping::Narrowing,
                length_penalty,
                ..options(beam, max_tokens)
            };
            let found = search(hashed(seed), &options, None);
            let expected = narrowing(seed, &options);
            let what = format!("{seed} {options:?}");
            assert_eq!(found.len(), expected.len(), "{what}");
            for (found, (ids, score)) in found.iter().zip(&expected) {
                assert_eq!(found.ids, *ids, "{what}");
                assert!((found.score - score).abs() < 1e-5, "{what}");
            }
            let wide = SearchOptions { early_stopping: EarlyStopping::Finished, ..options };
            differs += usize::from(search(hashed(seed), &wide, None) != found);
        }
    }
    assert!(differs > 100, "{differs} differences to a beam that does not narrow");
}

/// All targets with `a b` and with `c` or `d e`, of at most five tokens: the tokens are 3 to 7, and ids below 3 but
/// `<eos>` are impossible. The beam holds all of them.
#[test]
fn constrained_search_finds_the_best_target_with_the_constraints() {
    const MAX: usize = 5;
    let constraint = |forms: &[&[u32]]| {
        let form = |ids: &&[u32]| Form { ids: ids.to_vec(), at_start: false, ends_word: false };
        Constraint { forms: forms.iter().map(form).collect() }
    };
    let required = vec![constraint(&[&[3, 4]]), constraint(&[&[5], &[6, 7]])];
    let tokenizer = Tokenizer::train(&TokenizerConfig::default(), SpecialTokens::Standard, &["a"]);
    let words = WordTable::of(&tokenizer.unwrap()).into();
    let constraints = Constraints::new(required, MAX, words);
    let meets = |ids: &[u32]| {
        let has = |form: &[u32]| ids.windows(form.len()).any(|window| window == form);
        has(&[3, 4]) && (has(&[5]) || has(&[6, 7]))
    };
    for seed in 0..200 {
        let logits = hashed(seed);
        let mut best: Option<(f32, Vec<u32>)> = None;
        let mut open = vec![(Vec::new(), 0.0)];
        while let Some((ids, log_probability)) = open.pop() {
            let mut scores = logits(&[&[BOS], &ids[..]].concat());
            log_softmax(&mut scores);
            for token in [EOS, 3, 4, 5, 6, 7] {
                let longer = [&ids[..], &[token]].concat();
                let log_probability: f32 = log_probability + scores[token as usize];
                let is_done = token == EOS || longer.len() == MAX;
                let score = log_probability / longer.len() as f32;
                if is_done && meets(&longer) && best.as_ref().is_none_or(|(best, _)| *best < score)
                {
                    best = Some((score, longer.clone()));
                }
                if !is_done {
                    open.push((longer, log_probability));
                }
            }
        }
        let (score, ids) = best.unwrap();
        let options = SearchOptions { n_best: 1, ..options(9_000, MAX) };
        let request = Request { constraints: Some(&constraints), ..Request::new(&[EOS], 0) };
        let found = search_request(&logits, &options, request).remove(0);
        assert_eq!(found.ids, ids, "{seed}");
        assert!((found.score - score).abs() < 1e-5, "{seed}: {} and {score}", found.score);
        // A narrow beam meets the constraints as well.
        for beam in [2, 3, 4, 8] {
            let options = SearchOptions { n_best: 1, ..self::options(beam, MAX) };
            let found = search_request(&logits, &options, request).remove(0);
            assert!(meets(&found.ids), "{seed}, {beam}: {:?}", found.ids);
            assert!(found.score <= score + 1e-5, "{seed}, {beam}");
        }
    }
}

/// Value of a recorded option.
fn read(options: &Value, beam: usize, max_tokens: usize) -> SearchOptions {
    let flag = |key: &str| options[key].as_bool().unwrap_or(false);
    let early_stopping = match &options["early_stopping"] {
        Value::Bool(false) => EarlyStopping::Improvement,
        Value::String(name) if name == "never" => EarlyStopping::Never,
        // Greedy search has no such option.
        Value::Bool(true) | Value::Null => EarlyStopping::Finished,
        other => panic!("no rule {other}"),
    };
    SearchOptions {
        early_stopping,
        length_penalty: options["length_penalty"].as_f64().unwrap_or(1.0) as f32,
        renormalize: flag("renormalize_logits"),
        force_eos: options["forced_eos_token_id"].is_u64(),
        no_repeat_ngram: options["no_repeat_ngram_size"].as_u64().unwrap_or(0) as usize,
        ..self::options(beam, max_tokens)
    }
}

#[test]
fn searches_equal_those_of_transformers() {
    let record: Value = serde_json::from_str(include_str!("fixtures/transformers.json")).unwrap();
    let mut compared = 0;
    for case in record["cases"].as_array().unwrap() {
        let recorded = &case["options"];
        let number = |key: &str| recorded[key].as_u64();
        let [beam, max_tokens] = ["beam", "max_tokens"].map(|key| number(key).unwrap() as usize);
        let options = read(recorded, beam, max_tokens);
        let forced_first = number("forced_bos_token_id").map(|id| id as u32);
        for (seed, expected) in (0..).zip(case["found"].as_array().unwrap()) {
            let found = search(hashed(seed), &options, forced_first);
            let expected = expected.as_array().unwrap();
            let what = format!("{recorded}, seed {seed}: {found:?}");
            assert_eq!(found.len(), expected.len(), "{what}");
            for (found, expected) in found.iter().zip(expected) {
                let ids: Vec<u32> = serde_json::from_value(expected["ids"].clone()).unwrap();
                assert_eq!(found.ids, ids, "{what}");
                if let Some(score) = expected["score"].as_f64() {
                    assert!((f64::from(found.score) - score).abs() < 1e-5, "{what}");
                }
                compared += 1;
            }
        }
    }
    assert!(compared > 900, "{compared} hypotheses");
}
