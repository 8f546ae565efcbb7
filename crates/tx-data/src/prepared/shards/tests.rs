use std::sync::Mutex;

use burn::{data::dataloader::DataLoader, tensor::Device};
use tx_text::{SentencePair, TokenizerConfig, TokenizerKind};

use super::{super::shard_name, *};
use crate::{
    clean::CleanConfig,
    encode::{LongPolicy, TargetSide},
    loader::PairLoader,
    make_batch::MakeSeq2SeqBatch,
    pipeline::{CorpusOptions, Overlaps, ValidationPairs},
    prepared::{FileHash, INDEX, prepare},
    sampler::BatchSize,
    source::read::{ReadOptions, pairs},
    store::PairStore,
};

static GO: AtomicBool = AtomicBool::new(false);

/// Pairs of a shard, one of them empty and one with a side longer than the limit.
fn corpus(shard: usize) -> Vec<SentencePair> {
    let word = |n: usize| -> String {
        n.to_string().bytes().map(|digit| (digit + b'a' - b'0') as char).collect()
    };
    (0..40 + 10 * shard)
        .map(|n| match n {
            7 => SentencePair::new("nothing", ""),
            9 => SentencePair::new(word(shard), "lang ".repeat(30)),
            n => SentencePair::new(
                format!("the {} runs", word(100 * shard + n)),
                format!("{} läuft", word(100 * shard + n)),
            ),
        })
        .collect()
}

fn tokenizer() -> TokenizerConfig {
    TokenizerConfig { kind: TokenizerKind::Bpe, vocab_size: 60, ..TokenizerConfig::default() }
}

fn preparation(tokenizer: &TokenizerConfig) -> Preparation<'_> {
    let valid = vec![SentencePair::new("the a runs", "a läuft"), SentencePair::new("new", "neu")];
    Preparation {
        corpus: CorpusOptions {
            target: TargetSide::Sentence,
            noise: None,
            context: None,
            clean: CleanConfig { max_ratio: 0.0, ..CleanConfig::default() },
            validation: ValidationPairs::Given(valid),
            overlaps: Overlaps::Count,
        },
        tokenizer,
        max_len: 20,
        long: LongPolicy::Skip,
        inputs: Vec::new(),
        settings: serde_json::json!({ "vocab_size": tokenizer.vocab_size }),
        stop: &GO,
    }
}

/// Writes three shards as files; the last is larger.
fn files(folder: &Path) -> Vec<Vec<PathBuf>> {
    (0..3)
        .map(|shard| {
            let path = folder.join(format!("{shard}.tsv"));
            let line = |pair: SentencePair| format!("{}\t{}\n", pair.source, pair.target);
            fs::write(&path, corpus(shard).into_iter().map(line).collect::<String>()).unwrap();
            vec![path]
        })
        .collect()
}

fn prepare_in(
    folder: &Path,
    files: &[Vec<PathBuf>],
    options: &Preparation<'_>,
    say: &dyn Fn(&str),
) -> Result<PreparedCorpus, DataError> {
    with_inputs(files, |inputs| prepare_shards(inputs, options, folder, say))
}

fn with_inputs<T>(files: &[Vec<PathBuf>], work: impl FnOnce(ShardInputs<'_>) -> T) -> T {
    let open = |shard: usize| pairs(&files[shard][0], &ReadOptions::default());
    work(ShardInputs { files, open: &open, sample: 1_000, threads: 2 })
}

/// Hashes of all files in a folder, without the times of input files in records.
fn hashes(corpus: &PreparedCorpus) -> Vec<(String, FileHash)> {
    let files = corpus.record.files.clone().into_iter();
    files.filter(|(name, _)| !name.ends_with(CORPUS)).collect()
}

/// A caller within a pool of one thread waits for no thread that needs the pool.
#[test]
fn one_thread_prepares_all_shards() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path());
    let tokenizer = tokenizer();
    let prepare = |name: &str| {
        let path = folder.path().join(name);
        hashes(&prepare_in(&path, &files, &preparation(&tokenizer), &|_| {}).unwrap())
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    assert_eq!(pool.install(|| prepare("one")), prepare("several"));
}

