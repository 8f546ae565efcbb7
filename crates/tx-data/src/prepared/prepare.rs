//! Preparation of a corpus on disk, in bounded memory.
//!
//! Memory holds the vocabulary and its words, and for each pair, of any length, 4 bytes to keep
//! near duplicates together, 1 byte for the split, and about 20 bytes to find duplicates.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};

use serde_json::Value;
use tx_text::{SentencePair, TokenizerConfig, Tokenizers};

use super::{
    CORPUS, CorpusRecord, FILES, FORMAT, FileHash, IDS, INDEX, InputFile, PreparedCorpus,
    SOURCE_TOKENIZER, TARGET_TOKENIZER, VALIDATION, spool::Spool,
};
use crate::{
    encode::{LongPolicy, TargetSide},
    encoded_pair::EncodedPair,
    error::DataError,
    labels::Labels,
    pipeline::{CleanCorpus, Control, CorpusOptions, CorpusSink},
};

/// End of the name of a folder under construction, before its number.
pub(super) const PARTIAL: &str = ".partial-";

/// Options of a preparation.
#[derive(Debug, Clone)]
pub struct Preparation<'a> {
    /// Options of cleaning and splitting.
    pub corpus: CorpusOptions,
    /// Configuration of the tokenizers.
    pub tokenizer: &'a TokenizerConfig,
    /// Maximum length of a side in tokens, special tokens included.
    pub max_len: usize,
    /// Handling of pairs with a longer side.
    pub long: LongPolicy,
    /// Input files; their hashes are recorded to detect changes later.
    pub inputs: Vec<PathBuf>,
    /// All settings that affect the result; recorded to detect changes later.
    pub settings: Value,
    /// Ends the preparation with [`DataError::Interrupted`] once set.
    pub stop: &'a AtomicBool,
}

/// Prepares a corpus in `folder`, which must not exist, and opens it. `say` receives progress
/// messages.
///
/// # Errors
///
/// If the stream fails, no pair is left, the work is interrupted, or a file cannot be written. No
/// file is left behind then.
pub fn prepare(
    pairs: impl Iterator<Item = Result<SentencePair, DataError>>,
    options: Preparation<'_>,
    folder: &Path,
    say: &dyn Fn(&str),
) -> Result<PreparedCorpus, DataError> {
    prepare_with(pairs, options, None, folder, say)?;
    PreparedCorpus::open(folder)
}

/// Prepares a corpus in `folder`, with `tokenizers` if they are given.
pub(super) fn prepare_with(
    pairs: impl Iterator<Item = Result<SentencePair, DataError>>,
    options: Preparation<'_>,
    tokenizers: Option<&Tokenizers>,
    folder: &Path,
    say: &dyn Fn(&str),
) -> Result<(), DataError> {
    if folder.exists() {
        let problem = "it exists and is not a prepared corpus".into();
        return Err(DataError::Prepared { path: folder.into(), problem });
    }
    let partial = PartialFolder::create(folder)?;
    write_files(pairs, options, tokenizers, &partial.path, say)?;
    partial.finish(folder)
}

