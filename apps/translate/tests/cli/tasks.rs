use std::{fs, io::Write, path::Path, sync::LazyLock, thread, time::Duration};

use burn::tensor::Device;
use serde_json::Value;
use tempfile::TempDir;
use tx_infer::{
    Classifier, FillMask, Generator, ModelTask, ModuleBundle, Prompt, Sampling, SearchOptions,
};
use tx_model::{LanguageModel, MaskedLanguageModel, ModelConfig, Pooling};
use tx_text::{Tokenizer, TokenizerConfig, TokenizerKind, Tokenizers, special::SpecialTokens};

use crate::{Run, cli::conversing::at_a_terminal, file, model, run};

const WORDS: &str = "one two three four five six seven";

/// Bundles with random weights, one for each task with one text.
static BUNDLES: LazyLock<TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let device = Device::flex();
    device.seed(5);
    let config = ModelConfig {
        d_model: 8,
        n_heads: 2,
        d_ff: 8,
        encoder_layers: 1,
        decoder_layers: 1,
        max_len: 12,
        ..ModelConfig::default()
    };
    let tokenizer = |special| {
        let config = TokenizerConfig { kind: TokenizerKind::Word, ..TokenizerConfig::default() };
        Tokenizer::train(&config, special, &[WORDS]).unwrap()
    };
    let standard = tokenizer(SpecialTokens::Standard);
    let masked = tokenizer(SpecialTokens::WithMask);
    let labels = ["even", "odd", "none\u{1b}"].map(String::from).to_vec();
    let model =
        tx_model::Classifier::new(&config, standard.vocab_size(), 3, Pooling::Mean, &device);
    let task = ModelTask::Classify { labels, pooling: Pooling::Mean };
    save(&folder.path().join("classify"), model.unwrap(), task, &config, &standard);
    let model = LanguageModel::new(&config, standard.vocab_size(), &device).unwrap();
    save(&folder.path().join("generate"), model, ModelTask::Generate, &config, &standard);
    let model = MaskedLanguageModel::new(&config, masked.vocab_size(), &device).unwrap();
    save(&folder.path().join("fill-mask"), model, ModelTask::FillMask, &config, &masked);
    folder
});

fn save<M: tx_infer::BundleModel>(
    path: &Path,
    model: M,
    task: ModelTask,
    config: &ModelConfig,
    tokenizer: &Tokenizer,
) {
    let tokenizers = Tokenizers::from(tokenizer.clone());
    let config = config.clone();
    ModuleBundle {
        model,
        task,
        config,
        tokenizers,
        languages: None,
        context: 0,
        search: None,
        lexicon: None,
        provenance: Default::default(),
    }
    .save(path)
    .unwrap();
}

pub(super) fn path(task: &str) -> String {
    BUNDLES.path().join(task).to_str().unwrap().to_owned()
}

/// Runs the model of a task on lines.
fn answered(task: &str, arguments: &[&str], input: &str) -> Run {
    run(&[&["--model", &path(task)], arguments].concat(), input)
}

/// Runs a command with the model of a task.
fn command(name: &str, task: &str, arguments: &[&str]) -> Run {
    run(&[&[name, "--model", &path(task)], arguments].concat(), "")
}

const CPU: tx_infer::Device = tx_infer::Device::Cpu;

#[test]
fn each_line_has_its_label_and_probability() {
    let classifier = Classifier::open(path("classify"), &CPU).unwrap();
    let texts = ["one two", "", "seven three four"];
    let found = classifier.classify_batch(&texts).unwrap();
    let pairs = |count: usize| -> String {
        let line = |found: &tx_infer::Classification| {
            let scores = found.scores.iter().take(count);
            // The label with a control character is printed as an escape.
            let fields = scores.map(|score| {
                format!("{}\t{:.6}", score.label.replace('\u{1b}', "\\u{1b}"), score.probability)
            });
            fields.collect::<Vec<_>>().join("\t") + "\n"
        };
        found.iter().map(line).collect()
    };
    let input = texts.join("\n") + "\n";
    assert_eq!(answered("classify", &[], &input).printed(), pairs(1));
    assert_eq!(answered("classify", &["--top-k", "2"], &input).printed(), pairs(2));
    assert_eq!(answered("classify", &["--top-k", "9"], &input).printed(), pairs(3));
    let folder = tempfile::tempdir().unwrap();
    let file = file(&folder, "texts", &input);
    assert_eq!(answered("classify", &["--input", &file], "").printed(), pairs(1));

    let json = answered("classify", &["--json"], &input).printed();
    let json: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(json.len(), 3);
    assert_eq!((&json[2]["line"], &json[2]["text"]), (&3.into(), &texts[2].into()));
    assert_eq!(json[2]["label"].as_str(), found[2].label());
    assert_eq!(json[2]["labels"].as_array().unwrap().len(), 3);
    assert!(json[1]["label"].is_null() && json[1]["labels"].as_array().unwrap().is_empty());
}

