//! Validation of a translation model: loss, accuracy, and translations scored as text.

use std::{
    borrow::Cow,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

use burn::{data::dataloader::DataLoader, tensor::Device};
use serde::{Deserialize, Serialize};
use tx_data::Seq2SeqBatch;
use tx_eval::{Bleu, Chrf, Tokenizer, exact_match};
use tx_infer::{
    Bundle, Cancellation, InferError, LexiconUse, Line, ModuleBundle, SearchOptions, Translation,
    Translator,
    bundle::{WEIGHTS, set_search},
};
use tx_text::SentencePair;

use super::{
    sample::{CrossAttention, Sample},
    seq2seq::Seq2Seq,
};
use crate::{
    config::{BestBy, BleuTokenizer, LanguageCodes, ValidationConfig},
    error::TrainError,
    recording::metrics::null_as_nan,
    task::{StepOutput, evaluate},
    validation_report::{
        Figure, Format, Position, SampleOutput, Table, ValidationReport, scores_of,
    },
};

/// Largest loss in the score of validation with which the lexicon of a bundle is used.
const LEXICON_LOSS: f64 = 0.2;

/// Result of a validation. With several validation sets, the metrics are those of the set
/// `validation.best_set`, or else the mean over the sets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    /// Loss in nats per target token, without smoothing.
    #[serde(deserialize_with = "null_as_nan")]
    pub loss: f64,
    /// Fraction of target tokens predicted correctly, given the correct preceding tokens.
    pub accuracy: f64,
    /// BLEU of the translations, 0 to 100.
    pub bleu: f64,
    /// Signature of BLEU, in sacreBLEU's notation.
    pub bleu_signature: String,
    /// chrF of the translations, 0 to 100, with sacreBLEU's settings.
    pub chrf: f64,
    /// Translations equal to their reference, in percent.
    pub exact_match: f64,
    /// Metrics of each set, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sets: Vec<SetScores>,
    /// First translations.
    pub samples: Vec<Sample>,
    /// Seconds that the validation took.
    #[serde(rename = "validation_seconds")]
    pub seconds: f64,
}

/// Metrics of one of several validation sets; see [`Validation`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetScores {
    /// Name of the set.
    pub name: String,
    /// Loss in nats per target token, without smoothing.
    #[serde(deserialize_with = "null_as_nan")]
    pub loss: f64,
    /// Fraction of target tokens predicted correctly.
    pub accuracy: f64,
    /// BLEU of the translations, 0 to 100.
    pub bleu: f64,
    /// chrF of the translations, 0 to 100.
    pub chrf: f64,
    /// Translations equal to their reference, in percent.
    pub exact_match: f64,
}

impl SetScores {
    /// Returns the arithmetic mean of each metric; the name is empty.
    fn mean(sets: &[Self]) -> Self {
        let mean =
            |of: fn(&Self) -> f64| sets.iter().map(of).sum::<f64>() / sets.len().max(1) as f64;
        Self {
            name: String::new(),
            loss: mean(|set| set.loss),
            accuracy: mean(|set| set.accuracy),
            bleu: mean(|set| set.bleu),
            chrf: mean(|set| set.chrf),
            exact_match: mean(|set| set.exact_match),
        }
    }
}

impl Validation {
    /// Returns the perplexity `e^loss`: the number of equally likely tokens that would have the
    /// same loss. 1 means certainty.
    pub fn perplexity(&self) -> f64 {
        self.loss.exp()
    }

    /// Returns the sort key of the model, higher is better: the chosen metric, then the negated
    /// loss. Metrics of other tasks count as the loss.
    pub fn rank(&self, by: BestBy) -> (f64, f64) {
        let first = match by {
            BestBy::Loss | BestBy::Accuracy | BestBy::MacroF1 => -self.loss,
            BestBy::Bleu => self.bleu,
            BestBy::Chrf => self.chrf,
            BestBy::ExactMatch => self.exact_match,
        };
        rank(first, self.loss)
    }
}

