//! Beam search: the best few hypotheses of each sentence, one token longer each step.

use tx_data::special::{BOS, EOS};

use super::{Hypothesis, Job, candidates};

/// A sentence under way: its hypotheses are `beam` neighbouring rows of the batch.
struct Sentence {
    /// Which sentence of the batch.
    index: usize,
    beams: Vec<Beam>,
    finished: Vec<Hypothesis>,
}

/// One hypothesis under way.
#[derive(Clone)]
struct Beam {
    ids: Vec<u32>,
    /// Minus infinity in a row that holds its place only: no candidate comes from it.
    log_probability: f32,
}

/// Each step takes the best 2 · beam continuations of a sentence, so that even if half of them end,
/// `beam` go on. One that ends among the best `beam` is finished; a sentence with `beam` finished
/// hypotheses, or at its length limit, leaves the batch.
pub(super) fn search(job: Job<'_>) -> Vec<Vec<Hypothesis>> {
    let width = job.options.beam;
    let n_sentences = job.limits.len();
    let mut sentences: Vec<Sentence> = (0..n_sentences).map(|i| Sentence::new(i, width)).collect();
    let mut found = vec![Vec::new(); n_sentences];

    let rows: Vec<u32> = (0..n_sentences as u32).flat_map(|i| vec![i; width]).collect();
    let mut cache = job
        .model
        .start_decoding(job.memory.clone(), job.blocked.clone())
        .select(&job.indices(&rows));
    let mut tokens = vec![BOS; rows.len()];

    while !sentences.is_empty() {
        let log_probs = job.step(&tokens, &mut cache);
        let scores: Vec<f32> = sentences
            .iter()
            .flat_map(|sentence| sentence.beams.iter().map(|beam| beam.log_probability))
            .collect();
        let candidates = candidates::best(log_probs, &scores, width, 2 * width);

        let mut rows = Vec::new();
        tokens.clear();
        let mut left = Vec::new();
        for (place, (mut sentence, candidates)) in sentences.into_iter().zip(candidates).enumerate()
        {
            let from = sentence.advance(&candidates, &job);
            if sentence.is_done(&job) {
                let index = sentence.index;
                found[index] = sentence.best(job.options.n_best);
            } else {
                rows.extend(from.iter().map(|beam| (place * width + beam) as u32));
                tokens.extend(
                    sentence.beams.iter().map(|beam| beam.ids.last().copied().unwrap_or(EOS)),
                );
                left.push(sentence);
            }
        }
        if left.len() * width == scores.len() {
            if rows.iter().enumerate().any(|(new, &old)| new as u32 != old) {
                cache = cache.reorder(&job.indices(&rows));
            }
        } else if !left.is_empty() {
            cache = cache.select(&job.indices(&rows));
        }
        sentences = left;
    }
    found
}

impl Sentence {
    /// One empty hypothesis; the other rows only hold their place in the first step.
    fn new(index: usize, width: usize) -> Self {
        let empty = |log_probability| Beam { ids: Vec::new(), log_probability };
        let mut beams = vec![empty(f32::NEG_INFINITY); width];
        beams[0] = empty(0.0);
        Self { index, beams, finished: Vec::new() }
    }

    /// Moves on to the best continuations; says from which hypothesis each new one comes.
    fn advance(&mut self, candidates: &[candidates::Candidate], job: &Job<'_>) -> Vec<usize> {
        let width = job.options.beam;
        let mut beams = Vec::with_capacity(width);
        let mut from = Vec::with_capacity(width);
        for (rank, candidate) in candidates.iter().enumerate() {
            let mut ids = self.beams[candidate.beam].ids.clone();
            ids.push(candidate.token);
            let log_probability = candidate.log_probability;
            if candidate.token == EOS {
                if rank < width {
                    self.finished.push(Hypothesis::new(ids, log_probability, job.options));
                }
            } else if beams.len() < width {
                beams.push(Beam { ids, log_probability });
                from.push(candidate.beam);
            }
        }
        // Fewer possible continuations than rows, as with a vocabulary smaller than the beam.
        beams.resize(width, Beam { ids: Vec::new(), log_probability: f32::NEG_INFINITY });
        from.resize(width, 0);
        self.beams = beams;
        from
    }

    /// At the length limit, hypotheses under way count as they are.
    fn is_done(&mut self, job: &Job<'_>) -> bool {
        let live = |beam: &&Beam| beam.log_probability.is_finite();
        let length = self.beams.iter().find(live).map(|beam| beam.ids.len());
        if self.finished.len() >= job.options.beam || length.is_none() {
            return true;
        }
        if length < Some(job.limits[self.index]) {
            return false;
        }
        for beam in self.beams.iter().filter(live) {
            let ids = beam.ids.clone();
            self.finished.push(Hypothesis::new(ids, beam.log_probability, job.options));
        }
        true
    }

    /// The best finished hypotheses, best first.
    fn best(mut self, count: usize) -> Vec<Hypothesis> {
        self.finished.sort_by(|a, b| b.score.total_cmp(&a.score));
        self.finished.truncate(count);
        self.finished
    }
}
