//! Preparation of a corpus of several files, each of which becomes a shard.
//!
//! Threads of a process prepare different shards at the same time, and so do processes with different
//! parts of the shards. A shard has its final name when it is complete, so the same call completes an
//! interrupted preparation.

use std::{
    fs, io,
    iter::once,
    panic,
    path::{Path, PathBuf},
    process,
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tx_text::{Tokenizer, Tokenizers};

use super::{
    CORPUS, CorpusRecord, FileHash, PreparedCorpus, SHARDS_FORMAT, SOURCE_TOKENIZER, ShardPart,
    ShardRecord, TARGET_TOKENIZER,
    prepare::{
        OutputFile, PARTIAL, PartialFolder, Preparation, above, prepare_with, sync_folder,
        unwritable, write_tokenizers,
    },
    record::{difference, read_small},
    shard_file, shard_folder,
    spool::Spool,
};
use crate::{
    error::DataError,
    pipeline::{CleanCorpus, Control, Progress},
    source::pairs::Pairs,
};

const TOKENIZERS: &str = "tokenizers";
const PREPARATION: &str = "preparation.json";

/// Files of a corpus of several shards.
#[derive(Clone, Copy)]
pub struct ShardInputs<'a> {
    /// Input files of each shard.
    pub files: &'a [Vec<PathBuf>],
    /// Opens the pairs of a shard, by index.
    pub open: &'a (dyn Fn(usize) -> Result<Pairs, DataError> + Sync),
    /// Number of pairs that the vocabulary is learned from: the same number from the beginning of each
    /// shard.
    pub sample: usize,
    /// Number of shards that this process prepares at the same time.
    pub threads: usize,
}

/// Prepares a corpus of several shards in `folder`, and opens it. `options.inputs` are the input files
/// that all shards share. Cleaning and the search for near duplicates treat each shard as a corpus of
/// its own. Shards that are complete are kept. `say` receives progress messages.
///
/// # Errors
///
/// If a file cannot be read or written, a shard has no pair, a complete shard has other settings or
/// inputs, or the work is interrupted. Complete shards remain.
pub fn prepare_shards(
    inputs: ShardInputs<'_>,
    options: &Preparation<'_>,
    folder: &Path,
    say: &dyn Fn(&str),
) -> Result<PreparedCorpus, DataError> {
    fs::create_dir_all(folder).map_err(unwritable(folder))?;
    remove_partial(&folder.join(TOKENIZERS))?;
    prepare_part(inputs, ShardPart::ALL, options, folder, say)?;
    write_manifest(inputs, folder)?;
    PreparedCorpus::open(folder)
}

/// Prepares a part of the shards of a corpus in `folder`. When all parts are complete,
/// [`prepare_shards`] completes the corpus. Processes with different parts may run at the same time;
/// each learns the vocabulary, unless it exists.
///
/// # Errors
///
/// Same as [`prepare_shards`].
pub fn prepare_part(
    inputs: ShardInputs<'_>,
    part: ShardPart,
    options: &Preparation<'_>,
    folder: &Path,
    say: &dyn Fn(&str),
) -> Result<(), DataError> {
    fs::create_dir_all(folder).map_err(unwritable(folder))?;
    let tokenizers = tokenizers(inputs, options, folder, say)?;
    let shards: Vec<usize> = (0..inputs.files.len()).filter(|&it| part.includes(it)).collect();
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work =
        Work { inputs, options, folder, tokenizers: &tokenizers, shards: &shards, next, failed };
    // A caller that is the only thread of Rayon's pool must not wait for threads that need the pool.
    match rayon::current_num_threads() {
        1 => work.run(&|line: String| say(&line)),
        _ => work.run_on(inputs.threads.clamp(1, shards.len().max(1)), say),
    }
}

/// Shared by the threads of a preparation.
struct Work<'a> {
    inputs: ShardInputs<'a>,
    options: &'a Preparation<'a>,
    folder: &'a Path,
    tokenizers: &'a Tokenizers,
    /// Indices of the shards to prepare.
    shards: &'a [usize],
    /// Position in `shards` of the next one.
    next: AtomicUsize,
    /// Ends all threads after their shard.
    failed: AtomicBool,
}

