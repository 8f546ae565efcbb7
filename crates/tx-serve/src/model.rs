//! A loaded bundle and the languages that it translates.

use std::{
    collections::HashMap,
    ffi::OsStr,
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use serde::Serialize;
use tx_infer::{
    Aligner, AlignmentOptions, Bundle, Device, Glossary, LanguagePlacement, Pool, Precision,
    Translator,
};

use crate::{
    detect::Candidates,
    error::ServeError,
    language::{self, Codes},
};

/// A model of the command line: `[NAME=]DIR`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSpec {
    /// Name in requests, metrics and messages.
    pub name: String,
    /// Folder of the bundle.
    pub folder: PathBuf,
}

impl FromStr for ModelSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, folder) = named(text, Path::file_name)?;
        Ok(Self { name, folder })
    }
}

/// Parses `NAME=PATH`, or a path that `default` gives the name of.
pub(crate) fn named(
    text: &str,
    default: impl Fn(&Path) -> Option<&OsStr>,
) -> Result<(String, PathBuf), String> {
    let (name, path) = match text.split_once('=') {
        Some((name, path)) => (name.to_owned(), path),
        None => {
            let name = default(Path::new(text)).map(|name| name.to_string_lossy());
            (name.unwrap_or_default().into_owned(), text)
        }
    };
    if name.is_empty() || path.is_empty() {
        return Err(format!("`{text}` has no name or no path; expected NAME=PATH or PATH"));
    }
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
    if !name.chars().all(is_allowed) {
        return Err(format!("the name `{name}` must consist of letters, digits, `-`, `_`, `.`"));
    }
    Ok((name, path.into()))
}

/// Number of threads and size of batches of the models.
#[derive(Debug, Clone, Copy)]
pub struct Execution {
    /// Threads.
    pub threads: usize,
    /// Maximum number of source tokens of a batch, padding and hypotheses counted; `None` is the default of the
    /// device.
    pub batch_tokens: Option<usize>,
    /// Precision of the search; `None` is that of the bundle. Alignments are not computed in half
    /// precision.
    pub precision: Option<Precision>,
}

/// A bundle in memory.
pub struct Model {
    /// Identity of this load; a replacement has another one.
    pub id: u64,
    /// Name of the specification.
    pub name: String,
    folder: PathBuf,
    translator: Translator,
    aligner: Aligner,
    /// Codes of the bundle.
    sources: Codes,
    targets: Codes,
    info: ModelInfo,
    /// Source languages of texts that are translated to each target, by [`language::base`].
    candidates: HashMap<String, Arc<Candidates>>,
    /// Whether the codes select tokens of the model.
    selects: Selects,
}

/// Sides whose language the model must be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Selects {
    Neither,
    Target,
    Both,
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("name", &self.name).field("folder", &self.folder).finish()
    }
}

/// A language pair of a model, with the codes of its bundle.
#[derive(Debug, Clone)]
pub struct Route {
    /// The model.
    pub model: Arc<Model>,
    /// Code of the source language.
    pub source: String,
    /// Code of the target language.
    pub target: String,
    /// The translator with both languages selected.
    pub translator: Translator,
}

impl Route {
    /// Translates terms as a glossary says.
    pub fn with_glossary(&self, glossary: Arc<Glossary>) -> Self {
        Self { translator: self.translator.clone().with_glossary(glossary), ..self.clone() }
    }
}

/// Description of a model in answers, with the codes that clients see.
#[derive(Debug, Clone, Serialize)]
pub struct ModelInfo {
    /// Name.
    pub name: String,
    /// Codes of the source languages.
    pub sources: Vec<String>,
    /// Codes of the target languages.
    pub targets: Vec<String>,
}

impl Model {
    /// Loads a bundle, to be run by `pool`; without `precision`, in that of the bundle.
    ///
    /// # Errors
    ///
    /// If the bundle cannot be opened, or its languages are not known.
    pub fn load(
        spec: &ModelSpec,
        precision: Option<Precision>,
        pool: &Pool,
    ) -> Result<Arc<Self>, ServeError> {
        let failed =
            |source| ServeError::Model { name: spec.name.clone(), source: Box::new(source) };
        let bundle = Bundle::open_copied(&spec.folder).map_err(failed)?;
        let (sources, targets, selects) = languages(&bundle, spec)?;
        let device = &Device::Cpu;
        let precision = precision.unwrap_or(bundle.precision());
        let translator = Translator::new_in(&bundle, precision, device).map_err(failed)?;
        let engine = match precision {
            Precision::F32 | Precision::Int8 => translator.engine().clone(),
            _ => bundle.engine(device).map_err(failed)?,
        };
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let public =
            |codes: &[String]| codes.iter().map(|code| language::public_code(code)).collect();
        let info = ModelInfo {
            name: spec.name.clone(),
            sources: public(&sources),
            targets: public(&targets),
        };
        Ok(Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name: spec.name.clone(),
            folder: spec.folder.clone(),
            aligner: Aligner::new(engine, AlignmentOptions::default()),
            translator: translator.with_pool(pool),
            candidates: candidates(&info),
            info,
            sources: Codes::new(sources),
            targets: Codes::new(targets),
            selects,
        }))
    }

    /// Folder of the bundle.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Aligner of the model.
    pub fn aligner(&self) -> &Aligner {
        &self.aligner
    }

    /// Codes of the source languages in the bundle.
    pub fn sources(&self) -> &Codes {
        &self.sources
    }

    /// Codes of the target languages in the bundle.
    pub fn targets(&self) -> &Codes {
        &self.targets
    }

    /// Description for answers.
    pub fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// Source languages of texts that are translated to `target`; `None` if it is not a target.
    pub fn candidates(&self, target: &str) -> Option<&Arc<Candidates>> {
        self.candidates.get(&language::base(target))
    }

    /// Source languages of each target.
    pub fn all_candidates(&self) -> &HashMap<String, Arc<Candidates>> {
        &self.candidates
    }

    /// Returns the route of a pair of languages, if the model has it.
    pub fn route(self: &Arc<Self>, source: &str, target: &str) -> Option<Route> {
        let source = self.sources.find(source)?.to_owned();
        let target = self.targets.find(target)?.to_owned();
        if source == target {
            return None;
        }
        let (select_source, select_target) = match self.selects {
            Selects::Neither => (None, None),
            Selects::Target => (None, Some(&*target)),
            Selects::Both => (Some(&*source), Some(&*target)),
        };
        let translator = self.translator.clone();
        let translator = translator.with_languages(select_source, select_target).ok()?;
        let translator = translator.with_text_language(source.clone());
        Some(Route { model: self.clone(), source, target, translator })
    }
}