#[test]
fn each_line_is_continued() {
    let generator = Generator::open(path("generate"), &CPU).unwrap();
    let lines = ["one two", "", "seven"];
    let input = lines.join("\n") + "\n";
    let texts = |options: SearchOptions| -> String {
        let generator = generator.clone().with_options(options).unwrap();
        let found = generator.continue_batch(&lines).unwrap();
        found.into_iter().map(|found| found.text + "\n").collect()
    };
    let greedy = answered("generate", &[], &input).printed();
    assert_eq!(greedy, texts(SearchOptions::greedy()));
    assert!(greedy.starts_with("one two"), "{greedy}");
    let beam = SearchOptions { beam: 3, max_len: Some(6), ..SearchOptions::default() };
    let printed = answered("generate", &["--beam", "3", "--max-len", "6"], &input).printed();
    assert_eq!(printed, texts(beam));
    let sampling = Sampling { seed: 7, top_k: 4, ..Sampling::default() };
    let printed = answered("generate", &["--sample", "--top-k", "4", "--seed", "7"], &input);
    assert_eq!(printed.printed(), texts(SearchOptions::sampling(sampling)));

    let list = answered("generate", &["--sample", "--samples", "2"], &input).printed();
    let numbers: Vec<&str> = list.lines().map(|line| &line[..6]).collect();
    assert_eq!(numbers, ["0 ||| ", "0 ||| ", "1 ||| ", "1 ||| ", "2 ||| ", "2 ||| "]);
    let json = answered("generate", &["--json"], &input).printed();
    let json: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let first = &json[0]["continuations"][0];
    let joined = format!("one two{}", first["continuation"].as_str().unwrap());
    assert_eq!((json.len(), first["text"].as_str()), (3, Some(&joined[..])));
}

#[test]
fn each_mask_is_filled() {
    let model = FillMask::open(path("fill-mask"), &CPU).unwrap();
    let lines = ["one <mask> three", "", "<mask> <mask>"];
    let input = lines.join("\n") + "\n";
    let found = model.fill_batch(&lines).unwrap();
    let texts: String = found.iter().map(|found| format!("{}\n", found.text)).collect();
    assert_eq!(answered("fill-mask", &[], &input).printed(), texts);
    let listed = answered("fill-mask", &["--top-k", "2"], &input).printed();
    let fields: Vec<usize> = listed.lines().map(|line| line.split('\t').count()).collect();
    assert_eq!(fields, [1 + 2 * 2, 1, 1 + 2 * 2 * 2]);
    let json = answered("fill-mask", &["--json", "--top-k", "3"], &input).printed();
    let json: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(json[2]["masks"].as_array().unwrap().len(), 2);
    assert_eq!(json[0]["masks"][0].as_array().unwrap().len(), 3);
    assert_eq!(json[0]["filled"].as_str(), Some(&*found[0].text));

    let error = answered("fill-mask", &[], "one <mask>\n\nthree four\n");
    assert_eq!(error.code, Some(1));
    assert!(error.stderr.contains("line 3 has no `<mask>`"), "{}", error.stderr);
    assert!(error.stderr.contains("hint: write `<mask>`"), "{}", error.stderr);
    let long = format!("<mask> {WORDS} {WORDS}\n");
    answered("fill-mask", &[], &long).failed(1, &["line 1 has", "this model reads at most 12"]);
    answered("classify", &[], "<mask> one\n").printed();
}

