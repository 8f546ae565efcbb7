//! Beam search: the best few hypotheses of each sentence, one token longer each step.

use tx_data::special::{BOS, EOS};

use super::{
    Hypothesis,
    candidates::{self, Candidate},
    engine::Job,
};

/// A sentence under way.
struct Sentence {
    /// Which sentence of the batch.
    index: usize,
    /// Neighbouring rows of the batch; at most as many as the beam is wide.
    beams: Vec<Beam>,
    finished: Vec<Hypothesis>,
}

/// One hypothesis under way.
struct Beam {
    ids: Vec<u32>,
    log_probability: f32,
}

/// Each step takes the best 2 · beam continuations of a sentence, so that even if half of them end,
/// `beam` go on. One that ends among the best `beam` is finished; a sentence with `beam` finished
/// hypotheses, or at its length limit, leaves the batch.
pub(super) fn search(mut job: Job<'_>) -> Vec<Vec<Hypothesis>> {
    let count = 2 * job.options.beam;
    let mut sentences: Vec<Sentence> = (0..job.limits.len()).map(Sentence::new).collect();
    let mut found = vec![Vec::new(); sentences.len()];
    let mut tokens = vec![BOS; sentences.len()];

    for len in 0.. {
        let next = job.decoder.step(&tokens, job.options.never(len), count);
        let mut rows = Vec::new();
        let mut left = Vec::with_capacity(sentences.len());
        let mut first = 0;
        for mut sentence in sentences {
            let own = &next[first..first + sentence.beams.len()];
            let so_far = sentence.beams.iter().map(|beam| beam.log_probability);
            let next = so_far.zip(own.iter().map(Vec::as_slice));
            let from = sentence.advance(&candidates::best(next, count), &job);
            if sentence.is_done(&job) {
                let index = sentence.index;
                found[index] = sentence.best(job.options.n_best);
            } else {
                rows.extend(from.iter().map(|beam| first + beam));
                left.push(sentence);
            }
            first += own.len();
        }
        sentences = left;
        if sentences.is_empty() {
            break;
        }
        let beams = sentences.iter().flat_map(|sentence| &sentence.beams);
        let unmoved = rows.len() == tokens.len() && rows.is_sorted_by(|a, b| a < b);
        tokens = beams.filter_map(|beam| beam.ids.last().copied()).collect();
        if !unmoved {
            job.decoder.select(&rows);
        }
    }
    found
}

impl Sentence {
    /// One empty hypothesis.
    fn new(index: usize) -> Self {
        let empty = Beam { ids: Vec::new(), log_probability: 0.0 };
        Self { index, beams: vec![empty], finished: Vec::new() }
    }

    /// Moves on to the best continuations; says from which hypothesis each new one comes.
    fn advance(&mut self, candidates: &[Candidate], job: &Job<'_>) -> Vec<usize> {
        let width = job.options.beam;
        if candidates.is_empty() {
            // Nothing can be said any more.
            self.finish_as_they_are(job);
        }
        let mut beams = Vec::with_capacity(width);
        let mut from = Vec::with_capacity(width);
        for (rank, candidate) in candidates.iter().enumerate() {
            let ends = candidate.token == EOS;
            if if ends { rank >= width } else { beams.len() == width } {
                continue;
            }
            let mut ids = self.beams[candidate.beam].ids.clone();
            ids.push(candidate.token);
            let log_probability = candidate.log_probability;
            if ends {
                self.finished.push(Hypothesis::new(ids, log_probability, job.options));
            } else {
                beams.push(Beam { ids, log_probability });
                from.push(candidate.beam);
            }
        }
        self.beams = beams;
        from
    }

    /// At the length limit, hypotheses under way count as they are.
    fn is_done(&mut self, job: &Job<'_>) -> bool {
        let Some(beam) = self.beams.first() else { return true };
        if self.finished.len() >= job.options.beam {
            return true;
        }
        if beam.ids.len() < job.limits[self.index] {
            return false;
        }
        self.finish_as_they_are(job);
        true
    }

    fn finish_as_they_are(&mut self, job: &Job<'_>) {
        let unended = self.beams.drain(..).map(|beam| {
            let Beam { ids, log_probability } = beam;
            Hypothesis::new(ids, log_probability, job.options)
        });
        self.finished.extend(unended);
    }

    /// The best finished hypotheses, best first.
    fn best(mut self, count: usize) -> Vec<Hypothesis> {
        self.finished.sort_by(|a, b| b.score.total_cmp(&a.score));
        self.finished.truncate(count);
        self.finished
    }
}
