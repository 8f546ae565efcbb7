//! Conversion of the search options of the command line into those of `tx-infer`.

use tx_infer::{
    EarlyStopping, Generator, GlossaryUse, InferError, LengthNorm, LexiconUse, Sampling,
    SearchOptions, Translator,
};
use tx_text::{
    Tokenizer,
    special::{EOS, UNK},
};

use super::SearchArgs;
use crate::args::mbr::MbrArgs;

impl SearchArgs {
    /// Returns `translator` with these options, and otherwise its own; its target vocabulary resolves
    /// suppressed tokens.
    ///
    /// # Errors
    ///
    /// [`InferError::Search`] with every rule that the options break.
    pub fn apply(&self, translator: Translator, seed: u64) -> Result<Translator, InferError> {
        let default = translator.options().clone();
        let sampling = self.sampling(default.sampling.unwrap_or_default(), seed);
        let options = self.checked(&translator.tokenizers().target, seed, default)?;
        match self.mbr_args().options(options.clone(), self.n_best, sampling) {
            Some((options, mbr)) => translator.with_options(options)?.with_mbr(mbr),
            None => translator.with_options(options),
        }
    }

    /// Returns `generator` with these options, and otherwise its own.
    ///
    /// # Errors
    ///
    /// Same as [`apply`](Self::apply).
    pub fn apply_to_generator(
        &self,
        generator: Generator,
        seed: u64,
    ) -> Result<Generator, InferError> {
        let default = generator.options().clone();
        let options = self.checked(generator.tokenizer(), seed, default)?;
        generator.with_options(options)
    }

    /// Converts the arguments, and checks those that contradict each other.
    fn checked(
        &self,
        vocabulary: &Tokenizer,
        seed: u64,
        default: SearchOptions,
    ) -> Result<SearchOptions, InferError> {
        let mut problems = Vec::new();
        let suppress = self.suppressed(vocabulary, &mut problems);
        let options = self.options(suppress, seed, default);
        self.contradictions(&options, &mut problems);
        if problems.is_empty() {
            return Ok(options);
        }
        problems.extend(options.problems());
        Err(InferError::Search { problems })
    }

    /// Whether all options have their defaults.
    pub fn is_default(&self) -> bool {
        let suppresses = self.no_unk || !self.suppress.is_empty() || !self.suppress_id.is_empty();
        let seed = Sampling::default().seed;
        let default = SearchOptions::default();
        let is_default = self.options(Vec::new(), seed, default.clone()) == default;
        is_default && !suppresses && self.top_k.is_none() && self.mbr.is_none()
    }

