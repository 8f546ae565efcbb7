//! Corpus found by name: its files, and how they are read.

use tx_fetch::{Fetcher, Remote};

use crate::{
    error::DataError,
    source::{
        columns::Columns,
        input::Input,
        pairs::Pairs,
        read::{self, ReadOptions},
    },
};

/// Part of a corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Training set.
    Training,
    /// Validation set.
    Validation,
    /// Test set.
    Test,
}

/// Files that are read together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Files {
    /// One file with both sides, or an archive with an optional member.
    Both(Remote, Option<String>),
    /// One file per side.
    Apart(Remote, Remote),
}

/// Files of one part of a corpus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Part of the corpus.
    pub part: Part,
    /// Files to read.
    pub files: Files,
    /// Columns of the sides, if the source defines them.
    pub(super) columns: Option<Columns>,
}

impl Piece {
    /// Returns the files, source before target.
    pub fn remotes(&self) -> Vec<&Remote> {
        match &self.files {
            Files::Both(remote, _) => vec![remote],
            Files::Apart(source, target) => vec![source, target],
        }
    }
}

/// Corpus found by name: files, license and citation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Corpus {
    /// Name and languages.
    pub title: String,
    /// License as stated by the publisher.
    pub license: String,
    /// Citation.
    pub citation: String,
    /// Files to read, in order.
    pub pieces: Vec<Piece>,
}

impl Corpus {
    /// Returns `true` if the corpus has pairs of this part.
    pub fn has(&self, part: Part) -> bool {
        self.pieces.iter().any(|piece| piece.part == part)
    }

    /// Returns the files of these parts, without duplicates.
    pub fn remotes(&self, parts: &[Part]) -> Vec<&Remote> {
        let mut remotes: Vec<&Remote> = Vec::new();
        let pieces = self.pieces.iter().filter(|piece| parts.contains(&piece.part));
        for remote in pieces.flat_map(Piece::remotes) {
            if !remotes.iter().any(|known| known.key == remote.key) {
                remotes.push(remote);
            }
        }
        remotes
    }

    /// Reads the pairs of a part, file by file.
    ///
    /// # Errors
    ///
    /// If a file is not cached and may not be downloaded, or cannot be read.
    pub fn read(
        &self,
        part: Part,
        fetcher: &Fetcher,
        options: &ReadOptions,
    ) -> Result<Pairs, DataError> {
        let mut readers = Vec::new();
        for piece in self.pieces.iter().filter(|piece| piece.part == part) {
            let mut options = options.clone();
            if let Some(columns) = &piece.columns {
                let asked = options.columns;
                options.columns = Columns {
                    source: asked.source.or_else(|| columns.source.clone()),
                    target: asked.target.or_else(|| columns.target.clone()),
                    header: asked.header.or(columns.header),
                    ..asked
                };
            }
            readers.push(match &piece.files {
                Files::Both(remote, member) => {
                    let input = Input::open(&fetcher.get(remote)?.path)?;
                    read::pairs_of(input, member.clone(), &options)?
                }
                Files::Apart(source, target) => {
                    let (source, target) = (fetcher.get(source)?.path, fetcher.get(target)?.path);
                    read::parallel(&source, &target, &options)?
                }
            });
        }
        Ok(Box::new(readers.into_iter().flatten()))
    }
}
