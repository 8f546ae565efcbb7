use std::{
    collections::HashMap,
    fs,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use burn::{
    data::{dataloader::DataLoader, dataset::Dataset},
    tensor::Device,
};
use proptest::prelude::*;
use tx_text::{TextError, TokenizerConfig, TokenizerKind, context::SEPARATOR};

use super::*;
use crate::{
    clean::{CleanConfig, Cleaner, KeepOrDrop},
    context::Context,
    encode::{LongPolicy, TargetSide, encode_corpus, encode_labeled},
    loader::PairLoader,
    make_batch::MakeSeq2SeqBatch,
    noise::{Noise, NoiseConfig},
    pipeline::{CleanCorpus, Control, CorpusOptions, MemoryCorpus, Overlaps, ValidationPairs},
    sampler::BatchSize,
    split::{Split, SplitBy, split},
    store::PairStore,
};

static GO: AtomicBool = AtomicBool::new(false);

/// 400 pairs of letters, some with odd spaces, every tenth a duplicate.
fn corpus() -> Vec<SentencePair> {
    (0..400)
        .map(|i| {
            let i = if i % 10 == 9 { i - 1 } else { i };
            let word: String =
                format!("{i}").bytes().map(|digit| (digit + b'a' - b'0') as char).collect();
            SentencePair::new(format!("the {word}\u{a0}runs "), format!("{word} läuft {word}"))
        })
        .collect()
}

fn tokenizer() -> TokenizerConfig {
    TokenizerConfig { kind: TokenizerKind::Bpe, vocab_size: 60, ..TokenizerConfig::default() }
}

fn cleaning() -> CleanConfig {
    CleanConfig { duplicates: KeepOrDrop::Drop, ..CleanConfig::default() }
}

fn options(by: SplitBy) -> CorpusOptions {
    CorpusOptions {
        target: TargetSide::Sentence,
        noise: None,
        context: None,
        clean: cleaning(),
        validation: ValidationPairs::SetAside { fraction: 0.1, by, seed: 3 },
        overlaps: Overlaps::Count,
    }
}

fn preparation(tokenizer: &TokenizerConfig, by: SplitBy) -> Preparation<'_> {
    Preparation {
        corpus: options(by),
        tokenizer,
        max_len: 12,
        long: LongPolicy::Skip,
        inputs: Vec::new(),
        settings: serde_json::json!({ "tokenizer": { "vocab_size": 60 }, "seed": 3 }),
        stop: &GO,
    }
}

fn prepared(folder: &Path, by: SplitBy) -> PreparedCorpus {
    let pairs = corpus().into_iter().map(Ok);
    prepare(pairs, preparation(&tokenizer(), by), folder, &|_| {}).unwrap()
}

/// The same pipeline with memory as sink.
fn in_memory(by: SplitBy) -> MemoryCorpus {
    let control = Control { stop: &GO, progress: &|_| {} };
    let pairs = corpus().into_iter().map(Ok);
    let corpus = CleanCorpus::read(pairs, options(by), Vec::new(), &control).unwrap();
    let tokenizers = corpus.learn_tokenizers(&tokenizer(), &control).unwrap();
    let mut encoded = MemoryCorpus::default();
    corpus.encode(&tokenizers, 12, LongPolicy::Skip, &mut encoded, &control).unwrap();
    encoded
}

