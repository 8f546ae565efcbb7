//! Settings of a run: configuration, folder, devices, output and interruption.

use std::{
    io::{self, IsTerminal},
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
};

use burn::tensor::Device;
use tx_data::source::named::CorpusCache;

use crate::{
    config::TrainConfig,
    error::TrainError,
    ranks::{Alone, Ranks},
    reporting::{
        observer::Observer,
        progress::{ProgressMode, print},
    },
    training::precision::precision_problems,
};

/// Settings of a run.
pub(super) struct RunSettings {
    pub config: TrainConfig,
    /// Run folder.
    pub run: PathBuf,
    /// Device with the weights.
    pub device: Device,
    /// Further devices, which share the batches of an update.
    pub others: Vec<Device>,
    /// Cache with the files of named corpora, if any.
    pub corpora: Option<CorpusCache>,
    pub progress: ProgressMode,
    /// Set to interrupt the run.
    pub stop: Arc<AtomicBool>,
    pub observer: Option<Observer>,
    /// Ranks among which the batches of an update are divided.
    pub ranks: Arc<dyn Ranks>,
}

impl RunSettings {
    /// Creates settings for one device, with progress lines.
    pub fn new(config: TrainConfig, run: PathBuf, device: Device) -> Self {
        let (others, progress, stop) = (Vec::new(), ProgressMode::Lines, Arc::default());
        let ranks = Arc::new(Alone);
        let (corpora, observer) = (None, None);
        Self { config, run, device, others, corpora, progress, stop, observer, ranks }
    }

    /// Checks terminal, configuration and number of devices.
    ///
    /// # Errors
    ///
    /// If the dashboard has no terminal, or the configuration has problems.
    pub fn check(&self) -> Result<(), TrainError> {
        let is_terminal = || io::stdin().is_terminal() && io::stdout().is_terminal();
        if self.progress == ProgressMode::Dashboard && !is_terminal() {
            return Err(TrainError::NoTerminal);
        }
        let mut problems = self.config.problems();
        let (batches, devices) = (self.config.train.accumulate, 1 + self.others.len());
        let ranks = self.ranks.count();
        if !batches.is_multiple_of(ranks * devices) {
            let number = match ranks {
                1 => format!("devices, {devices}"),
                ranks => format!("devices of all {ranks} ranks, {}", ranks * devices),
            };
            problems.push(format!(
                "[train] `accumulate` = {batches} must be a multiple of the number of {number}"
            ));
        }
        let devices = [std::slice::from_ref(&self.device), &self.others].concat();
        problems.extend(precision_problems(self.config.train.precision, &devices));
        if problems.is_empty() { Ok(()) } else { Err(TrainError::Problems { problems }) }
    }

    /// Logs a line of text, and prints it unless the run is quiet. Only the first rank prints.
    pub fn print(&self, line: &str) {
        tracing::info!("{line}");
        if self.progress != ProgressMode::Quiet && self.ranks.is_first() {
            print(line);
        }
    }
}
