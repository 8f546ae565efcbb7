use std::{path::Path, process::Command};

use crate::{Run, TINY, Workshop, set};

/// Settings that validate on the training data.
const ON_ALL: [&str; 1] = ["data.valid_share=0"];

/// Trains a tiny model on `files`, which replace those of the corpus.
fn train(workshop: &Workshop, run: &str, files: &[&str], settings: &[&str]) -> Run {
    workshop.train_tiny_on(files, run, &set(settings))
}

/// Trains a tiny language model of characters on `source`.
fn generate(workshop: &Workshop, run: &str, source: &str) -> Run {
    let recipe = ["--recipe", "generate", "--run", run, "--source", source];
    let settings = set(&["tokenizer.kind=character", "data.documents=line", "data.valid_share=0"]);
    workshop.train(&[&recipe[..], &set(&TINY), &settings].concat())
}

/// Runs the printed command `try it` in a shell, if `translate` has been built beside `train`.
fn run_printed(workshop: &Workshop, run: &Run) -> String {
    let command = run.command_after("try it:");
    let built = Path::new(env!("CARGO_BIN_EXE_train")).with_file_name("translate");
    if cfg!(unix) && command.starts_with(&*built.to_string_lossy()) {
        let mut shell = Command::new("sh");
        let output = shell.args(["-c", &command]).current_dir(workshop.path("")).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}\n{stderr}");
        assert!(!output.stdout.is_empty(), "{command}");
    }
    command
}

#[test]
fn one_to_ten_pairs_train_or_the_error_states_their_number() {
    let words = ["cat", "dog", "bird", "fish", "horse", "river", "tree", "house", "road", "car"];
    for count in 1..=10 {
        let workshop = Workshop::new();
        let pairs = |line: &dyn Fn(&str) -> String| {
            words[..count].iter().map(|word| line(word)).collect::<String>()
        };
        workshop.write(
            "pairs.tsv",
            pairs(&|word| format!("the {word}\tdas {}\n", word.to_uppercase())),
        );
        let files = ["--file", "pairs.tsv"];
        let run = train(&workshop, "run", &files, &[]);
        if count >= 5 {
            run.trained();
            continue;
        }
        let measured = match count {
            1 => "there is one pair, and the fraction is 0.1".to_owned(),
            _ => format!("the fraction 0.1 of {count} pairs is less than half a pair"),
        };
        run.failed(1, &["no pairs can be set aside", &measured, "set `data.valid_share` = 0"]);
        let run = train(&workshop, "all", &files, &ON_ALL).trained();
        run_printed(&workshop, &run);
    }
}

#[test]
fn equal_lines_and_carriage_returns_are_named() {
    let workshop = Workshop::new();
    workshop.write("same.tsv", "the cat\tdie Katze\n".repeat(200));
    let files = ["--file", "same.tsv"];
    // One group of 200 pairs, of which a tenth is wanted.
    let measured =
        "each of the 200 pairs belongs to a group of near duplicates with more than 20 pairs";
    train(&workshop, "run", &files, &[]).failed(1, &[measured, "`data.valid_share` = 0"]);
    train(&workshop, "all", &files, &ON_ALL).trained();
    workshop.write("mac.tsv", "the cat\tdie Katze\r".repeat(200));
    let problem = "the lines end in carriage returns, expected line feeds";
    train(&workshop, "run", &["--file", "mac.tsv"], &[]).failed(1, &[problem, "tr '\\r' '\\n'"]);
}

