//! Facts about the training pairs besides their text: weights and word alignments.
//!
//! They are lines of text files, plain or gzip, one line for each pair of the corpus, in its order.

use std::path::{Path, PathBuf};

use tx_text::{
    Lines, SentencePair, Tokenizers,
    text_words::{word_of_tokens, word_ranges},
};

use crate::{
    encoded_pair::{EncodedPair, Link, PairAnnotation},
    error::DataError,
};

/// Parses a link such as `0-2`.
fn link(text: &str) -> Option<Link> {
    let (source, target) = text.split_once('-')?;
    Some(Link { source: source.parse().ok()?, target: target.parse().ok()? })
}

/// File with a line for each pair.
struct AnnotationFile {
    path: PathBuf,
    lines: Lines,
    /// Number of lines read.
    read: usize,
}

impl AnnotationFile {
    fn open(path: &Path) -> Result<Self, DataError> {
        Ok(Self { path: path.into(), lines: Lines::open(path)?, read: 0 })
    }

    fn next(&mut self) -> Result<String, DataError> {
        let line = self.lines.next().transpose()?.ok_or_else(|| DataError::AnnotationCount {
            path: self.path.clone(),
            problem: format!("{} lines, fewer than the corpus has pairs", self.read),
        })?;
        self.read += 1;
        Ok(line)
    }

    /// Error about the last line.
    fn problem(&self, problem: String) -> DataError {
        DataError::Annotation { path: self.path.clone(), line: self.read, problem }
    }
}

/// Files with facts about the pairs of a corpus, read pair by pair.
#[derive(Default)]
pub struct Annotations {
    weights: Option<AnnotationFile>,
    alignments: Option<AnnotationFile>,
    allow_more: bool,
}

impl Annotations {
    /// Opens a file of weights, each a number of at least 0, and a file of word alignments in Pharaoh
    /// format (`0-0 1-2`: source and target word, from 0; words are separated by white space).
    ///
    /// If `allow_more`, the files may have more lines than the corpus has pairs.
    ///
    /// # Errors
    ///
    /// If a file cannot be opened.
    pub fn open(
        weights: Option<&Path>,
        alignments: Option<&Path>,
        allow_more: bool,
    ) -> Result<Self, DataError> {
        Ok(Self {
            weights: weights.map(AnnotationFile::open).transpose()?,
            alignments: alignments.map(AnnotationFile::open).transpose()?,
            allow_more,
        })
    }

    /// Reads the facts about the next pair; `None` if there are no files.
    ///
    /// # Errors
    ///
    /// If a line is missing or malformed, or a link has a word that `pair` lacks.
    pub(crate) fn next(
        &mut self,
        pair: &SentencePair,
    ) -> Result<Option<PairAnnotation>, DataError> {
        if self.weights.is_none() && self.alignments.is_none() {
            return Ok(None);
        }
        let mut annotation = PairAnnotation::default();
        if let Some(file) = &mut self.weights {
            let line = file.next()?;
            let weight = line
                .trim()
                .parse()
                .ok()
                .filter(|weight: &f32| *weight >= 0.0 && weight.is_finite());
            annotation.weight = weight.ok_or_else(|| {
                file.problem(format!("found `{}`, expected a number of at least 0", shown(&line)))
            })?;
        }
        if let Some(file) = &mut self.alignments {
            let line = file.next()?;
            let [sources, targets] = word_counts(pair);
            for word in line.split_whitespace() {
                let link = link(word).ok_or_else(|| {
                    file.problem(format!("found `{}`, expected links such as `0-2`", shown(word)))
                })?;
                if link.source >= sources || link.target >= targets {
                    return Err(file.problem(format!(
                        "the link `{}` exceeds the pair, which has {sources} source and {targets} target words",
                        shown(word)
                    )));
                }
                annotation.links.push(link);
            }
        }
        Ok(Some(annotation))
    }

    /// Checks that no lines are left after `pairs` pairs.
    ///
    /// # Errors
    ///
    /// If there are more lines and that is not allowed.
    pub(crate) fn finish(self, pairs: usize) -> Result<(), DataError> {
        if self.allow_more {
            return Ok(());
        }
        for mut file in self.weights.into_iter().chain(self.alignments) {
            let more = file.lines.by_ref().count();
            if more > 0 {
                let problem = format!("{} lines, and the corpus has {pairs} pairs", pairs + more);
                return Err(DataError::AnnotationCount { path: file.path, problem });
            }
        }
        Ok(())
    }
}

/// Beginning of a text, for messages.
fn shown(text: &str) -> &str {
    const SHOWN: usize = 40;
    &text[..text.floor_char_boundary(SHOWN)]
}

/// Numbers of words of both sides, separated by white space.
pub(crate) fn word_counts(pair: &SentencePair) -> [usize; 2] {
    [&pair.source, &pair.target].map(|text| text.split_whitespace().count())
}

