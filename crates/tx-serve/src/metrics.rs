//! Counters and histograms of the server, in the text format of Prometheus.

use std::{fmt, time::Duration};

use memory_stats::memory_stats;
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::{Family, MetricConstructor},
        gauge::Gauge,
        histogram::Histogram,
    },
    registry::{Registry, Unit},
};
use tx_infer::Observer;

/// Labels of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: String,
    status: u16,
}

/// Labels of a stage.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StageLabels {
    stage: &'static str,
}

/// Stages of a translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Markup, sentences.
    Prepare,
    /// Search, with tokens and alignments.
    Translate,
    /// Markup of the answer.
    Finish,
}

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Translate => "translate",
            Self::Finish => "finish",
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Seconds;

impl MetricConstructor<Histogram> for Seconds {
    fn new_metric(&self) -> Histogram {
        seconds()
    }
}

fn seconds() -> Histogram {
    Histogram::new([
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    ])
}

/// Metrics of a server.
pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    duration: Histogram,
    wait: Histogram,
    batch: Histogram,
    stages: Family<StageLabels, Histogram, Seconds>,
    source_tokens: Counter,
    target_tokens: Counter,
    characters: Counter,
    dropped: Counter,
    copied: Counter,
    queue: Gauge,
    models: Gauge,
    blocking: Gauge,
    connections: Gauge,
    memory: Gauge,
}

/// Something that a gauge counts while it lasts.
#[derive(Debug)]
pub struct Counted(Gauge);

impl Counted {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Creates metrics at zero.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("tx");
        let sizes = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];
        let metrics = Self {
            requests: Family::default(),
            duration: seconds(),
            wait: seconds(),
            batch: Histogram::new(sizes),
            stages: Family::new_with_constructor(Seconds),
            source_tokens: Counter::default(),
            target_tokens: Counter::default(),
            characters: Counter::default(),
            dropped: Counter::default(),
            copied: Counter::default(),
            queue: Gauge::default(),
            models: Gauge::default(),
            blocking: Gauge::default(),
            connections: Gauge::default(),
            memory: Gauge::default(),
            registry: Registry::default(),
        };
        registry.register("requests", "Answered requests", metrics.requests.clone());
        registry.register_with_unit(
            "request_duration",
            "Time from the request to its answer",
            Unit::Seconds,
            metrics.duration.clone(),
        );
        registry.register_with_unit(
            "queue_wait",
            "Time of sentences in the queue",
            Unit::Seconds,
            metrics.wait.clone(),
        );
        registry.register_with_unit(
            "stage",
            "Time of the stages of a translation",
            Unit::Seconds,
            metrics.stages.clone(),
        );
        registry.register("batch_sentences", "Sentences of a batch", metrics.batch.clone());
        registry.register(
            "source_tokens",
            "Source tokens, estimated from the length of the texts",
            metrics.source_tokens.clone(),
        );
        registry.register("target_tokens", "Generated tokens", metrics.target_tokens.clone());
        registry.register("characters", "Characters of accepted texts", metrics.characters.clone());
        registry.register(
            "dropped_sentences",
            "Sentences of clients that left, or whose time was over, while they were translated",
            metrics.dropped.clone(),
        );
        registry.register(
            "copied_texts",
            "Texts that were returned as they are, because their detected language is the target",
            metrics.copied.clone(),
        );
        registry.register(
            "blocking_threads",
            "Threads that divide texts, detect languages, read and write documents",
            metrics.blocking.clone(),
        );
        registry.register("connections", "Open connections", metrics.connections.clone());
        registry.register("queue_sentences", "Sentences in the queue", metrics.queue.clone());
        registry.register("models", "Loaded models", metrics.models.clone());
        // Other systems do not tell; a constant zero would look like a measurement.
        if resident_memory().is_some() {
            registry.register_with_unit(
                "resident_memory",
                "Memory of the process",
                Unit::Bytes,
                metrics.memory.clone(),
            );
        }
        Self { registry, ..metrics }
    }

    /// Counts an answered request; `route` is a pattern, not a path.
    pub fn answered(&self, route: &str, status: u16, duration: Duration) {
        let labels = RequestLabels { route: route.to_owned(), status };
        self.requests.get_or_create(&labels).inc();
        self.duration.observe(duration.as_secs_f64());
    }

    /// Records the time of a sentence in the queue.
    pub fn waited(&self, duration: Duration) {
        self.wait.observe(duration.as_secs_f64());
    }

    /// Records the size of a batch.
    pub fn batch(&self, sentences: usize) {
        self.batch.observe(sentences as f64);
    }

    /// Records the duration of a stage.
    pub fn stage(&self, stage: Stage, duration: Duration) {
        let labels = StageLabels { stage: stage.name() };
        self.stages.get_or_create(&labels).observe(duration.as_secs_f64());
    }

    /// Counts the tokens of a sentence.
    pub fn tokens(&self, source: usize, target: usize) {
        self.source_tokens.inc_by(source as u64);
        self.target_tokens.inc_by(target as u64);
    }

    /// Counts a sentence whose client left while it was translated.
    pub fn dropped(&self) {
        self.dropped.inc();
    }

    /// Counts a text that was copied instead of translated.
    pub fn copied(&self) {
        self.copied.inc();
    }

    /// Counts a busy thread until the result is dropped.
    pub fn busy(&self) -> Counted {
        Counted::new(&self.blocking)
    }

    /// Counts a connection until the result is dropped.
    pub fn connected(&self) -> Counted {
        Counted::new(&self.connections)
    }

    /// Counts the characters of a request.
    pub fn characters(&self, count: usize) {
        self.characters.inc_by(count as u64);
    }

    /// Returns all metrics; `queue` and `models` are the current numbers.
    pub fn render(&self, queue: usize, models: usize) -> String {
        self.queue.set(i64::try_from(queue).unwrap_or(i64::MAX));
        self.models.set(i64::try_from(models).unwrap_or(i64::MAX));
        self.memory.set(resident_memory().unwrap_or_default());
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

impl Observer for Metrics {
    fn started(&self, waits: &[Duration]) {
        waits.iter().for_each(|wait| self.waited(*wait));
        self.batch(waits.len());
    }

    fn ended(&self, duration: Duration) {
        self.stage(Stage::Translate, duration);
    }
}

/// Resident memory in bytes, where the system reports it.
fn resident_memory() -> Option<i64> {
    i64::try_from(memory_stats()?.physical_mem).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_counted() {
        let metrics = Metrics::new();
        metrics.answered("/translate", 200, Duration::from_millis(3));
        metrics.batch(3);
        metrics.stage(Stage::Prepare, Duration::from_millis(2));
        metrics.tokens(4, 5);
        metrics.copied();
        let (busy, connected) = (metrics.busy(), metrics.connected());
        drop(busy);
        let text = metrics.render(7, 1);
        for line in [
            "tx_requests_total{route=\"/translate\",status=\"200\"} 1",
            "tx_request_duration_seconds_bucket{le=\"0.005\"} 1",
            "tx_batch_sentences_bucket{le=\"4.0\"} 1",
            "tx_stage_seconds_count{stage=\"prepare\"} 1",
            "tx_target_tokens_total 5",
            "tx_queue_wait_seconds_count 0",
            "tx_queue_sentences 7",
            "tx_models 1",
            "tx_copied_texts_total 1",
            "tx_blocking_threads 0",
            "tx_connections 1",
        ] {
            assert!(text.contains(line), "no `{line}` in:\n{text}");
        }
        drop(connected);
    }
}
