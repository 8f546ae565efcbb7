use serde_json::Value;
use tx_infer::{
    EarlyStopping, LengthNorm, Sampling, SearchOptions, Translation, tx_text::special::UNK,
};

use crate::{Run, bundle, command, file, model, run, translate, translator};

const LINES: [&str; 5] =
    ["one two three", "", "seven", "six five four three two one", "two two unknown words"];

fn found(lines: &[&str], options: SearchOptions) -> Vec<Translation> {
    translator(options).translate_batch(lines).unwrap()
}

/// Each option of the command line with its field in the library.
#[test]
fn every_option_reaches_the_search() {
    let base = SearchOptions::default;
    let sampled = |sampling| SearchOptions::sampling(sampling);
    let id = |token: &str| translator(base()).tokenizers().target.id(token).unwrap();
    let cases: Vec<(&str, SearchOptions)> = vec![
        ("--beam 1", SearchOptions::greedy()),
        ("--beam 3 --length-penalty 0", SearchOptions { beam: 3, length_penalty: 0.0, ..base() }),
        ("--length-penalty -1", SearchOptions { length_penalty: -1.0, ..base() }),
        ("--length-norm none", SearchOptions { length_norm: LengthNorm::None, ..base() }),
        (
            "--length-norm wu --length-penalty 3",
            SearchOptions { length_norm: LengthNorm::Wu, length_penalty: 3.0, ..base() },
        ),
        ("--word-penalty -0.5", SearchOptions { word_penalty: -0.5, ..base() }),
        ("--coverage-penalty 3", SearchOptions { coverage_penalty: 3.0, ..base() }),
        (
            "--coverage-penalty 3 --attention-layer 1",
            SearchOptions { coverage_penalty: 3.0, attention_layer: Some(1), ..base() },
        ),
        (
            "--early-stopping never",
            SearchOptions { early_stopping: EarlyStopping::Never, ..base() },
        ),
        (
            "--early-stopping first",
            SearchOptions { early_stopping: EarlyStopping::First, ..base() },
        ),
        ("--patience 3", SearchOptions { patience: 3.0, ..base() }),
        ("--groups 2", SearchOptions { groups: 2, ..base() }),
        (
            "--beam 6 --groups 3 --diversity 4",
            SearchOptions { beam: 6, groups: 3, diversity: 4.0, ..base() },
        ),
        ("--max-len 2", SearchOptions { max_len: Some(2), ..base() }),
        (
            "--max-len-ratio 0.5 --max-len-extra 1",
            SearchOptions { max_len_ratio: 0.5, max_len_extra: 1, ..base() },
        ),
        ("--min-len 7", SearchOptions { min_len: 7, ..base() }),
        ("--min-len-ratio 1.5", SearchOptions { min_len_ratio: 1.5, ..base() }),
        ("--repetition-penalty 5", SearchOptions { repetition_penalty: 5.0, ..base() }),
        ("--no-repeat-ngram 1", SearchOptions { no_repeat_ngram: 1, ..base() }),
        ("--max-repeats 1", SearchOptions { max_repeats: 1, ..base() }),
        (
            "--suppress three --suppress-id 7",
            SearchOptions { suppress: vec![7, id("three")], ..base() },
        ),
        ("--no-unk --beam 2", SearchOptions { suppress: vec![UNK], beam: 2, ..base() }),
        ("--min-len 4 --renormalize", SearchOptions { min_len: 4, renormalize: true, ..base() }),
        ("--replace-unk", SearchOptions { replace_unknown: true, ..base() }),
        ("--sample", sampled(Sampling::default())),
        ("--sample --beam 1 --seed 7", sampled(Sampling { seed: 7, ..Sampling::default() })),
        (
            "--sample --temperature 0.3",
            sampled(Sampling { temperature: 0.3, ..Sampling::default() }),
        ),
        ("--sample --top-k 2", sampled(Sampling { top_k: 2, ..Sampling::default() })),
        ("--sample --top-p 0.4", sampled(Sampling { top_p: 0.4, ..Sampling::default() })),
    ];
    let plain: Vec<String> = found(&LINES, base()).into_iter().map(|found| found.text).collect();
    let mut changed = 0;
    for (arguments, options) in cases {
        let expected: Vec<String> =
            found(&LINES, options).into_iter().map(|found| found.text).collect();
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let printed = translate(&arguments, LINES.join("\n")).printed();
        assert_eq!(printed.lines().collect::<Vec<_>>(), expected, "{arguments:?}");
        changed += usize::from(expected != plain);
    }
    assert!(changed > 15, "only {changed} options changed a translation");
}