/// Returns the sort key of a model, higher is better: the metric `first`, then the negated loss. NaN
/// ranks below every number.
pub(crate) fn rank(first: f64, loss: f64) -> (f64, f64) {
    let ordered = |figure: f64| if figure.is_nan() { f64::NEG_INFINITY } else { figure };
    (ordered(first), ordered(-loss))
}

impl ValidationReport for Validation {
    const FIGURE: &'static str = "BLEU";
    const UNIT: &'static str = "target token";

    fn figure(&self) -> f64 {
        self.bleu
    }

    fn figures(&self) -> Vec<Figure> {
        let (decimals, percent) = (Format::Decimals(2), Format::Percent);
        let mut figures =
            Figure::of_every_task(self.loss, self.perplexity(), self.accuracy).to_vec();
        figures.extend([
            Figure::new("bleu", "BLEU", "BLEU", self.bleu, decimals),
            Figure::new("chrf", "chrF", "chrF", self.chrf, decimals),
            Figure::new("exact_match", "exact", "Exact matches", self.exact_match, percent),
        ]);
        figures
    }

    fn part_lines(&self) -> Vec<String> {
        let line = |SetScores { name, loss, bleu, chrf, .. }: &SetScores| {
            format!("{name}: loss {loss:.4}  BLEU {bleu:.2}  chrF {chrf:.2}")
        };
        self.sets.iter().map(line).collect()
    }

    fn tables(&self) -> Vec<Table> {
        if self.sets.is_empty() {
            return Vec::new();
        }
        let heading = ["set", "loss", "accuracy, %", "BLEU", "chrF", "exact, %"];
        let mut rows = vec![heading.map(str::to_owned).to_vec()];
        for SetScores { name, loss, accuracy, bleu, chrf, exact_match } in &self.sets {
            let figures = [100.0 * accuracy, *bleu, *chrf, *exact_match];
            let mut row = vec![name.clone(), format!("{loss:.4}")];
            row.extend(figures.map(|figure| format!("{figure:.2}")));
            rows.push(row);
        }
        vec![Table { title: "Validation sets", rows }]
    }

    fn scalars(&self) -> Vec<(Cow<'static, str>, f64)> {
        let mut scalars: Vec<(Cow<'static, str>, f64)> =
            self.figures().into_iter().map(|figure| (figure.key.into(), figure.value)).collect();
        for SetScores { name, loss, accuracy, bleu, chrf, exact_match } in &self.sets {
            let figures = [
                ("loss", loss),
                ("accuracy", accuracy),
                ("bleu", bleu),
                ("chrf", chrf),
                ("exact_match", exact_match),
            ];
            scalars.extend(figures.map(|(key, value)| (format!("{name}/{key}").into(), *value)));
        }
        scalars
    }

    fn scores(&self, position: Position) -> toml::Table {
        let mut scores = scores_of(position, &self.figures(), self.note());
        for SetScores { name, loss, bleu, chrf, .. } in &self.sets {
            let mut set = toml::Table::new();
            for (key, value) in [("loss", loss), ("bleu", bleu), ("chrf", chrf)] {
                set.insert(key.into(), (*value).into());
            }
            scores.insert(name.clone(), set.into());
        }
        scores
    }

    fn perplexity(&self) -> f64 {
        self.perplexity()
    }

    fn seconds(&self) -> f64 {
        self.seconds
    }

    fn samples(&self) -> Vec<SampleOutput<'_>> {
        let outputs = self.samples.iter().map(|sample| SampleOutput {
            given: vec![("source", &*sample.source), ("reference", &*sample.reference)],
            output: ("hypothesis", (&*sample.hypothesis).into()),
            attention: Some(&sample.attention),
        });
        outputs.collect()
    }

    fn note(&self) -> Option<(&'static str, &str)> {
        Some(("bleu_signature", &self.bleu_signature))
    }
}

/// Maximum number of source tokens in a batch of translations.
const BATCH_TOKENS: usize = 4_096;

