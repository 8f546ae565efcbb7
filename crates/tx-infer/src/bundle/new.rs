//! Bundles whose weights are computed one by one, as by an import.

use std::{
    collections::HashMap,
    io::{self, BufWriter, Write},
    path::Path,
};

use serde_json::{Map, Value, json};
use tx_model::ModelConfig;
use tx_text::Tokenizers;

use super::{Languages, WEIGHTS, config::WeightDtype, files::NewFolder, parts::Parts, vocabulary};
use crate::{
    error::InferError,
    file::{persist, temporary_beside},
    search::SearchOptions,
    task::ModelTask,
};

/// A bundle to be saved without Burn, with weights that are computed when they are written.
pub struct NewBundle<'a> {
    /// Task of the model.
    pub task: ModelTask,
    /// Configuration of the model.
    pub config: ModelConfig,
    /// Tokenizers of both sides, which are equal for tasks with one text.
    pub tokenizers: Tokenizers,
    /// Languages of a multilingual model for translation.
    pub languages: Option<Languages>,
    /// Sentences before a source that a model for translation reads with it, at most; 0 without
    /// [context](tx_text::context).
    pub context: usize,
    /// Default search options of the model.
    pub search: Option<SearchOptions>,
    /// Origin of the model, for information.
    pub provenance: toml::Table,
    /// Weights, in any order: names and shapes of [`ModelConfig::weight_shapes_of`] for the
    /// [architecture](ModelTask::architecture), with the [padded](ModelConfig::padded) sizes of the
    /// vocabularies.
    pub weights: Vec<NewWeight<'a>>,
}

/// A weight of a [`NewBundle`].
pub struct NewWeight<'a> {
    /// Path in the model.
    pub name: String,
    /// Size of each dimension.
    pub shape: Vec<usize>,
    /// Computes the values in row-major order. Called once, when the weight is written, so that the
    /// values of all weights are never in memory together.
    pub values: Box<dyn Fn() -> Vec<f32> + Sync + 'a>,
}

impl NewBundle<'_> {
    /// Writes the bundle into `folder`, which is created if necessary; a bundle there is replaced when
    /// all weights are written.
    ///
    /// # Errors
    ///
    /// [`InferError::Model`] if the configuration is invalid; [`InferError::Config`] if languages or
    /// search options are; [`InferError::Weights`] if a weight is missing, unexpected or of the wrong
    /// shape; [`InferError::NotFiniteWeight`]; [`InferError::Write`] if a file cannot be written. A
    /// problem with the model leaves the folder as it was.
    pub fn save(&self, folder: &Path) -> Result<(), InferError> {
        self.config.check_architecture(self.task.architecture(), vocabulary(&self.tokenizers))?;
        let path = folder.join(WEIGHTS);
        let weights = self
            .ordered()
            .map_err(|problem| InferError::Weights { path: path.clone(), problem })?;
        let contents = self.parts().contents(folder, WeightDtype::F32)?;

        let created = NewFolder::create(folder)?;
        let write_error = |source| InferError::Write { path: path.clone(), source };
        let temporary = temporary_beside(&path).map_err(write_error)?;
        let mut file = BufWriter::with_capacity(1 << 20, temporary.as_file());
        header(&weights).and_then(|header| file.write_all(&header)).map_err(write_error)?;
        for weight in &weights {
            let values = (weight.values)();
            weight.check(&values, &path)?;
            write_values(&mut file, &values).map_err(write_error)?;
        }
        file.flush().map_err(write_error)?;
        drop(file);
        contents.write(folder)?;
        persist(temporary, &path).map_err(write_error)?;
        created.keep();
        Ok(())
    }

    /// Returns the parts besides the weights.
    fn parts(&self) -> Parts<'_> {
        Parts {
            task: &self.task,
            config: &self.config,
            tokenizers: &self.tokenizers,
            languages: self.languages.as_ref(),
            context: self.context,
            search: self.search.as_ref(),
            calibration: None,
            lexicon: None,
            provenance: &self.provenance,
        }
    }

    /// Returns the weights in the order of the model.
    ///
    /// # Errors
    ///
    /// If one is missing, unexpected, given twice, or of the wrong shape.
    fn ordered(&self) -> Result<Vec<&NewWeight<'_>>, String> {
        let mut given: HashMap<&str, &NewWeight<'_>> = HashMap::with_capacity(self.weights.len());
        for weight in &self.weights {
            if given.insert(&weight.name, weight).is_some() {
                return Err(format!("weight `{}` is given twice", weight.name));
            }
        }
        let vocabulary = self.config.padded(vocabulary(&self.tokenizers));
        let expected = self.config.weight_shapes_of(self.task.architecture(), vocabulary);
        let mut ordered = Vec::with_capacity(expected.len());
        for tx_model::WeightShape { name, shape, .. } in expected {
            let Some(weight) = given.remove(&*name) else {
                return Err(format!("weight `{name}` is missing"));
            };
            if weight.shape != shape {
                return Err(format!(
                    "weight `{name}` has the shape {:?}, but the configuration needs {shape:?}",
                    weight.shape
                ));
            }
            ordered.push(weight);
        }
        match given.into_keys().min() {
            Some(name) => Err(format!("weight `{name}` is not part of the model")),
            None => Ok(ordered),
        }
    }
}

