//! Synthetic sentence pairs: translations of text, written restartably, and merged without duplicates.
//!
//! [`Synthesis::run`] translates texts into a file with a line for each text, and continues where a killed
//! process stopped. [`write_pairs`] writes pairs without duplicates and reports their numbers.

use std::{
    collections::HashSet,
    fmt, fs,
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Write},
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};
use tx_infer::{BundleInfo, Cancellation, Line, SearchOptions, Translator};
use tx_text::{SentencePair, hash::hexadecimal};

use crate::error::TrainError;

/// Texts translated before their translations are written to disk.
const PART: usize = 1_024;

/// Translation of texts by one model.
pub struct Synthesis<'a> {
    /// Model with its languages and threads.
    pub translator: &'a Translator,
    /// Folder of the model, whose weights identify it.
    pub model: &'a Path,
    /// Beam search or sampling; each text has `n_best` or `samples` translations.
    pub options: &'a SearchOptions,
    /// Further settings that change the translations, such as languages.
    pub settings: String,
}

impl Synthesis<'_> {
    /// Translates `texts` and writes a line for each translation to the file `path`: all translations of the
    /// first text, those of the second, and so on; an empty line if there is none. A file that a killed
    /// process left behind is continued if model, options and texts are the same, and replaced otherwise.
    /// `progress` receives the number of texts done.
    ///
    /// # Errors
    ///
    /// If the model cannot translate, a file cannot be written, or `cancellation` is set. The file keeps
    /// what was translated.
    pub fn run(
        &self,
        texts: &[String],
        path: &Path,
        cancellation: &Cancellation,
        progress: &dyn Fn(usize),
    ) -> Result<(), TrainError> {
        let rows = self.translations_of_a_text();
        let writing = || TrainError::writing(path);
        let mut done = self.open(texts, path, rows)?;
        let mut file = File::options().append(true).open(path).map_err(writing())?;
        progress(done);
        while done < texts.len() {
            let part = &texts[done..texts.len().min(done + PART)];
            let lines: Vec<Line<'_>> = part
                .iter()
                .zip(done as u64..)
                .map(|(text, number)| Line::new(text, number))
                .collect();
            let mut output = String::new();
            self.translator.translate_lines(
                &lines,
                self.options,
                cancellation,
                |translations| {
                    for translation in translations {
                        let texts =
                            translation.hypotheses.iter().map(|scored| scored.text.as_str());
                        for text in texts.chain(std::iter::repeat("")).take(rows) {
                            // Neither a tab nor a line break may separate columns or pairs.
                            output
                                .extend(text.chars().map(|c| if c.is_control() { ' ' } else { c }));
                            output.push('\n');
                        }
                    }
                    Ok::<_, TrainError>(())
                },
            )?;
            file.write_all(output.as_bytes()).and_then(|()| file.sync_data()).map_err(writing())?;
            done += part.len();
            progress(done);
        }
        Ok(())
    }

    fn translations_of_a_text(&self) -> usize {
        self.options.sampling.map_or(self.options.n_best, |sampling| sampling.samples).max(1)
    }

    /// Creates the file, or removes an incomplete text from the end of an existing one. Returns the number
    /// of texts that are done.
    fn open(&self, texts: &[String], path: &Path, rows: usize) -> Result<usize, TrainError> {
        let identity = self.identity(texts)?;
        let beside = beside(path, "id");
        let is_same = fs::read_to_string(&beside).is_ok_and(|found| found == identity);
        if !is_same || !path.exists() {
            File::create(path).map_err(TrainError::writing(path))?;
            fs::write(&beside, identity).map_err(TrainError::writing(&beside))?;
            return Ok(0);
        }
        let reading = || TrainError::reading(path);
        let mut reader = BufReader::new(File::open(path).map_err(reading())?);
        let (mut line, mut bytes, mut lines, mut whole) = (Vec::new(), 0_u64, 0, 0_u64);
        while reader.read_until(b'\n', &mut line).map_err(reading())? > 0 {
            bytes += line.len() as u64;
            lines += usize::from(line.ends_with(b"\n"));
            if line.ends_with(b"\n") && lines % rows == 0 {
                whole = bytes;
            }
            line.clear();
        }
        let file = File::options().write(true).open(path).map_err(TrainError::writing(path))?;
        file.set_len(whole).map_err(TrainError::writing(path))?;
        Ok((lines / rows).min(texts.len()))
    }

    /// Text that is the same for the same model, options and texts.
    fn identity(&self, texts: &[String]) -> Result<String, TrainError> {
        let info = BundleInfo::read(self.model)?;
        let mut hasher = Sha256::new();
        for file in &info.files {
            hasher.update(file.name);
            hasher.update(&file.sha256);
        }
        let model = hexadecimal(&hasher.finalize());
        let mut hasher = Sha256::new();
        for text in texts {
            hasher.update(text);
            hasher.update([0]);
        }
        let (text, count) = (hexadecimal(&hasher.finalize()), texts.len());
        let Self { options, settings, .. } = self;
        Ok(format!("model {model}\ntexts {count} {text}\n{settings}\n{options:?}\n"))
    }
}