/// Validation set on its device.
pub struct ValidatedSet {
    /// Name; empty if it is the only set.
    name: String,
    loader: Arc<dyn DataLoader<Seq2SeqBatch>>,
    sources: Vec<String>,
    /// Context of each source.
    contexts: Vec<Vec<String>>,
    references: Vec<String>,
    /// Languages of a multilingual model.
    languages: Option<LanguageCodes>,
    /// Tokenizer of BLEU.
    tokenizer: Tokenizer,
}

impl ValidatedSet {
    /// Creates a set whose loss is computed over `loader`, the batches of `pairs`.
    pub(crate) fn new(
        name: String,
        loader: Arc<dyn DataLoader<Seq2SeqBatch>>,
        pairs: &[SentencePair],
        languages: Option<LanguageCodes>,
        tokenize: BleuTokenizer,
    ) -> Self {
        let sources = pairs.iter().map(|pair| pair.source.clone()).collect();
        let contexts = pairs.iter().map(|pair| pair.context.clone()).collect();
        let references = pairs.iter().map(|pair| pair.target.clone()).collect();
        let tokenizer = tokenize.tokenizer();
        Self { name, loader, sources, contexts, references, languages, tokenizer }
    }
}

/// Validation sets with the settings of their validation.
pub struct Validator {
    sets: Vec<ValidatedSet>,
    lowercase: bool,
    config: ValidationConfig,
    /// Maximum number of source tokens in a batch of translations.
    batch_tokens: usize,
    device: Device,
}

impl Validator {
    /// Computes the loss over `sets`, and translates their sources. With `lowercase`, translations
    /// and references are compared without case.
    pub fn new(
        mut sets: Vec<ValidatedSet>,
        config: &ValidationConfig,
        lowercase: bool,
        device: &Device,
    ) -> Self {
        for set in &mut sets {
            set.loader = set.loader.to_device(device);
            if lowercase {
                for reference in &mut set.references {
                    *reference = reference.to_lowercase();
                }
            }
        }
        let (config, device) = (config.clone(), device.clone());
        Self { sets, lowercase, config, batch_tokens: BATCH_TOKENS, device }
    }

    /// Limits batches of translations to `batch_tokens`, so that validation needs no more memory
    /// than training.
    pub fn with_batch_tokens(self, batch_tokens: usize) -> Self {
        Self { batch_tokens: batch_tokens.min(BATCH_TOKENS), ..self }
    }

    /// Validates `model`, which has no autodiff; `bundle` has the same weights. Also returns loss
    /// and counts of all batches.
    ///
    /// # Errors
    ///
    /// If text cannot be tokenized or scored; [`TrainError::Interrupted`] once `stop` is set, which
    /// is checked between batches and decoding steps.
    pub fn run(
        &self,
        model: &Seq2Seq,
        bundle: ModuleBundle,
        stop: &Arc<AtomicBool>,
    ) -> Result<(Validation, StepOutput), TrainError> {
        let start = Instant::now();
        let mut translator = Translator::from_module(&bundle, &self.device.clone().into())
            .with_batch_tokens(self.batch_tokens);
        // The other options are those of the bundle that the run continues.
        let search = translator.options().clone().with_beam(self.config.beam);
        let search = SearchOptions { n_best: 1, ..search };
        translator = translator.with_options(search)?;

        let (mut total, mut sets, mut samples) = (StepOutput::default(), Vec::new(), Vec::new());
        let mut signature = String::new();
        for set in &self.sets {
            let output = evaluate(model, &*set.loader, stop)?;
            total.add(&output);
            let (translations, of_set) = self.translate(set, &translator, stop)?;
            samples.extend(of_set);
            let bleu =
                Bleu { tokenizer: set.tokenizer, lowercase: self.lowercase, ..Bleu::default() };
            let score = bleu.corpus_score(&translations, &[&set.references])?;
            let chrf = Chrf { lowercase: self.lowercase, ..Chrf::default() }
                .corpus_score(&translations, &[&set.references])?;
            signature = score.signature.to_string();
            sets.push(SetScores {
                name: set.name.clone(),
                loss: output.loss(),
                accuracy: output.accuracy(),
                bleu: score.score,
                chrf: chrf.score,
                exact_match: exact_match(&translations, &set.references)?.score,
            });
        }
        let best = self.config.best_set.as_ref();
        let best = best.and_then(|name| sets.iter().find(|set| set.name == *name));
        let SetScores { loss, accuracy, bleu, chrf, exact_match, .. } =
            best.cloned().unwrap_or_else(|| SetScores::mean(&sets));
        if sets.len() == 1 {
            sets.clear();
        }
        let validation = Validation {
            loss,
            accuracy,
            bleu,
            bleu_signature: signature,
            chrf,
            exact_match,
            sets,
            samples,
            seconds: start.elapsed().as_secs_f64(),
        };
        Ok((validation, total))
    }