/// Documents of five pairs: context is the same in memory and on disk, and does not change which pairs are in
/// training.
#[test]
fn context_on_disk_equals_that_in_memory() {
    let context = Context { sentences: 2, dropout: 0.2, seed: 3 };
    let options = || CorpusOptions { context: Some(context), ..options(SplitBy::Seed) };
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = tokenizer();
    let preparation =
        Preparation { corpus: options(), max_len: 40, ..preparation(&tokenizer, SplitBy::Seed) };
    let pairs = || {
        let pairs = corpus();
        let documents: Vec<Vec<SentencePair>> = pairs.chunks(5).map(<[_]>::to_vec).collect();
        documents.join(&SentencePair::new("", " ")).into_iter().map(Ok)
    };
    let on_disk = prepare(pairs(), preparation, &folder.path().join("prepared"), &|_| {}).unwrap();

    let control = Control { stop: &GO, progress: &|_| {} };
    let corpus = CleanCorpus::read(pairs(), options(), Vec::new(), &control).unwrap();
    assert_eq!(corpus.documents, 80);
    let tokenizers = corpus.learn_tokenizers(&tokenizer, &control).unwrap();
    let mut encoded = MemoryCorpus::default();
    let report = corpus.encode(&tokenizers, 40, LongPolicy::Skip, &mut encoded, &control).unwrap();
    let on_disk_pairs: Vec<_> = on_disk.training().unwrap().iter().map(Result::unwrap).collect();
    assert_eq!(on_disk_pairs, encoded.training);
    assert_eq!(on_disk.record.encoding, report);
    assert_eq!(on_disk.validation(usize::MAX).unwrap(), encoded.validation);

    // Four of five pairs have context, of which a fifth is dropped: 64 % of the pairs.
    let share = report.with_context as f64 / encoded.training.len() as f64;
    assert!((0.55..0.73).contains(&share), "{share}");
    let separator = tokenizers.source.special_id(SEPARATOR).unwrap();
    let plain = in_memory(SplitBy::Seed);
    assert_eq!(plain.training.len(), encoded.training.len());
    let mut with_context = 0;
    for (plain, pair) in plain.training.iter().zip(&encoded.training) {
        let text = |ids: &[u32]| tokenizers.source.decode(ids).unwrap();
        let start = pair.source.iter().rposition(|&id| id == separator).map_or(0, |at| at + 1);
        assert_eq!(text(&pair.source[start..]), text(&plain.source));
        assert_eq!(pair.target, plain.target);
        with_context += usize::from(start > 0);
    }
    assert_eq!(with_context, report.with_context);
    assert!(encoded.validation.iter().any(|pair| pair.context.len() == 2));
}

/// Noisy copies follow training pairs only, and are the same in memory and on disk.
#[test]
fn noisy_copies_on_disk_equal_those_in_memory() {
    let noise = NoiseConfig { robust: true, copies: Some(0.5), ..NoiseConfig::default() };
    let options = || CorpusOptions { noise: Noise::new(&noise, 3), ..options(SplitBy::Seed) };
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = tokenizer();
    let preparation =
        Preparation { corpus: options(), max_len: 99, ..preparation(&tokenizer, SplitBy::Seed) };
    let pairs = || corpus().into_iter().map(Ok);
    let on_disk = prepare(pairs(), preparation, &folder.path().join("prepared"), &|_| {}).unwrap();

    let control = Control { stop: &GO, progress: &|_| {} };
    let corpus = CleanCorpus::read(pairs(), options(), Vec::new(), &control).unwrap();
    let tokenizers = corpus.learn_tokenizers(&tokenizer, &control).unwrap();
    let mut encoded = MemoryCorpus::default();
    let report = corpus.encode(&tokenizers, 99, LongPolicy::Skip, &mut encoded, &control).unwrap();
    let on_disk_pairs: Vec<_> = on_disk.training().unwrap().iter().map(Result::unwrap).collect();
    assert_eq!(on_disk_pairs, encoded.training);
    assert_eq!(on_disk.record.encoding, report);
    assert_eq!(encoded.training.len(), corpus.training_pairs() + report.copies);
    // Half of the pairs have a copied line, and the other kinds add some.
    assert!(report.copies > corpus.training_pairs() / 2);
    assert_eq!(encoded.validation, in_memory(SplitBy::Seed).validation);
}