/// Returns the path with the extension `extension` added.
fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

/// Removes the files of a [`Synthesis`] that is no longer needed.
///
/// # Errors
///
/// If they cannot be removed.
pub fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)?;
    fs::remove_file(beside(path, "id"))
}

/// Reads the lines that [`Synthesis::run`] wrote.
///
/// # Errors
///
/// If the file cannot be read.
pub fn translations(path: &Path) -> Result<Vec<String>, TrainError> {
    let text = fs::read_to_string(path).map_err(TrainError::reading(path))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Numbers of pairs that [`write_pairs`] wrote and left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PairCounts {
    /// Pairs written.
    pub written: usize,
    /// Pairs with an empty side.
    pub empty: usize,
    /// Pairs equal to an earlier one.
    pub duplicates: usize,
}

impl fmt::Display for PairCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { written, empty, duplicates } = self;
        write!(f, "{written} pairs; {duplicates} duplicates and {empty} empty ones left out")
    }
}

/// Writes pairs as TSV, without duplicates and empty sides, under another name until they are complete.
///
/// # Errors
///
/// If the file cannot be written.
pub fn write_pairs(
    pairs: impl Iterator<Item = SentencePair>,
    path: &Path,
) -> Result<PairCounts, TrainError> {
    let partial = beside(path, "partial");
    let writing = || TrainError::writing(&partial);
    let mut file = BufWriter::new(File::create(&partial).map_err(writing())?);
    let (mut counts, mut seen) = (PairCounts::default(), HashSet::new());
    for SentencePair { source, target, .. } in pairs {
        let (source, target) = (one_line(&source), one_line(&target));
        if source.is_empty() || target.is_empty() {
            counts.empty += 1;
            continue;
        }
        let mut hasher = Sha256::new();
        hasher.update(&source);
        hasher.update([0]);
        hasher.update(&target);
        if !seen.insert(<[u8; 32]>::from(hasher.finalize())) {
            counts.duplicates += 1;
            continue;
        }
        counts.written += 1;
        writeln!(file, "{source}\t{target}").map_err(writing())?;
    }
    let file = file.into_inner().map_err(|error| writing()(error.into_error()))?;
    file.sync_all().map_err(writing())?;
    fs::rename(&partial, path).map_err(TrainError::writing(path))?;
    Ok(counts)
}

/// Replaces white space by single spaces.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use tx_infer::{Device, Sampling};

    use super::*;

    /// A file that ends within the translations of a text is continued there, with the same samples; after a
    /// change of the texts it starts over.
    #[test]
    fn a_part_of_the_translations_is_continued() {
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/bundle-v1");
        let translator = Translator::open(&model, &Device::Cpu).unwrap();
        let sampling = Sampling { samples: 2, seed: 3, ..Sampling::default() };
        let options = SearchOptions::sampling(sampling);
        let synthesis = Synthesis {
            translator: &translator,
            model: &model,
            options: &options,
            settings: String::new(),
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("raw");
        let never = Cancellation::default();
        let mut texts = ["the cat", "", "the dog eats", "the house"].map(str::to_owned).to_vec();
        let run = |texts: &[String]| {
            let starts = std::cell::RefCell::new(Vec::new());
            synthesis.run(texts, &path, &never, &|done| starts.borrow_mut().push(done)).unwrap();
            (fs::read_to_string(&path).unwrap(), starts.into_inner()[0])
        };
        let (whole, start) = run(&texts);
        assert_eq!((whole.lines().count(), start), (8, 0));
        assert!(whole.lines().nth(2).is_some_and(str::is_empty), "a text without words");
        // Five whole lines and a part of the sixth: two texts are done.
        let end = whole.match_indices('\n').nth(4).unwrap().0 + 2;
        fs::write(&path, &whole[..end]).unwrap();
        assert_eq!(run(&texts), (whole.clone(), 2));
        assert_eq!(run(&texts), (whole, 4));
        texts.truncate(3);
        let (fewer, start) = run(&texts);
        assert_eq!((fewer.lines().count(), start), (6, 0));
    }

    #[test]
    fn pairs_are_written_once_and_on_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pairs.tsv");
        let pairs = [("a\tb", "c"), ("a b", " c "), ("", "x"), ("x", "\n"), ("a b", "d")];
        let pairs = pairs.map(|(source, target)| SentencePair::new(source, target));
        let counts = write_pairs(pairs.into_iter(), &path).unwrap();
        assert_eq!(counts, PairCounts { written: 2, empty: 2, duplicates: 1 });
        assert_eq!(fs::read_to_string(&path).unwrap(), "a b\tc\na b\td\n");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