    /// Converts the arguments. Neither struct is matched with `..`, so that the compiler rejects a
    /// new field of either until it is handled here. Arguments that were not given have the value of
    /// `default`, unless it conflicts with one that was.
    fn options(&self, suppress: Vec<u32>, seed: u64, default: SearchOptions) -> SearchOptions {
        let &Self {
            beam,
            n_best,
            length_penalty,
            word_penalty,
            length_norm,
            coverage_penalty,
            early_stopping,
            patience,
            groups,
            diversity,
            max_len,
            max_len_ratio,
            max_len_extra,
            force_eos,
            min_len,
            min_len_ratio,
            repetition_penalty,
            no_repeat_ngram,
            max_repeats,
            // Resolved to ids by `suppressed`.
            suppress: _,
            suppress_id: _,
            no_unk: _,
            renormalize,
            replace_unk,
            glossary_use,
            lexicon,
            attention_layer,
            sample,
            // Converted by `sampling`.
            samples: _,
            temperature: _,
            top_k: _,
            top_p: _,
            // Converted by `MbrArgs::options`.
            mbr,
            mbr_candidates: _,
            mbr_samples: _,
            mbr_scale: _,
        } = self;
        let beam = beam.map(usize::from);
        // The number of candidates is another one: see `MbrArgs::options`.
        let n_best = n_best.filter(|_| mbr.is_none());
        let default = match (sample, beam) {
            (true, _) => default.with_one_hypothesis(),
            (false, Some(beam)) => default.with_beam(beam),
            (false, None) => default,
        };
        let sampling = self.sampling(default.sampling.unwrap_or_default(), seed);
        let sampling = if sample { Some(sampling) } else { default.sampling };
        let beam = beam.unwrap_or(default.beam);
        let early_stopping = early_stopping.map_or(default.early_stopping, EarlyStopping::from);
        let default_patience = match early_stopping {
            EarlyStopping::Finished => default.patience,
            _ => SearchOptions::default().patience,
        };
        SearchOptions {
            beam,
            length_penalty: length_penalty.unwrap_or(default.length_penalty),
            word_penalty: word_penalty.unwrap_or(default.word_penalty),
            length_norm: length_norm.map_or(default.length_norm, LengthNorm::from),
            coverage_penalty: coverage_penalty.unwrap_or(default.coverage_penalty),
            early_stopping,
            patience: patience.unwrap_or(default_patience),
            n_best: n_best.unwrap_or(default.n_best),
            groups: groups.unwrap_or(default.groups),
            diversity: diversity.unwrap_or(default.diversity),
            sampling,
            max_len: max_len.or(default.max_len),
            max_len_ratio: max_len_ratio.unwrap_or(default.max_len_ratio),
            max_len_extra: max_len_extra.unwrap_or(default.max_len_extra),
            force_eos: force_eos || default.force_eos,
            min_len: min_len.unwrap_or(default.min_len),
            min_len_ratio: min_len_ratio.unwrap_or(default.min_len_ratio),
            repetition_penalty: repetition_penalty.unwrap_or(default.repetition_penalty),
            no_repeat_ngram: no_repeat_ngram.unwrap_or(default.no_repeat_ngram),
            max_repeats: max_repeats.unwrap_or(default.max_repeats),
            suppress: default.suppress.into_iter().chain(suppress).collect(),
            renormalize: renormalize || default.renormalize,
            replace_unknown: replace_unk || default.replace_unknown,
            glossary: glossary_use.map_or(default.glossary, GlossaryUse::from),
            lexicon: lexicon.map_or(default.lexicon, LexiconUse::from),
            attention_layer: attention_layer.or(default.attention_layer),
        }
    }

    fn mbr_args(&self) -> MbrArgs {
        let Self { mbr, mbr_candidates, mbr_samples, mbr_scale, .. } = *self;
        MbrArgs { mbr, mbr_candidates, mbr_samples, mbr_scale }
    }

    /// Options of sampling; those that were not given have the value of `default`.
    fn sampling(&self, default: Sampling, seed: u64) -> Sampling {
        Sampling {
            samples: self.samples.unwrap_or(default.samples),
            temperature: self.temperature.unwrap_or(default.temperature),
            top_k: self.top_k.unwrap_or(default.top_k),
            top_p: self.top_p.unwrap_or(default.top_p),
            seed,
        }
    }

    /// Ids of tokens that are never generated.
    fn suppressed(&self, vocabulary: &Tokenizer, problems: &mut Vec<String>) -> Vec<u32> {
        let mut ids = self.suppress_id.clone();
        for token in &self.suppress {
            match vocabulary.id(token) {
                Some(id) => ids.push(id),
                None => problems.push(format!(
                    "`--suppress {token}`: the target vocabulary has no such token (word pieces \
                     that begin a word start with `▁`)"
                )),
            }
        }
        if self.no_unk {
            ids.push(UNK);
        }
        ids
    }