#[test]
fn a_prepared_corpus_equals_one_in_memory() {
    for by in [SplitBy::Seed, SplitBy::Hash] {
        let folder = tempfile::tempdir().unwrap();
        let corpus_on_disk = prepared(&folder.path().join("prepared"), by);
        let (pairs, cleaning) = Cleaner::clean_all(cleaning(), corpus());
        let Split { train, validation } = split(pairs, 0.1, by, 3);
        let tokenizers = Tokenizers::train(&tokenizer(), &train).unwrap();
        let tokenizers = tokenizers.with_steps_of(self::cleaning().normalization());
        let (encoded, report) =
            encode_corpus(&train, &tokenizers, 12, LongPolicy::Skip, "x").unwrap();

        let CorpusRecord { training_pairs, validation_pairs, .. } = corpus_on_disk.record;
        assert_eq!((training_pairs, validation_pairs), (encoded.len(), validation.len()));
        assert_eq!(corpus_on_disk.record.cleaning, cleaning);
        assert_eq!(corpus_on_disk.record.encoding, report);
        assert_eq!(cleaning.count_of("duplicates"), 40);
        assert_eq!(corpus_on_disk.validation(usize::MAX).unwrap(), validation);
        assert_eq!(corpus_on_disk.validation(5).unwrap(), validation[..5]);
        assert_eq!(
            corpus_on_disk.tokenizers.source.to_json().unwrap(),
            tokenizers.source.to_json().unwrap()
        );
        let in_memory = in_memory(by);
        assert_eq!((&in_memory.training, &in_memory.validation), (&encoded, &validation));
        let mapped: PairStore = corpus_on_disk.training().unwrap().into();
        assert_eq!(mapped.len(), encoded.len());
        for (index, pair) in encoded.iter().enumerate() {
            assert_eq!(*mapped.pair(index), *pair);
            assert_eq!(mapped.lengths(index), [pair.source.len(), pair.target.len()]);
        }
        assert_eq!(*mapped.slice(10, 20).pair(3), encoded[13]);

        // The same items as datasets of Burn.
        let ids = corpus_on_disk.training().unwrap();
        let text = corpus_on_disk.mapped_validation().unwrap();
        assert_eq!(ids.iter().map(Result::unwrap).collect::<Vec<_>>(), encoded);
        assert_eq!(text.iter().map(Result::unwrap).collect::<Vec<_>>(), validation);

        // The same batches in the same order, also when resumed.
        let batches = |store: PairStore, skipped| {
            let size = BatchSize::Tokens(60);
            let make = MakeSeq2SeqBatch { word_dropout: 0.2, ..MakeSeq2SeqBatch::default() };
            let loader = PairLoader::new(store, make, size, Device::flex()).shuffled(7);
            let loader = loader.resume_from(2, skipped);
            let ids = |batch: crate::Seq2SeqBatch| batch.source.into_data().iter::<u32>().collect();
            let batches: Vec<Vec<u32>> = loader.iter().map(|batch| ids(batch.unwrap())).collect();
            batches
        };
        let all = batches(encoded.into(), 0);
        assert_eq!(batches(mapped.clone(), 0), all);
        assert_eq!(batches(mapped, 4), all[4..]);
    }
}

#[test]
fn near_duplicates_of_given_validation_pairs_can_be_dropped() {
    let given = vec![corpus()[7].clone(), SentencePair::new("something else", "etwas anderes")];
    for drop_overlap in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let tokenizer = tokenizer();
        let options = Preparation {
            corpus: CorpusOptions {
                validation: ValidationPairs::Given(given.clone()),
                overlaps: if drop_overlap { Overlaps::Drop } else { Overlaps::Count },
                ..options(SplitBy::Seed)
            },
            max_len: 50,
            ..preparation(&tokenizer, SplitBy::Seed)
        };
        let path = folder.path().join("prepared");
        let pairs = corpus().into_iter().map(Ok);
        let record = prepare(pairs, options, &path, &|_| {}).unwrap().record;
        // 400 pairs, 40 of them duplicates.
        assert_eq!(record.training_pairs, if drop_overlap { 359 } else { 360 });
        assert_eq!(record.overlap_left_out, usize::from(drop_overlap));
        assert_eq!(record.overlap.unwrap().near, 1);
        assert_eq!(record.validation_pairs, 2);
    }
}