#[test]
fn n_best_lists_have_the_format_of_moses() {
    let options = SearchOptions { beam: 5, n_best: 3, ..SearchOptions::default() };
    let printed = translate(&["--beam", "5", "--n-best", "3"], LINES.join("\n")).printed();
    let mut lines = printed.lines();
    for (number, translation) in found(&LINES, options).iter().enumerate() {
        if translation.hypotheses.is_empty() {
            assert_eq!(lines.next(), Some("1 |||  ||| logprob= 0 ||| 0"));
        }
        for scored in &translation.hypotheses {
            let parts: Vec<&str> = lines.next().unwrap().split(" ||| ").collect();
            let [index, text, feature, score] = parts[..] else { panic!("{parts:?}") };
            let (name, log_probability) = feature.split_once(' ').unwrap();
            assert_eq!((index, text, name), (&*number.to_string(), &*scored.text, "logprob="));
            let close =
                |printed: &str, value: f32| (printed.parse::<f32>().unwrap() - value).abs() < 1e-5;
            assert!(close(log_probability, scored.hypothesis.log_probability));
            assert!(close(score, scored.hypothesis.score));
        }
    }
    assert_eq!(lines.next(), None);
}

#[test]
fn json_contains_tokens_and_scores_of_all_hypotheses() {
    let options = SearchOptions { n_best: 2, ..SearchOptions::default() };
    let printed = translate(&["--n-best", "2", "--json"], LINES.join("\n")).printed();
    let translator = translator(SearchOptions::default());
    for ((line, text), (number, source)) in
        printed.lines().zip(found(&LINES, options)).zip((1..).zip(LINES))
    {
        let object: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&object["line"], &object["source"]), (&number.into(), &source.into()));
        assert_eq!(
            (&object["text"], &object["truncated"]),
            (&text.text.clone().into(), &false.into())
        );
        let translations = object["translations"].as_array().unwrap();
        assert_eq!(translations.len(), text.hypotheses.len());
        for (object, scored) in translations.iter().zip(&text.hypotheses) {
            assert_eq!(object["text"], scored.text);
            assert_eq!(object["score"].as_f64().unwrap() as f32, scored.hypothesis.score);
            let ids = object["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap());
            let tokens = object["tokens"].as_array().unwrap();
            for (id, token) in ids.zip(tokens) {
                let expected = translator.tokenizers().target.token(id as u32);
                assert_eq!(token.as_str(), expected.as_deref());
            }
        }
    }
    assert_eq!(printed.lines().count(), LINES.len());
}

/// Samples depend on seed, line and number of the sample only.
#[test]
fn samples_do_not_depend_on_batches() {
    let arguments = ["--sample", "--samples", "3", "--seed", "5"];
    let all = translate(&arguments, LINES.join("\n")).printed();
    assert_eq!(all.lines().count(), 3 * 4 + 1);
    for more in [&["--batch-size", "1"][..], &["--batch-size", "2"], &["--batch-tokens", "1"]] {
        assert_eq!(translate(&[&arguments, more].concat(), LINES.join("\n")).printed(), all);
    }
    assert_eq!(
        translate(&[&arguments[..], &["--threads", "3"]].concat(), LINES.join("\n")).printed(),
        all
    );
    let other =
        translate(&["--sample", "--samples", "3", "--seed", "6"], LINES.join("\n")).printed();
    assert_ne!(other, all);
}

#[test]
fn translations_begin_with_their_prefix() {
    let folder = tempfile::tempdir().unwrap();
    for line in translate(&["--prefix", "two five"], "one\nseven\n").printed().lines() {
        assert!(line.starts_with("two five"), "{line}");
    }
    let prefixes = ["three", "ignored", "", "one one one", "six"];
    let path = file(&folder, "prefixes.txt", prefixes.join("\n"));
    for more in [&[][..], &["--batch-size", "2"], &["--beam", "1"]] {
        let arguments = [&["--prefix-file", &path][..], more].concat();
        let printed = translate(&arguments, LINES.join("\n")).printed();
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!((lines.len(), lines[1]), (5, ""));
        for index in [0, 2, 3, 4] {
            assert!(lines[index].starts_with(prefixes[index]), "{}", lines[index]);
        }
    }
    // A prefix of the maximum length leaves no room for `<eos>`.
    let long = "one ".repeat(11);
    let printed = translate(&["--prefix", &long], "one\n").printed();
    assert!(printed.starts_with(long.trim()), "{printed}");
    let longer = "one ".repeat(12);
    translate(&["--prefix", &longer], "one\n")
        .failed(1, &["the prefix of line 1 has 12 tokens; this model generates at most 11"]);
}

#[test]
fn a_file_of_prefixes_has_a_line_for_each_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "prefixes.txt", "one\ntwo\n");
    translate(&["--prefix-file", &path], "one\ntwo\nthree\n")
        .failed(1, &["prefixes.txt` has 2 lines, but the input has more"]);
    let more = translate(&["--prefix-file", &path], "one\n");
    assert_eq!((more.code, more.stdout.lines().count()), (Some(1), 1));
    assert!(more.stderr.contains("prefixes.txt` has more lines than the input, which has 1"));
}

