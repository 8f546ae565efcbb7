//! Files of a model of Marian in its folder.

use std::path::{Path, PathBuf};

use crate::{
    error::ConvertError,
    import::content::{self, Content},
    marian::flat_yaml::FlatYaml,
    source_files::SourceFiles,
};

/// Files of a model.
#[derive(Debug)]
pub(super) struct ModelFiles {
    /// Archive or binary model with the weights.
    pub(super) model: PathBuf,
    /// Options of the decoder and the file that they were read from.
    pub(super) decoder: Option<Decoder>,
    /// Vocabularies of source and target.
    pub(super) vocabularies: [PathBuf; 2],
    /// SentencePiece models that divide text before the vocabularies apply.
    pub(super) pieces: [Option<PathBuf>; 2],
    /// Codes of subword-nmt: `source.bpe` and `target.bpe`, or one file for both sides.
    pub(super) codes: Option<[PathBuf; 2]>,
    /// Binary shortlist, such as `lex.50.50.ende.s2t.bin` of Firefox.
    pub(super) shortlist: Option<PathBuf>,
}

/// Options of the decoder.
#[derive(Debug)]
pub(super) struct Decoder {
    /// The file.
    pub(super) path: PathBuf,
    /// Its content.
    pub(super) options: FlatYaml,
}

impl ModelFiles {
    /// Finds the files of the model at `from`, an `.npz`, a `.bin` or a folder.
    ///
    /// # Errors
    ///
    /// If there is no model, or more than one and no `decoder.yml` that selects one, or a vocabulary
    /// is missing.
    pub(super) fn find(from: &Path, files: &mut SourceFiles) -> Result<Self, ConvertError> {
        let is_folder = from.is_dir();
        let folder = match is_folder {
            true => from,
            false => from.parent().unwrap_or(Path::new("")),
        };
        let names: Vec<String> =
            content::files(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })?
                .iter()
                .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
                .collect();
        let file = (!is_folder).then(|| file_name(&from.to_string_lossy()));
        let decoder = decoder(folder, &names, file.as_deref(), files)?;
        let model = match file {
            Some(_) => from.to_owned(),
            None => model(folder, &names, decoder.as_ref())?,
        };
        let vocabularies = vocabularies(folder, &names, decoder.as_ref())?;
        // SentencePiece models are vocabularies themselves.
        let pieces = match vocabularies.iter().any(|path| is_sentencepiece(path)) {
            true => [None, None],
            false => pieces(folder, &names)?,
        };
        let codes = codes(folder, &names);
        let shortlist = shortlist(folder, &names)?;
        Ok(Self { model, decoder, vocabularies, pieces, codes, shortlist })
    }
}

/// Returns `true` if the name of a vocabulary is that of a SentencePiece model.
pub(super) fn is_sentencepiece(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "spm" || end == "model")
}

/// Last part of a path, which may have been written on another system.
fn file_name(path: &str) -> String {
    path.rsplit(['/', '\\']).next().unwrap_or(path).to_owned()
}

fn unknown(folder: &Path, problem: String) -> ConvertError {
    ConvertError::UnknownFormat { path: folder.to_owned(), problem }
}

/// Options of the decoder: `decoder.yml`, or those that Marian writes beside the model.
fn decoder(
    folder: &Path,
    names: &[String],
    model: Option<&str>,
    files: &mut SourceFiles,
) -> Result<Option<Decoder>, ConvertError> {
    let beside = model.map(|model| format!("{model}.decoder.yml"));
    let exact = |name: &str| names.iter().find(|found| *found == name);
    let found =
        beside.as_deref().and_then(exact).or_else(|| exact("decoder.yml")).or_else(
            || match model {
                Some(_) => None,
                None => only(names, |name| name.ends_with(".npz.decoder.yml")),
            },
        );
    let Some(name) = found else { return Ok(None) };
    let path = folder.join(name);
    let problem = |problem: String| ConvertError::File { path: path.clone(), problem };
    let text = String::from_utf8(files.bytes(&path)?)
        .map_err(|_| problem("it is not UTF-8".to_owned()))?;
    let options = FlatYaml::parse(&text).map_err(problem)?;
    Ok(Some(Decoder { path, options }))
}

/// The only name that satisfies a condition.
fn only(names: &[String], is: impl Fn(&str) -> bool) -> Option<&String> {
    let mut found = names.iter().filter(|name| is(name));
    found.next().filter(|_| found.next().is_none())
}

