//! Contrastive evaluation: how often a model prefers the right translation to wrong ones (Sennrich 2017).

use std::{io, path::PathBuf};

use tx_infer::{Cancellation, Line, TargetScore, Translator};
use tx_text::{Lines, TextError};

/// Files with wrong translations, line by line, and the lines that the model decided.
pub struct Contrastive {
    files: Vec<(PathBuf, Lines)>,
    right: usize,
    lines: usize,
}

impl Contrastive {
    /// Opens the files.
    ///
    /// # Errors
    ///
    /// When a file cannot be opened.
    pub fn open(paths: &[PathBuf]) -> Result<Self, TextError> {
        let files = paths.iter().map(|path| Ok((path.clone(), Lines::open(path)?)));
        Ok(Self { files: files.collect::<Result<_, TextError>>()?, right: 0, lines: 0 })
    }

    /// Returns `true` if there is no file.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Scores the wrong translations of the next `sources`, and compares them with the scores of the right
    /// ones. Returns the log-probabilities of the wrong translations of each line; an empty line is none.
    ///
    /// # Errors
    ///
    /// When a file has too few lines, cannot be read, or a translation cannot be scored.
    pub fn score(
        &mut self,
        translator: &Translator,
        sources: &[Line<'_>],
        right: &[TargetScore],
    ) -> anyhow::Result<Vec<Vec<f64>>> {
        let mut scores = vec![Vec::new(); sources.len()];
        for (path, lines) in &mut self.files {
            let wrong = lines.take(sources.len()).collect::<Result<Vec<String>, _>>()?;
            if wrong.len() < sources.len() {
                let before = sources.first().map_or(0, |source| source.number as usize);
                anyhow::bail!(
                    "`{}` has {} lines, fewer than the source",
                    path.display(),
                    before + wrong.len()
                );
            }
            let given = wrong.iter().enumerate().filter(|(_, text)| !text.trim().is_empty());
            let (places, pairs): (Vec<usize>, Vec<(Line<'_>, &str)>) =
                given.map(|(index, text)| (index, (sources[index], &**text))).unzip();
            let found = translator.score_lines(&pairs, &Cancellation::new())?;
            for (index, score) in places.into_iter().zip(found) {
                scores[index].push(score.log_probability());
            }
        }
        for (wrong, right) in scores.iter().zip(right).filter(|(wrong, _)| !wrong.is_empty()) {
            self.lines += 1;
            self.right += usize::from(wrong.iter().all(|&wrong| right.log_probability() > wrong));
        }
        Ok(scores)
    }

    /// Checks that no file has more lines than the `count` sources.
    ///
    /// # Errors
    ///
    /// When one has.
    pub fn finish(&mut self, count: usize) -> anyhow::Result<()> {
        for (path, lines) in &mut self.files {
            if lines.next().transpose()?.is_some() {
                let path = path.display();
                anyhow::bail!("`{path}` has more lines than the source, which has {count}");
            }
        }
        Ok(())
    }

    /// Writes the share of lines whose right translation has a higher probability than all wrong ones.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn write(&self, out: &mut impl io::Write) -> io::Result<()> {
        let Self { right, lines, .. } = *self;
        let percent = 100.0 * right as f64 / lines.max(1) as f64;
        writeln!(out, "contrastive accuracy {percent:.2} % ({right} of {lines} lines)")
    }
}
