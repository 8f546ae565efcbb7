//! Preparing a corpus: cleaned, split, tokenized and written, a part at a time.
//!
//! Memory holds the vocabulary and its words, 4 bytes a pair to keep near duplicates together, 1 to
//! remember its side, and some 20 bytes a pair to find duplicates, whatever its length.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicBool, Ordering},
};

use serde_json::Value;
use tx_text::{SentencePair, TokenizerConfig, Tokenizers};

use super::{
    CORPUS, CorpusRecord, FORMAT, FileHash, IDS, INDEX, InputFile, PreparedCorpus,
    SOURCE_TOKENIZER, TARGET_TOKENIZER, VALIDATION,
    spool::{Spool, SpoolWriter},
};
use crate::{
    clean::{CleanConfig, Cleaner},
    encode::{EncodedPair, Encoder, LongPolicy},
    error::DataError,
    near_duplicate::OverlapFinder,
    split::SplitBy,
};

/// Pairs that are tokenized and written at a time.
const AT_A_TIME: usize = 1 << 15;
/// Pairs from one line of progress to the next.
const PROGRESS: usize = 1_000_000;

/// How a corpus is prepared.
#[derive(Debug, Clone)]
pub struct Preparation<'a> {
    /// How text is cleaned.
    pub clean: CleanConfig,
    /// Where validation pairs come from.
    pub validation: ValidationPairs,
    /// Whether training pairs that are near duplicates of given validation pairs are left out.
    pub drop_overlap: bool,
    /// How text becomes ids.
    pub tokenizer: &'a TokenizerConfig,
    /// Longest side in tokens, special tokens included.
    pub max_len: usize,
    /// What happens to longer ones.
    pub long: LongPolicy,
    /// The files that are read, to know later whether they have changed.
    pub inputs: Vec<PathBuf>,
    /// All settings that decide the result, to know later whether they have changed.
    pub settings: Value,
    /// Ends the work with [`DataError::Interrupted`] once it is set.
    pub stop: &'a AtomicBool,
}

impl Preparation<'_> {
    fn check_stop(&self) -> Result<(), DataError> {
        if self.stop.load(Ordering::Relaxed) { Err(DataError::Interrupted) } else { Ok(()) }
    }
}

/// Where validation pairs come from.
#[derive(Debug, Clone)]
pub enum ValidationPairs {
    /// They are given and stay as they are.
    Given(Vec<SentencePair>),
    /// A share of the training pairs is set aside.
    SetAside {
        /// How much of them.
        share: f64,
        /// What decides.
        by: SplitBy,
        /// Decides, if it is the seed.
        seed: u64,
    },
    /// The training pairs themselves, at most so many.
    Training(usize),
}

/// Prepares a corpus into `folder`, which must not exist, and opens it; `say` hears how it goes.
///
/// # Errors
///
/// When the stream does, nothing is left of it, the work is interrupted, or a file cannot be written;
/// nothing stays then.
pub fn prepare(
    pairs: impl Iterator<Item = Result<SentencePair, DataError>>,
    how: &Preparation<'_>,
    folder: &Path,
    say: &dyn Fn(&str),
) -> Result<PreparedCorpus, DataError> {
    if folder.exists() {
        let problem = "it exists and is no prepared corpus".into();
        return Err(DataError::Prepared { path: folder.into(), problem });
    }
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(format!(".partial-{}", process::id()));
    let partial = Partial(folder.with_file_name(name));
    let write = |path: &Path| {
        let path = path.to_owned();
        move |source| DataError::Write { path, source }
    };
    fs::create_dir_all(&partial.0).map_err(write(&partial.0))?;
    Writer { how, folder: &partial.0, say }.run(pairs)?;
    sync_folder(&partial.0).map_err(write(&partial.0))?;
    fs::rename(&partial.0, folder).map_err(write(folder))?;
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
    sync_folder(above.unwrap_or(Path::new("."))).map_err(write(folder))?;
    PreparedCorpus::open(folder)
}

/// Brings the names in a folder to disk. Only Unix opens folders as files.
fn sync_folder(folder: &Path) -> std::io::Result<()> {
    match cfg!(unix) {
        true => File::open(folder)?.sync_all(),
        false => Ok(()),
    }
}

/// A folder under way: deleted if it does not get its name.
struct Partial(PathBuf);

impl Drop for Partial {
    fn drop(&mut self) {
        // Gone if it has been renamed; left behind if the system will not have it otherwise.
        drop(fs::remove_dir_all(&self.0));
    }
}