/// The archive of a folder: that of the decoder, or the only one.
fn model(
    folder: &Path,
    names: &[String],
    decoder: Option<&Decoder>,
) -> Result<PathBuf, ConvertError> {
    if let Some(Decoder { path, options }) = decoder {
        let models = options.list("models");
        match models.as_slice() {
            [] => {}
            [model] => {
                let name = file_name(model);
                return match names.contains(&name) {
                    true => Ok(folder.join(name)),
                    false => Err(unknown(
                        folder,
                        format!("`{name}`, which `{}` names, is missing", path.display()),
                    )),
                };
            }
            several => {
                return Err(ConvertError::Unsupported {
                    path: path.clone(),
                    problems: vec![format!(
                        "`models` is {several:?}, supported is one model; import each file alone"
                    )],
                });
            }
        }
    }
    let mut models = Vec::new();
    for name in names.iter().filter(|name| !name.contains(".optimizer.")) {
        match Content::of(&folder.join(name))? {
            Content::Npz | Content::MarianBinary => models.push(name.as_str()),
            Content::PyTorch | Content::MarianShortlist | Content::Other => {}
        }
    }
    match models.as_slice() {
        [model] => Ok(folder.join(model)),
        [] => Err(unknown(folder, "it has no `.npz` and no `.bin` of Marian".to_owned())),
        several => {
            Err(unknown(folder, format!("it has several models, import one file of {several:?}")))
        }
    }
}

/// Codes of subword-nmt.
fn codes(folder: &Path, names: &[String]) -> Option<[PathBuf; 2]> {
    let sides = ["source.bpe", "target.bpe"];
    if sides.iter().all(|side| names.iter().any(|name| name == side)) {
        return Some(sides.map(|side| folder.join(side)));
    }
    only(names, |name| name.ends_with(".bpe")).map(|name| [folder.join(name), folder.join(name)])
}

/// The only binary shortlist of a folder.
fn shortlist(folder: &Path, names: &[String]) -> Result<Option<PathBuf>, ConvertError> {
    let mut found = Vec::new();
    for path in names.iter().filter(|name| name.ends_with(".bin")).map(|name| folder.join(name)) {
        if Content::of(&path)? == Content::MarianShortlist {
            found.push(path);
        }
    }
    match found.len() {
        0 | 1 => Ok(found.pop()),
        _ => Err(unknown(folder, format!("it has several shortlists, {found:?}; keep one"))),
    }
}

/// Vocabularies: those of the decoder, or the only files that can be. An untrusted decoder cannot
/// name files of other folders.
fn vocabularies(
    folder: &Path,
    names: &[String],
    decoder: Option<&Decoder>,
) -> Result<[PathBuf; 2], ConvertError> {
    if let Some(Decoder { path, options }) = decoder {
        let listed: Vec<String> = options.list("vocabs").into_iter().map(file_name).collect();
        match listed.as_slice() {
            [] => {}
            [source, target] => {
                if let Some(missing) = listed.iter().find(|name| !names.contains(*name)) {
                    let problem =
                        format!("`{missing}`, which `{}` names, is missing", path.display());
                    return Err(unknown(folder, problem));
                }
                return Ok([source, target].map(|name| folder.join(name)));
            }
            other => {
                return Err(ConvertError::Unsupported {
                    path: path.clone(),
                    problems: vec![format!("`vocabs` is {other:?}, supported are two files")],
                });
            }
        }
    }
    let has_end = |name: &str, ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    let is_side = |name: &str| name == "source.spm" || name == "target.spm";
    let is_text =
        |name: &str| name.contains("vocab") && has_end(name, &[".yml", ".yaml", ".json", ".txt"]);
    // Names of Firefox's models with two vocabularies.
    let sides = ["srcvocab.", "trgvocab."]
        .map(|start| only(names, |name| name.starts_with(start) && name.ends_with(".spm")));
    if let [Some(source), Some(target)] = sides {
        return Ok([folder.join(source), folder.join(target)]);
    }
    let candidates: Vec<&String> = names.iter().filter(|name| is_text(name)).collect();
    let models: Vec<&String> =
        names.iter().filter(|name| name.ends_with(".spm") && !is_side(name)).collect();
    match (candidates.as_slice(), models.as_slice()) {
        ([one], _) | ([], [one]) => Ok([folder.join(one), folder.join(one)]),
        ([], [])
            if ["source.spm", "target.spm"].iter().all(|name| names.iter().any(|n| n == name)) =>
        {
            Ok([folder.join("source.spm"), folder.join("target.spm")])
        }
        ([], []) => Err(unknown(folder, "it has no vocabulary, `.spm` or `.vocab.yml`".to_owned())),
        _ => Err(unknown(
            folder,
            format!(
                "it has several vocabularies, {:?}; a file `decoder.yml` with `vocabs` selects two",
                [candidates, models].concat()
            ),
        )),
    }
}

/// SentencePiece models of source and target, or none.
fn pieces(folder: &Path, names: &[String]) -> Result<[Option<PathBuf>; 2], ConvertError> {
    let has = |name: &str| names.iter().any(|found| found == name);
    let sides = ["source.spm", "target.spm"];
    match sides.map(has) {
        [true, true] => Ok(sides.map(|name| Some(folder.join(name)))),
        [false, false] => Ok(match only(names, |name| name.ends_with(".spm")) {
            Some(name) => [Some(folder.join(name)), Some(folder.join(name))],
            None => [None, None],
        }),
        [true, false] => Err(unknown(folder, "it has `source.spm` and no `target.spm`".to_owned())),
        [false, true] => Err(unknown(folder, "it has `target.spm` and no `source.spm`".to_owned())),
    }
}
