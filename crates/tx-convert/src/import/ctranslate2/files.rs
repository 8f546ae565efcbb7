//! Files of a model: weights, options, vocabularies and what divides text.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use tx_infer::Languages;
use tx_text::{
    Tokenizer, Tokenizers, sentencepiece_pieces,
    special::{PAD, SPECIAL_TOKENS},
};

use super::MODEL;
use crate::{
    error::ConvertError,
    import::{
        side_tokens::{
            Division, Listed, SideTokens, divided_by_codes, listed_tokens, vocabulary_files,
        },
        transformers::languages::of_tokens,
    },
    source_files::SourceFiles,
};

/// SentencePiece models of both sides, or of each, as programs around CTranslate2 name them.
const PIECES: [[&str; 2]; 7] = [
    ["sentencepiece.model"; 2],
    ["source.spm", "target.spm"],
    ["sentencepiece.bpe.model"; 2],
    ["spm.model"; 2],
    ["src.spm.model", "tgt.spm.model"],
    ["source.model", "target.model"],
    ["tokenizer.model"; 2],
];
/// Codes of subword-nmt in a package of Argos Translate.
const CODES: &str = "bpe.model";
/// Tokenizers of a bundle, which an export contains.
const OWN: [&str; 2] = ["source.tokenizer.json", "target.tokenizer.json"];

/// Files of a model.
pub(super) struct ModelFiles {
    pub(super) model: PathBuf,
    pub(super) config: Option<PathBuf>,
    /// Vocabulary of each side.
    vocabularies: [PathBuf; 2],
    /// SentencePiece model of each side.
    pieces: Option<[PathBuf; 2]>,
    /// Codes of subword-nmt of each side.
    codes: Option<[PathBuf; 2]>,
    /// Tokenizers of a bundle.
    own: Option<[PathBuf; 2]>,
}

/// Tokens of both sides.
pub(super) enum Vocabularies {
    /// Those of a bundle that tx exported.
    Own(Tokenizers),
    /// Those of other programs, with the languages that they have tokens of.
    Listed(Box<[SideTokens; 2]>, Option<Languages>),
}

impl ModelFiles {
    /// Finds the files of the model in `folder`. SentencePiece models may be in `package`, which
    /// contains the folder.
    ///
    /// # Errors
    ///
    /// If the weights or a vocabulary are missing.
    pub(super) fn find(
        folder: &Path,
        package: &Path,
        files: &mut SourceFiles,
    ) -> Result<Self, ConvertError> {
        let in_folder = |name: &str| Some(folder.join(name)).filter(|path| path.is_file());
        let pair = |folder: &Path, names: [&str; 2]| {
            let paths = names.map(|name| folder.join(name));
            paths.iter().all(|path| path.is_file()).then_some(paths)
        };
        let model = folder.join(MODEL);
        files.add(&model)?;
        let pieces = [folder, package].into_iter();
        let pieces = pieces.flat_map(|folder| PIECES.into_iter().map(move |names| (folder, names)));
        Ok(Self {
            model,
            config: in_folder("config.json"),
            vocabularies: vocabulary_files(folder)?,
            pieces: { pieces }.find_map(|(folder, names)| pair(folder, names)),
            codes: pair(package, [CODES; 2]),
            own: pair(folder, OWN),
        })
    }

    /// Reads the vocabularies, whose embeddings have `rows` rows. `names` are those of the special
    /// tokens.
    ///
    /// # Errors
    ///
    /// If a file is damaged, or does not fit the others.
    pub(super) fn read(
        &self,
        files: &mut SourceFiles,
        rows: [usize; 2],
        names: [&str; SPECIAL_TOKENS.len()],
    ) -> Result<Vocabularies, ConvertError> {
        let mut lists = Vec::new();
        for path in &self.vocabularies {
            lists.push(listed_tokens(path, files)?);
        }
        if let Some(paths) = &self.own {
            let mut open = |side: usize| {
                files.add(&paths[side])?;
                let tokenizer =
                    Tokenizer::open(&paths[side]).map_err(tx_infer::InferError::from)?;
                let ids = 0..tokenizer.vocab_size() as u32;
                let listed = &lists[side];
                let is_own = |id: u32| tokenizer.token(id).as_ref() == listed.get(id as usize);
                match { ids }.all(is_own) {
                    true => Ok(tokenizer),
                    false => Err(ConvertError::File {
                        path: paths[side].clone(),
                        problem: "its tokens are not those of the vocabulary beside it".to_owned(),
                    }),
                }
            };
            return Ok(Vocabularies::Own(Tokenizers { source: open(0)?, target: open(1)? }));
        }
        // At spaces, a text could be divided into the token of a language.
        let languages = lists.first().filter(|_| self.pieces.is_some());
        let languages = languages.and_then(|tokens| of_tokens(tokens));
        let codes = languages.iter().flat_map(|it| it.target.iter().map(|code| it.token_of(code)));
        let codes: Vec<String> = codes.collect();
        let mut side = |side: usize, tokens: Vec<String>| {
            let mut names = names;
            if tokens.iter().any(|token| token == SPECIAL_TOKENS[PAD as usize]) {
                names[PAD as usize] = SPECIAL_TOKENS[PAD as usize];
            }
            let known: HashSet<&String> = tokens.iter().collect();
            let codes = codes.iter().filter(|code| known.contains(code)).cloned();
            let path = &self.vocabularies[side];
            let problem = |problem: String| ConvertError::File { path: path.clone(), problem };
            let model = match &self.pieces {
                Some(paths) => Some(files.bytes(&paths[side])?),
                None => None,
            };
            let special = names.iter().map(|name| (*name).to_owned()).chain(codes).collect();
            if let Some(model) = &model {
                // Otherwise all of a text would be unknown.
                let pieces = sentencepiece_pieces(model).map_err(|it| problem(it.to_string()))?;
                if !pieces.iter().any(|piece| piece.chars().count() > 2 && known.contains(piece)) {
                    return Err(problem(
                        "it has none of the pieces of the SentencePiece model".to_owned(),
                    ));
                }
            }
            let division = model.map_or(Division::Words, Division::SentencePiece);
            let listed = Listed { tokens, special, division };
            SideTokens::new(listed, rows[side], names, path).map_err(problem)
        };
        let [source, target]: [Vec<String>; 2] =
            lists.try_into().unwrap_or_else(|_| [Vec::new(), Vec::new()]);
        let mut sides = [side(0, source)?, side(1, target)?];
        if let Some(codes) = &self.codes {
            sides = divided_by_codes(sides, codes, files)?;
        }
        Ok(Vocabularies::Listed(sides.into(), languages))
    }
}