/// Without duplicates across shards, and with a vocabulary from all pairs, the pairs and their order
/// are those of one corpus with all pairs; so are the batches, the counts and the tokenizers.
#[test]
fn shards_equal_one_corpus_of_all_pairs() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path());
    let tokenizer = tokenizer();
    let options = preparation(&tokenizer);
    let all = (0..3).flat_map(corpus).map(Ok);
    let one = prepare(all, options.clone(), &folder.path().join("one"), &|_| {}).unwrap();
    let path = folder.path().join("shards");
    let many = prepare_in(&path, &files, &options, &|_| {}).unwrap();

    // 40 + 50 + 60 pairs, two of each shard dropped.
    assert_eq!(many.record.training_pairs, 144);
    assert_eq!(many.record.shards.len(), 3);
    assert_eq!(many.record.training_pairs, one.record.training_pairs);
    assert_eq!(many.record.training_ids, one.record.training_ids);
    assert_eq!(many.record.cleaning, one.record.cleaning);
    assert_eq!(many.record.encoding, one.record.encoding);
    assert_eq!(many.record.overlap, one.record.overlap);
    let json = |corpus: &PreparedCorpus| {
        let Tokenizers { source, target } = &corpus.tokenizers;
        [source, target].map(|tokenizer| tokenizer.to_json().unwrap())
    };
    assert_eq!(json(&many), json(&one));
    assert_eq!(many.validation(9).unwrap(), one.validation(9).unwrap());

    let [one, many]: [PairStore; 2] = [one, many].map(|corpus| corpus.training().unwrap().into());
    assert_eq!(one.len(), many.len());
    for index in 0..one.len() {
        assert_eq!(one.pair(index), many.pair(index));
        assert_eq!(one.lengths(index), many.lengths(index));
    }
    let batches = |store: &PairStore| -> Vec<Vec<u32>> {
        let size = BatchSize::Tokens(60);
        let make = MakeSeq2SeqBatch::default();
        let loader = PairLoader::new(store.clone(), make, size, Device::flex()).shuffled(7);
        let ids = |batch: crate::Seq2SeqBatch| batch.source.into_data().iter::<u32>().collect();
        loader.resume_from(2, 1).iter().map(|batch| ids(batch.unwrap())).collect()
    };
    assert_eq!(batches(&one), batches(&many));
}

/// Interrupts after each message of a preparation, and leaves a folder as a killed process does.
#[test]
fn an_interrupted_preparation_is_continued() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path());
    let tokenizer = tokenizer();
    let whole = folder.path().join("whole");
    let whole = prepare_in(&whole, &files, &preparation(&tokenizer), &|_| {}).unwrap();
    for lines in 0..4 {
        let (stop, said) = (AtomicBool::new(false), AtomicUsize::new(0));
        let options = Preparation { stop: &stop, ..preparation(&tokenizer) };
        let say = |_: &str| {
            if said.fetch_add(1, Ordering::Relaxed) == lines {
                stop.store(true, Ordering::Relaxed);
            }
        };
        let path = folder.path().join(format!("parts-{lines}"));
        // The last shards may be complete before the interruption is noticed.
        match prepare_in(&path, &files, &options, &say) {
            Err(error) => {
                assert!(matches!(error, DataError::Interrupted), "{error}");
                assert!(!PreparedCorpus::exists(&path));
            }
            Ok(_) => assert!(lines > 1),
        }
        if !path.join(shard_name(2)).exists() {
            fs::create_dir_all(path.join("shard-00002.partial-0")).unwrap();
            fs::write(path.join("shard-00002.partial-0/text.spool"), "half").unwrap();
        }
        let parts = prepare_in(&path, &files, &preparation(&tokenizer), &|_| {}).unwrap();
        assert_eq!(hashes(&parts), hashes(&whole));
        let mut names: Vec<_> = fs::read_dir(&path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, [CORPUS, "shard-00000", "shard-00001", "shard-00002", TOKENIZERS]);
    }
}