struct Writer<'a> {
    how: &'a Preparation<'a>,
    folder: &'a Path,
    say: &'a dyn Fn(&str),
}

impl Writer<'_> {
    fn run(
        &self,
        pairs: impl Iterator<Item = Result<SentencePair, DataError>>,
    ) -> Result<(), DataError> {
        let Self { how, say, .. } = *self;
        let mut cleaner = Cleaner::new(how.clean.clone());
        let mut finder = match &how.validation {
            ValidationPairs::Given(validation) => Some(OverlapFinder::new(validation)),
            _ => None,
        };
        let mut overlap_left_out = 0;
        let mut spool = SpoolWriter::create(self.folder)?;
        for pair in pairs {
            how.check_stop()?;
            if let Some(pair) = cleaner.clean(pair?) {
                let near = finder.as_mut().is_some_and(|finder| finder.meet(&pair));
                if near && how.drop_overlap {
                    overlap_left_out += 1;
                } else {
                    spool.push(&pair)?;
                }
            }
            if cleaner.report().pairs.is_multiple_of(PROGRESS) {
                say(&format!("read {} pairs", cleaner.report().pairs));
            }
        }
        let spool = spool.finish()?;
        let cleaning = cleaner.report().clone();
        drop(cleaner);
        say(&cleaning.to_string());

        how.check_stop()?;
        let held_out = self.held_out(&spool)?;
        let is_held_out = |index: usize| held_out.get(index).copied().unwrap_or(false);
        say("learning the vocabulary");
        let tokenizers = Tokenizers::train_on_stream(how.tokenizer, || {
            let training = spool.read()?.enumerate();
            let held_out = held_out.clone();
            Ok::<_, DataError>(
                training
                    .filter(move |(index, _)| !held_out.get(*index).copied().unwrap_or(false))
                    .map(move |(_, pair)| how.check_stop().and(pair)),
            )
        })?;
        how.check_stop()?;
        let sizes = [tokenizers.source.vocab_size(), tokenizers.target.vocab_size()];
        let id_bytes = if sizes[0].max(sizes[1]) <= 1 << 16 { 2 } else { 4 };
        for (name, tokenizer) in
            [(SOURCE_TOKENIZER, &tokenizers.source), (TARGET_TOKENIZER, &tokenizers.target)]
        {
            Output::whole(self.folder.join(name), Ok(tokenizer.to_json()?.into_bytes()))?;
        }

        let mut validation = Output::create(self.folder.join(VALIDATION))?;
        let mut validation_pairs = 0;
        let mut put_aside = |pair: &SentencePair| {
            validation_pairs += 1;
            let mut line = serde_json::to_vec(pair).map_err(std::io::Error::other);
            if let Ok(line) = &mut line {
                line.push(b'\n');
            }
            validation.write(line)
        };
        if let ValidationPairs::Given(given) = &how.validation {
            given.iter().try_for_each(&mut put_aside)?;
        }
        let mut training = TrainingWriter::create(self.folder, id_bytes)?;
        let mut encoder = Encoder::new(&tokenizers, how.max_len, how.long);
        let mut part = Vec::with_capacity(AT_A_TIME);
        let mut done = 0;
        for (index, pair) in spool.read()?.enumerate() {
            let pair = pair?;
            match how.validation {
                ValidationPairs::Training(most) if index < most => put_aside(&pair)?,
                _ if is_held_out(index) => {
                    put_aside(&pair)?;
                    continue;
                }
                _ => {}
            }
            part.push(pair);
            if part.len() == AT_A_TIME {
                how.check_stop()?;
                encoder.encode(&part, |pair| training.push(&pair))?;
                if (done + AT_A_TIME) / PROGRESS > done / PROGRESS {
                    say(&format!("tokenized {} of {} pairs", done + AT_A_TIME, spool.pairs));
                }
                done += AT_A_TIME;
                part.clear();
            }
        }
        encoder.encode(&part, |pair| training.push(&pair))?;
        let encoding = encoder.finish("the training data")?;
        if validation_pairs == 0 {
            return Err(DataError::NoPairs {
                what: "the validation data".into(),
                reason: "no group of like pairs is small enough to be set aside".into(),
            });
        }
        validation.finish()?;
        let (training_pairs, training_ids) = training.finish()?;
        spool.delete()?;
        let record = CorpusRecord {
            format: FORMAT,
            tx_version: env!("CARGO_PKG_VERSION").into(),
            settings: how.settings.clone(),
            inputs: self.inputs()?,
            training_pairs,
            training_ids,
            id_bytes,
            validation_pairs,
            cleaning,
            encoding,
            overlap: finder.map(|finder| finder.overlap()),
            overlap_left_out,
            files: Default::default(),
        };
        self.write_record(record)
    }

    /// For each pair whether it is set aside; empty if none is.
    fn held_out(&self, spool: &Spool) -> Result<Vec<bool>, DataError> {
        let ValidationPairs::SetAside { share, by, seed } = self.how.validation else {
            return Ok(Vec::new());
        };
        let mut groups = spool.groups()?;
        let least = match by {
            SplitBy::Hash => spool.least_keys(&mut groups)?,
            SplitBy::Seed => Vec::new(),
        };
        Ok(groups.held_out(share, by, seed, &least))
    }

    fn inputs(&self) -> Result<Vec<InputFile>, DataError> {
        let hash = |path: &PathBuf| InputFile::at(path, FileHash::of(path)?);
        let with_path = |path: &PathBuf| {
            hash(path).map_err(|source| DataError::Read { path: path.clone(), source })
        };
        self.how.inputs.iter().map(with_path).collect()
    }

    fn write_record(&self, mut record: CorpusRecord) -> Result<(), DataError> {
        for name in [IDS, INDEX, VALIDATION, SOURCE_TOKENIZER, TARGET_TOKENIZER] {
            let path = self.folder.join(name);
            let hash = FileHash::of(&path).map_err(|source| DataError::Read { path, source })?;
            record.files.insert(name.into(), hash);
        }
        let json = serde_json::to_vec_pretty(&record).map_err(std::io::Error::other);
        Output::whole(self.folder.join(CORPUS), json)
    }
}

