//! Hostile bundles of models with one text: classifiers, language models, masked language models.

use std::fs;

use burn::tensor::Device;
use tempfile::TempDir;
use tx_infer::{ModelTask, ModuleBundle, TaskKind};
use tx_model::{
    Classifier, DropoutConfig, LanguageModel, MaskedLanguageModel, ModelConfig, Pooling, Positions,
    Tying,
};
use tx_text::{Tokenizer, TokenizerConfig, TokenizerKind, Tokenizers, special::SpecialTokens};

use super::{CONFIG, PAIRS, TOKENIZER, WEIGHTS, change, open, refused, without_a_hang};

/// Tasks with one text.
pub(super) const TASKS: [TaskKind; 3] =
    [TaskKind::Classify, TaskKind::Generate, TaskKind::FillMask];

/// Saves a minimal model with these options.
pub(super) fn saved(
    task: TaskKind,
    kind: TokenizerKind,
    positions: Positions,
    tying: Tying,
) -> TempDir {
    let device = Device::flex();
    let special = match task {
        TaskKind::FillMask => SpecialTokens::WithMask,
        TaskKind::Translate | TaskKind::Classify | TaskKind::Generate => SpecialTokens::Standard,
    };
    let tokenizer = TokenizerConfig { kind, vocab_size: 70, ..TokenizerConfig::default() };
    let tokenizer = Tokenizer::train(&tokenizer, special, &PAIRS.map(|(text, _)| text)).unwrap();
    let config = ModelConfig {
        d_model: 4,
        n_heads: 2,
        d_ff: 4,
        encoder_layers: 1,
        decoder_layers: 1,
        max_len: 12,
        positions,
        tying,
        dropout: DropoutConfig::none(),
        ..ModelConfig::default()
    };
    let vocabulary = tokenizer.vocab_size();
    let tokenizers = Tokenizers::from(tokenizer);
    let folder = tempfile::tempdir().unwrap();
    device.seed(7);
    let provenance = toml::Table::new;
    let saved = match task {
        TaskKind::Classify => {
            let model = Classifier::new(&config, vocabulary, 2, Pooling::First, &device).unwrap();
            let labels = vec!["no".to_owned(), "yes".to_owned()];
            let task = ModelTask::Classify { labels, pooling: Pooling::First };
            ModuleBundle {
                model,
                task,
                config,
                tokenizers,
                languages: None,
                context: 0,
                search: None,
                lexicon: None,
                provenance: provenance(),
            }
            .save(folder.path())
        }
        TaskKind::Generate => {
            let model = LanguageModel::new(&config, vocabulary, &device).unwrap();
            let task = ModelTask::Generate;
            ModuleBundle {
                model,
                task,
                config,
                tokenizers,
                languages: None,
                context: 0,
                search: None,
                lexicon: None,
                provenance: provenance(),
            }
            .save(folder.path())
        }
        TaskKind::FillMask => {
            let model = MaskedLanguageModel::new(&config, vocabulary, &device).unwrap();
            let task = ModelTask::FillMask;
            ModuleBundle {
                model,
                task,
                config,
                tokenizers,
                languages: None,
                context: 0,
                search: None,
                lexicon: None,
                provenance: provenance(),
            }
            .save(folder.path())
        }
        TaskKind::Translate => panic!("it has two texts"),
    };
    saved.unwrap();
    folder
}

fn plain(task: TaskKind) -> TempDir {
    saved(task, TokenizerKind::Word, Positions::Sinusoidal, Tying::None)
}

#[test]
fn options_of_other_tasks_are_rejected() {
    for (task, options, problem) in [
        (TaskKind::Classify, "[search]\nbeam = 2", "the task `classify` has no `search`"),
        (TaskKind::FillMask, "[search]\nbeam = 2", "the task `fill-mask` has no `search`"),
        (
            TaskKind::Generate,
            "[search]\nmax_len_ratio = 1.0",
            "`max_len_ratio` needs a source, which a language model does not have",
        ),
        (
            TaskKind::Generate,
            "[languages]\nplacement = \"both-sides\"\ntoken = \"{}\"\ntarget = []",
            "the task `generate` has no `languages`",
        ),
    ] {
        let folder = saved(task, TokenizerKind::Word, Positions::Learned, Tying::All);
        change(&folder, CONFIG, "[model]\n", &format!("{options}\n\n[model]\n"));
        refused(&folder, &[CONFIG, problem]);
    }
    let folder = saved(TaskKind::Generate, TokenizerKind::Word, Positions::Learned, Tying::All);
    change(&folder, CONFIG, "decoder_start = \"bos\"", "decoder_start = \"pad\"");
    refused(&folder, &[CONFIG, "the task `generate` has no `model.decoder_start`"]);
}