/// In a source of one word, attention can select only that word.
#[test]
fn an_unknown_word_is_replaced_by_a_source_word() {
    for device in ["cpu", "ndarray"] {
        for beam in ["1", "3"] {
            let arguments = ["--prefix", "Rex", "--beam", beam, "--device", device];
            let plain = translate(&arguments, "seven\n").printed();
            assert!(plain.starts_with("<unk>"), "{plain}");
            let replaced = [&arguments[..], &["--replace-unk"]].concat();
            let printed = translate(&replaced, "seven\n").printed();
            assert!(printed.starts_with("seven") && !printed.contains("<unk>"), "{printed}");
        }
    }
}

#[test]
fn an_ensemble_needs_one_vocabulary() {
    let model = model();
    let alone = translate(&[], LINES.join("\n")).printed();
    assert_eq!(translate(&["--ensemble", model], LINES.join("\n")).printed(), alone);
    assert_eq!(
        translate(&["--ensemble", model, "--ensemble", model], LINES.join("\n")).printed(),
        alone
    );
    let folder = tempfile::tempdir().unwrap();
    bundle("one two three four five six eight").save(folder.path()).unwrap();
    let other = folder.path().to_str().unwrap();
    translate(&["--ensemble", other], "one\n").failed(
        1,
        &[model, other, "different source vocabularies", "id 4 is `five` in one", "hint: "],
    );
    let missing = translate(&["--ensemble", "no/such"], "one\n");
    missing.failed(1, &["`no/such` is not a bundle"]);
}

#[test]
fn contradictions_are_refused_by_name() {
    for (arguments, words) in [
        ("--beam 4 --sample", &["`beam` = 4"][..]),
        ("--n-best 5", &["`n_best` = 5", "`beam` = 4"]),
        ("--beam 1 --n-best 2", &["`n_best` = 2", "`beam` = 1"]),
        ("--n-best 0", &["`n_best` = 0"]),
        ("--sample --n-best 2", &["--n-best", "--sample"]),
        ("--top-p 0.5", &["--sample"]),
        ("--top-k 5", &["--sample"]),
        ("--temperature 0.5", &["--sample"]),
        ("--samples 5", &["--sample"]),
        ("--seed 5", &["--sample"]),
        ("--sample --top-p 1.5", &["`top_p` = 1.5"]),
        ("--sample --top-p -0.5", &["`top_p` = -0.5"]),
        ("--sample --temperature 0", &["`temperature` = 0"]),
        ("--sample --samples 0", &["`samples`"]),
        ("--sample --groups 2", &["`groups` = 2", "`beam` = 1"]),
        ("--sample --coverage-penalty 1", &["`coverage_penalty`"]),
        ("--beam 5 --groups 2", &["`groups` = 2", "`beam` = 5"]),
        ("--groups 0", &["`groups` = 0"]),
        ("--diversity 0.5", &["--groups"]),
        ("--groups 1 --diversity 0.5", &["--diversity", "--groups"]),
        ("--groups 2 --diversity -1", &["`diversity` = -1"]),
        ("--length-norm none --length-penalty 1", &["--length-penalty", "--length-norm none"]),
        ("--length-norm mean", &["--length-norm"]),
        ("--coverage-penalty -1", &["`coverage_penalty` = -1"]),
        ("--beam 1 --coverage-penalty 1", &["`coverage_penalty`", "`beam` = 1"]),
        ("--beam 1 --patience 2", &["`patience`", "`beam` = 1"]),
        ("--beam 1 --early-stopping never", &["`early_stopping`", "`beam` = 1"]),
        ("--patience 2 --early-stopping never", &["`patience` = 2", "`early_stopping`"]),
        ("--patience 0", &["`patience` = 0"]),
        ("--max-len 0", &["`max_len`"]),
        ("--max-len 3 --min-len 4", &["`min_len` = 4", "`max_len` = 3"]),
        ("--min-len-ratio -1", &["`min_len_ratio` = -1"]),
        ("--repetition-penalty 0", &["`repetition_penalty` = 0"]),
        ("--suppress no-such-word", &["no-such-word", "vocabulary"]),
        ("--suppress <eos>", &["<eos>", "--min-len"]),
        ("--suppress-id 99", &["`suppress` = 99", "ends at 10"]),
        ("--no-unk --replace-unk", &["--no-unk", "--replace-unk"]),
        ("--suppress <unk> --replace-unk", &["--replace-unk", "<unk>"]),
        ("--renormalize", &["--renormalize", "--min-len"]),
        ("--attention-layer 1", &["--attention-layer", "--replace-unk"]),
        ("--attention-layer 0 --replace-unk", &["`attention_layer`"]),
        ("--attention-layer 2 --replace-unk", &["`attention_layer` = 2", "1 layers"]),
        ("--prefix a --prefix-file b", &["--prefix", "--prefix-file"]),
        ("--text a --prefix-file b", &["--text", "--prefix-file"]),
        ("--invalid skip", &["--invalid"]),
        ("--batch-size 0", &["--batch-size"]),
    ] {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        translate(&arguments, "one\n").failed(2, words);
    }
}

