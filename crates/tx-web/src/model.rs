//! Models of all tasks.

use serde_json::{Map, Value, json};
use tx_infer::{
    Ablation, Attention, Bundle, Cancellation, Classifier, Device, FillMask, Generator, InferError,
    Precision, Prompt, SearchOptions, TaskKind, Tokens, Translator, inside::GivenTarget,
    tx_engine::UnknownPart,
};

use crate::{
    problem::Problem,
    request::{Languages, OnPart},
};

/// A model that is ready for its task.
#[derive(Debug)]
pub(crate) enum Model {
    Translator(Translator),
    Classifier(Classifier),
    Generator(Generator),
    FillMask(FillMask),
}

impl Model {
    /// Builds the model of a bundle.
    pub(crate) fn new(bundle: &Bundle, precision: Precision) -> Result<Self, InferError> {
        let cpu = &Device::Cpu;
        Ok(match bundle.task.kind() {
            TaskKind::Translate => Self::Translator(Translator::new_in(bundle, precision, cpu)?),
            TaskKind::Classify => Self::Classifier(Classifier::new_in(bundle, precision, cpu)?),
            TaskKind::Generate => Self::Generator(Generator::new_in(bundle, precision, cpu)?),
            TaskKind::FillMask => Self::FillMask(FillMask::new_in(bundle, precision, cpu)?),
        })
    }

    /// Returns task, precision, configuration, languages, labels and search options of the model.
    pub(crate) fn describe(&self, bundle: &Bundle, precision: Precision) -> Value {
        let (options, labels) = match self {
            Self::Translator(model) => (Some(model.options()), None),
            Self::Generator(model) => (Some(model.options()), None),
            Self::Classifier(model) => (None, Some(model.labels())),
            Self::FillMask(_) => (None, None),
        };
        let vocabulary = bundle.vocabulary();
        json!({
            "task": self.kind().name(),
            "precision": precision.name(),
            "config": bundle.config,
            "vocabulary": [vocabulary.source, vocabulary.target],
            "languages": bundle.languages,
            "labels": labels.map(|labels| labels.iter().map(|it| &**it).collect::<Vec<_>>()),
            "options": options,
        })
    }

    /// Translates texts.
    pub(crate) fn translate(
        &self,
        texts: &[String],
        languages: &Languages,
        options: Map<String, Value>,
    ) -> Result<Value, Problem> {
        let translator = self.translator(languages)?;
        let options = changed(translator.options(), options)?;
        let found = translator.translate_batch_with(texts, &options, &Cancellation::new())?;
        Ok(found.iter().map(|one| translator.to_json(one)).collect())
    }

    /// Scores pairs of source and target.
    pub(crate) fn score(
        &self,
        pairs: &[(String, String)],
        languages: &Languages,
    ) -> Result<Value, Problem> {
        let translator = self.translator(languages)?;
        let vocabulary = &translator.tokenizers().target;
        let found = translator.score(pairs, 0)?.into_iter().map(|score| {
            let tokens = score.ids.iter().map(|&id| vocabulary.token(id));
            json!({
                "log_probability": score.log_probability(),
                "perplexity": score.perplexity(),
                "truncated": score.truncated,
                "tokens": tokens.collect::<Vec<_>>(),
                "log_probabilities": score.log_probabilities,
            })
        });
        Ok(found.collect())
    }

    /// Attention weights of a text and, of a translator, of its best translation or of `target`.
    pub(crate) fn attention(
        &self,
        text: &str,
        target: Option<&str>,
        languages: &Languages,
    ) -> Result<Value, Problem> {
        let found = match self {
            Self::Translator(_) => {
                let translator = self.translator(languages)?;
                let texts = translator.texts();
                let target = match target {
                    Some(target) => texts.target(target)?,
                    None => {
                        let options = translator.options().clone().with_one_hypothesis();
                        let never = Cancellation::new();
                        let found = translator.translate_batch_with(&[text], &options, &never)?;
                        let best = found.first().and_then(|it| it.hypotheses.first());
                        match best {
                            Some(best) => texts.hypothesis(&best.hypothesis.ids)?,
                            None => Tokens::default(),
                        }
                    }
                };
                let source = texts.source(text)?;
                if source.ids.is_empty() || target.ids.is_empty() {
                    return Err(Problem::from("the text has no words".to_owned()));
                }
                Attention::of(translator.engine(), source, target)
            }
            Self::Classifier(model) => model.attention(text)?,
            Self::Generator(model) => model.attention(text)?,
            Self::FillMask(model) => model.attention(text)?,
        };
        Ok(found.to_json())
    }