/// The files of the training pairs.
struct TrainingWriter {
    ids: Output,
    index: Output,
    id_bytes: usize,
    pairs: usize,
    written: u64,
}

impl TrainingWriter {
    fn create(folder: &Path, id_bytes: usize) -> Result<Self, DataError> {
        let ids = Output::create(folder.join(IDS))?;
        let index = Output::create(folder.join(INDEX))?;
        Ok(Self { ids, index, id_bytes, pairs: 0, written: 0 })
    }

    fn push(&mut self, pair: &EncodedPair) -> Result<(), DataError> {
        self.entry(pair.source.len())?;
        let ids = pair.source.iter().chain(&pair.target);
        let bytes: Vec<u8> =
            ids.flat_map(|id| id.to_le_bytes().into_iter().take(self.id_bytes)).collect();
        self.written += (pair.source.len() + pair.target.len()) as u64;
        self.pairs += 1;
        self.ids.write(Ok(bytes))
    }

    fn entry(&mut self, source: usize) -> Result<(), DataError> {
        let mut entry = self.written.to_le_bytes().to_vec();
        entry.extend((source as u32).to_le_bytes());
        self.index.write(Ok(entry))
    }

    fn finish(mut self) -> Result<(usize, u64), DataError> {
        self.entry(0)?;
        self.ids.finish()?;
        self.index.finish()?;
        Ok((self.pairs, self.written))
    }
}

/// A file to write, with its name for messages.
struct Output {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Output {
    fn create(path: PathBuf) -> Result<Self, DataError> {
        match File::create(&path) {
            Ok(file) => Ok(Self { path, file: BufWriter::with_capacity(1 << 18, file) }),
            Err(source) => Err(DataError::Write { path, source }),
        }
    }

    /// Writes a file at once.
    fn whole(path: PathBuf, bytes: std::io::Result<Vec<u8>>) -> Result<(), DataError> {
        let mut output = Self::create(path)?;
        output.write(bytes)?;
        output.finish()
    }

    fn write(&mut self, bytes: std::io::Result<Vec<u8>>) -> Result<(), DataError> {
        bytes
            .and_then(|bytes| self.file.write_all(&bytes))
            .map_err(|source| DataError::Write { path: self.path.clone(), source })
    }

    /// To the disk itself, so that a folder with a name is whole also after a power cut.
    fn finish(mut self) -> Result<(), DataError> {
        self.file
            .flush()
            .and_then(|()| self.file.get_ref().sync_all())
            .map_err(|source| DataError::Write { path: self.path, source })
    }
}
