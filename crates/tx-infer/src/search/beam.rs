//! Beam search: the best few hypotheses of each sentence, extended by one token per step.

use tx_text::special::EOS;

use super::{
    BeamCandidate, BeamStep, Hypothesis, Outcome,
    candidates::{self, Candidate},
    constraints::Progress,
    decoder::Next,
    hypothesis::Partial,
    options::{EarlyStopping, SearchOptions},
    state::{PartialTarget, SearchState, Sentence},
};
use crate::error::InferError;

/// A group of live hypotheses of one sentence; in plain beam search, all of them.
struct Group {
    /// Index of the sentence in the batch.
    sentence: usize,
    /// Adjacent rows of the batch, at most the width of the group.
    beams: Vec<Partial>,
    finished: Vec<Hypothesis>,
    /// Whether the likeliest continuation of a step has ended.
    best_ended: bool,
}

/// Searches with a beam of hypotheses per sentence.
///
/// Each step takes the best 2 · beam continuations of a sentence, so that `beam` hypotheses stay
/// live even if half of the continuations end. One that ends among the best `beam` is finished; a
/// sentence that is done, or at its length limit, leaves the batch. With
/// [`EarlyStopping::Narrowing`], each finished hypothesis leaves one place less in the beam.
///
/// In diverse beam search each group of the beam does so in turn; tokens chosen by earlier groups
/// are penalized in later ones.
///
/// `steps`, if given, receives the steps of the search, which is of one sentence then.
pub(super) fn search(
    mut state: SearchState<'_>,
    mut steps: Option<&mut Vec<BeamStep>>,
) -> Result<Vec<Vec<Hypothesis>>, InferError> {
    let n_groups = state.options.groups;
    state.repeat(n_groups);
    let mut groups: Vec<Group> =
        (0..state.sentences.len() * n_groups).map(|row| Group::new(row / n_groups)).collect();
    let mut found: Vec<Vec<Hypothesis>> = vec![Vec::new(); state.sentences.len()];
    let mut tokens = vec![state.start; groups.len()];
    let is_plain = n_groups == 1
        && state.options.early_stopping != EarlyStopping::Narrowing
        && state.sentences.iter().all(|sentence| sentence.constraints.is_none());

    for len in 0.. {
        let beam = state.options.beam;
        if is_plain && (len == 0 || groups.iter().all(|group| group.beams.len() == beam)) {
            let beams = groups.iter().flat_map(|group| &group.beams);
            let mut scores = beams.map(|beam| beam.log_probability);
            state.decoder.expect(groups.len(), beam, &mut scores);
        }
        let targets: Vec<PartialTarget<'_>> = groups.iter().flat_map(Group::targets).collect();
        let count = continuations(state.options);
        let next = state.next(&tokens, len, count, |row| targets[row])?;
        state.check_sentences();
        if let Some(steps) = &mut steps {
            steps.push(BeamStep::default());
        }
        let step = steps.as_mut().and_then(|steps| steps.last_mut());
        let advanced = advance(groups, &next, &state, step);
        let (live, rows) = settle(advanced, &mut found, &state);
        groups = live;
        if groups.is_empty() {
            break;
        }
        let beams = groups.iter().flat_map(|group| &group.beams);
        let unmoved = rows.len() == tokens.len() && rows.is_sorted_by(|a, b| a < b);
        tokens = beams.filter_map(|beam| beam.ids.last().copied()).collect();
        if !unmoved {
            state.decoder.select(&rows);
        }
    }
    state.without_cancelled(&mut found);
    for found in &mut found {
        best_first(found, state.options.n_best);
    }
    Ok(found)
}

/// Returns the number of continuations that a group needs: twice its width, plus as many as the
/// other groups of the sentence can choose, because those may be penalized.
fn continuations(options: &SearchOptions) -> usize {
    let width = options.width();
    2 * width + (options.beam - width)
}

