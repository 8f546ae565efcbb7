//! Recorder of the values inside a model, and parts of the model that are turned off.

use crate::{
    Ablation, Map, Stack, Sublayer,
    trace::{AttentionTrace, LayerTrace, StackTrace, SublayerTrace, Trace},
};

/// Values that are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Attention weights.
    Weights,
    /// All values.
    All,
}

/// Records values of one text, and turns parts of the model off. By default, it does neither.
#[derive(Debug, Default)]
pub(crate) struct Probe {
    ablations: Vec<Ablation>,
    recording: Option<Recording>,
    /// Part that is computed.
    place: Place,
}

#[derive(Debug, Clone, Copy, Default)]
struct Place {
    stack: Stack,
    layer: usize,
    sublayer: Sublayer,
}

#[derive(Debug)]
struct Recording {
    detail: Detail,
    /// Number of source tokens.
    source: usize,
    /// Number of target tokens.
    target: usize,
    trace: Trace,
}

impl Probe {
    /// Turns parts off.
    pub(crate) fn ablating(ablations: &[Ablation]) -> Self {
        Self { ablations: ablations.to_vec(), ..Self::default() }
    }

    /// Records a pair with these numbers of tokens, and turns parts off.
    pub(crate) fn recording(
        detail: Detail,
        source: usize,
        target: usize,
        ablations: &[Ablation],
    ) -> Self {
        let recording = Recording { detail, source, target, trace: Trace::default() };
        Self { recording: Some(recording), ..Self::ablating(ablations) }
    }

    /// Records the attention weights of one text in a model with one stack.
    pub(crate) fn of_text(text: &[u32]) -> Self {
        Self::recording(Detail::Weights, text.len(), text.len(), &[])
    }

    /// Returns what was recorded.
    pub(crate) fn into_trace(self) -> Trace {
        self.recording.map(|recording| recording.trace).unwrap_or_default()
    }

    /// Moves to a stack.
    pub(crate) fn enter_stack(&mut self, stack: Stack) {
        self.place.stack = stack;
    }

    /// Moves to a layer of the stack. Returns `false` if it is turned off.
    pub(crate) fn enter_layer(&mut self, layer: usize) -> bool {
        let stack = self.place.stack;
        self.place.layer = layer;
        if let Some(recording) = &mut self.recording {
            let layers = &mut recording.stack(stack).layers;
            layers.resize(layers.len().max(layer + 1), LayerTrace::default());
        }
        !self.ablations.contains(&Ablation::Layer { stack, layer })
    }

    /// Moves to a sub-layer of the layer, whose input is `input`: `[rows, d_model]`.
    pub(crate) fn enter(&mut self, sublayer: Sublayer, input: &[f32]) {
        self.place.sublayer = sublayer;
        self.record(|trace| trace.input.extend_from_slice(input));
    }

    /// Returns `true` if values are recorded.
    pub(crate) fn records(&self) -> bool {
        self.recording.is_some()
    }

    /// Returns `true` if all values are recorded.
    pub(crate) fn records_all(&self) -> bool {
        self.recording.as_ref().is_some_and(|recording| recording.detail == Detail::All)
    }

    /// Records the embedding of a token and the vector of its position: `[d_model]`.
    pub(crate) fn embedding(&mut self, embedding: &[f32], position: Option<&[f32]>) {
        self.record_stack(|stack| {
            stack.embeddings.extend_from_slice(embedding);
            stack.positions.extend_from_slice(position.unwrap_or(&[]));
        });
    }

    /// Records the output of a stack: `[rows, d_model]`.
    pub(crate) fn output(&mut self, output: &[f32]) {
        self.record_stack(|stack| stack.output.extend_from_slice(output));
    }

    /// Records values of the sub-layer, if all are recorded.
    pub(crate) fn record(&mut self, record: impl FnOnce(&mut SublayerTrace)) {
        let place = self.place;
        if let Some(recording) = self.recording_all() {
            record(recording.sublayer(place));
        }
    }

    /// Records values of attention, if all are recorded.
    pub(crate) fn record_attention(&mut self, record: impl FnOnce(&mut AttentionTrace)) {
        self.record(|sublayer| record(sublayer.attention.get_or_insert_default()));
    }

    /// Records the attention of a query to its first keys. For each of `heads`: the scores before the softmax, a sum,
    /// and the numbers that divided by it are the weights.
    pub(crate) fn record_query<'a>(
        &mut self,
        query: usize,
        n_heads: usize,
        heads: impl Iterator<Item = (&'a [f32], f32, &'a [f32])>,
    ) {
        let place = self.place;
        let Some(recording) = &mut self.recording else { return };
        let (queries, keys) = match (place.stack, place.sublayer) {
            (Stack::Encoder, _) => (recording.source, recording.source),
            (Stack::Decoder, Sublayer::CrossAttention) => (recording.target, recording.source),
            (Stack::Decoder, _) => (recording.target, recording.target),
        };
        let detail = recording.detail;
        let attention = recording.sublayer(place).attention.get_or_insert_default();
        let AttentionTrace { scores: score_map, weights: weight_map, .. } = attention;
        if weight_map.heads == 0 {
            *weight_map = Map::filled(0.0, n_heads, queries, keys);
            if detail == Detail::All {
                *score_map = Map::filled(f32::NEG_INFINITY, n_heads, queries, keys);
            }
        }
        let mut score_rows = score_map.rows_mut(query);
        for (row, (scores, sum, weights)) in weight_map.rows_mut(query).zip(heads) {
            row.iter_mut().zip(weights).for_each(|(weight, number)| *weight = number / sum);
            if let Some(row) = score_rows.next() {
                row[..scores.len()].copy_from_slice(scores);
            }
        }
    }

    /// Sets the context of heads that are turned off to 0: `[rows, heads · features]`.
    pub(crate) fn silence(&self, context: &mut [f32], n_heads: usize, d_model: usize) {
        let d_head = d_model / n_heads;
        for ablation in &self.ablations {
            if let &Ablation::Head { stack, layer, sublayer, head } = ablation
                && (stack, layer, sublayer)
                    == (self.place.stack, self.place.layer, self.place.sublayer)
            {
                for row in context.chunks_exact_mut(d_model) {
                    row[head * d_head..(head + 1) * d_head].fill(0.0);
                }
            }
        }
    }

    fn record_stack(&mut self, record: impl FnOnce(&mut StackTrace)) {
        let stack = self.place.stack;
        if let Some(recording) = self.recording_all() {
            record(recording.stack(stack));
        }
    }

    /// The recording, if it is of all values.
    fn recording_all(&mut self) -> Option<&mut Recording> {
        self.recording.as_mut().filter(|recording| recording.detail == Detail::All)
    }
}

impl Recording {
    fn stack(&mut self, stack: Stack) -> &mut StackTrace {
        match stack {
            Stack::Encoder => &mut self.trace.encoder,
            Stack::Decoder => &mut self.trace.decoder,
        }
    }

    /// The sub-layer at `place`, in a layer that was entered.
    fn sublayer(&mut self, place: Place) -> &mut SublayerTrace {
        let sublayers = &mut self.stack(place.stack).layers[place.layer].sublayers;
        let index = match sublayers.iter().position(|it| it.kind == place.sublayer) {
            Some(index) => index,
            None => {
                sublayers.push(SublayerTrace { kind: place.sublayer, ..SublayerTrace::default() });
                sublayers.len() - 1
            }
        };
        &mut sublayers[index]
    }
}