fn pair(folder: &tempfile::TempDir, source: &str, target: &str) -> [String; 2] {
    [file(folder, "source.txt", source), file(folder, "target.txt", target)]
}

fn force(files: &[String; 2], more: &[&str]) -> Run {
    let arguments = ["--source", &files[0], "--target", &files[1]];
    command("force", &[&arguments, more].concat())
}

/// Beam search and forced decoding give a translation the same log-probability, as text and JSON.
#[test]
fn forced_scores_equal_those_of_the_search() {
    let folder = tempfile::tempdir().unwrap();
    let lines = ["one two three", "seven", "six five four three two one"];
    let options = SearchOptions { suppress: vec![UNK], ..SearchOptions::default() };
    let translations = found(&lines, options);
    // A translation at the length limit has no `<eos>`, but as a target it has one.
    let ended: Vec<(&str, &Translation)> = lines
        .into_iter()
        .zip(&translations)
        .filter(|(_, found)| found.hypotheses[0].hypothesis.ids.last() == Some(&2))
        .collect();
    assert!(!ended.is_empty());
    let column = |part: fn(&(&str, &Translation)) -> String| {
        ended.iter().map(part).collect::<Vec<_>>().join("\n") + "\n"
    };
    let files =
        pair(&folder, &column(|(line, _)| (*line).into()), &column(|(_, t)| t.text.clone()));
    let plain = force(&files, &["--quiet"]).printed();
    let json = force(&files, &["--quiet", "--json"]).printed();
    let mut rows = plain.lines();
    assert_eq!(rows.next(), Some("log_probability\ttokens\tperplexity"));
    for (((_, translation), row), object) in ended.iter().zip(rows).zip(json.lines()) {
        let best = &translation.hypotheses[0].hypothesis;
        let columns: Vec<f64> = row.split('\t').map(|x| x.parse().unwrap()).collect();
        let own = f64::from(best.log_probability);
        assert!((columns[0] - own).abs() < 1e-4, "{row} {best:?}");
        assert_eq!(columns[1], best.ids.len() as f64);
        assert!((columns[2] - (-own / best.ids.len() as f64).exp()).abs() < 1e-3, "{row}");
        let object: Value = serde_json::from_str(object).unwrap();
        let parts = object["log_probabilities"].as_array().unwrap();
        let sum: f64 = parts.iter().map(|part| part.as_f64().unwrap()).sum();
        assert!((sum - own).abs() < 1e-4);
        assert_eq!(object["tokens"].as_array().unwrap().last(), Some(&"<eos>".into()));
    }
    let loud = force(&files, &[]);
    assert_eq!((loud.code, &loud.stdout), (Some(0), &plain));
    assert!(loud.stderr.starts_with("perplexity "), "{}", loud.stderr);
    for more in [&["--device", "ndarray"][..], &["--batch-tokens", "1"], &["--threads", "3"]] {
        let other = force(&files, &[more, &["--quiet"]].concat()).printed();
        for (one, other) in plain.lines().zip(other.lines()).skip(1) {
            for (one, other) in one.split('\t').zip(other.split('\t')) {
                let gap = one.parse::<f64>().unwrap() - other.parse::<f64>().unwrap();
                assert!(gap.abs() < 1e-4, "{more:?}: {one} {other}");
            }
        }
    }
}

#[test]
fn forced_decoding_names_files_and_lines_that_do_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let files = pair(&folder, "one\ntwo\n", "one\n");
    force(&files, &[]).failed(1, &["source.txt` has 2 lines", "target.txt` has 1"]);
    let files = pair(&folder, "one\ntwo\n", &format!("one\n{}\n", "one ".repeat(12)));
    let long = force(&files, &[]);
    assert_eq!(long.code, Some(1));
    let words = "the target of line 2 has 13 tokens; this model generates at most 12";
    assert!(long.stderr.contains(words), "{}", long.stderr);
    run(&["force", "--model", "x"], "").failed(2, &["--source"]);
    command("force", &["--source", &files[0]]).failed(2, &["`--target` is required"]);
    // An empty target consists of `<eos>`.
    let files = pair(&folder, "one\n\n", "\none\n");
    assert_eq!(force(&files, &["--quiet"]).printed().lines().count(), 3);
}