/// Extends each group by a token, given the `next` tokens of each row. Returns with each group the
/// rows that its hypotheses come from. `step`, if given, receives the candidates.
fn advance(
    groups: Vec<Group>,
    next: &[Vec<Next>],
    state: &SearchState<'_>,
    mut step: Option<&mut BeamStep>,
) -> Vec<(Group, Vec<usize>)> {
    let options = state.options;
    let width = options.width();
    let count = continuations(options);
    let mut advanced = Vec::with_capacity(groups.len());
    let mut first = 0;
    // The current sentence, and the tokens that its groups have chosen.
    let mut chosen: (usize, Vec<u32>) = (0, Vec::new());
    for mut group in groups {
        if group.sentence != chosen.0 {
            chosen = (group.sentence, Vec::new());
        }
        let rows = &next[first..first + group.beams.len()];
        let so_far = group.beams.iter().map(|beam| beam.log_probability);
        let next = so_far.zip(rows.iter().map(Vec::as_slice));
        let mut best = match state.sentences[group.sentence].constraints {
            None => candidates::best(next, count),
            Some(constraints) => {
                let mut all = candidates::best(next, usize::MAX);
                constraints.allocate(&mut all, width, |candidate| group.progress(candidate, state));
                all.truncate(count);
                all
            }
        };
        if options.groups > 1 {
            candidates::apply_diversity_penalty(&mut best, &chosen.1, options.diversity);
            best.truncate(2 * width);
        }
        let outcomes = group.advance(&best, width, first, state);
        let results = best.iter().zip(&outcomes);
        let kept = results.clone().filter(|(_, outcome)| **outcome == Outcome::Kept);
        let from = kept.map(|(candidate, _)| first + candidate.beam).collect();
        if let Some(step) = &mut step {
            step.candidates.extend(results.map(|(&candidate, &outcome)| {
                let Candidate { beam, token, log_probability } = candidate;
                BeamCandidate { parent: first + beam, token, log_probability, outcome }
            }));
        }
        chosen.1.extend(group.beams.iter().filter_map(|beam| beam.ids.last()));
        first += rows.len();
        advanced.push((group, from));
    }
    advanced
}

/// Moves the hypotheses of sentences that are done to `found`, and drops those of canceled
/// sentences. Returns the live groups, and the rows that their hypotheses come from.
fn settle(
    advanced: Vec<(Group, Vec<usize>)>,
    found: &mut [Vec<Hypothesis>],
    state: &SearchState<'_>,
) -> (Vec<Group>, Vec<usize>) {
    let settled: Vec<bool> = advanced
        .chunk_by(|(a, _), (b, _)| a.sentence == b.sentence)
        .flat_map(|groups| std::iter::repeat_n(is_settled(groups, found, state), groups.len()))
        .collect();
    let mut rows = Vec::new();
    let mut live = Vec::with_capacity(advanced.len());
    for ((mut group, from), settled) in advanced.into_iter().zip(settled) {
        if state.sentences[group.sentence].is_cancelled {
            continue;
        }
        if settled || group.is_done(state) {
            let found = &mut found[group.sentence];
            for hypothesis in group.finished {
                // Two groups may find the same hypothesis.
                if state.options.groups == 1
                    || found.iter().all(|other| other.ids != hypothesis.ids)
                {
                    found.push(hypothesis);
                }
            }
        } else {
            rows.extend(from);
            live.push(group);
        }
    }
    (live, rows)
}

/// Returns `true` if, with [`EarlyStopping::Never`], no live hypothesis of a sentence can become
/// one of its `n_best`. The groups of a sentence leave the batch together, because the choices of
/// one affect those of the others.
fn is_settled(
    groups: &[(Group, Vec<usize>)],
    found: &[Vec<Hypothesis>],
    state: &SearchState<'_>,
) -> bool {
    let options = state.options;
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
            let (len, max_len) = (best.ids.len(), state.sentences[group.sentence].max_len);
            let reachable = options.best_score(best.log_probability, len + 1, max_len);
            return hypothesis.score >= reachable;
        }
    }
    false
}

/// Sorts finished hypotheses, best first, and keeps `count`.
fn best_first(found: &mut Vec<Hypothesis>, count: usize) {
    found.sort_by(|a, b| b.score.total_cmp(&a.score));
    found.truncate(count);
}

impl Group {
    /// Creates a group with one empty hypothesis.
    fn new(sentence: usize) -> Self {
        let beams = vec![Partial::default()];
        Self { sentence, beams, finished: Vec::new(), best_ended: false }
    }