#[test]
fn a_file_that_is_no_text_is_named() {
    let workshop = Workshop::new();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n";
    workshop.write("pointer", pointer);
    for files in [&["--file", "pointer"][..], &["--source", "pointer", "--target", "pointer"]] {
        let words =
            ["`pointer` is a Git LFS pointer, not the file itself", "hint: run `git lfs pull`"];
        train(&workshop, "run", files, &[]).failed(1, &words);
    }
    workshop.write("pairs.xz", b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4F");
    train(&workshop, "run", &["--file", "pairs.xz"], &[])
        .failed(1, &["`pairs.xz`: xz compression is not supported", "with gzip or zstd"]);
}

#[test]
fn printed_commands_run_for_dialogs_and_quotes() {
    for (name, first) in [
        ("dash", "- "),
        ("number", "-5 "),
        ("quote", "it's \"so\" "),
        ("at", "@"),
        ("dollar", "$HOME "),
    ] {
        let workshop = Workshop::new();
        let pair = |i: usize| format!("{first}{}\t{}\n", "ab".repeat(i), "cd".repeat(i));
        workshop.write("pairs.tsv", (1..30).map(pair).collect::<String>());
        let run = train(&workshop, "run", &["--file", "pairs.tsv"], &ON_ALL).trained();
        let command = run_printed(&workshop, &run);
        assert_eq!(command.contains(" --text='-"), first.starts_with('-'), "{name}: {command}");
    }
}

#[test]
fn printed_commands_run_for_scripts_without_spaces() {
    for (name, sentence) in
        [("zh", "河流需要新的花园"), ("ja", "猫が庭で寝ています"), ("th", "แมวนอนอยู่ในสวน")]
    {
        let workshop = Workshop::new();
        let document = |i: usize| format!("{}\n", sentence.repeat(60 + i));
        workshop.write("text.txt", (0..12).map(document).collect::<String>());
        let run = generate(&workshop, "run", "text.txt").trained();
        let command = run_printed(&workshop, &run);
        let prompt: String = sentence.chars().take(8).collect();
        let text = command.split(" --text ").nth(1).unwrap();
        let text = text.trim_matches('\'');
        assert!(!text.is_empty() && prompt.starts_with(text), "{name}: {command}");
    }
}

/// A word of 70,000 characters, which is longer than a model reads at once.
#[test]
fn a_sample_does_not_end_a_run() {
    let workshop = Workshop::new();
    workshop.write("text.txt", format!("{}\nthe cat sleeps\nthe dog eats\n", "xyz".repeat(24_000)));
    let run = generate(&workshop, "run", "text.txt").trained();
    run_printed(&workshop, &run);
}

#[test]
fn the_columns_of_a_table_are_printed() {
    let workshop = Workshop::new();
    let row = |i: usize| format!("{i},The cat {}.,Die Katze {}.\n", "a".repeat(i), "b".repeat(i));
    let rows: String = (1..30).map(row).collect();
    workshop.write("pairs.csv", format!("id,en,de\n{rows}"));
    let printed = "pairs.csv: columns: 'en' -> 'de'; ignored: 'id'; first pair: \"The cat a.\" -> \"Die Katze b.\"\n";
    let run = train(&workshop, "run", &["--file", "pairs.csv"], &[]).trained();
    run.logged(&[printed, "29 pairs"]);
    workshop.write("pairs.csv", &rows);
    train(&workshop, "plain", &["--file", "pairs.csv"], &[]).trained().logged(&[
        "pairs.csv: columns: 2 -> 3; ignored: 1; first pair: \"The cat a.\"",
        "29 pairs",
    ]);
}

#[test]
fn targets_without_spaces_are_validated_with_their_tokenizer() {
    let workshop = Workshop::new();
    let nouns = ["猫", "狗", "鸟", "鱼", "河", "树"];
    let pair =
        |i: usize| format!("word{} word{}\t{}喜欢{}。\n", i % 6, i / 6, nouns[i % 6], nouns[i / 6]);
    workshop.write("pairs.tsv", (0..36).map(pair).collect::<String>());
    let files = ["--file", "pairs.tsv"];
    let run = train(&workshop, "run", &files, &ON_ALL).trained();
    run.logged(&["validation: BLEU with the tokenizer \"zh\", because the targets are Chinese"]);
    let validation =
        &workshop.metrics("run").into_iter().find(|record| record["kind"] == "validation").unwrap();
    assert!(validation["bleu_signature"].as_str().unwrap().contains("tok:zh"), "{validation}");
    let settings = ["data.valid_share=0", "validation.tokenize=13a"];
    let run = train(&workshop, "13a", &files, &settings).trained();
    assert!(!run.stderr.contains("BLEU with the tokenizer"), "{}", run.stderr);
}