#[test]
fn unknown_words_and_long_lines_are_reported() {
    let unknown = "warning: unknown words in line 1, read as <unk>: nine";
    for (task, input) in
        [("classify", "one nine\n"), ("generate", "one nine\n"), ("fill-mask", "<mask> nine\n")]
    {
        let found = answered(task, &[], input);
        assert!(found.stderr.contains(unknown), "{task}: {}", found.stderr);
        assert_eq!(answered(task, &["--quiet"], input).stderr, "");
    }
    let long = format!("{WORDS} {WORDS}\n");
    let found = answered("classify", &[], &long);
    assert!(found.stderr.contains("line 1 was truncated to 12 tokens"), "{}", found.stderr);
    let found = answered("generate", &[], &format!("one\n{long}"));
    found.failed(1, &["the prefix of line 2 has 14 tokens; this model generates at most 11"]);
}

#[test]
fn arguments_of_other_tasks_are_refused_by_name() {
    for (task, arguments, name) in [
        ("classify", &["--beam", "4"][..], "--beam"),
        ("classify", &["--sample"], "--sample"),
        ("classify", &["--prefix", "x"], "--prefix"),
        ("fill-mask", &["--n-best", "1"], "--n-best"),
        ("fill-mask", &["--max-len", "1"], "--max-len"),
        ("generate", &["--max-len-ratio", "2"], "--max-len-ratio"),
        ("generate", &["--replace-unk"], "--replace-unk"),
        ("generate", &["--prefix", "x"], "--prefix"),
        ("generate", &["--alignment", "pharaoh"], "--alignment"),
        ("classify", &["--ensemble", "x"], "--ensemble"),
    ] {
        let problem = format!("`{name}` conflicts with the task of the bundle, `{task}`");
        answered(task, arguments, "one\n").failed(2, &[&problem]);
    }
    answered("generate", &["--top-k", "2"], "one\n").failed(2, &["`--top-k` needs `--sample`"]);
    answered("classify", &["--top-k", "0"], "one\n").failed(2, &["`--top-k` = 0"]);
    answered("generate", &["--beam", "0"], "one\n").failed(2, &["--beam"]);
}

#[test]
fn commands_for_translation_name_the_task_of_the_bundle() {
    let folder = tempfile::tempdir().unwrap();
    let texts = file(&folder, "texts", "one two\n");
    for (task, kind) in
        [("classify", "`Classifier`"), ("generate", "`Generator`"), ("fill-mask", "`FillMask`")]
    {
        let found = command("align", task, &["--source", &texts, "--target", &texts]);
        let problem = format!("is a model for the task `{task}`, expected `translate`");
        found.failed(1, &[&problem, "hint: ", kind]);
        let model = path(task);
        let score = ["score", "--reference", &texts, "--model", &model, "--source", &texts];
        let found = run(&score, "");
        assert_eq!(found.code, Some(1), "{}", found.stderr);
        assert!(found.stderr.contains(&problem), "{}", found.stderr);
    }
    for task in ["classify", "fill-mask"] {
        let problem = format!("is a model for the task `{task}`, expected `translate`");
        command("force", task, &["--source", &texts, "--target", &texts]).failed(1, &[&problem]);
    }
    let found = run(&["--model", model(), "--ensemble", &path("generate")], "one\n");
    assert_eq!(found.code, Some(1), "{}", found.stderr);
    assert!(found.stderr.contains("for the task `generate`"), "{}", found.stderr);
}

#[test]
fn language_models_are_an_ensemble_if_they_have_one_vocabulary() {
    let generate = path("generate");
    let alone = answered("generate", &[], "one\ntwo three\n");
    let twice = answered("generate", &["--ensemble", &generate], "one\ntwo three\n");
    assert_eq!((twice.code, twice.stdout), (Some(0), alone.stdout));
    let found = answered("generate", &["--ensemble", model()], "one\n");
    assert_eq!(found.code, Some(1), "{}", found.stderr);
    assert!(found.stderr.contains("for the task `translate`"), "{}", found.stderr);
}