/// Interrupts after each of the first progress messages. The current stage ends, and no file is
/// left behind.
#[test]
fn an_interrupted_preparation_leaves_nothing() {
    for lines in 0..2 {
        let folder = tempfile::tempdir().unwrap();
        let (stop, said) = (AtomicBool::new(false), AtomicUsize::new(0));
        let tokenizer = tokenizer();
        let how = Preparation { stop: &stop, ..preparation(&tokenizer, SplitBy::Seed) };
        let say = |_: &str| {
            if said.fetch_add(1, Ordering::Relaxed) == lines {
                stop.store(true, Ordering::Relaxed);
            }
        };
        let path = folder.path().join("prepared");
        let error = prepare(corpus().into_iter().map(Ok), how, &path, &say).unwrap_err();
        assert!(matches!(error, DataError::Interrupted), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        // Without an interruption, the preparation succeeds.
        prepare(
            corpus().into_iter().map(Ok),
            preparation(&tokenizer, SplitBy::Seed),
            &path,
            &|_| {},
        )
        .unwrap();
    }
}

#[test]
fn changes_since_the_preparation_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("corpus.txt");
    fs::write(&input, "one").unwrap();
    let tokenizer = tokenizer();
    let how = Preparation { inputs: vec![input.clone()], ..preparation(&tokenizer, SplitBy::Seed) };
    let path = folder.path().join("prepared");
    let settings = how.settings.clone();
    let corpus = prepare(corpus().into_iter().map(Ok), how, &path, &|_| {}).unwrap();
    let inputs = [input.clone()];
    let check = |settings: &Value| corpus.check(settings, &inputs).map_err(|e| e.to_string());
    assert_eq!(check(&settings), Ok(()));

    let mut other = settings.clone();
    other["tokenizer"]["vocab_size"] = 70.into();
    let message = check(&other).unwrap_err();
    let expected = "is stale: `tokenizer.vocab_size` is 70 now, was 60";
    assert!(message.ends_with(expected), "{message}");

    // The same content with another time, at another path, or absent.
    fs::write(&input, "one").unwrap();
    assert_eq!(check(&settings), Ok(()));
    fs::write(&input, "two").unwrap();
    let message = check(&settings).unwrap_err();
    assert!(message.contains("corpus.txt` has changed: 3 bytes, was 3 bytes"), "{message}");
    fs::remove_file(&input).unwrap();
    assert_eq!(check(&settings), Ok(()));
}

#[test]
fn a_failed_preparation_leaves_no_files_and_overwrites_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prepared");
    let tokenizer = tokenizer();
    let how = || preparation(&tokenizer, SplitBy::Seed);
    let broken =
        corpus().into_iter().map(Ok).chain([Err(TextError::Empty { path: "x".into() }.into())]);
    let error = prepare(broken, how(), &path, &|_| {}).unwrap_err();
    assert!(matches!(error, DataError::Text(TextError::Empty { .. })));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

    let copies = vec![SentencePair::new("a", "b"); 10].into_iter().map(Ok);
    assert!(matches!(prepare(copies, how(), &path, &|_| {}), Err(DataError::NoneSetAside { .. })));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

    fs::create_dir(&path).unwrap();
    let error = prepare(corpus().into_iter().map(Ok), how(), &path, &|_| {}).unwrap_err();
    assert!(error.to_string().ends_with("it exists and is not a prepared corpus"));
}

#[test]
fn a_newer_format_is_refused_as_such() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(CORPUS), r#"{ "format": 3, "more": true }"#).unwrap();
    let error = PreparedCorpus::open(folder.path()).unwrap_err().to_string();
    assert!(error.ends_with("it has format 3; this build reads formats 1 and 2"), "{error}");
}

