use std::fs;

use tx_infer::{Device, FillMask};

use crate::{Run, TINY, Workshop, cli::training::weights, gzip, set};

/// Tasks that learn from documents.
const TASKS: [&str; 2] = ["generate", "fill-mask"];

/// Trains a tiny model on `source`.
fn train(workshop: &Workshop, task: &str, run: &str, source: &str, settings: &[&str]) -> Run {
    let recipe = ["--recipe", task, "--run", run, "--source", source];
    workshop.train(&[&recipe[..], &set(&TINY), &set(settings)].concat())
}

#[test]
fn empty_lines_line_ends_and_compression_change_nothing() {
    let workshop = Workshop::new();
    let text = fs::read_to_string(workshop.path("text.txt")).unwrap();
    let more = text.replace("\n\n", "\n \n\t\n\n");
    workshop.write("more.txt", format!("\n\n{more}"));
    workshop.write("dos.txt", format!("\u{feff}{}", text.replace('\n', "\r\n")));
    workshop.write("text.txt.gz", gzip(text.as_bytes()));
    for task in TASKS {
        let plain = format!("{task}-plain");
        train(&workshop, task, &plain, "text.txt", &[])
            .trained()
            .logged(&["training: 32 documents, "]);
        for source in ["more.txt", "dos.txt", "text.txt.gz"] {
            let run = format!("{task}-{source}");
            train(&workshop, task, &run, source, &[]).trained();
            assert!(workshop.weights(&run) == workshop.weights(&plain), "{run}: other weights");
        }
        // Without empty lines, each line can be a document.
        let lines = format!("{task}-lines");
        train(&workshop, task, &lines, "source.txt", &["data.documents=line"]).trained();
        assert!(workshop.weights(&lines) == workshop.weights(&plain), "{lines}: other weights");
    }
}

#[test]
fn a_single_document_cannot_be_divided_into_training_and_validation() {
    let workshop = Workshop::new();
    for task in TASKS {
        train(&workshop, task, "run", "source.txt", &[]).failed(
            1,
            &[
                "no usable document in the validation data: none of the 1 documents, which are \
                 separated by empty lines, can be set aside",
                "`data.documents = \"line\"`",
            ],
        );
        workshop.write("valid.txt", "\n \n");
        let valid = ["data.valid_source=valid.txt"];
        train(&workshop, task, "run", "source.txt", &valid)
            .failed(1, &["no usable document in the validation data: its file has no text"]);
        train(&workshop, task, "run", "valid.txt", &[])
            .failed(1, &["no usable document in the training data"]);
        workshop.write("empty.txt", "");
        train(&workshop, task, "run", "empty.txt", &[]).failed(1, &["`empty.txt` is empty"]);
        workshop.write("latin1.txt", b"piu\npi\xf9\n");
        train(&workshop, task, "run", "latin1.txt", &[])
            .failed(1, &["`latin1.txt` line 2 is not valid UTF-8", "iconv"]);
        // The document is used for both.
        let run = format!("{task}-whole");
        train(&workshop, task, &run, "source.txt", &["data.valid_share=0"]).trained();
    }
}

/// 36 lines of two words are 74 tokens, of which a language model predicts 73: five rows or parts of at most
/// 16 tokens.
#[test]
fn a_document_longer_than_the_model_reads_is_divided() {
    let workshop = Workshop::new();
    workshop.write("valid.txt", fs::read_to_string(workshop.path("source.txt")).unwrap());
    for task in TASKS {
        let settings = ["data.valid_source=valid.txt", "train.batch={ sentences = 1 }"];
        let run = train(&workshop, task, task, "source.txt", &settings).trained();
        run.logged(&[
            "training: 1 documents, 74 tokens, 72 words, ",
            "validation: 1 documents, 74 tokens, 72 words, ",
            "; the longest has 74 tokens\n",
            "; 5 updates an epoch\n",
        ]);
    }
}

/// In training text, `<mask>` and other special tokens are ordinary text.
#[test]
fn special_tokens_in_a_text_are_ordinary_text() {
    let workshop = Workshop::new();
    let text = fs::read_to_string(workshop.path("text.txt")).unwrap();
    workshop.write("typed.txt", text.replace("one two", "one <mask> two <eos> <pad> <bos>"));
    for task in TASKS {
        let settings =
            ["tokenizer.split=punctuation", "data.valid_share=0", "validation.samples=36"];
        let run = train(&workshop, task, task, "typed.txt", &settings).trained();
        // `<bos>`, two words, four times three tokens of `<mask>` and similar words, and `<eos>`.
        run.logged(&["; the longest has 16 tokens\n"]);
    }
    let model = FillMask::open(workshop.path("fill-mask"), &Device::Cpu).unwrap();
    assert_eq!(model.fill("one <mask>").unwrap().masks.len(), 1);
    assert!(model.tokenizer().encode("<mask>").unwrap().iter().all(|id| *id != 4));
}

