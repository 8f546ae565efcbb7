//! Import of encoder-decoder and language models of CTranslate2: a folder with `model.bin`, and packages
//! of Argos Translate, which have such a folder and a SentencePiece model or codes of subword-nmt.
//!
//! Models of OpenNMT, and so all packages of Argos, read sources without `<eos>`.

use std::{path::Path, sync::Arc};

use tx_infer::{LanguagePlacement, Languages, ModelTask};
use tx_model::{Architecture, Tying, VocabSizes};
use tx_text::{
    Ends, Tokenizers,
    special::{BOS, EOS, PAD, SPECIAL_TOKENS, UNK},
};

use super::{
    Import, ImportFormat, ImportOptions,
    side_tokens::{SideTokens, division_note},
    weight_map::WeightMap,
};
use crate::{error::ConvertError, rows::RowOrder, source_files::SourceFiles, tensors::ModelBin};

mod files;
mod options;
mod package;
mod weights;

use files::{ModelFiles, Vocabularies};
use options::{Model, Settings};
pub(super) use package::Package;

/// Name of the file of the weights.
pub(super) const MODEL: &str = "model.bin";

/// Reads a folder of CTranslate2, or the folder or file of a package.
///
/// # Errors
///
/// If a file is missing or damaged, the model has options that tx does not support, or its variables
/// do not fit the options.
pub(super) fn read(from: &Path, options: &ImportOptions) -> Result<Import, ConvertError> {
    let package = Package::open(from)?;
    let mut files = SourceFiles::default();
    let found = ModelFiles::find(package.model(), package.folder(), &mut files)?;
    let path = found.model.clone();
    let unsupported = |problems| ConvertError::Unsupported { path: path.clone(), problems };
    let problem = |problem: String| ConvertError::File { path: path.clone(), problem };
    let ModelBin { specification, revision, tensors, numbers, texts, aliases } =
        ModelBin::open(&path)?;
    let settings = Settings::read(&found, &mut files, &numbers, &texts)?;
    let model = Model { specification, revision, tensors: &tensors, numbers, aliases };
    let mut config = model.config(&settings).map_err(unsupported)?;
    let architecture = model.architecture();

    let rows = [model.source_rows(), model.target_rows()];
    let names = settings.names();
    let sides = found.read(&mut files, rows, names)?;
    let languages = match &sides {
        Vocabularies::Own(_) => None,
        Vocabularies::Listed(_, languages) => languages.clone(),
    };
    // Programs around models with a language on each side, M2M-100 and NLLB, add `<eos>`.
    let both = |it: &Languages| it.placement == LanguagePlacement::BothSides;
    let adds_eos = settings.add_source_eos || languages.as_ref().is_some_and(both);
    let ends = Ends { bos: settings.add_source_bos, eos: options.source_eos.unwrap_or(adds_eos) };
    let (tokenizers, orders, logits) = match &sides {
        Vocabularies::Own(tokenizers) => {
            let orders: [RowOrder; 2] = [&tokenizers.source, &tokenizers.target].map(|tokenizer| {
                (0..tokenizer.vocab_size() as u32).map(Some).collect::<Vec<_>>().into()
            });
            let logits = orders[1].clone();
            (tokenizers.clone(), orders, logits)
        }
        Vocabularies::Listed(sides, _) => {
            let [source, target] = &**sides;
            check(target, names).map_err(problem)?;
            let tokenizers = Tokenizers {
                source: source.tokenizer(ends)?,
                target: target.tokenizer(Ends::BOTH)?,
            };
            let orders = [source.order.clone(), target.order.clone()];
            (tokenizers, orders, target.logits.clone())
        }
    };
    if config.tying == Tying::All && orders[0] != orders[1] {
        return Err(problem("its sides share a matrix, but their vocabularies differ".to_owned()));
    }
    let vocab = VocabSizes { source: orders[0].len(), target: orders[1].len() };
    // A table of positions of another model may be longer than tx permits.
    config.check_architecture(architecture, vocab).map_err(|error| unsupported(error.problems))?;
    let notes = notes(architecture, &sides, ends, options);
    let mut map = WeightMap::new(Arc::new(tensors));
    match architecture {
        Architecture::LanguageModel => {
            weights::add_language_model(&mut map, &mut config, &orders[1], &logits);
        }
        Architecture::EncoderDecoder
        | Architecture::Classifier { .. }
        | Architecture::MaskedLanguageModel => {
            weights::add(&mut map, &mut config, &orders, &logits);
        }
    }
    let weights = map.finish_of(architecture, &config, vocab)?;

    let mut import =
        Import::new(ImportFormat::CTranslate2, from, &files, config, tokenizers, weights);
    if architecture == Architecture::LanguageModel {
        import.task = ModelTask::Generate;
    }
    import.notes = notes;
    import.languages = languages;
    if architecture != Architecture::LanguageModel {
        import.search = Some(package.search());
    }
    import.pair = package.pair();
    import.unpacked = package.into_unpacked();
    Ok(import)
}

/// Checks that a model can start and end a translation.
fn check(target: &SideTokens, names: [&str; SPECIAL_TOKENS.len()]) -> Result<(), String> {
    match target.has(EOS) {
        true => Ok(()),
        false => Err(format!("its target vocabulary has no token `{}`", names[EOS as usize])),
    }
}

/// Notes about texts that the model reads in another form.
fn notes(
    architecture: Architecture,
    sides: &Vocabularies,
    ends: Ends,
    options: &ImportOptions,
) -> Vec<String> {
    let mut notes = Vec::new();
    let Vocabularies::Listed(sides, _) = sides else { return notes };
    let [source, target] = &**sides;
    notes.extend(division_note([source, target], None));
    let has_source = architecture != Architecture::LanguageModel;
    if has_source && options.source_eos.is_none() && !ends.eos {
        notes.push(
            "sources have no `<eos>`, as `config.json` says; if the program around the model adds \
             one, as transformers does, import it with `--source-eos true`"
                .to_owned(),
        );
    }
    notes
}

/// Names of the special tokens in the order of tx, of which `pad` may be absent.
fn ordered([pad, bos, eos, unk]: [&str; 4]) -> [&str; SPECIAL_TOKENS.len()] {
    let mut names = [""; SPECIAL_TOKENS.len()];
    for (id, name) in [(PAD, pad), (BOS, bos), (EOS, eos), (UNK, unk)] {
        names[id as usize] = name;
    }
    names
}