#[test]
fn a_valid_bundle_of_every_task_works() {
    for task in TASKS {
        open(plain(task).path()).unwrap();
    }
}

#[test]
fn sizes_beyond_those_of_the_files_are_rejected_before_allocation() {
    for (task, from, to, words) in [
        (
            TaskKind::Generate,
            "max_len = 12",
            "max_len = 1000000000",
            &["`max_len` = 1000000000"][..],
        ),
        (
            TaskKind::Generate,
            "decoder_layers = 1",
            "decoder_layers = 999",
            &[WEIGHTS, "layers.layers.1", "missing"],
        ),
        (
            TaskKind::Classify,
            "encoder_layers = 1",
            "encoder_layers = 1000000000000",
            &["`encoder_layers`", "at most"],
        ),
        (TaskKind::FillMask, "d_model = 4", "d_model = 65536", &[WEIGHTS, "embedding.weight"]),
        (
            TaskKind::FillMask,
            "vocab_multiple = 1",
            "vocab_multiple = 65536",
            &[WEIGHTS, "embedding.weight", "[65536, 4]"],
        ),
    ] {
        let folder = plain(task);
        change(&folder, CONFIG, from, to);
        refused(&folder, words);
    }
}

/// The configuration of a bundle cannot declare more classes than the weights have.
#[test]
fn labels_that_do_not_fit_the_weights_are_rejected() {
    let many: Vec<String> = (0..70_000).map(|label| format!("\"{label}\"")).collect();
    for (labels, words) in [
        ("[\"no\"]".to_owned(), &["`labels` has 1 entries"][..]),
        ("[]".to_owned(), &["`labels` has 0 entries"]),
        ("[\"no\", \"no\"]".to_owned(), &["twice"]),
        ("[\"no\", \"\"]".to_owned(), &["an empty label"]),
        ("[\"a\", \"b\", \"c\"]".to_owned(), &[WEIGHTS, "output.weight", "[4, 3]"]),
        (format!("[{}]", many.join(",")), &["`classes` = 70000"]),
    ] {
        let folder = plain(TaskKind::Classify);
        change(&folder, CONFIG, "[\"no\", \"yes\"]", &labels);
        refused(&folder, words);
    }
}

/// A bundle of one task does not open as one of another, whatever its configuration declares.
#[test]
fn the_task_of_the_configuration_must_fit_the_weights() {
    for task in TASKS {
        for other in TaskKind::ALL.into_iter().filter(|other| *other != task) {
            let folder = plain(task);
            change(&folder, CONFIG, &format!("task = \"{task}\""), &format!("task = \"{other}\""));
            let result = without_a_hang(&format!("{task}, {other}"), || open(folder.path()));
            assert!(result.is_err(), "{task} as {other}");
        }
    }
    let folder = plain(TaskKind::FillMask);
    fs::copy(plain(TaskKind::Generate).path().join(TOKENIZER), folder.path().join(TOKENIZER))
        .unwrap();
    refused(&folder, &[TOKENIZER, "is not the tokenizer that the model was trained with"]);
}

/// Values so large that every sum overflows.
#[test]
fn finite_weights_of_any_size_end_in_a_result_or_an_error() {
    for (task, value) in
        TASKS.into_iter().flat_map(|task| [f32::MAX, -1e20, 0.0].map(|x| (task, x)))
    {
        let folder = plain(task);
        let path = folder.path().join(WEIGHTS);
        let mut bytes = fs::read(&path).unwrap();
        let start = 8 + u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
        bytes[start..]
            .chunks_exact_mut(4)
            .for_each(|old| old.copy_from_slice(&value.to_le_bytes()));
        fs::write(&path, bytes).unwrap();
        // Either result is accepted.
        let _ = without_a_hang(&format!("{task}: all weights are {value}"), || open(folder.path()));
    }
}