#[test]
fn keys_of_other_tasks_are_refused() {
    let workshop = Workshop::new();
    for task in TASKS {
        let available = format!("is not available for the task \"{task}\"");
        for (setting, problem) in [
            (
                "data.train_target=labels.txt",
                "`train_target`: a text has one side; name its file as `train_source`",
            ),
            (
                "data.valid_target=labels.txt",
                "`valid_target`: a text has one side; name its file as `valid_source`",
            ),
            ("data.train_file=pairs.tsv", "`train_file`: a text has one side"),
            ("data.prepared=corpus", &*available),
            ("train.word_dropout=0.1", &available),
            ("model.decoder_start=pad", &available),
            ("train.bpe_dropout=0.1", &available),
            ("validation.best_by=macro-f1", "is not a metric of the task"),
            ("data.source=opus:Books", "has sentence pairs, but the task"),
            ("data.documents=page", "page"),
            ("data.max_len=2", "`max_len` = 2 leaves no room"),
            ("data.max_len=17", "`max_len` = 17 exceeds `model.max_len` = 16"),
        ] {
            train(&workshop, task, "run", "text.txt", &[setting]).failed(2, &[problem]);
        }
        let file = ["--recipe", task, "--file", "labeled.tsv"];
        workshop.train(&file).failed(2, &["`train_file`: a text has one side", "hint: "]);
        let both = ["--recipe", task, "--source", "source.txt", "--target", "target.txt.gz"];
        workshop.train(&both).failed(2, &["`train_target`: a text has one side"]);
    }
    train(&workshop, "generate", "run", "text.txt", &["model.encoder_from=bundle"])
        .failed(2, &["[model] `encoder_from`: a language model has no encoder"]);
    assert!(!workshop.path("run").exists());
}

/// A tied output has the weights of the embedding, so the bundle has one matrix less.
#[test]
fn the_output_of_a_model_with_one_text_is_tied_or_not() {
    let workshop = Workshop::new();
    for task in TASKS {
        let names = |run: &str, tying: &str| {
            let tying = format!("model.tying={tying}");
            train(&workshop, task, run, "text.txt", &[&tying, "tokenizer.joint=false"]).trained();
            weights(&workshop.path(run)).into_keys().collect::<Vec<_>>()
        };
        let tied = names(&format!("{task}-tied"), "all");
        let untied = names(&format!("{task}-untied"), "none");
        assert_eq!(untied.len(), tied.len() + 1, "{tied:?}, {untied:?}");
    }
}

#[test]
fn changed_documents_and_whole_words_are_noticed_when_a_run_is_resumed() {
    let workshop = Workshop::new();
    for task in TASKS {
        train(&workshop, task, task, "text.txt", &["data.valid_share=0"]).trained();
    }
    let set_epochs = ["--set", "train.epochs=3"];
    let reset = "the best model so far is reset";
    // Other masks in validation give another loss.
    let whole = ["--resume", "fill-mask", "--set", "masking.whole_words=true"];
    workshop.train(&[&whole[..], &set_epochs].concat()).trained().logged(&[reset]);
    workshop.append("text.txt", "\nsix seven\n");
    for task in TASKS {
        let resume = [&["--resume", task][..], &set_epochs].concat();
        let run = workshop.train(&resume);
        run.failed(1, &["the training data has changed since the checkpoint", "`--take new`"]);
        let run = workshop.train(&[&resume[..], &["--take", "new"]].concat()).trained();
        run.logged(&["resuming after epoch ", reset]);
    }
}

/// Without a token to predict, the loss would be 0.
#[test]
fn a_text_of_unknown_words_cannot_be_masked() {
    let workshop = Workshop::new();
    train(&workshop, "fill-mask", "masked", "text.txt", &[]).trained();
    workshop.write("numbers.txt", (0..40).map(|n| format!("{n} {n}{n}\n\n")).collect::<String>());
    let from = ["model.encoder_from=masked", "data.valid_share=0"];
    train(&workshop, "fill-mask", "run", "numbers.txt", &from)
        .failed(2, &["[tokenizer] no word of the training data is in the vocabulary"]);
    let valid = ["model.encoder_from=masked", "data.valid_source=numbers.txt"];
    train(&workshop, "fill-mask", "run", "text.txt", &valid)
        .failed(2, &["[tokenizer] no word of the validation data is in the vocabulary"]);
}

#[test]
fn a_corpus_of_one_text_has_no_statistics_of_pairs() {
    let workshop = Workshop::new();
    for (task, files) in [
        ("classify", ["--file", "labeled.tsv"]),
        ("generate", ["--source", "text.txt"]),
        ("fill-mask", ["--source", "text.txt"]),
    ] {
        let recipe = [&["--recipe", task], &files[..]].concat();
        workshop.train(&[&["data", "stats"], &recipe[..]].concat()).failed(2, &[task]);
    }
}
