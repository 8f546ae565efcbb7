//! Reporting of a training loop: progress lines, metrics files and events for Burn's dashboard.

use burn::{
    data::dataloader,
    train::{
        EventProcessorTraining, Interrupter, LearnerEvent, SupervisedTrainingEventProcessor,
        TrainingItem,
    },
};

use super::progress::{Progress, ProgressMode};
use crate::{
    config::Budget,
    error::TrainError,
    recording::metrics::{Metrics, Record, Update},
    task::{StepOutput, Task},
    training::layer_norms::LayerNorms,
};

/// Reporter of a training loop.
pub(crate) struct Reporter<T: Task> {
    progress: Progress,
    /// `None` on ranks that write nothing.
    metrics: Option<Metrics<T::Report>>,
    events: SupervisedTrainingEventProcessor<T::Model>,
    /// Receives the errors of Burn's metrics and loggers.
    interrupter: Interrupter,
    /// Seconds of all updates of this session.
    worked: f64,
    /// Seconds that these updates waited for batches.
    waited: f64,
    /// Seconds in which the gradients of all ranks were added up.
    reducing: f64,
}

impl<T: Task> Reporter<T> {
    pub fn new(
        budget: Budget,
        mode: ProgressMode,
        metrics: Option<Metrics<T::Report>>,
        events: SupervisedTrainingEventProcessor<T::Model>,
        interrupter: Interrupter,
    ) -> Self {
        let progress = Progress::new(budget, mode);
        Self { progress, metrics, events, interrupter, worked: 0.0, waited: 0.0, reducing: 0.0 }
    }

    /// Prints a line of text.
    pub fn line(&mut self, text: &str) {
        self.progress.line(text);
    }

    /// Starts an epoch of `items` examples, `updates` updates of which are already made.
    pub fn start_epoch(&mut self, epoch: usize, updates: usize, items: usize) {
        self.progress.start_epoch(epoch, updates);
        self.event(LearnerEvent::StartSplit { epoch_number: epoch, total_items: items });
    }

    /// Ends the training part of an epoch.
    pub fn end_split(&mut self, epoch: usize) {
        self.event(LearnerEvent::EndSplit(epoch));
    }

    /// Ends an epoch with its validation.
    pub fn end_epoch(&mut self, epoch: usize) {
        self.event(LearnerEvent::EndEpoch(epoch));
    }

    /// Reports an update; `position` is that within the epoch.
    ///
    /// # Errors
    ///
    /// If the metrics file cannot be written.
    pub fn update(
        &mut self,
        output: StepOutput,
        update: Update,
        position: dataloader::Progress,
    ) -> Result<(), TrainError> {
        tracing::trace!(
            step = update.step,
            loss = output.loss(),
            gradient_norm = update.gradient_norm,
            learning_rate = update.learning_rate,
            source_tokens = output.source_tokens,
            target_tokens = output.target_tokens,
            seconds = update.took,
            waited = update.waited,
            reducing = update.reducing,
            "update"
        );
        self.progress.update(output, update.step, update.seconds, update.took);
        self.worked += update.took;
        self.waited += update.waited;
        self.reducing += update.reducing;
        if let Some(metrics) = &mut self.metrics {
            metrics.update(&output, update)?;
        }
        let rate = update.learning_rate.into();
        let item = TrainingItem::new(output, position, Some(update.step), Some(rate));
        self.event(LearnerEvent::ProcessedItem(item));
        Ok(())
    }

    /// Returns `true` if the norms of layers are recorded at the update `step`.
    pub fn records_layers(&self, step: usize) -> bool {
        self.metrics.as_ref().is_some_and(|metrics| metrics.is_line_due(step))
    }

    /// Records the norms of the layers in an update.
    ///
    /// # Errors
    ///
    /// If the event file cannot be written.
    pub fn layers(&mut self, step: usize, layers: &[LayerNorms]) -> Result<(), TrainError> {
        self.metrics.as_mut().map_or(Ok(()), |metrics| metrics.layers(step, layers))
    }

    /// Counts a skipped batch.
    pub fn count_skipped(&mut self) {
        if let Some(metrics) = &mut self.metrics {
            metrics.count_skipped();
        }
    }

    /// Reports a validation in progress lines and metrics.
    ///
    /// # Errors
    ///
    /// If the metrics file cannot be written.
    pub fn validation(&mut self, record: &Record<T::Report>) -> Result<(), TrainError> {
        if let Record::Validation { step, epoch, seconds, best, report, .. } = record {
            self.progress.validation((*epoch, *step, *seconds), report, *best);
        }
        self.metrics.as_mut().map_or(Ok(()), |metrics| metrics.write(record))
    }

    /// Reports loss and counts of a validation to the dashboard, as one large batch.
    pub fn end_validation(&mut self, epoch: usize, total: StepOutput) {
        let progress = dataloader::Progress::new(1, 1, None);
        for event in [
            LearnerEvent::StartSplit { epoch_number: epoch, total_items: 1 },
            LearnerEvent::ProcessedItem(TrainingItem::new(total, progress, None, None)),
            LearnerEvent::EndSplit(epoch),
        ] {
            let result = self.events.process_valid(event);
            self.interrupter.fail_on_error(result);
        }
    }

    /// Writes the metrics of the updates since the last line.
    ///
    /// # Errors
    ///
    /// If the metrics file cannot be written.
    pub fn flush(&mut self) -> Result<(), TrainError> {
        self.metrics.as_mut().map_or(Ok(()), Metrics::flush)
    }

    /// Ends the report of a run on `ranks`. Returns the lines to print once the dashboard has closed,
    /// and Burn's event processor.
    pub fn finish(
        mut self,
        ranks: usize,
    ) -> (Vec<String>, SupervisedTrainingEventProcessor<T::Model>) {
        if self.worked > 0.0 {
            let percent = 100.0 * self.waited / self.worked;
            self.line(&format!("waiting for data: {percent:.2} % of training time"));
            if ranks > 1 {
                let percent = 100.0 * self.reducing / self.worked;
                self.line(&format!(
                    "adding up gradients of {ranks} ranks: {percent:.2} % of training time"
                ));
            }
        }
        (self.progress.finish(), self.events)
    }

    fn event(&mut self, event: LearnerEvent<StepOutput>) {
        let result = self.events.process_train(event);
        self.interrupter.fail_on_error(result);
    }
}