    /// Adds arguments that were given and have no effect.
    fn contradictions(&self, options: &SearchOptions, problems: &mut Vec<String>) {
        if self.top_k.is_some() && !self.sample && self.mbr_samples.is_none() {
            problems.push("`--top-k` needs `--sample` or `--mbr-samples`".into());
        }
        if self.n_best.is_some() && self.sample && self.mbr.is_none() {
            problems.push(
                "`--n-best` conflicts with `--sample` without `--mbr`; `--samples` prints several"
                    .into(),
            );
        }
        if options.length_norm == LengthNorm::None && self.length_penalty.is_some() {
            problems.push("`--length-penalty` has no effect with `--length-norm none`".into());
        }
        if self.diversity.is_some() && options.groups == 1 {
            problems.push("`--diversity` has no effect with `--groups` = 1".into());
        }
        if self.attention_layer.is_some()
            && options.coverage_penalty == 0.0
            && !options.replace_unknown
        {
            problems.push(
                "`--attention-layer` has no effect without `--replace-unk` or `--coverage-penalty`"
                    .into(),
            );
        }
        let suppresses = !options.suppress.is_empty()
            || options.no_repeat_ngram > 0
            || options.min_len > 0
            || options.min_len_ratio > 0.0;
        if self.renormalize && !suppresses {
            problems.push(
                "`--renormalize` has no effect without an option that suppresses tokens, such as \
                 `--min-len`"
                    .into(),
            );
        }
        if options.replace_unknown && options.suppress.contains(&UNK) {
            problems.push("`--replace-unk` has no effect: `<unk>` is suppressed".into());
        }
        if self.suppress.iter().any(|token| token == "<eos>") || self.suppress_id.contains(&EOS) {
            problems.push("`<eos>` cannot be suppressed; `--min-len` sets a minimum length".into());
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::search::SeedArgs;

    #[derive(Parser)]
    struct Cli {
        #[arg(long)]
        model: Option<String>,
        #[command(flatten)]
        search: SearchArgs,
        #[command(flatten)]
        seed: SeedArgs,
    }

    fn parse(arguments: &[&str]) -> Cli {
        Cli::parse_from([&["test", "--model", "m"], arguments].concat())
    }

    #[test]
    fn defaults_are_those_of_the_library() {
        for (arguments, options) in [
            (&[][..], SearchOptions::default()),
            (&["--sample"], SearchOptions::sampling(Sampling::default())),
        ] {
            let Cli { search, seed, .. } = parse(arguments);
            let default = SearchOptions::default();
            assert_eq!(search.options(Vec::new(), seed.seed, default), options);
            assert_eq!(search.is_default(), arguments.is_empty());
        }
        for given in
            [&["--beam", "2"][..], &["--no-unk"], &["--suppress-id", "7"], &["--top-k", "3"]]
        {
            assert!(!parse(given).search.is_default(), "{given:?}");
        }
    }

    /// Options of a bundle stay unless an argument replaces them, or needs another value of them.
    #[test]
    fn arguments_replace_the_options_of_a_bundle() {
        let bundle = SearchOptions {
            beam: 6,
            n_best: 3,
            groups: 3,
            length_norm: LengthNorm::Wu,
            early_stopping: EarlyStopping::Improvement,
            max_len_ratio: 0.0,
            max_len_extra: 511,
            suppress: vec![9],
            renormalize: true,
            max_repeats: 0,
            ..SearchOptions::default()
        };
        let alone = SearchOptions { n_best: 1, groups: 1, ..bundle.clone() };
        for (arguments, expected) in [
            (&[][..], bundle.clone()),
            (&["--max-len-extra", "40"], SearchOptions { max_len_extra: 40, ..bundle.clone() }),
            (
                &["--beam", "4", "--length-norm", "none"],
                SearchOptions {
                    beam: 4,
                    groups: 1,
                    length_norm: LengthNorm::None,
                    ..bundle.clone()
                },
            ),
            (&["--beam", "2"], SearchOptions { beam: 2, n_best: 2, groups: 1, ..bundle.clone() }),
            (&["--suppress-id", "7"], SearchOptions { suppress: vec![9, 7], ..bundle.clone() }),
            (
                &["--beam", "1"],
                SearchOptions { beam: 1, early_stopping: EarlyStopping::Finished, ..alone.clone() },
            ),
            (
                &["--sample", "--top-k", "3"],
                SearchOptions {
                    beam: 1,
                    early_stopping: EarlyStopping::Finished,
                    sampling: Some(Sampling { top_k: 3, ..Sampling::default() }),
                    ..alone
                },
            ),
        ] {
            let Cli { search, seed, .. } = parse(arguments);
            let found = search.options(search.suppress_id.clone(), seed.seed, bundle.clone());
            assert_eq!(found, expected, "{arguments:?}");
            assert_eq!(found.problems(), [""; 0], "{arguments:?}");
        }
        let sampled = SearchOptions::sampling(Sampling { seed: 5, ..Sampling::default() });
        for (arguments, samples) in [(&[][..], true), (&["--beam", "3"], false)] {
            let found = parse(arguments).search.options(Vec::new(), 0, sampled.clone());
            assert_eq!(found.sampling, sampled.sampling.filter(|_| samples), "{arguments:?}");
            assert_eq!(found.problems(), [""; 0], "{arguments:?}");
        }
    }

    #[test]
    fn search_options_need_a_model() {
        let error = Cli::try_parse_from(["test", "--beam", "2"]).map(|cli| cli.model).unwrap_err();
        assert!(error.to_string().contains("--model"), "{error}");
    }
}
