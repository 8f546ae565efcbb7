use std::fs;

use tx_infer::{BundleInfo, Device, Translator};

use crate::{
    FILES, Workshop,
    cli::resuming::{NOISY, assert_same},
    corpus, set,
};

/// Dialogues: a sentence with a word, and a reply whose translation is that of the word.
const WORDS: [(&str, &str); 4] =
    [("un", "er"), ("une", "sie"), ("uno", "es"), ("une autre", "jene")];

/// Writes 48 dialogues of two lines as `d.src` and `d.tgt`, which end with an empty line.
fn dialogues(workshop: &Workshop) {
    let lines = |line: &dyn Fn(usize) -> String| (0..48).map(line).collect::<String>();
    workshop.write("d.src", lines(&|i| format!("{} mot\nou est il\n\n", WORDS[i % 4].0)));
    workshop.write("d.tgt", lines(&|i| format!("wort\n{}\n\n", WORDS[i % 4].1)));
}

const DIALOGUES: [&str; 4] = ["--source", "d.src", "--target", "d.tgt"];

/// A reply is translated by the line before it; the same sentence alone has one of four translations.
#[test]
fn a_model_learns_to_translate_by_the_sentence_before() {
    let workshop = Workshop::new();
    dialogues(&workshop);
    let settings = set(&[
        "data.context=1",
        "data.valid_share=0",
        "train.epochs=25",
        "model.dropout={ embedding = 0.0, residual = 0.0 }",
        "train.label_smoothing=0",
    ]);
    let run = workshop.train_tiny_on(&DIALOGUES, "run", &settings).trained();
    run.logged(&["context: the sentences of 48 documents\n", "of them with context"]);
    assert_eq!(BundleInfo::read(&workshop.path("run")).unwrap().context, 1);
    let translator = Translator::open(workshop.path("run"), &Device::Cpu).unwrap();
    for (word, expected) in WORDS {
        let lines = [format!("{word} mot"), "ou est il".to_owned()];
        let found = translator.translate_document(&lines).unwrap();
        assert_eq!([&*found[0].text, &*found[1].text], ["wort", expected]);
    }
    let alone = translator.translate("ou est il").unwrap().text;
    assert!(WORDS.iter().any(|(_, reply)| *reply == alone), "{alone}");
    let config = fs::read_to_string(workshop.path("run/config.toml")).unwrap();
    assert!(config.contains("\ncontext = 1\n"), "{config}");
}

/// In memory, on disk and in a list of corpora; other documents are another corpus.
#[test]
fn a_run_with_context_resumes_exactly() {
    let workshop = Workshop::new();
    let (source, target) = corpus();
    for (name, text) in [("d.src", source), ("d.tgt", target)] {
        let lines: Vec<&str> = text.lines().collect();
        let documents: Vec<String> = lines.chunks(4).map(|lines| lines.join("\n")).collect();
        workshop.write(name, documents.join("\n\n") + "\n");
    }
    let list = "data.train=[{ source = \"d.src\", target = \"d.tgt\" }, \
                { source = \"source.txt\", target = \"target.txt.gz\", context = 0 }]";
    let valid = "data.valid=[{ source = \"d.src\", target = \"d.tgt\" }]";
    for (name, files, keys) in [
        ("memory", &DIALOGUES[..], &["data.valid_share=0.2"][..]),
        ("disk", &DIALOGUES, &["data.valid_share=0.2", "data.prepared=corpus"]),
        ("list", &["--recipe", "small"], &[list, valid]),
    ] {
        let [whole, parts] = ["whole", "parts"].map(|run| format!("{run}-{name}"));
        let settings = [&["data.context=2", "data.context_dropout=0.3"][..], keys].concat();
        let settings = [&set(&settings)[..], &NOISY].concat();
        workshop.train_tiny_on(files, &whole, &settings).trained();
        let stop = set(&["train.max_steps=6"]);
        workshop.train_tiny_on(files, &parts, &[&settings[..], &stop].concat()).trained();
        workshop.train(&["--resume", &parts, "--set", "train.max_steps=1000"]).trained();
        assert_same(&workshop, &whole, &parts);
    }
    assert!(workshop.weights("whole-memory") == workshop.weights("whole-disk"), "disk differs");
    // The same pairs, of which two documents are one.
    for name in ["d.src", "d.tgt"] {
        let text = fs::read_to_string(workshop.path(name)).unwrap();
        workshop.write(name, text.replacen("\n\n", "\n", 1));
    }
    let resume = ["--resume", "whole-memory", "--set", "train.epochs=3"];
    workshop.train(&resume).failed(1, &["the training data has changed"]);
}

#[test]
fn context_needs_documents_and_a_separator() {
    let workshop = Workshop::new();
    dialogues(&workshop);
    for (settings, problem) in [
        ("data.context=101", "`context` = 101 must be at most 100"),
        ("data.context_dropout=1.5", "`context_dropout` = 1.5 must be in 0..1"),
    ] {
        workshop.train_tiny("run", &set(&[settings])).failed(2, &[problem]);
    }
    let generated =
        ["--recipe", "small", "--set", "data.source=reverse", "--set", "data.context=1"];
    workshop
        .train_tiny_on(&[], "run", &generated)
        .failed(2, &["generated pairs have no documents"]);
    workshop
        .train_task("classify", "run", &set(&["data.context=1"]))
        .failed(2, &["`context` is not available for the task \"classify\""]);
    workshop.train_tiny_on(&FILES, "plain", &[]).trained();
    let tuned = ["--from", "plain", "--set", "data.context=1", "--set", "data.valid_share=0"];
    workshop.train_tiny_on(&DIALOGUES, "tuned", &tuned).failed(2, &["was trained without context"]);
}
