//! Names and numbers that a translation lacks.
//!
//! A name that the model has never seen is lost, or becomes other words, or the words around it are translated worse.
//! The text is therefore translated with [stand-ins](crate::lexicon), and the names are put back. If the translations do
//! not have the stand-ins, the search is repeated from the target token that attends most to the name: the tokens before
//! it and the name are the prefix of this search. One name is added at a time, from left to right.

use std::ops::Range;

use tx_text::{
    spacing::is_unspaced,
    special::{EOS, UNK},
};

use super::{Sentences, Source, Text};
use crate::{
    attention::AttentionMap,
    cancellation::Cancellation,
    error::InferError,
    lexicon::{Lexicon, StandInText, found_in},
    pair_tokenizer::SourceText,
    pool::Encoded,
    search::{Hypothesis, Request, strongest},
    tokens::encode_prefix,
};

/// Maximum number of names of a text, and of searches for them.
pub(super) const MAX_NAMES: usize = 8;

/// A text in the search for its names.
struct Search<'a> {
    text: &'a Text,
    source: &'a Source,
    /// Index in the batch.
    index: usize,
    /// Target ids up to the end of the last added name, without the token of a language.
    prefix: Vec<u32>,
}

impl Sentences {
    /// Whether translations have the names and numbers of their sources. Those that are samples, or selected from many, do not.
    pub(super) fn copies_names(&self) -> bool {
        let Self { model, options } = self;
        options.lexicon.copies_names() && options.sampling.is_none() && model.mbr.is_none()
    }

    /// Replaces the hypotheses of texts that lack a name or number of their source. `found` are those of each text.
    pub(super) fn copy_names(
        &self,
        texts: &[(&Encoded<'_, Self>, &Request<'_>)],
        found: &mut [Vec<Hypothesis>],
    ) -> Result<(), InferError> {
        let with_names = texts.iter().enumerate();
        let with_names = with_names.filter(|(_, (text, _))| !text.text.allowed.names.is_empty());
        let mut searches: Vec<Search<'_>> = with_names
            .map(|(index, (text, _))| Search {
                text: text.text,
                source: &text.item,
                index,
                prefix: text.text.prefix.clone(),
            })
            .collect();
        self.use_stand_ins(&searches, texts, found)?;
        for _ in 0..MAX_NAMES {
            let mut lacking = Vec::new();
            for search in searches {
                let Some(best) = found[search.index].first() else { continue };
                if let Some(prefix) = self.with_name(&search, &best.ids)? {
                    lacking.push(Search { prefix, ..search });
                }
            }
            if lacking.is_empty() {
                break;
            }
            let requests = lacking
                .iter()
                .map(|search| Request { prefix: &search.prefix, ..*texts[search.index].1 });
            let requests: Vec<Request<'_>> = requests.collect();
            let engine = &self.model.engine;
            let again = engine.search_requests(&requests, &self.options, &Cancellation::new())?;
            for (search, again) in lacking.iter().zip(again) {
                found[search.index] = again;
            }
            searches = lacking;
        }
        Ok(())
    }