impl Work<'_> {
    /// Prepares shards on several threads. All are waited for; the first error is returned.
    fn run_on(&self, threads: usize, say: &dyn Fn(&str)) -> Result<(), DataError> {
        let (sender, receiver) = mpsc::channel::<String>();
        thread::scope(|scope| {
            let start = |_| {
                let sender = sender.clone();
                // The receiver lives until all senders are dropped.
                scope.spawn(move || self.run(&|line: String| drop(sender.send(line))))
            };
            let threads: Vec<_> = (0..threads).map(start).collect();
            drop(sender);
            receiver.iter().for_each(|line| say(&line));
            let join = |thread: thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
            };
            let results: Vec<Result<(), DataError>> = threads.into_iter().map(join).collect();
            results.into_iter().collect()
        })
    }

    /// Prepares shards until there is none left, or another thread has failed.
    fn run(&self, say: &dyn Fn(String)) -> Result<(), DataError> {
        while let Some(&shard) = self.shards.get(self.next.fetch_add(1, Ordering::Relaxed))
            && !self.failed.load(Ordering::Relaxed)
        {
            let result = check(self.options).and_then(|()| match self.is_complete(shard)? {
                true => Ok(()),
                false => self.prepare(shard, say),
            });
            if result.is_err() {
                self.failed.store(true, Ordering::Relaxed);
                return result;
            }
        }
        Ok(())
    }

    /// Returns `true` if a shard exists, with these settings and inputs.
    fn is_complete(&self, shard: usize) -> Result<bool, DataError> {
        let folder = shard_folder(self.folder, shard);
        if !folder.join(CORPUS).exists() {
            return Ok(false);
        }
        let record = CorpusRecord::read(&folder)?;
        record.check(&folder, &self.options.settings, &self.files(shard))?;
        Ok(true)
    }

    /// Input files of a shard: its own, then those of all shards.
    fn files(&self, shard: usize) -> Vec<PathBuf> {
        [&self.inputs.files[shard][..], &self.options.inputs].concat()
    }

    fn prepare(&self, shard: usize, say: &dyn Fn(String)) -> Result<(), DataError> {
        let folder = shard_folder(self.folder, shard);
        let name = self.inputs.files[shard].first().cloned().unwrap_or_else(|| folder.clone());
        remove_partial(&folder)?;
        let options = Preparation { inputs: self.files(shard), ..self.options.clone() };
        let prepare = || {
            let pairs = (self.inputs.open)(shard)?;
            prepare_with(pairs, options, Some(self.tokenizers), &folder, &|_| {})?;
            CorpusRecord::read(&folder)
        };
        let record = prepare().map_err(|error| match error {
            DataError::Interrupted => DataError::Interrupted,
            error => DataError::Shard { path: name.clone(), source: Box::new(error) },
        })?;
        let (number, count) = (shard + 1, self.inputs.files.len());
        let (pairs, name) = (record.training_pairs, name.display());
        say(format!("shard {number} of {count}: {pairs} training pairs ({name})"));
        Ok(())
    }
}

/// Returns an error once the preparation is interrupted.
fn check(options: &Preparation<'_>) -> Result<(), DataError> {
    match options.stop.load(Ordering::Relaxed) {
        true => Err(DataError::Interrupted),
        false => Ok(()),
    }
}

/// Deletes what an earlier process has left of `folder` under construction.
fn remove_partial(folder: &Path) -> Result<(), DataError> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let start = format!("{name}{PARTIAL}");
    let read = |source| DataError::Read { path: above(folder).into(), source };
    for entry in fs::read_dir(above(folder)).map_err(read)? {
        let entry = entry.map_err(read)?;
        if entry.file_name().to_string_lossy().starts_with(&start) {
            fs::remove_dir_all(entry.path()).map_err(unwritable(&entry.path()))?;
        }
    }
    Ok(())
}

/// Content of `preparation.json`.
#[derive(Serialize, Deserialize)]
struct TokenizersRecord {
    settings: Value,
    /// Number of input files of all shards, and their length.
    files: usize,
    bytes: u64,
    /// Maximum number of pairs that the vocabulary was learned from.
    sample: usize,
}

/// Opens the tokenizers of all shards, which are learned if there are none.
fn tokenizers(
    inputs: ShardInputs<'_>,
    options: &Preparation<'_>,
    folder: &Path,
    say: &dyn Fn(&str),
) -> Result<Tokenizers, DataError> {
    let path = folder.join(TOKENIZERS);
    let mut bytes = 0;
    for file in inputs.files.iter().flatten() {
        let length = fs::metadata(file).map(|about| about.len());
        bytes += length.map_err(|source| DataError::Read { path: file.clone(), source })?;
    }
    let files = inputs.files.iter().flatten().count();
    let settings = options.settings.clone();
    let record = TokenizersRecord { settings, files, bytes, sample: inputs.sample };
    check(options)?;
    if !path.join(PREPARATION).exists() {
        learn(inputs, options, &path, &record, say)?;
    }
    record.check(&path)?;
    Ok(Tokenizers {
        source: Tokenizer::open(&path.join(SOURCE_TOKENIZER))?,
        target: Tokenizer::open(&path.join(TARGET_TOKENIZER))?,
    })
}