    fn targets(&self) -> impl Iterator<Item = PartialTarget<'_>> {
        self.beams.iter().map(|partial| PartialTarget { sentence: self.sentence, partial })
    }

    /// Constraints that a hypothesis with its continuation has met.
    fn progress(&self, candidate: &Candidate, state: &SearchState<'_>) -> Progress {
        let beam = &self.beams[candidate.beam];
        if candidate.token == EOS {
            return beam.progress;
        }
        let mut ids = beam.ids.clone();
        ids.push(candidate.token);
        state.progress(self.sentence, beam.progress, &ids)
    }

    /// Replaces the hypotheses by the best continuations. Returns the use of each candidate. The
    /// group's rows begin at `first`.
    fn advance(
        &mut self,
        candidates: &[Candidate],
        width: usize,
        first: usize,
        state: &SearchState<'_>,
    ) -> Vec<Outcome> {
        if candidates.is_empty() {
            // No token is allowed.
            self.finish_all(state);
        }
        let width = match state.options.early_stopping {
            EarlyStopping::Narrowing => width.saturating_sub(self.finished.len()),
            EarlyStopping::Finished
            | EarlyStopping::First
            | EarlyStopping::Never
            | EarlyStopping::Improvement => width,
        };
        let is_narrowing = state.options.early_stopping == EarlyStopping::Narrowing;
        let mut beams = Vec::with_capacity(width);
        let mut outcomes = Vec::with_capacity(candidates.len());
        for (rank, candidate) in candidates.iter().enumerate() {
            let ends = candidate.token == EOS;
            let is_beyond_beam =
                if ends || is_narrowing { rank >= width } else { beams.len() == width };
            if is_beyond_beam {
                outcomes.push(Outcome::Pruned);
                continue;
            }
            let Candidate { beam, token, log_probability } = *candidate;
            let mut longer = self.beams[beam].clone();
            state.push(self.sentence, &mut longer, token, log_probability, first + beam);
            if ends {
                self.finished.push(longer.finish(state.options));
                outcomes.push(Outcome::Finished);
            } else {
                beams.push(longer);
                outcomes.push(Outcome::Kept);
            }
        }
        self.best_ended |= candidates.first().is_some_and(|best| best.token == EOS);
        self.beams = beams;
        outcomes
    }

    /// Returns `true` if the group is done. At the length limit, live hypotheses are finished
    /// without `<eos>`.
    fn is_done(&mut self, state: &SearchState<'_>) -> bool {
        let Some(beam) = self.beams.first() else { return true };
        let Sentence { max_len, constraints, .. } = state.sentences[self.sentence];
        let (options, len) = (state.options, beam.ids.len());
        let early = match options.early_stopping {
            EarlyStopping::Finished => {
                let width = options.width();
                let places = constraints.map_or(width, |it| it.places(width).max(options.n_best));
                self.finished.len() >= options.hypotheses_to_finish(places)
            }
            EarlyStopping::First => {
                let wanted = options.n_best.div_ceil(options.groups);
                self.best_ended && self.finished.len() >= wanted
            }
            EarlyStopping::Never => {
                // Decided for all groups together, in `is_settled`.
                best_first(&mut self.finished, options.n_best);
                false
            }
            EarlyStopping::Improvement => {
                best_first(&mut self.finished, options.width());
                self.finished.get(options.width() - 1).is_some_and(|worst| {
                    let live = self.beams.iter().map(|beam| beam.log_probability);
                    let best = live.max_by(f32::total_cmp).unwrap_or(f32::NEG_INFINITY);
                    options.score(best, len) <= worst.score
                })
            }
            EarlyStopping::Narrowing => self.finished.len() >= options.width(),
        };
        if early {
            return true;
        }
        if len < max_len {
            return false;
        }
        self.finish_all(state);
        true
    }

    /// Finishes the live hypotheses. Those that lack constraints are dropped, unless all do.
    fn finish_all(&mut self, state: &SearchState<'_>) {
        if let Some(constraints) = state.sentences[self.sentence].constraints {
            let are_met = |beam: &Partial| constraints.are_met(beam.progress);
            if !self.finished.is_empty() || self.beams.iter().any(are_met) {
                self.beams.retain(are_met);
            }
        }
        self.finished.extend(self.beams.drain(..).map(|beam| beam.finish(state.options)));
    }
}