/// The perplexity of all lines is that of their summed log-probability.
#[test]
fn texts_are_scored_without_targets() {
    let folder = tempfile::tempdir().unwrap();
    let texts = file(&folder, "texts", "one two\n\nseven three four\n");
    let generator = Generator::open(path("generate"), &CPU).unwrap();
    let expected = generator.score(&["one two", "", "seven three four"], 0).unwrap();
    let found = command("force", "generate", &["--source", &texts]);
    assert_eq!(found.code, Some(0), "{}", found.stderr);
    let mut lines = found.stdout.lines();
    assert_eq!(lines.next(), Some("log_probability\ttokens\tperplexity"));
    for score in &expected {
        let line = format!(
            "{:.6}\t{}\t{:.6}",
            score.log_probability(),
            score.ids.len(),
            score.perplexity()
        );
        assert_eq!(lines.next(), Some(&*line));
    }
    let total: f64 = expected.iter().map(tx_infer::TextScore::log_probability).sum();
    // Tokens include `<eos>`: 3 + 1 + 4; 5 words; characters: 7 + 0 + 16.
    let per = |units: f64| format!("{:.4} per", (-total / units).exp());
    for words in [&per(8.0), &per(5.0), &per(23.0), "3 lines, 8 tokens, 5 words, 23 characters"] {
        assert!(found.stderr.contains(words), "{words}: {}", found.stderr);
    }
    let json = command("force", "generate", &["--source", &texts, "--json", "--quiet"]).printed();
    let json: Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(json["tokens"].as_array().unwrap().len(), 3);
    assert_eq!(json["tokens"][2], "<eos>");
    assert_eq!((&json["words"], &json["characters"]), (&2.into(), &7.into()));
    command("force", "generate", &["--source", &texts, "--target", &texts])
        .failed(2, &["`--target` conflicts with the task of the bundle, `generate`"]);
    let one_model = ["force", "--model", model(), "--source", &texts];
    run(&one_model, "").failed(2, &["`--target` is required"]);
}

#[test]
fn contents_invariants_speed_and_attention_of_every_task() {
    for (task, parts, kind) in [
        ("classify", ["embedding", "output"], "encoder"),
        ("generate", ["self-attention", "projection"], "decoder"),
        ("fill-mask", ["encoder self-attention", "projection"], "encoder"),
    ] {
        let text = command("inspect", task, &[]).printed();
        for word in [parts[0], parts[1], "tokenizer.json", &format!("  {task}\n")] {
            assert!(text.contains(word), "no {word} in {text}");
        }
        assert_eq!(text.contains("<mask> 4"), task == "fill-mask", "{text}");
        let json: Value =
            serde_json::from_str(&command("inspect", task, &["--json"]).printed()).unwrap();
        assert_eq!(json["task"].as_str(), Some(task));
        let total = json["parameters"]["total"].as_u64();
        let sum = json["parameters"]["parts"].as_object().unwrap().values();
        assert_eq!(total, sum.map(Value::as_u64).sum());
        assert!(json["parameters"]["parts"]["other"].is_null(), "{json:#}");

        let checked = command("check", task, &[]).printed();
        assert!(checked.contains("pass  scores are finite"), "{checked}");
        assert!(checked.contains("pass  texts round-trip"), "{checked}");

        let lengths = ["--source-len", "4", "--target-len", "3", "--rounds", "2", "--json"];
        let measured = command("bench", task, &lengths);
        assert_eq!(measured.code, Some(0), "{}", measured.stderr);
        let report: Value = serde_json::from_str(measured.stdout.lines().next().unwrap()).unwrap();
        // 64 texts, of which 3 tokens are generated or 4 are read.
        let tokens = if task == "generate" { 64 * 3 } else { 64 * 4 };
        assert_eq!(report["timing"]["tokens"], tokens);
        let long = command("bench", task, &["--source-len", "11", "--target-len", "2"]);
        assert_eq!(long.code == Some(2), task == "generate", "{}", long.stderr);

        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("attention.json");
        let text = if task == "fill-mask" { "one <mask> two" } else { "one two" };
        let arguments = ["--text", text, "--out", out.to_str().unwrap(), "--quiet"];
        assert_eq!(command("attention", task, &arguments).printed(), "");
        let maps: Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
        for other in ["encoder", "decoder", "cross"] {
            let layers = maps[other]["layers"].as_array().unwrap();
            assert_eq!(layers.is_empty(), other != kind, "{task}: {other}");
        }
        for extension in ["html", "svg"] {
            let out = folder.path().join(format!("attention.{extension}"));
            let arguments = ["--text", text, "--out", out.to_str().unwrap(), "--quiet"];
            assert_eq!(command("attention", task, &arguments).printed(), "");
            assert!(fs::read_to_string(&out).unwrap().contains("two"));
        }
        let wrong = [&arguments[..], &["--kind", "cross"]].concat();
        command("attention", task, &wrong).failed(2, &["`--kind cross` conflicts", kind]);
        let wrong = [&arguments[..], &["--target", "one"]].concat();
        command("attention", task, &wrong).failed(2, &["`--target`", task]);
    }
}

