use burn::tensor::Device as BurnDevice;
use tx_engine::PackedTransformer;
use tx_model::{DropoutConfig, Pooling, Transformer, Tying};
use tx_text::{SentencePair, TokenizerConfig, TokenizerKind};

use std::fs;

use super::{
    files::sha256,
    tokenizers::{SOURCE_TOKENIZER, TARGET_TOKENIZER},
    *,
};
use crate::{device::Device, fixture, translator::Translator};

fn bundle(words: &str) -> ModuleBundle {
    let device = BurnDevice::flex();
    let pairs = [SentencePair::new(words, "uno due tre")];
    let tokenizer =
        TokenizerConfig { kind: TokenizerKind::Word, joint: false, ..TokenizerConfig::default() };
    let tokenizers = Tokenizers::train(&tokenizer, &pairs).unwrap();
    let config = ModelConfig {
        d_model: 8,
        n_heads: 2,
        d_ff: 8,
        encoder_layers: 1,
        decoder_layers: 1,
        max_len: 12,
        tying: Tying::None,
        dropout: DropoutConfig::none(),
        ..ModelConfig::default()
    };
    let vocab = VocabSizes {
        source: tokenizers.source.vocab_size(),
        target: tokenizers.target.vocab_size(),
    };
    let model = Transformer::new(&config, vocab, &device).unwrap();
    let provenance = toml::Table::from_iter([("seed".to_owned(), toml::Value::Integer(1))]);
    ModuleBundle {
        model,
        task: ModelTask::Translate,
        config,
        tokenizers,
        languages: None,
        context: 0,
        search: None,
        lexicon: None,
        provenance,
    }
}

const TEXTS: [&str; 3] = ["one two", "three", "two two one three one"];

fn translations(bundle: Bundle) -> Vec<crate::Translation> {
    crate::Translator::new(bundle, &Device::Cpu).unwrap().translate_batch(&TEXTS).unwrap()
}

/// Translations of the same model without a file.
fn expected(bundle: ModuleBundle) -> Vec<crate::Translation> {
    Translator::from_module(&bundle, &Device::Cpu).translate_batch(&TEXTS).unwrap()
}

#[test]
fn a_saved_bundle_opens_as_itself_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/folder");
    let bundle = bundle("one two three");
    bundle.save(&path).unwrap();
    let opened = Bundle::open(&path).unwrap();
    assert_eq!(opened.provenance, bundle.provenance);
    let module = ModuleBundle::open(&path, &BurnDevice::flex()).unwrap();
    // Scores are f32 and compared exactly.
    assert_eq!(translations(opened), expected(bundle.clone()));
    assert_eq!(expected(module), expected(bundle));
}

#[test]
fn the_same_bundle_gives_the_same_files_with_the_same_permissions() {
    let folders = [(); 4].map(|()| tempfile::tempdir().unwrap());
    let bundle = bundle("one two three");
    let files = folders.each_ref().map(|folder| {
        bundle.save(folder.path()).unwrap();
        [WEIGHTS, CONFIG, SOURCE_TOKENIZER, TARGET_TOKENIZER, PROVENANCE].map(|name| {
            let path = folder.path().join(name);
            let permissions = fs::metadata(&path).unwrap().permissions();
            assert_eq!(
                permissions,
                fs::metadata(folder.path().join(CONFIG)).unwrap().permissions()
            );
            fs::read(path).unwrap()
        })
    });
    assert!(files.iter().all(|others| *others == files[0]), "the files differ");
}

#[test]
fn a_bundle_can_be_replaced_by_one_of_another_run() {
    let folder = tempfile::tempdir().unwrap();
    bundle("one two three").save(folder.path()).unwrap();
    let other = bundle("one two three four");
    other.save(folder.path()).unwrap();
    let opened = Bundle::open(folder.path()).unwrap();
    assert_eq!(translations(opened), expected(other));
}

