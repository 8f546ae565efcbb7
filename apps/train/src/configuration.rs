//! Configuration of a run from the command line.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use tx_train::{ConfigBuilder, TrainError};

/// Configuration and data of a run or of `train data`.
#[derive(Debug, Args)]
pub struct DataArgs {
    /// Recipe to start from [default: phrasebook; small if files are given; fine-tune with --from]
    #[arg(long, value_name = "NAME", conflicts_with = "config")]
    pub recipe: Option<String>,

    /// Configuration file (TOML) to start from; its key `recipe` can name a recipe to override
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,

    /// Bundle to continue: weights, tokenizers and model are those of the bundle
    #[arg(long, value_name = "BUNDLE", value_hint = ValueHint::DirPath)]
    pub from: Option<PathBuf>,

    /// Text file with the source side of the training pairs, with the texts to classify, or with
    /// the text of a language model; plain, gzip, zstd, or in an archive as ARCHIVE!MEMBER
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub source: Option<PathBuf>,

    /// Text file with the target side of the training pairs, or with labels; line N translates or
    /// labels line N of --source
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "source")]
    pub target: Option<PathBuf>,

    /// File with both sides of the training pairs, or with texts and labels: TSV, CSV, JSON lines,
    /// Parquet or TMX; plain, gzip, zstd, or in an archive as ARCHIVE!MEMBER; - is standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "source")]
    pub file: Option<PathBuf>,

    /// Source side of the validation pairs, or the validation texts [default: a tenth of the
    /// training data is held out]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub valid_source: Option<PathBuf>,

    /// Target side of the validation pairs, or the labels of the validation texts
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "valid_source")]
    pub valid_target: Option<PathBuf>,

    /// File with both sides of the validation pairs, or with texts and labels, in the formats of
    /// --file
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        conflicts_with = "valid_source"
    )]
    pub valid_file: Option<PathBuf>,

    /// Pairs of which each epoch replays some, such as those that the bundle was trained on: a file
    /// with both sides, or one file for each; data.replay.fraction is their share
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, num_args = 1..=2)]
    pub replay: Vec<PathBuf>,

    /// Fetch the corpus named in the configuration, unless it is in the cache (see `train fetch`)
    #[arg(long)]
    pub fetch: bool,

    /// Values that override the configuration
    #[command(flatten)]
    pub settings: SettingArgs,

    /// Print errors only
    #[arg(short, long)]
    pub quiet: bool,
}

/// Values that override a configuration.
#[derive(Debug, Args)]
pub struct SettingArgs {
    /// Set one value of the configuration; an empty VALUE resets it to its default (repeatable)
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
}

impl SettingArgs {
    /// Overrides values of `layers`, in the order of the command line.
    pub fn apply(&self, layers: &mut ConfigBuilder) -> Result<(), TrainError> {
        self.set.iter().try_for_each(|setting| layers.set(setting))
    }
}

impl DataArgs {
    /// Returns the configuration of the command line: recipe or file, data files, `--set`.
    pub fn layers(&self) -> Result<ConfigBuilder, TrainError> {
        let mut layers = match (&self.config, &self.recipe) {
            (Some(path), _) => ConfigBuilder::from_file(path)?,
            (None, Some(name)) => ConfigBuilder::from_recipe(name)?,
            (None, None) if self.from.is_some() => ConfigBuilder::from_recipe("fine-tune")?,
            (None, None) if self.source.is_some() || self.file.is_some() => {
                ConfigBuilder::from_recipe("small")?
            }
            (None, None) => ConfigBuilder::from_recipe("phrasebook")?,
        };
        self.override_values(&mut layers)?;
        Ok(layers)
    }

    /// Overrides values of `layers` by the data files, then by `--set`.
    pub fn override_values(&self, layers: &mut ConfigBuilder) -> Result<(), TrainError> {
        let files = [
            ("data.train_source", &self.source),
            ("data.train_target", &self.target),
            ("data.train_file", &self.file),
            ("data.valid_source", &self.valid_source),
            ("data.valid_target", &self.valid_target),
            ("data.valid_file", &self.valid_file),
        ];
        for (key, path) in files {
            if let Some(path) = path {
                // Validation files may accompany a corpus that is fetched by name.
                layers.set_given(key, path.to_string_lossy().into_owned());
            }
        }
        let replay: Vec<(&str, &PathBuf)> = match &self.replay[..] {
            [source, target] => vec![("source", source), ("target", target)],
            files => files.first().map(|file| ("file", file)).into_iter().collect(),
        };
        for (key, path) in replay {
            let path = path.to_string_lossy().into_owned();
            layers.set_value(&format!("data.replay.{key}"), path);
        }
        if let Some(folder) = &self.from {
            layers.set_value("from", folder.to_string_lossy().into_owned());
        }
        self.settings.apply(layers)
    }
}