#[test]
fn unusual_lines_give_a_line_each() {
    let unusual = ["one\0two", "🦀", "\u{feff}one", "one\u{2028}two\rthree", "<eos> <pad>", "\t"];
    for task in ["classify", "generate", "fill-mask"] {
        let mask = if task == "fill-mask" { " <mask>" } else { "" };
        let input: String = unusual.iter().map(|line| format!("{line}{mask}\n")).collect();
        let printed = answered(task, &["--quiet"], &input).printed();
        assert_eq!(printed.split_terminator('\n').count(), unusual.len(), "{task}: {printed:?}");
        assert!(!printed.contains(['\r', '\u{2028}', '\0']), "{task}: {printed:?}");
    }
}

#[test]
fn parts_of_a_text_are_the_same_without_a_terminal() {
    let generator = Generator::open(path("generate"), &CPU).unwrap();
    let mut text = String::from("one");
    let options = SearchOptions::greedy();
    let never = tx_infer::Cancellation::new();
    let prompt = Prompt { text: "one", number: 0 };
    generator.continue_streaming(prompt, &options, &never, |part| text += part).unwrap();
    assert_eq!(answered("generate", &["--text", "one"], "").printed(), text + "\n");
}

#[test]
fn a_continuation_is_shown_at_a_terminal_and_is_the_same() {
    let expected = answered("generate", &[], "one two\n\n").printed();
    let folder = tempfile::tempdir().unwrap();
    let input = file(&folder, "input.txt", "one two\n\n");
    let arguments = ["--input".to_owned(), input];
    let Some(child) = at_a_terminal(&path("generate"), &arguments, "dumb", Path::new("")) else {
        return;
    };
    let ended = child.wait_with_output().unwrap();
    let shown = String::from_utf8_lossy(&ended.stdout).replace('\r', "");
    assert_eq!((ended.status.code(), &*shown), (Some(0), &*expected));
}

#[test]
fn texts_typed_at_a_terminal_are_answered() {
    for (task, text) in [("classify", "one two"), ("generate", "one"), ("fill-mask", "one <mask>")]
    {
        let expected = answered(task, &[], &format!("{text}\n")).printed();
        let folder = tempfile::tempdir().unwrap();
        let history = folder.path().join("history");
        let interactive = ["--interactive".to_owned()];
        let Some(mut child) = at_a_terminal(&path(task), &interactive, "dumb", &history) else {
            return;
        };
        let mut stdin = child.stdin.take().unwrap();
        for line in [text, ":bst", "", ":help", ":quit"] {
            writeln!(stdin, "{line}").unwrap();
            // Gives the program time to answer before the next line.
            thread::sleep(Duration::from_millis(300));
        }
        let output = child.wait_with_output().unwrap();
        drop(stdin);
        let shown = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{shown}");
        // A tab is shown as spaces by some terminals.
        for field in expected.trim_end().split('\t') {
            assert!(shown.contains(field), "no `{field}` in:\n{shown}");
        }
        for word in ["unknown command `:bst`", ":quit   exit"] {
            assert!(shown.contains(word), "no `{word}` in:\n{shown}");
        }
        assert!(fs::read_to_string(&history).unwrap().contains(text));
    }
}
