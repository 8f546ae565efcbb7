//! Beam search: the best few hypotheses of each sentence, one token longer each step.

use tx_data::special::{BOS, EOS};

use super::{
    Hypothesis,
    candidates::{self, Candidate},
    hypothesis::Partial,
    job::{Job, Row},
    options::EarlyStopping,
};

/// A group of hypotheses of one sentence under way; in plain beam search, all of them.
struct Group {
    /// Which sentence of the batch.
    sentence: usize,
    /// Neighbouring rows of the batch; at most as many as the group is wide.
    beams: Vec<Partial>,
    finished: Vec<Hypothesis>,
    /// Whether the likeliest continuation of a step has ended.
    best_ended: bool,
}

/// Each step takes the best 2 · beam continuations of a sentence, so that even if half of them end,
/// `beam` go on. One that ends among the best `beam` is finished; a sentence that is done, or at its
/// length limit, leaves the batch.
///
/// In diverse beam search each group of the beam does so by itself, one after the other: what the
/// earlier ones took is worth less to the later ones.
pub(super) fn search(mut job: Job<'_>) -> Vec<Vec<Hypothesis>> {
    let n_groups = job.options.groups;
    let width = job.options.beam / n_groups;
    let count = 2 * width;
    job.repeat(n_groups);
    let mut groups: Vec<Group> =
        (0..job.sentences.len() * n_groups).map(|row| Group::new(row / n_groups)).collect();
    let mut found: Vec<Vec<Hypothesis>> = vec![Vec::new(); job.sentences.len()];
    let mut tokens = vec![BOS; groups.len()];

    for len in 0.. {
        let targets: Vec<Row<'_>> = groups.iter().flat_map(Group::rows).collect();
        // Of those that other groups took there are at most as many as hypotheses of theirs.
        let others = job.options.beam - width;
        let next = job.next(&tokens, len, count + others, |row| targets[row]);
        let mut rows = Vec::new();
        let mut left = Vec::with_capacity(groups.len());
        let mut first = 0;
        // The sentence at hand, and what its groups went on with.
        let mut taken: (usize, Vec<u32>) = (0, Vec::new());
        for mut group in groups {
            if group.sentence != taken.0 {
                taken = (group.sentence, Vec::new());
            }
            let own = &next[first..first + group.beams.len()];
            let so_far = group.beams.iter().map(|beam| beam.log_probability);
            let next = so_far.zip(own.iter().map(Vec::as_slice));
            let mut best = candidates::best(next, count + others);
            if n_groups > 1 {
                candidates::keep_apart(&mut best, &taken.1, job.options.diversity);
                best.truncate(count);
            }
            let from = group.advance(&best, width, first, &job);
            taken.1.extend(group.beams.iter().filter_map(|beam| beam.ids.last()));
            if group.is_done(&job) {
                let found = &mut found[group.sentence];
                for hypothesis in group.finished {
                    // Two groups may find the same.
                    if n_groups == 1 || found.iter().all(|other| other.ids != hypothesis.ids) {
                        found.push(hypothesis);
                    }
                }
            } else {
                rows.extend(from.iter().map(|beam| first + beam));
                left.push(group);
            }
            first += own.len();
        }
        groups = left;
        if groups.is_empty() {
            break;
        }
        let beams = groups.iter().flat_map(|group| &group.beams);
        let unmoved = rows.len() == tokens.len() && rows.is_sorted_by(|a, b| a < b);
        tokens = beams.filter_map(|beam| beam.ids.last().copied()).collect();
        if !unmoved {
            job.decoder.select(&rows);
        }
    }
    for found in &mut found {
        best_first(found, job.options.n_best);
    }
    found
}

/// Keeps the best finished hypotheses, best first.
fn best_first(found: &mut Vec<Hypothesis>, count: usize) {
    found.sort_by(|a, b| b.score.total_cmp(&a.score));
    found.truncate(count);
}

impl Group {
    /// One empty hypothesis.
    fn new(sentence: usize) -> Self {
        let beams = vec![Partial::default()];
        Self { sentence, beams, finished: Vec::new(), best_ended: false }
    }

    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.beams.iter().map(|beam| Row { sentence: self.sentence, ids: &beam.ids })
    }

    /// Moves on to the best continuations; says from which hypothesis each new one comes. The
    /// group's rows begin at `first`.
    fn advance(
        &mut self,
        candidates: &[Candidate],
        width: usize,
        first: usize,
        job: &Job<'_>,
    ) -> Vec<usize> {
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
            let Candidate { beam, token, log_probability } = *candidate;
            let mut longer = self.beams[beam].clone();
            longer.push(token, log_probability, job.decoder.attention(first + beam));
            if ends {
                self.finished.push(longer.finish(job.options));
            } else {
                beams.push(longer);
                from.push(beam);
            }
        }
        self.best_ended |= candidates.first().is_some_and(|best| best.token == EOS);
        self.beams = beams;
        from
    }

    /// At the length limit, hypotheses under way count as they are.
    fn is_done(&mut self, job: &Job<'_>) -> bool {
        let Some(beam) = self.beams.first() else { return true };
        let limit = job.sentences[self.sentence].limit;
        let (options, len) = (job.options, beam.ids.len());
        let early = match options.early_stopping {
            EarlyStopping::Finished => self.finished.len() >= options.wanted(),
            EarlyStopping::First => self.best_ended && self.finished.len() >= options.n_best,
            EarlyStopping::Never => {
                // The likeliest is first. A score changes in one direction as the target grows, and
                // neither more tokens nor coverage raise it.
                let best = |len| options.score(beam.log_probability, len);
                self.beaten(best(len + 1).max(best(limit)), options.n_best)
            }
        };
        if early {
            return true;
        }
        if len < limit {
            return false;
        }
        self.finish_as_they_are(job);
        true
    }

    /// Whether `count` finished hypotheses are as good as that. Others are let go.
    fn beaten(&mut self, score: f32, count: usize) -> bool {
        best_first(&mut self.finished, count);
        self.finished.len() == count && self.finished.iter().all(|found| found.score >= score)
    }

    fn finish_as_they_are(&mut self, job: &Job<'_>) {
        self.finished.extend(self.beams.drain(..).map(|beam| beam.finish(job.options)));
    }
}