/// Runs the corpus pipeline with files in `folder` as sink.
fn write_files(
    pairs: impl Iterator<Item = Result<SentencePair, DataError>>,
    options: Preparation<'_>,
    tokenizers: Option<&Tokenizers>,
    folder: &Path,
    say: &dyn Fn(&str),
) -> Result<(), DataError> {
    let Preparation { corpus, tokenizer, max_len, long, inputs, settings, stop } = options;
    let control = Control { stop, progress: &|progress| say(&progress.to_string()) };

    let target = corpus.target;
    let spool = Spool::create(folder, target)?;
    let corpus = CleanCorpus::read(pairs, corpus, spool, &control)?;
    let tokenizers = match tokenizers {
        Some(tokenizers) => tokenizers.clone(),
        None => corpus.learn_tokenizers(tokenizer, &control)?,
    };
    write_tokenizers(&tokenizers, folder)?;
    let labels = match target {
        TargetSide::Sentence => None,
        TargetSide::Label => Some(corpus.labels(&control)?),
    };
    let id_bytes = id_bytes(&tokenizers, labels.as_ref());
    let mut files = CorpusFiles::create(folder, id_bytes)?;
    let encoding = match &labels {
        None => corpus.encode(&tokenizers, max_len, long, &mut files, &control)?,
        Some(labels) => {
            let tokenizer = &tokenizers.source;
            corpus.encode_labeled(tokenizer, labels, max_len, long, &mut files, &control)?
        }
    };
    let Counts { training_pairs, training_ids, validation_pairs } = files.finish()?;
    let CleanCorpus { text, cleaning, overlap, overlap_dropped, .. } = corpus;
    text.delete()?;

    let record = CorpusRecord {
        format: FORMAT,
        tx_version: env!("CARGO_PKG_VERSION").into(),
        settings,
        inputs: input_files(&inputs)?,
        training_pairs,
        training_ids,
        id_bytes,
        validation_pairs,
        cleaning,
        encoding,
        overlap,
        overlap_left_out: overlap_dropped,
        labels,
        shards: Vec::new(),
        files: Default::default(),
    };
    write_record(record, folder)
}

/// Flushes the entries of a folder to disk. Only Unix opens folders as files.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    match cfg!(unix) {
        true => File::open(folder)?.sync_all(),
        false => Ok(()),
    }
}

/// Folder under construction; deleted on drop unless it has been renamed.
pub(super) struct PartialFolder {
    pub path: PathBuf,
}

impl PartialFolder {
    /// Creates the folder beside `folder`, under a name that no other process uses.
    pub fn create(folder: &Path) -> Result<Self, DataError> {
        fs::create_dir_all(above(folder)).map_err(unwritable(above(folder)))?;
        let mut number = 0_u32;
        loop {
            let mut name = folder.file_name().unwrap_or_default().to_owned();
            name.push(format!("{PARTIAL}{number}"));
            let path = folder.with_file_name(name);
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(unwritable(&path)(error)),
            }
        }
    }

    /// Renames it to `folder`.
    pub fn finish(self, folder: &Path) -> Result<(), DataError> {
        sync_folder(&self.path).map_err(unwritable(&self.path))?;
        fs::rename(&self.path, folder).map_err(unwritable(folder))?;
        sync_folder(above(folder)).map_err(unwritable(folder))
    }
}

/// Returns the folder that contains a path.
pub(super) fn above(path: &Path) -> &Path {
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    above.unwrap_or(Path::new("."))
}

pub(super) fn unwritable(path: &Path) -> impl FnOnce(io::Error) -> DataError {
    let path = path.to_owned();
    move |source| DataError::Write { path, source }
}

impl Drop for PartialFolder {
    fn drop(&mut self) {
        // Fails after the rename, because the folder no longer exists. A folder that cannot be
        // deleted is left behind.
        drop(fs::remove_dir_all(&self.path));
    }
}

pub(super) fn write_tokenizers(tokenizers: &Tokenizers, folder: &Path) -> Result<(), DataError> {
    for (name, tokenizer) in
        [(SOURCE_TOKENIZER, &tokenizers.source), (TARGET_TOKENIZER, &tokenizers.target)]
    {
        OutputFile::write_whole(folder.join(name), Ok(tokenizer.to_json()?.into_bytes()))?;
    }
    Ok(())
}

/// Returns the number of bytes of an id on disk: two if both vocabularies, and the labels if there are any, allow it.
fn id_bytes(tokenizers: &Tokenizers, labels: Option<&Labels>) -> usize {
    let targets = labels.map_or(tokenizers.target.vocab_size(), Labels::classes);
    let largest = tokenizers.source.vocab_size().max(targets);
    if largest <= 1 << 16 { 2 } else { 4 }
}

fn input_files(paths: &[PathBuf]) -> Result<Vec<InputFile>, DataError> {
    let hash = |path: &PathBuf| InputFile::at(path, FileHash::of(path)?);
    paths
        .iter()
        .map(|path| hash(path).map_err(|source| DataError::Read { path: path.clone(), source }))
        .collect()
}