    /// Selects search options of the bundle in the folder `run`: of the configured length penalties, the one whose
    /// translations score best, in beam search, and the use of a lexicon, unless it lowers the score. The score is
    /// chrF if models are ranked by it, and BLEU otherwise. Returns lines for the log.
    ///
    /// # Errors
    ///
    /// If there is no bundle, or it cannot be written; [`TrainError::Interrupted`] once `stop` is set.
    pub fn select_search(
        &self,
        run: &Path,
        by: BestBy,
        stop: &Arc<AtomicBool>,
    ) -> Result<Vec<String>, TrainError> {
        if !run.join(WEIGHTS).is_file() {
            return Ok(Vec::new());
        }
        let bundle = Bundle::open(run)?;
        let mut translator = Translator::new(bundle, &self.device.clone().into())?
            .with_batch_tokens(self.batch_tokens);
        let mut lines = Vec::new();
        let mut tried: Vec<(f32, f64)> = Vec::new();
        for &length_penalty in &self.config.length_penalties {
            let options =
                SearchOptions { length_penalty, n_best: 1, ..translator.options().clone() };
            translator = translator.with_options(options)?;
            tried.push((length_penalty, self.mean_score(&translator, by, stop)?));
        }
        let best =
            tried.iter().copied().reduce(|best, next| if next.1 > best.1 { next } else { best });
        if let Some((length_penalty, _)) = best {
            translator = translator
                .clone()
                .with_options(SearchOptions { length_penalty, ..translator.options().clone() })?;
            let tried: Vec<String> =
                tried.iter().map(|(penalty, score)| format!("{penalty}: {score:.2}")).collect();
            lines.push(format!(
                "length penalty {length_penalty} selected on validation, beam {} ({})",
                translator.options().beam,
                tried.join(", ")
            ));
        }
        if translator.has_lexicon() {
            let with = match best {
                Some((_, score)) => score,
                None => self.mean_score(&translator, by, stop)?,
            };
            let options = translator.options().clone();
            let off = SearchOptions { lexicon: LexiconUse::Off, ..options.clone() };
            translator = translator.with_options(off)?;
            let without = self.mean_score(&translator, by, stop)?;
            // New names, which the lexicon is for, are rare in validation.
            let is_used = with >= without - LEXICON_LOSS;
            if is_used {
                translator = translator.with_options(options)?;
            }
            let choice = if is_used { "used" } else { "not used" };
            lines.push(format!("lexicon {choice} ({with:.2} with it, {without:.2} without)"));
        }
        if !lines.is_empty() {
            set_search(run, translator.options())?;
        }
        Ok(lines)
    }

    /// Mean score of the translations of all validation sets.
    fn mean_score(
        &self,
        translator: &Translator,
        by: BestBy,
        stop: &Arc<AtomicBool>,
    ) -> Result<f64, TrainError> {
        let mut scores = Vec::new();
        for set in &self.sets {
            let (translations, _) = self.translate(set, translator, stop)?;
            scores.push(self.score(set, &translations, by)?);
        }
        Ok(scores.iter().sum::<f64>() / scores.len().max(1) as f64)
    }

