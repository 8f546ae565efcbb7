//! Beam search: the best few hypotheses of each sentence, one token longer each step.

use tx_text::special::{BOS, EOS};

use super::{
    Hypothesis,
    candidates::{self, Candidate},
    hypothesis::Partial,
    job::{Job, Row},
    options::{EarlyStopping, SearchOptions},
};
use crate::error::InferError;

/// A group of live hypotheses of one sentence; in plain beam search, all of them.
struct Group {
    /// Which sentence of the batch.
    sentence: usize,
    /// Neighboring rows of the batch; at most as many as the group is wide.
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
pub(super) fn search(mut job: Job<'_>) -> Result<Vec<Vec<Hypothesis>>, InferError> {
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
        let next = job.next(&tokens, len, count + others, |row| targets[row])?;
        let mut advanced = Vec::with_capacity(groups.len());
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
            let mut from = group.advance(&best, width, first, &job);
            from.iter_mut().for_each(|beam| *beam += first);
            taken.1.extend(group.beams.iter().filter_map(|beam| beam.ids.last()));
            first += own.len();
            advanced.push((group, from));
        }

        let mut rows = Vec::new();
        groups = Vec::with_capacity(advanced.len());
        let settled: Vec<bool> = advanced
            .chunk_by(|(a, _), (b, _)| a.sentence == b.sentence)
            .flat_map(|groups| std::iter::repeat_n(is_settled(groups, &found, &job), groups.len()))
            .collect();
        for ((mut group, from), settled) in advanced.into_iter().zip(settled) {
            if settled || group.is_done(&job) {
                let found = &mut found[group.sentence];
                for hypothesis in group.finished {
                    // Two groups may find the same.
                    if n_groups == 1 || found.iter().all(|other| other.ids != hypothesis.ids) {
                        found.push(hypothesis);
                    }
                }
            } else {
                rows.extend(from);
                groups.push(group);
            }
        }
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
    Ok(found)
}

/// With [`EarlyStopping::Never`]: whether no live hypothesis of a sentence, whose groups are given,
/// can become one of its `n_best`. The groups leave the batch together, because the choices of one
/// affect those of the others.
fn is_settled(groups: &[(Group, Vec<usize>)], found: &[Vec<Hypothesis>], job: &Job<'_>) -> bool {
    let options = job.options;
    let live = groups.iter().flat_map(|(group, _)| &group.beams);
    let Some(best) = live.max_by(|a, b| a.log_probability.total_cmp(&b.log_probability)) else {
        return false;
    };
    let Some((group, _)) =
        groups.first().filter(|_| options.early_stopping == EarlyStopping::Never)
    else {
        return false;
    };
    let finished = groups.iter().flat_map(|(group, _)| &group.finished);
    let mut finished: Vec<&Hypothesis> = found[group.sentence].iter().chain(finished).collect();
    finished.sort_by(|a, b| b.score.total_cmp(&a.score));
    let mut distinct: Vec<&Hypothesis> = Vec::with_capacity(options.n_best);
    for hypothesis in finished {
        if distinct.iter().all(|other| other.ids != hypothesis.ids) {
            distinct.push(hypothesis);
        }
        if distinct.len() == options.n_best {
            let (len, limit) = (best.ids.len(), job.sentences[group.sentence].limit);
            return hypothesis.score >= best_score(options, best.log_probability, len, limit);
        }
    }
    false
}

/// The best score that a live hypothesis of `len` tokens can reach. A score changes in one direction
/// as the target grows, and neither more tokens nor coverage raise it.
fn best_score(options: &SearchOptions, log_probability: f32, len: usize, limit: usize) -> f32 {
    let score = |len| options.score(log_probability, len);
    score(len + 1).max(score(limit))
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
            // No token is allowed.
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
            EarlyStopping::First => {
                let wanted = options.n_best.div_ceil(options.groups);
                self.best_ended && self.finished.len() >= wanted
            }
            EarlyStopping::Never => {
                // Decided for all groups together, in `is_settled`.
                best_first(&mut self.finished, options.n_best);
                false
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

    fn finish_as_they_are(&mut self, job: &Job<'_>) {
        self.finished.extend(self.beams.drain(..).map(|beam| beam.finish(job.options)));
    }
}