impl NewWeight<'_> {
    /// Returns the number of values; saturates at `usize::MAX`.
    fn count(&self) -> usize {
        self.shape.iter().fold(1, |count, &size| count.saturating_mul(size))
    }

    /// # Errors
    ///
    /// If there are more or fewer values than the shape has, or one is not finite.
    fn check(&self, values: &[f32], path: &Path) -> Result<(), InferError> {
        let Self { name, shape, .. } = self;
        if values.len() != self.count() {
            let found = values.len();
            let problem = format!("weight `{name}` has {found} values, expected {shape:?}");
            return Err(InferError::Weights { path: path.into(), problem });
        }
        match values.iter().position(|value| !value.is_finite()) {
            Some(index) => {
                let (path, weight) = (path.into(), name.clone());
                Err(InferError::NotFiniteWeight { path, weight, index })
            }
            None => Ok(()),
        }
    }
}

/// Length and text of the header of a safetensors file. The values begin at a multiple of eight
/// bytes, so that they can be read where they are.
fn header(weights: &[&NewWeight<'_>]) -> io::Result<Vec<u8>> {
    let mut entries = Map::from_iter([("__metadata__".into(), json!({ "producer": "tx" }))]);
    let mut start = 0_usize;
    for weight in weights {
        let end = start.saturating_add(weight.count().saturating_mul(4));
        let NewWeight { name, shape, .. } = weight;
        let entry = json!({ "dtype": "F32", "shape": shape, "data_offsets": [start, end] });
        entries.insert(name.clone(), entry);
        start = end;
    }
    let mut text = serde_json::to_vec(&Value::Object(entries))?;
    text.resize(text.len().next_multiple_of(8), b' ');
    Ok([&(text.len() as u64).to_le_bytes()[..], &text].concat())
}

fn write_values(file: &mut impl Write, values: &[f32]) -> io::Result<()> {
    if cfg!(target_endian = "little") {
        return file.write_all(bytemuck::cast_slice(values));
    }
    values.iter().try_for_each(|value| file.write_all(&value.to_le_bytes()))
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;

    use tx_model::{DropoutConfig, Tying};
    use tx_text::{SentencePair, TokenizerConfig, TokenizerKind};

    use super::*;
    use crate::{Bundle, BundleInfo, Device, LengthNorm, Translator};

    /// A minimal model; value `i` of a weight is `sin(i + length of its name)`.
    pub(in crate::bundle) fn bundle() -> NewBundle<'static> {
        let tokenizer = TokenizerConfig { kind: TokenizerKind::Word, ..TokenizerConfig::default() };
        let pairs = [SentencePair::new("one two three", "uno due tre")];
        let tokenizers = Tokenizers::train(&tokenizer, &pairs).unwrap();
        let config = ModelConfig {
            d_model: 8,
            n_heads: 2,
            d_ff: 8,
            encoder_layers: 1,
            decoder_layers: 1,
            max_len: 12,
            tying: Tying::None,
            dropout: DropoutConfig::none(),
            ..ModelConfig::default()
        };
        let shapes = config.weight_shapes(config.padded(vocabulary(&tokenizers)));
        let weights = shapes.into_iter().rev().map(|weight| {
            let count: usize = weight.shape.iter().product();
            let name = weight.name;
            let phase = name.len() as f32;
            let values = move || (0..count).map(|index| (index as f32 + phase).sin()).collect();
            NewWeight { name, shape: weight.shape, values: Box::new(values) }
        });
        NewBundle {
            task: ModelTask::Translate,
            weights: weights.collect(),
            config,
            tokenizers,
            languages: None,
            context: 0,
            search: Some(SearchOptions {
                beam: 6,
                length_norm: LengthNorm::Wu,
                length_penalty: 0.6,
                suppress: vec![3],
                ..SearchOptions::default()
            }),
            provenance: toml::Table::from_iter([("recipe".to_owned(), "none".into())]),
        }
    }

    #[test]
    fn a_saved_bundle_opens_with_its_weights_and_search_options() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/folder");
        let bundle = bundle();
        bundle.save(&path).unwrap();
        let opened = Bundle::open(&path).unwrap();
        assert_eq!((&opened.search, &opened.config), (&bundle.search, &bundle.config));
        assert_eq!((&opened.languages, &opened.provenance), (&None, &bundle.provenance));
        assert_eq!(opened.weight_names().count(), bundle.weights.len());
        for weight in &bundle.weights {
            let (shape, values) = opened.weight(&weight.name).unwrap();
            assert_eq!(shape, weight.shape);
            assert_eq!(*values, (weight.values)(), "{}", weight.name);
        }
        assert!(opened.weight("encoder").is_none());
        assert_eq!(BundleInfo::read(&path).unwrap().search, bundle.search);
        // Aligned values are used without a copy.
        let (_, values) = opened.weight("source_embedding.weight").unwrap();
        assert!(matches!(values, std::borrow::Cow::Borrowed(_)));

        let translator = Translator::open(&path, &Device::Cpu).unwrap();
        assert_eq!(Some(translator.options()), bundle.search.as_ref());
        translator.translate("one two").unwrap();

        // The same bundle gives the same files.
        let read = |name| fs::read(path.join(name)).unwrap();
        let files = ["config.toml", WEIGHTS, "source.tokenizer.json"].map(read);
        bundle.save(&path).unwrap();
        assert_eq!(["config.toml", WEIGHTS, "source.tokenizer.json"].map(read), files);
    }

    fn rename(bundle: &mut NewBundle<'_>) {
        bundle.weights[0].name += "s";
    }

    #[test]
    fn weights_of_another_model_are_not_saved() {
        type Change = fn(&mut NewBundle<'_>);
        for (change, problem) in [
            (rename as Change, "is missing"),
            (|bundle| drop(bundle.weights.pop()), "weight `source_embedding.weight` is missing"),
            (|bundle| bundle.weights[1].shape.push(1), "but the configuration needs"),
            (
                |bundle| {
                    let (name, shape) = ("encoder.norm.gamma".into(), vec![8]);
                    bundle.weights.push(NewWeight { name, shape, values: Box::new(Vec::new) });
                },
                "weight `encoder.norm.gamma` is not part of the model",
            ),
            (|bundle| bundle.weights[1].name = bundle.weights[0].name.clone(), "is given twice"),
            (|bundle| bundle.config.n_heads = 3, "`n_heads` = 3 must divide"),
            (
                |bundle| {
                    bundle.search = Some(SearchOptions { beam: 0, ..SearchOptions::default() })
                },
                "`search`: `beam` = 0",
            ),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let mut bundle = bundle();
            change(&mut bundle);
            let error = bundle.save(folder.path()).unwrap_err().to_string();
            assert!(error.contains(problem), "{problem}: {error}");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{problem}");
        }
    }

    /// A new folder is removed, and a bundle that was in the folder remains.
    #[test]
    fn values_that_are_not_usable_change_nothing() {
        for (values, problem) in [
            (vec![], "has 0 values, expected [8]"),
            (vec![0.0, 1.0, f32::NAN, 1.0, 1.0, 1.0, 1.0, 1.0], "not finite at value 2"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let old = folder.path().join("old");
            bundle().save(&old).unwrap();
            let before = files(&old);
            let mut bundle = bundle();
            bundle.config.activation = tx_model::Activation::Gelu;
            let norm = bundle.weights.iter_mut().find(|weight| weight.name.ends_with("gamma"));
            norm.unwrap().values = Box::new(move || values.clone());
            for output in [folder.path().join("a").join("b"), old.clone()] {
                let error = bundle.save(&output).unwrap_err().to_string();
                assert!(error.contains(problem), "{problem}: {error}");
            }
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
            assert_eq!(files(&old), before);
        }
    }

    /// Names and contents of the files in a folder.
    fn files(folder: &Path) -> Vec<(std::ffi::OsString, Vec<u8>)> {
        let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
        let mut files: Vec<_> =
            entries.map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap())).collect();
        files.sort();
        files
    }
}