/// Learns the tokenizers from the beginning of each shard, and writes them to the folder `path`.
fn learn(
    inputs: ShardInputs<'_>,
    options: &Preparation<'_>,
    path: &Path,
    record: &TokenizersRecord,
    say: &dyn Fn(&str),
) -> Result<(), DataError> {
    let partial = PartialFolder::create(path)?;
    let count = inputs.files.len();
    // Imported tokenizers need no text.
    let of_shard = match options.tokenizer.is_imported() {
        true => 0,
        false => inputs.sample.div_ceil(count.max(1)),
    };
    let shards = if of_shard == 0 { 0..0 } else { 0..count };
    let pairs = shards.flat_map(|shard| -> Pairs {
        match (inputs.open)(shard) {
            Ok(pairs) => Box::new(pairs.take(of_shard)),
            Err(error) => Box::new(once(Err(error))),
        }
    });
    let progress = |progress: Progress<'_>| match progress {
        Progress::Cleaned(report) => {
            let (pairs, kept) = (report.pairs, report.kept());
            say(&format!("vocabulary from {kept} of the first {pairs} pairs of {count} shards"));
        }
        other => say(&other.to_string()),
    };
    let control = Control { stop: options.stop, progress: &progress };
    let spool = Spool::create(&partial.path, options.corpus.target)?;
    let corpus = CleanCorpus::read(pairs, options.corpus.clone(), spool, &control)?;
    let tokenizers = corpus.learn_tokenizers(options.tokenizer, &control)?;
    corpus.text.delete()?;
    write_tokenizers(&tokenizers, &partial.path)?;
    let json = serde_json::to_vec_pretty(record).map_err(io::Error::other);
    OutputFile::write_whole(partial.path.join(PREPARATION), json)?;
    match partial.finish(path) {
        // Another process has written the same tokenizers meanwhile.
        Err(_) if path.join(PREPARATION).exists() => Ok(()),
        result => result,
    }
}

impl TokenizersRecord {
    /// Compares with the record in the folder `path`.
    fn check(&self, path: &Path) -> Result<(), DataError> {
        let file = path.join(PREPARATION);
        let text = read_small(&file).map_err(|source| DataError::Read { path: file, source })?;
        let problem = |problem| DataError::Prepared { path: path.into(), problem };
        let known: Self = serde_json::from_slice(&text)
            .map_err(|error| problem(format!("`{PREPARATION}`: {error}")))?;
        let stale = |what| Err(DataError::StalePrepared { path: above(path).into(), what });
        if let Some(what) = difference("", &known.settings, &self.settings) {
            return stale(what);
        }
        for (name, was, is) in [
            ("files", known.files as u64, self.files as u64),
            ("bytes of all files", known.bytes, self.bytes),
            ("pairs for the vocabulary", known.sample as u64, self.sample as u64),
        ] {
            if was != is {
                return stale(format!("there are {is} {name} now, there were {was}"));
            }
        }
        Ok(())
    }
}

/// Writes `corpus.json` of the whole corpus, whose shards are complete.
fn write_manifest(inputs: ShardInputs<'_>, folder: &Path) -> Result<(), DataError> {
    let mut whole: Option<CorpusRecord> = None;
    // Input files of all shards, which are recorded after those of each shard.
    let mut shared = Vec::new();
    for (shard, own) in inputs.files.iter().enumerate() {
        let path = shard_folder(folder, shard);
        let record = CorpusRecord::read(&path)?;
        let mut files = record.files.clone();
        let corpus = path.join(CORPUS);
        let hash =
            FileHash::of(&corpus).map_err(|source| DataError::Read { path: corpus, source })?;
        files.insert(CORPUS.into(), hash);
        let files = files.into_iter().map(|(name, hash)| (shard_file(shard, &name), hash));
        let counts = ShardRecord {
            training_pairs: record.training_pairs,
            training_ids: record.training_ids,
        };
        match &mut whole {
            None => {
                let mut first = record;
                first.format = SHARDS_FORMAT;
                shared = first.inputs.split_off(own.len().min(first.inputs.len()));
                first.shards = vec![counts];
                first.files = files.collect();
                whole = Some(first);
            }
            Some(whole) => {
                whole.inputs.extend(record.inputs.into_iter().take(own.len()));
                whole.training_pairs += record.training_pairs;
                whole.training_ids += record.training_ids;
                whole.cleaning.add(&record.cleaning);
                whole.encoding.add(&record.encoding);
                if let (Some(overlap), Some(next)) = (&mut whole.overlap, &record.overlap) {
                    overlap.add(next);
                }
                whole.overlap_left_out += record.overlap_left_out;
                whole.shards.push(counts);
                whole.files.extend(files);
            }
        }
    }
    let Some(mut whole) = whole else {
        let reason = "there are no files".into();
        return Err(DataError::NoPairs { what: format!("`{}`", folder.display()), reason });
    };
    whole.inputs.append(&mut shared);
    // Two processes that finish at the same time write the same content.
    let partial = folder.join(format!("{CORPUS}{PARTIAL}{}", process::id()));
    let json = serde_json::to_vec_pretty(&whole).map_err(io::Error::other);
    OutputFile::write_whole(partial.clone(), json)?;
    let path = folder.join(CORPUS);
    fs::rename(&partial, &path).map_err(unwritable(&path))?;
    sync_folder(folder).map_err(unwritable(folder))
}

#[cfg(test)]
mod tests;