    fn score(
        &self,
        set: &ValidatedSet,
        translations: &[String],
        by: BestBy,
    ) -> Result<f64, TrainError> {
        let (lowercase, references) = (self.lowercase, &set.references);
        Ok(match by {
            BestBy::Chrf => {
                let chrf = Chrf { lowercase, ..Chrf::default() };
                chrf.corpus_score(translations, &[references])?.score
            }
            BestBy::Bleu
            | BestBy::ExactMatch
            | BestBy::Loss
            | BestBy::Accuracy
            | BestBy::MacroF1 => {
                let bleu = Bleu { tokenizer: set.tokenizer, lowercase, ..Bleu::default() };
                bleu.corpus_score(translations, &[references])?.score
            }
        })
    }

    /// Translates the sources of `set`. Also returns the first translations as samples.
    fn translate(
        &self,
        set: &ValidatedSet,
        translator: &Translator,
        stop: &Arc<AtomicBool>,
    ) -> Result<(Vec<String>, Vec<Sample>), TrainError> {
        let of_languages = match &set.languages {
            Some(LanguageCodes { source, target }) => {
                Some(translator.clone().with_languages(source.as_deref(), Some(target))?)
            }
            None => None,
        };
        let translator = of_languages.as_ref().unwrap_or(translator);
        let cancellation = Cancellation::from(stop.clone());
        let options = translator.options();
        let lines = set.sources.iter().zip(&set.contexts).zip(0..);
        let lines =
            lines.map(|((text, context), number)| Line { context, ..Line::new(text, number) });
        let lines: Vec<Line<'_>> = lines.collect();
        let translations = match translator.translate_all(&lines, options, &cancellation) {
            // A model that has diverged gets empty translations; its scores and its loss report
            // the failure.
            Err(InferError::NotFinite { .. }) => {
                vec![Translation::default(); set.sources.len()]
            }
            translations => translations?,
        };
        let mut samples = Vec::new();
        for (index, translation) in translations.iter().enumerate().take(self.config.samples) {
            let source = translator.texts().source(&set.sources[index])?;
            let best = translation.hypotheses.first();
            let target = best.map_or(&[][..], |best| &best.hypothesis.ids);
            let target = translator.texts().hypothesis(target)?;
            samples.push(Sample {
                source: set.sources[index].clone(),
                reference: set.references[index].clone(),
                hypothesis: translation.text.clone(),
                attention: CrossAttention::of(translator.engine(), source, target),
            });
        }
        Ok((translations.into_iter().map(|translation| translation.text).collect(), samples))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_that_of_each_metric() {
        let set = |loss, bleu| SetScores {
            name: "a".into(),
            loss,
            accuracy: 0.5,
            bleu,
            chrf: 2.0 * bleu,
            exact_match: 0.0,
        };
        let mean = SetScores::mean(&[set(1.0, 30.0), set(2.0, 33.0), set(6.0, 60.0)]);
        assert_eq!((mean.loss, mean.bleu, mean.chrf, mean.accuracy), (3.0, 41.0, 82.0, 0.5));
    }

    /// Two models: one with the better loss, the other better in all other metrics.
    #[test]
    fn models_are_ranked_by_the_chosen_metric_and_then_by_the_loss() {
        let sure = Validation {
            loss: 1.0,
            accuracy: 0.5,
            bleu: 20.0,
            bleu_signature: String::new(),
            chrf: 40.0,
            exact_match: 1.0,
            sets: Vec::new(),
            samples: Vec::new(),
            seconds: 0.0,
        };
        let good =
            Validation { loss: 1.1, bleu: 21.0, chrf: 41.0, exact_match: 2.0, ..sure.clone() };
        assert!(sure.rank(BestBy::Loss) > good.rank(BestBy::Loss));
        for by in [BestBy::Bleu, BestBy::Chrf, BestBy::ExactMatch] {
            assert!(good.rank(by) > sure.rank(by), "{by:?}");
            let surer = Validation { loss: 1.0, ..good.clone() };
            assert!(surer.rank(by) > good.rank(by), "{by:?}");
        }
        // A model whose loss is NaN must not stay the best.
        let lost = Validation { loss: f64::NAN, ..good.clone() };
        for by in [BestBy::Loss, BestBy::Bleu, BestBy::Chrf, BestBy::ExactMatch] {
            assert!(good.rank(by) > lost.rank(by), "{by:?}");
        }
    }
}