/// Source languages of each target. They are never the target, also in another country or script.
fn candidates(info: &ModelInfo) -> HashMap<String, Arc<Candidates>> {
    let mut candidates = HashMap::new();
    let sources: Vec<(String, &String)> =
        info.sources.iter().map(|code| (language::base(code), code)).collect();
    for target in &info.targets {
        candidates.entry(language::base(target)).or_insert_with_key(|base| {
            let sources = sources.iter().filter(|(source, _)| source != base);
            let codes = sources.map(|(_, code)| (*code).clone());
            Arc::new(Candidates::new(codes, Some(target)))
        });
    }
    candidates
}

/// Languages of a bundle: of its configuration, its provenance, or its name `en-de`.
fn languages(
    bundle: &Bundle,
    spec: &ModelSpec,
) -> Result<(Vec<String>, Vec<String>, Selects), ServeError> {
    let recorded = |key: &str| Some(bundle.provenance.get(key)?.as_str()?.to_owned());
    let folder = bundle_name(&spec.folder);
    let named = pair(&spec.name).or_else(|| pair(&folder));
    let given = recorded("source_language").zip(recorded("target_language"));
    let Some(languages) = &bundle.languages else {
        let (source, target) = given.or(named).ok_or_else(|| ServeError::NoLanguages {
            name: spec.name.clone(),
            folder: spec.folder.clone(),
        })?;
        return Ok((vec![source], vec![target], Selects::Neither));
    };
    match languages.placement {
        LanguagePlacement::BothSides => {
            Ok((languages.source.clone(), languages.target.clone(), Selects::Both))
        }
        LanguagePlacement::TargetInSource if !languages.source.is_empty() => {
            // The source has no token.
            Ok((languages.source.clone(), languages.target.clone(), Selects::Target))
        }
        LanguagePlacement::TargetInSource => {
            let source = given.map(|(source, _)| source);
            let source = source.or_else(|| Some(first_language(&spec.name)?.to_owned()));
            let source = source.ok_or_else(|| ServeError::NoLanguages {
                name: spec.name.clone(),
                folder: spec.folder.clone(),
            })?;
            Ok((vec![source], languages.target.clone(), Selects::Target))
        }
    }
}

fn bundle_name(folder: &Path) -> String {
    folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Languages of a name such as `en-de` or `opus-mt-en-de`.
fn pair(name: &str) -> Option<(String, String)> {
    let parts: Vec<&str> = name.split(['-', '+', '.']).collect();
    let pair = parts.windows(2).rev().find(|pair| pair.iter().all(|code| is_code(code)))?;
    Some((pair[0].to_owned(), pair[1].to_owned()))
}

fn first_language(name: &str) -> Option<&str> {
    name.split(['-', '+', '.']).find(|part| is_code(part))
}

fn is_code(part: &str) -> bool {
    let length = part.split('_').next().map_or(0, str::len);
    (2..=3).contains(&length)
        && part.starts_with(|c: char| c.is_ascii_lowercase())
        && language::is_known(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_has_a_name_and_a_folder() {
        let spec = |text: &str| text.parse::<ModelSpec>();
        let named = spec("en-de=runs/a=b").unwrap();
        assert_eq!((&*named.name, named.folder), ("en-de", "runs/a=b".into()));
        assert_eq!(spec("runs/en-de").unwrap().name, "en-de");
        for wrong in ["", "=runs", "a=", "a b=runs", "a/b=runs", ".."] {
            assert!(spec(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_contain_pairs_of_languages() {
        let pair = |name: &str| pair(name).map(|(source, target)| format!("{source} {target}"));
        assert_eq!(pair("en-de").unwrap(), "en de");
        assert_eq!(pair("opus-mt-en-de").unwrap(), "en de");
        assert_eq!(pair("en-de-tiny").unwrap(), "en de");
        assert_eq!(pair("deu_Latn-fra_Latn").unwrap(), "deu_Latn fra_Latn");
        assert_eq!(pair("phrasebook"), None);
    }
}