/// Two parts are prepared at the same time, as by two processes. The third call completes the corpus.
#[test]
fn parts_of_the_shards_are_prepared_at_the_same_time() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path());
    let tokenizer = tokenizer();
    let whole = folder.path().join("whole");
    let whole = prepare_in(&whole, &files, &preparation(&tokenizer), &|_| {}).unwrap();
    let path = folder.path().join("shards");
    let prepared = |part: &str| {
        let said = Mutex::new(Vec::new());
        let say = |line: &str| said.lock().unwrap().push(line.to_owned());
        let part = part.parse().unwrap();
        let options = preparation(&tokenizer);
        with_inputs(&files, |inputs| prepare_part(inputs, part, &options, &path, &say)).unwrap();
        let said = said.into_inner().unwrap();
        said.iter().filter(|line| line.starts_with("shard ")).count()
    };
    thread::scope(|scope| {
        let parts = ["1/2", "2/2"].map(|part| scope.spawn(|| prepared(part)));
        // Shards 0 and 2, and shard 1.
        assert_eq!(parts.map(|part| part.join().unwrap()), [2, 1]);
    });
    assert!(!PreparedCorpus::exists(&path));
    let say = |line: &str| panic!("{line}");
    let corpus = prepare_in(&path, &files, &preparation(&tokenizer), &say).unwrap();
    assert_eq!(hashes(&corpus), hashes(&whole));
}

#[test]
fn parts_are_written_as_number_and_count() {
    let part: ShardPart = "2/8".parse().unwrap();
    assert_eq!(part, ShardPart { index: 1, count: 8 });
    assert_eq!(part.to_string(), "2/8");
    for wrong in ["", "2", "0/8", "9/8", "1/0", "-1/2", "a/b", "1/2/3"] {
        assert!(wrong.parse::<ShardPart>().is_err(), "{wrong}");
    }
}

#[test]
fn a_damaged_shard_is_named_and_prepared_again() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path());
    let path = folder.path().join("shards");
    let tokenizer = tokenizer();
    let whole = prepare_in(&path, &files, &preparation(&tokenizer), &|_| {}).unwrap();
    let damaged = path.join("shard-00001").join(INDEX);
    let mut bytes = fs::read(&damaged).unwrap();
    bytes[13] ^= 1;
    fs::write(&damaged, &bytes).unwrap();
    let message = PreparedCorpus::open(&path).unwrap_err().to_string();
    assert!(message.contains("`shard-00001/train.index` is damaged: its SHA-256 "), "{message}");

    // Two processes divide the verification: the first has shards 0 and 2, the second has shard 1.
    let open = |index| PreparedCorpus::open_verifying(&path, ShardPart { index, count: 2 });
    assert!(open(1).is_err());
    let corpus = open(0).unwrap();
    // Damage that another process reports causes no panic.
    let pairs = corpus.training().unwrap();
    for index in 0..pairs.len() {
        assert_eq!(pairs.lengths(index)[0], pairs.pair(index).source.len());
    }
    // The length is checked by every process.
    fs::write(&damaged, &bytes[..24]).unwrap();
    let message = open(0).unwrap_err().to_string();
    assert!(message.contains("is damaged: it has 24 bytes"), "{message}");

    fs::remove_dir_all(path.join("shard-00001")).unwrap();
    assert!(!PreparedCorpus::exists(&path));
    let again = prepare_in(&path, &files, &preparation(&tokenizer), &|_| {}).unwrap();
    assert_eq!(again.record, whole.record);
}

#[test]
fn other_settings_and_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = files(folder.path());
    let path = folder.path().join("shards");
    let tokenizer = tokenizer();
    let corpus = prepare_in(&path, &files, &preparation(&tokenizer), &|_| {}).unwrap();
    assert!(corpus.check(&serde_json::json!({ "vocab_size": 60 }), &files.concat()).is_ok());
    fs::remove_file(path.join(CORPUS)).unwrap();
    let other = TokenizerConfig { vocab_size: 70, ..tokenizer.clone() };
    let error = |files: &[Vec<PathBuf>], tokenizer: &TokenizerConfig| {
        prepare_in(&path, files, &preparation(tokenizer), &|_| {}).unwrap_err().to_string()
    };
    let message = error(&files, &other);
    assert!(message.ends_with("is stale: `vocab_size` is 70 now, was 60"), "{message}");
    let message = error(&files[..2], &tokenizer);
    assert!(message.ends_with("is stale: there are 2 files now, there were 3"), "{message}");
    // Other content of the same length is found when the shard is reused.
    files.swap(0, 1);
    let message = error(&files, &tokenizer);
    assert!(message.contains("` is stale: `") && message.contains("has changed"), "{message}");

    let empty = folder.path().join("empty.tsv");
    fs::write(&empty, "only\t\n").unwrap();
    let path = folder.path().join("other");
    let error = prepare_in(&path, &[vec![empty]], &preparation(&tokenizer), &|_| {}).unwrap_err();
    assert!(error.to_string().contains("empty.tsv"), "{error}");
}