/// Adds the facts about a pair to its ids. A link between words becomes links between all tokens of
/// the one and all tokens of the other; tokens that were truncated have none.
///
/// # Errors
///
/// If the text cannot be tokenized.
pub(crate) fn annotate(
    encoded: &mut EncodedPair,
    pair: &SentencePair,
    annotation: &PairAnnotation,
    tokenizers: &Tokenizers,
) -> Result<(), DataError> {
    let mut links = Vec::new();
    if !annotation.links.is_empty() {
        let tokens_of_words = |tokenizer: &tx_text::Tokenizer, text: &str, len: usize| {
            let spans = tokenizer.encode_with_spans(text)?;
            let words = word_ranges(text, usize::MAX);
            let mut tokens = vec![Vec::new(); words.len()];
            // The last token is `<eos>`, also after truncation.
            let word_of =
                word_of_tokens(tokenizer, &spans, &words).into_iter().take(len.saturating_sub(1));
            for (token, word) in word_of.enumerate() {
                tokens[..]
                    .get_mut(word.unwrap_or(usize::MAX))
                    .into_iter()
                    .for_each(|of| of.push(token));
            }
            Ok::<_, DataError>(tokens)
        };
        let sources = tokens_of_words(&tokenizers.source, &pair.source, encoded.source.len())?;
        let targets = tokens_of_words(&tokenizers.target, &pair.target, encoded.target.len())?;
        for link in &annotation.links {
            let (Some(sources), Some(targets)) =
                (sources.get(link.source), targets.get(link.target))
            else {
                continue;
            };
            for &source in sources {
                links.extend(targets.iter().map(|&target| Link { source, target }));
            }
        }
        links.sort_unstable();
        links.dedup();
    }
    encoded.annotation = Some(Box::new(PairAnnotation { weight: annotation.weight, links }));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write};

    use tx_text::{TokenizerConfig, TokenizerKind};

    use super::*;

    fn pairs() -> [SentencePair; 2] {
        [SentencePair::new("ab c", "x yz"), SentencePair::new("c", "x")]
    }

    /// Reads the facts about both pairs from files with these contents.
    fn read(weights: &str, alignments: &str) -> Result<Vec<PairAnnotation>, String> {
        let folder = tempfile::tempdir().unwrap();
        let [weight_file, alignment_file] = ["w", "a"].map(|name| folder.path().join(name));
        fs::write(&weight_file, weights).unwrap();
        // Compressed, as other files may be.
        let file = fs::File::create(&alignment_file).unwrap();
        let mut file = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        file.write_all(alignments.as_bytes()).unwrap();
        file.finish().unwrap();
        let read = || {
            let mut found = Annotations::open(Some(&weight_file), Some(&alignment_file), false)?;
            let read: Result<Vec<_>, DataError> =
                pairs().iter().map(|pair| Ok(found.next(pair)?.unwrap())).collect();
            let read = read?;
            found.finish(2)?;
            Ok(read)
        };
        let name =
            |error: DataError| error.to_string().replace(&folder.path().display().to_string(), "…");
        read().map_err(name)
    }

    #[test]
    fn lines_are_facts_about_pairs_and_errors_name_them() {
        let link = |source, target| Link { source, target };
        assert_eq!(
            read("0.5\n2\n", "0-0 1-1\n\n").unwrap(),
            [
                PairAnnotation { weight: 0.5, links: vec![link(0, 0), link(1, 1)] },
                PairAnnotation { weight: 2.0, links: Vec::new() },
            ]
        );
        for (weights, alignments, expected) in [
            ("1\n", "\n\n", "`…/w` has 1 lines, fewer than the corpus has pairs"),
            ("1\n1\n1\n", "\n\n", "`…/w` has 3 lines, and the corpus has 2 pairs"),
            ("1\n-1\n", "\n\n", "`…/w` line 2: found `-1`, expected a number of at least 0"),
            ("1\nNaN\n", "\n\n", "`…/w` line 2: found `NaN`, expected a number of at least 0"),
            ("1\n1\n", "0:0\n\n", "`…/a` line 1: found `0:0`, expected links such as `0-2`"),
            (
                "1\n1\n",
                "1-1\n0-1\n",
                "`…/a` line 2: the link `0-1` exceeds the pair, which has 1 source and 1 target words",
            ),
        ] {
            assert_eq!(read(weights, alignments).unwrap_err(), expected);
        }
    }

    /// Tokens are characters: `a b ▁ c <eos>` and `<bos> x ▁ y z <eos>`, or without the marks of
    /// spaces. Words `ab` and `yz` are linked, so all of their tokens are.
    #[test]
    fn links_between_words_become_links_between_their_tokens() {
        let config = TokenizerConfig { kind: TokenizerKind::Character, ..Default::default() };
        let tokenizers = Tokenizers::train(&config, &pairs()).unwrap();
        let [pair, _] = pairs();
        let encode = |max_len: usize| {
            let mut source = tokenizers.source.encode(&pair.source).unwrap();
            let mut target = tokenizers.target.encode(&pair.target).unwrap();
            tokenizers.source.ends().truncate(&mut source, max_len);
            tokenizers.target.ends().truncate(&mut target, max_len);
            let mut encoded = EncodedPair::new(source, target);
            let annotation =
                PairAnnotation { weight: 3.0, links: vec![Link { source: 0, target: 1 }] };
            annotate(&mut encoded, &pair, &annotation, &tokenizers).unwrap();
            encoded
        };
        let named = |encoded: &EncodedPair| -> Vec<[String; 2]> {
            let links = &encoded.annotation.as_ref().unwrap().links;
            let name = |link: &Link| {
                let source = tokenizers.source.token(encoded.source[link.source]).unwrap();
                [source, tokenizers.target.token(encoded.target[link.target]).unwrap()]
            };
            links.iter().map(name).collect()
        };
        let encoded = encode(99);
        let expected = [["a", "y"], ["a", "z"], ["b", "y"], ["b", "z"]];
        assert_eq!(named(&encoded), expected);
        assert_eq!(encoded.annotation.as_ref().unwrap().weight, 3.0);
        // Without the last letter of the target.
        assert_eq!(named(&encode(encoded.target.len() - 1)), [["a", "y"], ["b", "y"]]);
    }
}