#[test]
fn another_tokenizer_is_rejected_with_both_hashes() {
    let folder = tempfile::tempdir().unwrap();
    bundle("one two three").save(folder.path()).unwrap();
    let other = bundle("four five six").tokenizers.source.to_json().unwrap();
    let path = folder.path().join(SOURCE_TOKENIZER);
    let expected = sha256(&fs::read(&path).unwrap());
    fs::write(&path, &other).unwrap();
    let error = Bundle::open(folder.path()).unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains(&expected) && message.contains(&sha256(other.as_bytes())),
        "{message}"
    );
    assert_eq!(error.hint(), Some("copy bundle folders whole: their files only fit each other"));
}

#[test]
fn weights_of_another_shape_are_rejected_by_name() {
    let (small, large) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    bundle("one two").save(small.path()).unwrap();
    bundle("one two three").save(large.path()).unwrap();
    fs::copy(small.path().join(WEIGHTS), large.path().join(WEIGHTS)).unwrap();
    let error = Bundle::open(large.path()).unwrap_err().to_string();
    assert!(error.contains("source_embedding.weight"), "{error}");
}

/// Every weight is read by the models, so all ways of reading find the value that `open` finds.
#[test]
fn values_are_validated_at_opening_or_by_the_model() {
    let folder = tempfile::tempdir().unwrap();
    bundle("one two three").save(folder.path()).unwrap();
    let path = folder.path().join(WEIGHTS);
    let whole = fs::read(&path).unwrap();
    let valid = Bundle::open_for_model(folder.path()).unwrap();
    valid.pack::<PackedTransformer>(Precision::F32).unwrap();
    valid.module::<tx_model::Transformer>(&BurnDevice::flex()).unwrap();
    let start = 8 + usize::try_from(u64::from_le_bytes(*whole.first_chunk().unwrap())).unwrap();
    let header: serde_json::Value = serde_json::from_slice(&whole[8..start]).unwrap();
    for name in valid.weight_names() {
        let offset = header[name]["data_offsets"][0].as_u64().unwrap() as usize;
        let mut damaged = whole.clone();
        damaged[start + offset..][..4].copy_from_slice(&f32::INFINITY.to_le_bytes());
        let folder = tempfile::tempdir().unwrap();
        bundle("one two three").save(folder.path()).unwrap();
        fs::write(folder.path().join(WEIGHTS), damaged).unwrap();
        let expected = Bundle::open(folder.path()).unwrap_err().to_string();
        assert!(expected.contains(&format!("`{name}` is not finite at value 0")), "{expected}");
        let opened = Bundle::open_for_model(folder.path()).unwrap();
        assert_eq!(
            opened.pack::<PackedTransformer>(Precision::F32).unwrap_err().to_string(),
            expected,
            "{name}"
        );
        let error = opened.module::<tx_model::Transformer>(&BurnDevice::flex()).unwrap_err();
        assert_eq!(error.to_string(), expected, "{name}");
        assert_eq!(opened.quantize(folder.path().join("int8")).unwrap_err().to_string(), expected);
    }
}

#[test]
fn damaged_and_missing_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Bundle::open(folder.path()).unwrap_err().to_string();
    assert!(open().ends_with("is not a bundle: it has no `model.safetensors`"));

    bundle("one two three").save(folder.path()).unwrap();
    let weights = folder.path().join(WEIGHTS);
    let whole = fs::read(&weights).unwrap();
    fs::write(&weights, &whole[..whole.len() / 2]).unwrap();
    assert!(open().contains("model.safetensors` does not contain the weights"), "{}", open());
    fs::write(&weights, whole).unwrap();

    let config = folder.path().join(CONFIG);
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("format = 2", "format = 7")).unwrap();
    assert!(open().ends_with("is bundle format 7; this build reads formats 1 to 3"), "{}", open());
    fs::write(&config, text.replace("n_heads = 2", "n_heads = 3")).unwrap();
    assert!(open().contains("`n_heads` = 3 must divide `d_model` = 8"), "{}", open());
    fs::write(&config, text.replace("n_heads", "heads")).unwrap();
    assert!(open().contains("unknown field `heads`"), "{}", open());

    fs::write(&config, text).unwrap();
    fs::remove_file(folder.path().join(TARGET_TOKENIZER)).unwrap();
    assert!(open().contains("cannot read") && open().contains(TARGET_TOKENIZER), "{}", open());
}

