//! Burn's dashboard: progress bars and curves in the terminal.

use std::sync::Arc;

use burn::{
    tensor::TensorReadError,
    train::{
        Interrupter, SupervisedTraining,
        metric::{
            Adaptor, LearningRateMetric, Metric, MetricAttributes, MetricMetadata, MetricName,
            Numeric, NumericAttributes, NumericEntry, SerializedEntry,
            state::{FormatOptions, NumericMetricState},
        },
        renderer::tui::TuiMetricsRendererWrapper,
    },
};

use super::noop_renderer::NoopRenderer;
use crate::task::{StepOutput, Trainable};

/// Adds the dashboard to `training`. Besides loss and accuracy, it plots the metric `name` of the
/// last validation, which `value` returns.
pub(crate) fn on_dashboard<M: Trainable>(
    training: SupervisedTraining<M>,
    name: &str,
    value: impl Fn() -> f64 + Send + Sync + 'static,
) -> SupervisedTraining<M> {
    let loss = Figure::new("Loss", None, false, |output| output.loss());
    let accuracy = Figure::new("Accuracy", Some("%"), true, |output| 100.0 * output.accuracy());
    let figure = Figure::new(name, None, true, move |_| value());
    let interrupter = Interrupter::new();
    training
        .with_interrupter(interrupter.clone())
        .metric_train_numeric(loss.clone())
        .metric_valid_numeric(loss)
        .metric_train_numeric(accuracy.clone())
        .metric_valid_numeric(accuracy)
        .metric_valid_numeric(figure)
        .metric_train_numeric(LearningRateMetric::new())
        // `metrics.jsonl` has everything that Burn's own logger would write.
        .with_metric_logger(NoopRenderer)
        .renderer(Box::new(TuiMetricsRendererWrapper::new(interrupter, None)))
}

/// Curve of the dashboard: a metric of each batch, averaged over target tokens.
#[derive(Clone)]
struct Figure {
    name: MetricName,
    attributes: NumericAttributes,
    of: Arc<dyn Fn(&StepOutput) -> f64 + Send + Sync>,
    state: NumericMetricState,
}

impl Figure {
    fn new(
        name: &str,
        unit: Option<&str>,
        higher_is_better: bool,
        of: impl Fn(&StepOutput) -> f64 + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: Arc::new(name.into()),
            attributes: NumericAttributes { unit: unit.map(Into::into), higher_is_better },
            of: Arc::new(of),
            state: NumericMetricState::new(),
        }
    }

    fn format(&self) -> FormatOptions {
        let format = FormatOptions::new(self.name.clone()).precision(3);
        match &self.attributes.unit {
            Some(unit) => format.unit(unit),
            None => format,
        }
    }
}

impl Metric for Figure {
    type Input = StepOutput;

    fn name(&self) -> MetricName {
        self.name.clone()
    }

    fn attributes(&self) -> MetricAttributes {
        self.attributes.clone().into()
    }

    fn update(
        &mut self,
        output: &StepOutput,
        _: &MetricMetadata,
    ) -> Result<SerializedEntry, TensorReadError> {
        self.state.update((self.of)(output), output.target_tokens);
        Ok(self.state.compute_update(self.format()))
    }

    fn compute(&mut self) -> Result<SerializedEntry, TensorReadError> {
        Ok(self.state.compute_final(self.format()))
    }

    fn clear(&mut self) {
        self.state.reset();
    }
}

impl Numeric for Figure {
    fn value(&self) -> Option<NumericEntry> {
        Some(self.state.current_value())
    }

    fn running_value(&self) -> Option<NumericEntry> {
        Some(self.state.running_value())
    }

    fn final_value(&self) -> NumericEntry {
        self.state.final_value()
    }
}

impl Adaptor<StepOutput> for StepOutput {
    fn adapt(&self) -> StepOutput {
        *self
    }
}

#[cfg(test)]
mod tests {
    use burn::data::dataloader::Progress;

    use super::*;

    /// 3 nats over 1 token and 1 nat over 3 tokens are 4 nats over 4 tokens.
    #[test]
    fn a_metric_is_averaged_over_tokens() {
        let mut loss = Figure::new("Loss", None, false, |output| output.loss());
        let metadata =
            MetricMetadata { progress: Progress::new(0, 0, None), iteration: None, lr: None };
        for (loss_sum, target_tokens) in [(3.0, 1), (1.0, 3)] {
            let output = StepOutput { loss_sum, target_tokens, ..StepOutput::default() };
            loss.update(&output, &metadata).unwrap();
        }
        let NumericEntry::Aggregated { aggregated_value, .. } = loss.running_value().unwrap()
        else {
            panic!("a mean was expected")
        };
        assert!((aggregated_value - 1.0).abs() < 1e-12);
    }
}