/// A folder whose hashes are correct, but whose index or ids are invalid.
#[test]
fn a_crafted_index_or_id_is_refused() {
    let entry =
        |start: u64, source: u32| [&start.to_le_bytes()[..], &source.to_le_bytes()].concat();
    let crafted = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let folder = tempfile::tempdir().unwrap();
        let mut record: CorpusRecord = serde_json::from_slice(&files()[CORPUS]).unwrap();
        for (file, bytes) in files() {
            let mut bytes = bytes.clone();
            if file == name {
                change(&mut bytes);
            }
            fs::write(folder.path().join(file), bytes).unwrap();
        }
        let hash = FileHash::of(&folder.path().join(name)).unwrap();
        record.files.insert(name.into(), hash);
        fs::write(folder.path().join(CORPUS), serde_json::to_vec(&record).unwrap()).unwrap();
        let corpus = PreparedCorpus::open(folder.path()).unwrap();
        corpus.training().map(|pairs| pairs.len()).map_err(|error| error.to_string())
    };
    assert!(crafted(INDEX, &|_| {}).unwrap() > 300);
    for (place, start, source) in
        [(0, 1, 0), (5, u64::MAX, 1), (5, u64::MAX / 2, u32::MAX), (5, 0, 0), (6, 60, u32::MAX)]
    {
        let error = crafted(INDEX, &|index| {
            index[place * 12..][..12].copy_from_slice(&entry(start, source));
        });
        let error = error.unwrap_err();
        assert!(error.contains("train.index") && error.contains(" source ids in "), "{error}");
    }
    let error = crafted(INDEX, &|index| {
        let end = index.len() - 12;
        index[end..].copy_from_slice(&entry(1 << 40, 0));
    });
    assert!(error.unwrap_err().contains("ids, expected"));
    let error = crafted(IDS, &|ids| ids[7] = 0xff).unwrap_err();
    assert!(error.contains("train.ids") && error.contains(" of a vocabulary of "), "{error}");
}