/// Writing a new file and renaming it keeps the content of a mapped file.
#[test]
fn an_open_bundle_keeps_its_weights_when_it_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let first = bundle("one two three");
    first.save(folder.path()).unwrap();
    let opened = Bundle::open(folder.path()).unwrap();
    bundle("one two three").save(folder.path()).unwrap();
    assert_eq!(translations(opened), expected(first));
}

#[test]
fn a_configuration_of_another_model_is_rejected_when_weights_are_packed() {
    let folder = tempfile::tempdir().unwrap();
    bundle("one two three").save(folder.path()).unwrap();
    let mut opened = Bundle::open(folder.path()).unwrap();
    opened.config.d_ff = 16;
    let error = opened.pack::<PackedTransformer>(Precision::F32).unwrap_err();
    assert!(error.to_string().contains("feed_forward"), "{error}");
}

#[test]
fn a_bundle_of_one_text_has_one_tokenizer_and_its_task() {
    let folder = tempfile::tempdir().unwrap();
    let config = || fs::read_to_string(folder.path().join(CONFIG)).unwrap();
    bundle("one two three").save(folder.path()).unwrap();
    assert!(!config().contains("task") && config().contains("target_sha256"), "{}", config());

    let folder = tempfile::tempdir().unwrap();
    let config = || fs::read_to_string(folder.path().join(CONFIG)).unwrap();
    let classifier = fixture::classifier(Pooling::Mean);
    classifier.save(folder.path()).unwrap();
    let expected =
        "task = \"classify\"\nlabels = [\"no\", \"perhaps\", \"yes\"]\npooling = \"mean\"\n";
    assert!(config().contains(expected), "{}", config());
    assert!(folder.path().join("tokenizer.json").is_file());
    assert!(!folder.path().join(SOURCE_TOKENIZER).exists() && !config().contains("source_sha256"));
    let opened = Bundle::open(folder.path()).unwrap();
    assert_eq!(opened.task, classifier.task);
    let tokenizers = &opened.tokenizers;
    assert_eq!(tokenizers.source.to_json().unwrap(), tokenizers.target.to_json().unwrap());
    let module = ModuleBundle::<tx_model::Classifier>::open(folder.path(), &BurnDevice::flex());
    assert_eq!(module.unwrap().task, classifier.task);

    for kind in [TaskKind::Classify, TaskKind::Translate] {
        let folder = tempfile::tempdir().unwrap();
        assert!(saved_tokenizers(folder.path(), kind).unwrap().is_none());
        save_tokenizers(folder.path(), kind, tokenizers).unwrap();
        let saved = saved_tokenizers(folder.path(), kind).unwrap().unwrap();
        assert_eq!(saved.source.to_json().unwrap(), tokenizers.source.to_json().unwrap());
        let files = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(files, tokenizer_files(kind).len());
    }
}

#[test]
fn keys_that_do_not_fit_the_task_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    fixture::classifier(Pooling::First).save(folder.path()).unwrap();
    let config = folder.path().join(CONFIG);
    let text = fs::read_to_string(&config).unwrap();
    for (from, to, problem) in [
        ("task = \"classify\"\n", "", "the task `translate` has no `labels`"),
        ("\"classify\"", "\"generate\"", "the task `generate` has no `labels`"),
        ("\"classify\"", "\"summarize\"", "unknown variant `summarize`"),
        ("pooling = \"first\"\n", "", "needs `pooling`"),
        ("\"first\"", "\"max\"", "unknown variant `max`"),
        ("\"perhaps\"", "\"no\"", "contains \"no\" twice"),
        ("\"perhaps\", ", "", "`output.weight` has the shape [16, 3]"),
        ("\"no\", \"perhaps\", ", "", "has 1 entries"),
        ("\nsha256", "\nsource_sha256", "`tokenizers.sha256` is missing"),
        ("source = ", "source = 1", "a model with one stack has one vocabulary"),
    ] {
        assert!(text.contains(from), "{from}: {text}");
        fs::write(&config, text.replacen(from, to, 1)).unwrap();
        let error = Bundle::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains(problem), "{problem}: {error}");
    }
}