/// Adds the hashes of all files to the record and writes it.
fn write_record(mut record: CorpusRecord, folder: &Path) -> Result<(), DataError> {
    for name in FILES {
        let path = folder.join(name);
        let hash = FileHash::of(&path).map_err(|source| DataError::Read { path, source })?;
        record.files.insert(name.into(), hash);
    }
    let json = serde_json::to_vec_pretty(&record).map_err(io::Error::other);
    OutputFile::write_whole(folder.join(CORPUS), json)
}

/// Files of the training and validation pairs.
struct CorpusFiles {
    ids: OutputFile,
    index: OutputFile,
    validation: OutputFile,
    id_bytes: usize,
    counts: Counts,
}

/// Counts of the pairs in the files.
#[derive(Clone, Copy, Default)]
struct Counts {
    training_pairs: usize,
    training_ids: u64,
    validation_pairs: usize,
}

impl CorpusFiles {
    fn create(folder: &Path, id_bytes: usize) -> Result<Self, DataError> {
        Ok(Self {
            ids: OutputFile::create(folder.join(IDS))?,
            index: OutputFile::create(folder.join(INDEX))?,
            validation: OutputFile::create(folder.join(VALIDATION))?,
            id_bytes,
            counts: Counts::default(),
        })
    }

    /// Writes the index entry of a pair with this number of source ids.
    fn index_entry(&mut self, source_ids: usize) -> Result<(), DataError> {
        let mut entry = self.counts.training_ids.to_le_bytes().to_vec();
        entry.extend((source_ids as u32).to_le_bytes());
        self.index.write(Ok(entry))
    }

    /// Flushes the files to disk and returns their counts.
    fn finish(mut self) -> Result<Counts, DataError> {
        self.index_entry(0)?;
        self.validation.finish()?;
        self.ids.finish()?;
        self.index.finish()?;
        Ok(self.counts)
    }
}

impl CorpusSink for CorpusFiles {
    fn training(&mut self, pair: EncodedPair) -> Result<(), DataError> {
        self.index_entry(pair.source.len())?;
        let ids = pair.source.iter().chain(&pair.target);
        let bytes: Vec<u8> =
            ids.flat_map(|id| id.to_le_bytes().into_iter().take(self.id_bytes)).collect();
        self.counts.training_ids += (pair.source.len() + pair.target.len()) as u64;
        self.counts.training_pairs += 1;
        self.ids.write(Ok(bytes))
    }

    fn validation(&mut self, pair: &SentencePair) -> Result<(), DataError> {
        self.counts.validation_pairs += 1;
        let mut line = serde_json::to_vec(pair).map_err(io::Error::other);
        if let Ok(line) = &mut line {
            line.push(b'\n');
        }
        self.validation.write(line)
    }
}

/// Output file, with its path for error messages.
pub(super) struct OutputFile {
    path: PathBuf,
    file: BufWriter<File>,
}

impl OutputFile {
    fn create(path: PathBuf) -> Result<Self, DataError> {
        match File::create(&path) {
            Ok(file) => Ok(Self { path, file: BufWriter::with_capacity(1 << 18, file) }),
            Err(source) => Err(DataError::Write { path, source }),
        }
    }

    /// Creates, writes and flushes a file.
    pub fn write_whole(path: PathBuf, bytes: io::Result<Vec<u8>>) -> Result<(), DataError> {
        let mut output = Self::create(path)?;
        output.write(bytes)?;
        output.finish()
    }

    fn write(&mut self, bytes: io::Result<Vec<u8>>) -> Result<(), DataError> {
        bytes
            .and_then(|bytes| self.file.write_all(&bytes))
            .map_err(|source| DataError::Write { path: self.path.clone(), source })
    }

    /// Flushes to the disk itself, so that a renamed folder is complete after a power failure.
    fn finish(mut self) -> Result<(), DataError> {
        self.file
            .flush()
            .and_then(|()| self.file.get_ref().sync_all())
            .map_err(|source| DataError::Write { path: self.path, source })
    }
}