/// Files of a prepared corpus by name, created once for all cases.
fn files() -> &'static HashMap<String, Vec<u8>> {
    static FILES: std::sync::OnceLock<HashMap<String, Vec<u8>>> = std::sync::OnceLock::new();
    FILES.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prepared");
        prepared(&path, SplitBy::Seed);
        let entries = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap());
        entries
            .map(|entry| {
                (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Changes, truncates, extends or removes one file. Opening the folder returns an error that
    /// names it, or the unchanged corpus.
    #[test]
    fn a_damaged_folder_is_refused(file in 0_usize..6, at in 0.0..1.0_f64, how in 0..4, byte: u8) {
        let mut names: Vec<&String> = files().keys().collect();
        names.sort();
        let folder = tempfile::tempdir().unwrap();
        let mut changed = false;
        for (index, name) in names.into_iter().enumerate() {
            let mut bytes = files()[name].clone();
            if index == file {
                let place = (at * bytes.len() as f64) as usize;
                match how {
                    0 => {
                        changed = bytes[place] != byte;
                        bytes[place] = byte;
                    }
                    1 => {
                        bytes.truncate(place);
                        changed = true;
                    }
                    2 => {
                        bytes.insert(place, byte);
                        changed = true;
                    }
                    _ => continue,
                }
            }
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        match PreparedCorpus::open(folder.path()) {
            Err(error) => prop_assert!(
                error.to_string().contains(&*folder.path().to_string_lossy()), "{}", error
            ),
            // Informational values in `corpus.json` may change unnoticed, but nothing else.
            Ok(corpus) => {
                prop_assert!(!changed || file == 0);
                let whole = &files()[IDS];
                prop_assert_eq!(corpus.record.files[IDS].bytes, whole.len() as u64);
                if let Ok(pairs) = corpus.training() {
                    (0..pairs.len()).for_each(|index| drop(pairs.pair(index)));
                }
            }
        }
    }
}

/// Labeled texts: 300 texts of letters, half of them with each label.
fn labeled() -> Vec<SentencePair> {
    let label = |index: usize| if index.is_multiple_of(2) { "even" } else { "odd" };
    let texts = corpus().into_iter().map(|pair| pair.source).enumerate().take(300);
    texts.map(|(index, text)| SentencePair::new(text, label(index / 10))).collect()
}

fn labeled_options() -> CorpusOptions {
    CorpusOptions { target: TargetSide::Label, ..options(SplitBy::Seed) }
}

/// If labels were compared, all texts with one label would be near duplicates and none could be set aside.
#[test]
fn labeled_texts_on_disk_are_those_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let config = tokenizer();
    let how = Preparation { corpus: labeled_options(), ..preparation(&config, SplitBy::Seed) };
    let path = folder.path().join("prepared");
    let prepared = prepare(labeled().into_iter().map(Ok), how, &path, &|_| {}).unwrap();
    let names = ["even", "odd"];
    assert_eq!(prepared.record.labels.as_ref().unwrap().names(), names);

    let control = Control { stop: &GO, progress: &|_| {} };
    let pairs = labeled().into_iter().map(Ok);
    let corpus = CleanCorpus::read(pairs, labeled_options(), Vec::new(), &control).unwrap();
    let labels = corpus.labels(&control).unwrap();
    assert_eq!(labels.names(), names);
    let tokenizers = corpus.learn_tokenizers(&config, &control).unwrap();
    assert_eq!(tokenizers.source.to_json().unwrap(), prepared.tokenizers.source.to_json().unwrap());
    let mut memory = MemoryCorpus::default();
    let (max_len, long) = (12, LongPolicy::Skip);
    let tokenizer = &tokenizers.source;
    let report =
        corpus.encode_labeled(tokenizer, &labels, max_len, long, &mut memory, &control).unwrap();
    assert_eq!(report, prepared.record.encoding);
    assert_eq!(prepared.validation(usize::MAX).unwrap(), memory.validation);
    // 300 texts, 30 of them duplicates; a tenth of the rest is set aside.
    assert_eq!((memory.training.len(), memory.validation.len()), (243, 27));
    let mapped = prepared.training().unwrap();
    let on_disk: Vec<_> = (0..mapped.len()).map(|index| mapped.pair(index)).collect();
    assert_eq!(on_disk, memory.training);
    assert!(on_disk.iter().all(|text| text.target.len() == 1 && text.target[0] < 2));
    let of_part = encode_labeled(&memory.validation, tokenizer, &labels, 12, long, "x").unwrap().0;
    assert_eq!(of_part.len(), 27);
    // The report lists the steps that compare the sides as off.
    let off = corpus.cleaning.to_string();
    assert!(off.ends_with("off: markup, max_ratio, min_script_share, identical"), "{off}");
}

#[test]
fn labels_that_cannot_be_learned_are_refused() {
    let control = Control { stop: &GO, progress: &|_| {} };
    let read = |pairs: Vec<SentencePair>, validation| {
        let options = CorpusOptions { validation, ..labeled_options() };
        let corpus = CleanCorpus::read(pairs.into_iter().map(Ok), options, Vec::new(), &control)?;
        let labels = corpus.labels(&control)?;
        let tokenizers = corpus.learn_tokenizers(&tokenizer(), &control)?;
        let (tokenizer, mut sink) = (&tokenizers.source, MemoryCorpus::default());
        corpus.encode_labeled(tokenizer, &labels, 12, LongPolicy::Skip, &mut sink, &control)
    };
    let given = |label: &str| {
        ValidationPairs::Given(vec![labeled()[0].clone(), SentencePair::new("a text", label)])
    };
    assert!(read(labeled(), given("odd")).is_ok());
    assert_eq!(
        read(labeled(), given("other")).unwrap_err().to_string(),
        "line 2 of the validation data has the label `other`, which does not occur in training; \
         accepted are `even`, `odd`"
    );
    let one_class = labeled().into_iter().filter(|pair| pair.target == "odd").collect();
    assert_eq!(
        read(one_class, given("odd")).unwrap_err().to_string(),
        "unusable labels in the training data: every text has the label `odd`, expected at least two \
         labels"
    );
}

#[test]
fn labels_in_a_file_of_another_length_are_refused_with_both_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let (texts, labels) = (folder.path().join("texts"), folder.path().join("labels"));
    fs::write(&texts, "a\nb\nc\n").unwrap();
    fs::write(&labels, "x\ny\n").unwrap();
    let error = crate::source::local::parallel_text(&texts, &labels).unwrap_err().to_string();
    assert!(error.contains("has 3 lines") && error.contains("has 2"), "{error}");
}