    /// All values inside a translator for a text, with parts of it turned off. The translation begins with `prefix`.
    pub(crate) fn inside(
        &self,
        text: &str,
        prefix: &[u32],
        ablations: &[String],
        languages: &Languages,
        options: Map<String, Value>,
    ) -> Result<Value, Problem> {
        let parse = |part: &String| {
            part.parse().map_err(|error: UnknownPart| Problem::from(error.to_string()))
        };
        let ablations = ablations.iter().map(parse).collect::<Result<Vec<Ablation>, _>>()?;
        let translator = self.translator(languages)?.with_ablations(ablations)?;
        let options = changed(translator.options(), options)?;
        let inside = translator.inside(text, GivenTarget::Prefix(prefix), &options)?;
        Ok(inside.to_json(&translator.tokenizers().target))
    }

    /// Assigns labels to texts.
    pub(crate) fn classify(
        &self,
        texts: &[String],
        top_k: Option<usize>,
    ) -> Result<Value, Problem> {
        let Self::Classifier(model) = self else { return Err(self.is_no(TaskKind::Classify)) };
        Ok(model.classify_batch(texts)?.iter().map(|one| one.to_json(top_k)).collect())
    }

    /// Continues texts. With `part`, one text, whose parts are passed on as they are generated.
    pub(crate) fn generate(
        &self,
        texts: &[String],
        part: Option<OnPart<'_>>,
        options: Map<String, Value>,
    ) -> Result<Value, Problem> {
        let Self::Generator(model) = self else { return Err(self.is_no(TaskKind::Generate)) };
        let options = changed(model.options(), options)?;
        let cancellation = Cancellation::new();
        let prompts = texts.iter().zip(0..).map(|(text, number)| Prompt { text, number });
        let prompts: Vec<Prompt<'_>> = prompts.collect();
        let found = match (part, &prompts[..]) {
            (Some(part), &[prompt]) => {
                let found = model.continue_streaming(prompt, &options, &cancellation, |text| {
                    if !part(text) {
                        cancellation.cancel();
                    }
                });
                match found {
                    // The host has the parts.
                    Err(InferError::Cancelled) => return Ok(Value::Null),
                    found => vec![found?],
                }
            }
            (Some(_), _) => return Err(Problem::from("a stream is of one text".to_owned())),
            (None, _) => {
                let mut found = Vec::with_capacity(prompts.len());
                model.continue_lines(&prompts, &options, &cancellation, |ready| {
                    found.extend(ready);
                    Ok::<_, InferError>(())
                })?;
                found
            }
        };
        Ok(found.iter().map(|one| model.to_json(one)).collect())
    }

    /// Fills the masks in texts.
    pub(crate) fn fill(&self, texts: &[String], top_k: Option<usize>) -> Result<Value, Problem> {
        let Self::FillMask(model) = self else { return Err(self.is_no(TaskKind::FillMask)) };
        let model = model.clone().with_top_k(top_k.unwrap_or(FillMask::TOP_K));
        Ok(model.fill_batch(texts)?.iter().map(|one| one.to_json()).collect())
    }

    /// The translator for these languages.
    fn translator(&self, languages: &Languages) -> Result<Translator, Problem> {
        let Self::Translator(model) = self else { return Err(self.is_no(TaskKind::Translate)) };
        let Languages { source, target } = languages;
        Ok(match (source.as_deref(), target.as_deref()) {
            (None, None) => model.clone(),
            (source, target) => model.clone().with_languages(source, target)?,
        })
    }

    fn kind(&self) -> TaskKind {
        match self {
            Self::Translator(_) => TaskKind::Translate,
            Self::Classifier(_) => TaskKind::Classify,
            Self::Generator(_) => TaskKind::Generate,
            Self::FillMask(_) => TaskKind::FillMask,
        }
    }

    fn is_no(&self, expected: TaskKind) -> Problem {
        format!("the task of the model is `{}`, not `{expected}`", self.kind()).into()
    }
}

/// Options with changes. A change of the beam alone changes the options that depend on it.
fn changed(
    options: &SearchOptions,
    mut changes: Map<String, Value>,
) -> Result<SearchOptions, Problem> {
    let problem = |error: serde_json::Error| Problem::from(format!("options: {error}"));
    let options = match changes.remove("beam") {
        Some(beam) => options.clone().with_beam(serde_json::from_value(beam).map_err(problem)?),
        None => options.clone(),
    };
    let mut fields = match serde_json::to_value(options).map_err(problem)? {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    fields.extend(changes);
    serde_json::from_value(Value::Object(fields)).map_err(problem)
}