#[test]
fn a_masked_model_needs_a_tokenizer_with_a_mask() {
    let folder = tempfile::tempdir().unwrap();
    let mut bundle = fixture::masked(TokenizerKind::Word, Tying::All);
    bundle.tokenizers = fixture::language_model(TokenizerKind::Word, Tying::All).tokenizers;
    // The same size, after rounding up.
    bundle.save(folder.path()).unwrap();
    let error = Bundle::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("no special token `<mask>`"), "{error}");
}

#[test]
fn a_module_of_another_task_is_not_saved() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = ModuleBundle { task: ModelTask::Generate, ..bundle("one two") };
    let error = bundle.save(folder.path()).unwrap_err().to_string();
    assert!(error.contains("`task` = generate needs another model"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Guided alignment records its layer in the search options.
#[test]
fn the_alignment_layer_is_the_recorded_one_or_the_last_but_one() {
    let folder = tempfile::tempdir().unwrap();
    let search = SearchOptions { attention_layer: Some(1), ..SearchOptions::default() };
    let guided = ModuleBundle { search: Some(search), ..bundle("one two") };
    guided.save(folder.path()).unwrap();
    let mut opened = Bundle::open(folder.path()).unwrap();
    opened.config.decoder_layers = 6;
    assert_eq!(opened.alignment_layer(), 0);
    opened.search = None;
    assert_eq!(opened.alignment_layer(), 4);
}

/// The files of a folder, by name.
fn in_memory(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let named = |path: std::path::PathBuf| {
        (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap())
    };
    files.map(named).collect()
}

#[test]
fn files_in_memory_are_a_bundle_as_files_in_a_folder_are() {
    let folder = tempfile::tempdir().unwrap();
    bundle("one two three").save(folder.path()).unwrap();
    let small = tempfile::tempdir().unwrap();
    Bundle::open(folder.path()).unwrap().quantize(small.path()).unwrap();
    for path in [folder.path(), small.path()] {
        let files = in_memory(path);
        let opened = Bundle::from_files(files.clone()).unwrap();
        assert_eq!(translations(opened), translations(Bundle::open(path).unwrap()));
        for name in [WEIGHTS, CONFIG, PROVENANCE, SOURCE_TOKENIZER, TARGET_TOKENIZER] {
            let mut fewer = files.clone();
            fewer.remove(name);
            let error = Bundle::from_files(fewer).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
            let mut cut = files.clone();
            let bytes = cut.get_mut(name).unwrap();
            bytes.truncate(bytes.len() / 2);
            let error = Bundle::from_files(cut.clone());
            // Half of a provenance is another one.
            assert!(error.is_err() || name == PROVENANCE, "{name}");
            cut.insert(name.into(), Vec::new());
            assert!(Bundle::from_files(cut).is_err() || name == PROVENANCE, "{name}");
        }
    }
    let mut damaged = in_memory(folder.path());
    let weights = damaged.get_mut(WEIGHTS).unwrap();
    let last = weights.len() - 4;
    weights[last..].copy_from_slice(&f32::NAN.to_le_bytes());
    let opened = Bundle::from_files(damaged).unwrap();
    let error = Translator::new(opened, &Device::Cpu).unwrap_err();
    assert!(error.to_string().contains("is not finite"), "{error}");
    let device = burn::tensor::Device::default();
    let module = |bundle: Bundle| bundle.module::<Transformer>(&device).map(|_| ());
    assert_eq!(module(Bundle::from_files(in_memory(folder.path())).unwrap()).ok(), Some(()));
}
