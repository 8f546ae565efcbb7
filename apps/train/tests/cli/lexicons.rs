use std::fs;

use tx_infer::{Bundle, BundleInfo, LexiconUse};

use crate::{FILES, Workshop, cli::resuming::assert_same, set};

/// In memory, in a list, and after resuming, the lexicon is that of the text.
#[test]
fn a_bundle_has_the_words_of_its_training_text() {
    let workshop = Workshop::new();
    let list = "data.train=[{ source = \"source.txt\", target = \"target.txt.gz\" }]";
    let lexicon = set(&["data.lexicon=true", "validation.length_penalties=[1.0]"]);
    let run = workshop.train_tiny_on(&FILES, "whole", &lexicon).trained();
    run.logged(&["length penalty 1 selected on validation", "\nlexicon ", " with it, "]);
    workshop
        .train_tiny_on(&FILES, "parts", &[&lexicon[..], &set(&["train.max_steps=3"])].concat())
        .trained();
    workshop.train(&["--resume", "parts", "--set", "train.max_steps=1000"]).trained();
    assert_same(&workshop, "whole", "parts");
    let files =
        ["--recipe", "small", "--valid-source", "source.txt", "--valid-target", "target.txt.gz"];
    workshop.train_tiny_on(&files, "list", &[&lexicon[..], &set(&[list])].concat()).trained();

    let file = |run: &str| fs::read(workshop.path(run).join("lexicon.json")).unwrap();
    assert!(file("whole") == file("parts"));
    let opened = |run: &str| Bundle::open(workshop.path(run)).unwrap().lexicon.unwrap();
    for run in ["whole", "list"] {
        let source = fs::read_to_string(workshop.path("source.txt")).unwrap();
        let words = opened(run);
        // The validation text is held out of that of the first run.
        let new = words.source().new_words(&source, usize::MAX).len();
        assert!(new < 10 && !words.target().is_empty(), "{run}: {new}");
        assert_eq!(words.source().new_words("zyx", 9), ["zyx"]);
    }
}

/// The words of a text that the run does not have, or does not read as a whole.
#[test]
fn other_runs_have_no_lexicon() {
    let workshop = Workshop::new();
    let of = |run: &str| Bundle::open(workshop.path(run)).unwrap().lexicon;
    let lexicon = set(&["data.lexicon=true"]);
    workshop.train_tiny_on(&FILES, "plain", &set(&["data.lexicon=false"])).trained();
    assert_eq!(of("plain"), None);
    assert_eq!(
        BundleInfo::read(&workshop.path("plain")).unwrap().search.map(|it| it.lexicon),
        None
    );
    let prepared = [&lexicon[..], &set(&["data.prepared=corpus"])].concat();
    workshop.train_tiny_on(&FILES, "prepared", &prepared).trained();
    assert_eq!(of("prepared"), None);
    workshop.train_tiny_on(&FILES, "first", &lexicon).trained();
    let search = BundleInfo::read(&workshop.path("first")).unwrap().search.unwrap();
    assert!(of("first").is_some() && [LexiconUse::Both, LexiconUse::Off].contains(&search.lexicon));
    let continued = [&["--from", "first"], &FILES[..]].concat();
    workshop.train_tiny_on(&continued, "second", &lexicon).trained();
    assert_eq!(of("second"), None);
    let labels = ["--recipe", "classify", "--set", "data.lexicon=true"];
    workshop.train(&labels).failed(2, &["`lexicon` is not available for the task"]);
}
