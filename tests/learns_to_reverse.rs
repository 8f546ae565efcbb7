//! Complete training and translation on a task with known answers: reversing short words.

use std::{fmt::Write, fs};

use burn::tensor::Device;
use tx_infer::{Attention, AttentionKind, Tokens, Translator};
use tx_model::DecoderStart;
use tx_train::{ConfigBuilder, TaskValidation, Trainer, reporting::progress::ProgressMode};

/// Every word of two to four letters from `a` to `e`: 775 words, one in ten held out.
fn words() -> String {
    let mut tsv = String::new();
    for len in 2..=4_u32 {
        for number in 0..5_usize.pow(len) {
            let word: String = (0..len)
                .map(|place| char::from(b'a' + (number / 5_usize.pow(place) % 5) as u8))
                .collect();
            let reversed: String = word.chars().rev().collect();
            writeln!(tsv, "{word}\t{reversed}").unwrap();
        }
    }
    tsv
}

#[test]
fn unseen_words_are_reversed() {
    let translator = assert_reverses(&[]);
    attention_is_reversed(&translator);
}

/// Models as Marian, transformers' Marian models, and fairseq have them.
#[test]
fn models_with_the_options_of_other_programs_reverse_too() {
    for (start, formula, first, epsilon) in [
        (DecoderStart::Zero, "tensor2tensor", 0, "1e-6"),
        (DecoderStart::Pad, "paper", 0, "1e-5"),
        (DecoderStart::Eos, "tensor2tensor", 2, "1e-5"),
    ] {
        let name = format!("{start:?}").to_lowercase();
        let translator = assert_reverses(&[
            &format!("model.decoder_start={name}"),
            &format!(
                "model.sinusoids={{ layout = 'halves', formula = '{formula}', first = {first} }}"
            ),
            &format!("model.norm_epsilon={epsilon}"),
        ]);
        assert_eq!(translator.config().decoder_start, start);
    }
}

/// Trains a model with `settings`, checks that it reverses words that it has not seen, and returns
/// it.
fn assert_reverses(settings: &[&str]) -> Translator {
    let folder = tempfile::tempdir().unwrap();
    let tsv = folder.path().join("words.tsv");
    fs::write(&tsv, words()).unwrap();

    let mut config = ConfigBuilder::default();
    for setting in [
        "data.source=files",
        "tokenizer.kind=character",
        "model.d_model=32",
        "model.n_heads=4",
        "model.d_ff=64",
        "model.encoder_layers=1",
        "model.decoder_layers=1",
        "model.max_len=16",
        "model.norm=pre",
        "model.dropout={ embedding = 0.0, residual = 0.0 }",
        "train.epochs=40",
        "train.batch={ sentences = 32 }",
        "train.grouping=random",
        "train.learning_rate=0.005",
        "train.schedule=cosine",
        "train.warmup_steps=50",
        "train.label_smoothing=0.0",
        "validation.every_epochs=40",
        "validation.best_by=exact-match",
    ]
    .iter()
    .chain(settings)
    {
        config.set(setting).unwrap();
    }
    config.set_value("data.train_file", tsv.to_str().unwrap());
    let run = folder.path().join("run");
    let device = Device::flex();
    let outcome = Trainer::new(config.build().unwrap(), &run, device.clone())
        .with_progress(ProgressMode::Quiet)
        .run()
        .unwrap();

    // 77 words; at most three errors for any initialization.
    let found = outcome.validation.as_ref().and_then(TaskValidation::translation).unwrap();
    assert!(found.exact_match >= 96.0, "{} %", found.exact_match);
    assert!(found.perplexity() < 1.2, "{}", found.perplexity());

    let translator = Translator::open(&run, &device.into()).unwrap();
    let source = &outcome.examples[0];
    let reversed: String = source.chars().rev().collect();
    assert_eq!(translator.translate(source).unwrap().text, reversed);
    translator
}

/// Cross-attention of one head is on the anti-diagonal, because the target is the reversed source.
/// The other heads may attend elsewhere, the mean of all with them. With four letters and `<eos>`,
/// one row in five would have its largest weight there by chance.
fn attention_is_reversed(translator: &Translator) {
    let tokenizers = translator.tokenizers();
    let (mut rows, mut backwards) = (0, [0; 4]);
    for word in ["abcd", "ecab", "dbae", "cdeb", "bead"] {
        let reversed: String = word.chars().rev().collect();
        let source = Tokens::of_source(&tokenizers.source, word, 16).unwrap();
        let target = Tokens::of_target(&tokenizers.target, &reversed, 16).unwrap();
        let attention = Attention::of(translator.engine(), source, target);
        rows += 4;
        for (head, backwards) in backwards.iter_mut().enumerate() {
            let map = attention.map(AttentionKind::Cross, 0, Some(head)).unwrap();
            for (place, weights) in map.rows().take(4).enumerate() {
                let largest = weights.iter().copied().fold(0.0, f32::max);
                *backwards += usize::from(weights[3 - place] == largest);
            }
        }
    }
    println!("{backwards:?} of {rows} rows attend to the letter that they generate");
    assert!(backwards.iter().any(|&head| 5 * head > 3 * rows), "{backwards:?} of {rows}");
}