    /// Replaces the hypotheses of texts that lack a name by those of a text with stand-ins, with the names in their places. If a
    /// translation has all names, and one of them is new, it is replaced if the other has a better score.
    fn use_stand_ins(
        &self,
        searches: &[Search<'_>],
        texts: &[(&Encoded<'_, Self>, &Request<'_>)],
        found: &mut [Vec<Hypothesis>],
    ) -> Result<(), InferError> {
        let tokenizers = &self.model.texts;
        let Some(known) = tokenizers.lexicon().map(Lexicon::source) else { return Ok(()) };
        let search = |requests: &[Request<'_>]| {
            let engine = &self.model.engine;
            engine.search_requests(requests, &self.options, &Cancellation::new())
        };
        let mut changed: Vec<(usize, StandInText, Source)> = Vec::new();
        // Scores of the translations that have all names.
        let mut least = vec![f32::NEG_INFINITY; texts.len()];
        // A stand-in could be in a given prefix.
        for search in searches.iter().filter(|search| search.prefix.is_empty()) {
            let Some(best) = found[search.index].first() else { continue };
            let mut replaced = self.missing(search.text, &tokenizers.decode(&best.ids)?);
            if replaced.is_empty() {
                // A model that copies a name that it has never read may still translate the rest worse.
                let names = search.text.allowed.names.iter().map(String::as_str);
                replaced = names.filter(|name| known.is_new(name)).collect();
                least[search.index] = best.score;
            }
            for text in known.with_stand_ins(&search.text.text, &replaced) {
                let source = SourceText { text: &text.text, token: search.text.token };
                let source = tokenizers.read_ids(source, &search.text.context)?;
                changed.push((search.index, text, source));
            }
        }
        let requests = changed.iter().map(|(index, _, source)| Request {
            source: &source.ids,
            context: source.context,
            ..*texts[*index].1
        });
        let of_changed = search(&requests.collect::<Vec<_>>())?;

        // The best of each text, with the names.
        let mut best: Vec<(usize, f32, Vec<Vec<u32>>)> = Vec::new();
        for ((index, text, _), hypotheses) in changed.iter().zip(of_changed) {
            let Some(score) = hypotheses.first().map(|best| best.score) else { continue };
            let earlier = best.last_mut().filter(|(other, ..)| other == index);
            let least = earlier.as_ref().map_or(least[*index], |(_, best, _)| *best);
            if score <= least {
                continue;
            }
            let mut targets = Vec::new();
            for hypothesis in &hypotheses {
                targets.extend(self.with_names(hypothesis, text, texts[*index].0.text)?);
            }
            match earlier {
                _ if targets.is_empty() => (),
                Some(earlier) => *earlier = (*index, score, targets),
                None => best.push((*index, score, targets)),
            }
        }
        let targets = best.iter().flat_map(|(index, _, targets)| {
            targets.iter().map(|prefix| Request { prefix, ..*texts[*index].1 })
        });
        let mut scored = search(&targets.collect::<Vec<_>>())?.into_iter();
        for (index, _, targets) in best {
            let scored = scored.by_ref().take(targets.len());
            found[index] = scored.filter_map(|found| found.into_iter().next()).collect();
        }
        Ok(())
    }

    /// Returns a hypothesis with the names of a text in the places of their stand-ins, as target ids; `None` if it lacks one, or
    /// the vocabulary or the length of a target do not allow the names.
    fn with_names(
        &self,
        hypothesis: &Hypothesis,
        stand_ins: &StandInText,
        text: &Text,
    ) -> Result<Option<Vec<u32>>, InferError> {
        let translation = self.model.texts.decode(&hypothesis.ids)?;
        let Some(translation) = stand_ins.put_back(&translation) else { return Ok(None) };
        let Some(mut ids) = self.target_ids(&translation, text)? else { return Ok(None) };
        if hypothesis.ids.ends_with(&[EOS]) {
            ids.push(EOS);
        }
        // A prefix is shorter than the longest target.
        let given = usize::from(text.forced_first.is_some()) + ids.len();
        Ok((given < self.model.config.max_len).then_some(ids))
    }

    /// Returns the names and numbers of a text that a translation lacks.
    fn missing<'a>(&self, text: &'a Text, translation: &str) -> Vec<&'a str> {
        let known = self.model.texts.lexicon().map(Lexicon::source);
        let names = text.allowed.names.iter().map(String::as_str);
        let is_missing = |name: &&str| {
            let word = known.and_then(|known| known.number_word(name));
            let mut spellings = word.into_iter().chain([*name]);
            spellings.all(|spelling| found_in(translation, spelling).is_empty())
        };
        names.filter(is_missing).collect()
    }

    /// Returns the prefix with the first of the names that a target lacks; `None` if it lacks none, or
    /// the vocabulary or the length of a target do not allow them.
    fn with_name(
        &self,
        search: &Search<'_>,
        target: &[u32],
    ) -> Result<Option<Vec<u32>>, InferError> {
        let Search { text, source, prefix, .. } = search;
        let texts = &self.model.texts;
        let translation = texts.decode(target)?;
        let missing = self.missing(text, &translation);
        if missing.is_empty() {
            return Ok(None);
        }
        let layer = self.options.attention_layer;
        let map = self.model.engine.cross_attention(&source.ids, target, layer);
        let spans = texts.tokenizers().source.encode_with_spans(&text.text)?;
        let before = text.before(source);
        let first = usize::from(text.forced_first.is_some()) + prefix.len();
        // `<eos>` counts only if it is alone, because heads attend to it by default.
        let last = target.len() - usize::from(target.len() > first + 1 && target.ends_with(&[EOS]));
        let mut places = Vec::new();
        for name in missing {
            let Some(start) = text.text.find(name) else { continue };
            let is_part = |(_, span): &&(u32, Range<usize>)| {
                span.start < start + name.len() && start < span.end
            };
            let columns = spans.iter().enumerate().filter(|(_, span)| is_part(span));
            let columns: Vec<usize> = columns.map(|(index, _)| before + index).collect();
            if let Some(row) = place(&map, first..last, &columns) {
                places.push((row, name));
            }
        }
        // On a tie, the first name of the source.
        places.sort_by_key(|(row, _)| *row);
        for (row, name) in places {
            let ids = self.prefix_with(target, row, first, name, text)?;
            if ids.is_some() {
                return Ok(ids);
            }
        }
        Ok(None)
    }

    /// Returns the target ids before the word of the token `row`, at least `first`, and a name, without the token of a language;
    /// `None` if the vocabulary or the length of a target do not allow it.
    fn prefix_with(
        &self,
        target: &[u32],
        row: usize,
        first: usize,
        name: &str,
        text: &Text,
    ) -> Result<Option<Vec<u32>>, InferError> {
        let texts = &self.model.texts;
        let mut end = row;
        let (mut before, mut after) =
            (texts.decode(&target[..end])?, texts.decode(&target[..=end])?);
        while end > first && is_within_word(&before, &after) {
            end -= 1;
            after = before;
            before = texts.decode(&target[..end])?;
        }
        let is_spaced = after.get(before.len()..).is_some_and(|rest| rest.starts_with(' '));
        let before = before.trim_end();
        let needs_space = before.ends_with(|c: char| c.is_alphanumeric() && !is_unspaced(c));
        let space = if !before.is_empty() && (is_spaced || needs_space) { " " } else { "" };
        self.target_ids(&format!("{before}{space}{name}"), text)
    }

    /// Returns the beginning of a target as ids, without the token of a language; `None` if the vocabulary or the length of a
    /// target do not allow it.
    fn target_ids(&self, target: &str, text: &Text) -> Result<Option<Vec<u32>>, InferError> {
        let tokenizer = &self.model.texts.tokenizers().target;
        let max_len =
            self.model.config.max_len.saturating_sub(usize::from(text.forced_first.is_some()));
        match encode_prefix(tokenizer, target, 1, max_len) {
            Ok(ids) => Ok(Some(ids).filter(|ids| !ids.contains(&UNK))),
            Err(InferError::LongPrefix { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns the row with the largest sum of columns, or the first of the rows before it whose largest weights are in these
/// columns, such as that of an article; `None` without rows, and if there is no such column.
fn place(map: &AttentionMap, rows: Range<usize>, columns: &[usize]) -> Option<usize> {
    let columns = columns.iter().filter(|column| **column < map.columns);
    let columns: Vec<usize> = columns.copied().collect();
    let sum = |row: &[f32]| columns.iter().map(|column| row[*column]).sum::<f32>();
    let sums = map.rows().enumerate().take(rows.end).skip(rows.start);
    let sums = sums.map(|(index, row)| (index, sum(row)));
    let best = sums.reduce(|best, row| if row.1 > best.1 { row } else { best });
    let (mut best, _) = best.filter(|_| !columns.is_empty())?;
    let all: Vec<&[f32]> = map.rows().collect();
    while best > rows.start && columns.contains(&strongest(all[best - 1])) {
        best -= 1;
    }
    Some(best)
}

/// Whether a text ends within a word of the text with the next token.
fn is_within_word(text: &str, with_next: &str) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() && !is_unspaced(c);
    match with_next.strip_prefix(text) {
        Some(rest) => text.ends_with(is_letter) && rest.starts_with(is_letter),
        // Incomplete bytes of a character, or joined words.
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sums of columns 1 and 2 are 0.5, 0.25, 0.75 and 0.75. Column 2 is `<eos>`.
    #[test]
    fn a_name_replaces_the_token_that_attends_most_to_it() {
        let weights = [0.5, 0.25, 0.25, 0.75, 0.25, 0.0, 0.25, 0.5, 0.25, 0.25, 0.25, 0.5];
        let map = AttentionMap { columns: 3, weights: weights.to_vec() };
        assert_eq!(place(&map, 0..4, &[1, 2]), Some(2));
        assert_eq!(place(&map, 0..2, &[1, 2, 9]), Some(0));
        assert_eq!(place(&map, 1..2, &[1]), Some(1));
        // The token before attends to the name as well.
        assert_eq!(place(&map, 0..4, &[0]), Some(0));
        assert_eq!(place(&map, 1..4, &[0]), Some(1));
        // A name behind the end of a truncated source, and no target.
        assert_eq!(place(&map, 0..4, &[3]), None);
        assert_eq!(place(&map, 4..4, &[1]), None);
    }

    #[test]
    fn a_prefix_ends_between_words() {
        for (text, with_next, expected) in [
            ("a d", "a do", true),
            ("a dog", "a dog runs", false),
            ("a dog", "a dog.", false),
            ("a dog-", "a dog-like", false),
            ("", "a", false),
            ("犬", "犬が", false),
            ("a \u{fffd}", "a é", true),
        ] {
            assert_eq!(is_within_word(text, with_next), expected, "{with_next}");
        }
    }
}
