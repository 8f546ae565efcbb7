//! Sentence pairs of several training corpora and validation sets.

use std::path::Path;

use tx_data::{
    AddedIds, CleaningReport, DataError, EncodingReport, MixturePart, PairStore,
    encode::encode_corpus,
    pipeline::{CleanCorpus, Control, MemoryCorpus, Progress},
    prepared::PreparedCorpus,
};
use tx_infer::bundle::{LanguagePlacement, Languages};
use tx_text::{SentencePair, TextError, Tokenizer, Tokenizers};

use super::{
    DataAccess, DataSummary, Known,
    fingerprints::Fingerprints,
    language_tokens::{LanguageCodes, LanguageTokens},
    pairs::{PairData, ValidationSet, tokenizer_settings},
    print_annotations, print_overlap,
};
use crate::{
    config::{CorpusConfig, DataConfig, TrainConfig},
    corpus,
    error::TrainError,
    interrupt::check,
};

/// Form of the language tokens of a new multilingual model, as in OPUS-MT.
const LANGUAGE_TOKEN: &str = ">>{}<<";

/// Training corpus of a mixture.
struct Corpus<'a> {
    /// Entry of the configuration; `None` if its other keys describe the only corpus.
    entry: Option<&'a CorpusConfig>,
    /// Configuration as if this were the only corpus.
    config: TrainConfig,
    pairs: CorpusPairs,
}

/// Pairs of a training corpus.
enum CorpusPairs {
    /// Text in memory.
    Text(Box<CleanCorpus<Vec<SentencePair>>>),
    /// Ids on disk.
    Prepared(Box<PreparedCorpus>),
}

/// Facts about a training corpus of a mixture, for provenance.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct CorpusSummary {
    pub name: String,
    /// Pairs to choose from.
    pub pairs: usize,
    /// Pairs in each epoch in which the corpus is used.
    pub pairs_per_epoch: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    pub cleaning: CleaningReport,
}

impl PairData {
    /// Reads, cleans and encodes several corpora, in memory, besides those that are prepared.
    pub(super) fn mixed(
        config: &TrainConfig,
        known: Known,
        access: &DataAccess<'_>,
    ) -> Result<Self, TrainError> {
        let mut sets = validation_sets(config, access)?;
        let corpora = corpora(config, &sets, access)?;
        let (tokenizers, languages) = match known {
            Known::Both(tokenizers, languages) => (tokenizers, languages),
            Known::Source(_) | Known::None => match prepared(config, &corpora)? {
                Some(tokenizers) => (tokenizers, None),
                None => (learn(config, &corpora, access)?, None),
            },
        };
        // The tokenizers of a prepared corpus record the normalization of its text.
        let tokenizers =
            corpora.iter().fold(tokenizers, |tokenizers, corpus| match &corpus.pairs {
                CorpusPairs::Text(pairs) => tokenizers.with_steps_of(pairs.normalization),
                CorpusPairs::Prepared(_) => tokenizers,
            });
        let languages = languages.or_else(|| new_languages(config));
        let tokenizers = with_special_tokens(config, tokenizers, languages.as_ref())?;
        access.print_vocabulary(config, &tokenizers);

        let (mut parts, mut summaries, mut fingerprints) = (Vec::new(), Vec::new(), Vec::new());
        for Corpus { entry, config: own, pairs } in &corpora {
            let tokens = language_tokens(&own.data, languages.as_ref(), &tokenizers)?;
            let tag = entry.and_then(|entry| entry.tag.as_ref());
            let tag = tag.map(|tag| tag_id(tag, &tokenizers)).transpose()?;
            let room = tokens.room() + usize::from(tag.is_some());
            let name = name_of(*entry, own);
            let (store, added, cleaning, fingerprint) = match pairs {
                CorpusPairs::Text(pairs) => {
                    let mut encoded = MemoryCorpus::default();
                    let control = Control { stop: access.stop, progress: &|_| {} };
                    let (max_len, long) = (config.max_len().saturating_sub(room), config.data.long);
                    let report =
                        pairs.encode(&tokenizers, max_len, long, &mut encoded, &control)?;
                    for pair in &mut encoded.training {
                        LanguageTokens::of_source(tag).add_to(pair);
                        tokens.add_to(pair);
                    }
                    (access.print)(&format!("training: {name}: {report}"));
                    let fingerprint = Fingerprints::of_pairs(pairs.training()?, &[], 0)?
                        .with_annotations(pairs.annotations())
                        .training;
                    let store = PairStore::from(encoded.training);
                    (store, AddedIds::default(), &pairs.cleaning, fingerprint)
                }
                CorpusPairs::Prepared(corpus) => {
                    check_prepared(config, &name, corpus, &tokenizers, languages.as_ref(), room)?;
                    (access.print)(&format!("training: {name}: {}", corpus.record.encoding));
                    let store = PairStore::from(corpus.training()?);
                    let fingerprint = corpus.training_fingerprint();
                    (store, tokens.with_tag(tag), &corpus.record.cleaning, fingerprint)
                }
            };
            fingerprints.push(fingerprint);
            let pairs_of = store.len();
            let part = MixturePart { added, ..MixturePart::new(store, 0) };
            parts.push(match entry {
                Some(entry) => MixturePart {
                    first_epoch: entry.first_epoch,
                    last_epoch: entry.last_epoch,
                    ..part
                },
                None => part,
            });
            summaries.push(CorpusSummary {
                name,
                pairs: pairs_of,
                pairs_per_epoch: 0,
                tag: entry.and_then(|entry| entry.tag.clone()),
                cleaning: cleaning.clone(),
            });
        }
        let weights: Vec<f64> = corpora
            .iter()
            .zip(&parts)
            .map(|(corpus, part)| {
                part.pairs.len() as f64 * corpus.entry.map_or(1.0, |entry| entry.weight)
            })
            .collect();
        for ((count, part), summary) in proportions(&weights, config.data.temperature)
            .into_iter()
            .zip(&mut parts)
            .zip(&mut summaries)
        {
            (part.per_epoch, summary.pairs_per_epoch) = (count, count);
        }
        print_proportions(&summaries, access);

        let (mut hashes, mut available) = (Vec::new(), 0);
        for set in &mut sets {
            let Set { name, own, pairs, .. } = set;
            let found = Fingerprints::of_pairs(
                std::iter::empty::<Result<SentencePair, DataError>>(),
                pairs,
                0,
            )?;
            hashes.push(match name.is_empty() {
                true => found.validation,
                false => format!("{name}: {}", found.validation),
            });
            available += pairs.len();
            pairs.truncate(own.validation.sentences);
        }
        let encode = |Set { name, own, pairs }: Set| -> Result<ValidationSet, TrainError> {
            let tokens = language_tokens(&own.data, languages.as_ref(), &tokenizers)?;
            let what = if name.is_empty() { "the validation data" } else { &name };
            let max_len = config.max_len().saturating_sub(tokens.room());
            let (mut encoded, report) =
                encode_corpus(&pairs, &tokenizers, max_len, config.data.long, what)?;
            encoded.iter_mut().for_each(|pair| tokens.add_to(pair));
            let label = if name.is_empty() { String::new() } else { format!(" {name}:") };
            (access.print)(&format!("validation:{label} {report}"));
            let languages = languages.as_ref().map(|all| codes(&own.data, all)).transpose()?;
            let tokenize = access.bleu_tokenizer(&own, languages.as_ref(), &pairs);
            Ok(ValidationSet { name, encoded, pairs, languages, tokenize })
        };
        let sets: Vec<ValidationSet> = sets.into_iter().map(encode).collect::<Result<_, _>>()?;
        let used = sets.iter().map(|set| set.pairs.len()).sum();
        access.print_used(used, available, "pairs");
        Ok(Self {
            summary: DataSummary {
                unit: "pairs",
                training: parts.iter().map(|part| part.pairs.len()).sum(),
                validation: available,
                used,
                fingerprints: Fingerprints {
                    training: fingerprints.join("; "),
                    validation: hashes.join("; "),
                    together: String::new(),
                },
                cleaning: None,
                tokenizers,
                labels: Vec::new(),
                replay: None,
                corpora: summaries,
                languages,
            },
            train: parts,
            sets,
        })
    }
}

/// Validation set before it is encoded.
struct Set {
    /// Name; empty if it is the only one, described by the other keys.
    name: String,
    /// Configuration as if this were the only set.
    own: TrainConfig,
    pairs: Vec<SentencePair>,
}

fn name_of(entry: Option<&CorpusConfig>, config: &TrainConfig) -> String {
    let own = || {
        let DataConfig { train_source, train_file, source, .. } = &config.data;
        let file = train_source.as_ref().or(train_file.as_ref());
        let name = file.and_then(|file| file.file_name());
        name.map_or_else(|| source.clone().into(), |name| name.to_string_lossy().into_owned())
    };
    entry.map_or_else(own, CorpusConfig::name)
}

fn validation_sets(config: &TrainConfig, access: &DataAccess<'_>) -> Result<Vec<Set>, TrainError> {
    let data = &config.data;
    if data.valid.is_empty() {
        let entry = CorpusConfig {
            source: data.valid_source.clone(),
            target: data.valid_target.clone(),
            file: data.valid_file.clone(),
            pairs: data.valid_pairs,
            ..CorpusConfig::default()
        };
        let own = corpus::with_entry(config, &entry);
        let pairs = corpus::load_validation(&own, &entry.name(), access.cache)?;
        return Ok(vec![Set { name: String::new(), own, pairs }]);
    }
    let read = |entry: &CorpusConfig| {
        access.check()?;
        let own = corpus::with_entry(config, entry);
        let pairs = corpus::load_validation(&own, &entry.name(), access.cache)?;
        Ok(Set { name: entry.name(), own, pairs })
    };
    data.valid.iter().map(read).collect()
}

fn corpora<'a>(
    config: &'a TrainConfig,
    sets: &[Set],
    access: &DataAccess<'_>,
) -> Result<Vec<Corpus<'a>>, TrainError> {
    let given: Vec<SentencePair> = sets.iter().flat_map(|set| set.pairs.clone()).collect();
    let read = |entry: Option<&'a CorpusConfig>| {
        let own = match entry {
            Some(entry) => corpus::with_entry(config, entry),
            None => config.clone(),
        };
        let name = name_of(entry, &own);
        let print = |progress: Progress<'_>| {
            if let Progress::Cleaned(report) = progress {
                (access.print)(&format!("{name}: {report}"));
            }
        };
        let control = Control { stop: access.stop, progress: &print };
        let pairs = match entry.and_then(|entry| entry.prepared.as_ref()) {
            Some(folder) => CorpusPairs::Prepared(Box::new(open_prepared(folder, &name, access)?)),
            None => {
                let given = given.clone();
                access.print_columns(&own);
                let pairs = corpus::load_corpus(&own, &name, given, access.cache, &control)?;
                print_overlap(pairs.overlap, pairs.overlap_dropped, "pairs", access.print);
                print_annotations(&pairs, access.print);
                CorpusPairs::Text(Box::new(pairs))
            }
        };
        Ok(Corpus { entry, config: own, pairs })
    };
    match &config.data.train[..] {
        [] => Ok(vec![read(None)?]),
        entries => entries.iter().map(|entry| read(Some(entry))).collect(),
    }
}

/// Opens a prepared corpus, which must exist. `name` is that of the corpus in messages.
fn open_prepared(
    folder: &Path,
    name: &str,
    access: &DataAccess<'_>,
) -> Result<PreparedCorpus, TrainError> {
    if !PreparedCorpus::exists(folder) {
        let problem = format!(
            "[data] `train`: `prepared` = \"{}\" is no prepared corpus: write it with `train data \
             prepare`",
            folder.display()
        );
        return Err(TrainError::Problems { problems: vec![problem] });
    }
    let corpus = PreparedCorpus::open_verifying(folder, access.verification)?;
    (access.print)(&format!("{name}: {}", corpus.record.cleaning));
    Ok(corpus)
}

/// Returns the tokenizers of the first prepared corpus, if there is one.
fn prepared(
    config: &TrainConfig,
    corpora: &[Corpus<'_>],
) -> Result<Option<Tokenizers>, TrainError> {
    let settings = tokenizer_settings(config);
    let mut prepared = corpora.iter().filter_map(|corpus| match &corpus.pairs {
        CorpusPairs::Text(_) => None,
        CorpusPairs::Prepared(corpus) => Some(corpus),
    });
    let Some(corpus) = prepared.next() else { return Ok(None) };
    corpus.check_section("tokenizer", &settings)?;
    Ok(Some(corpus.tokenizers.clone()))
}

/// Rejects a prepared corpus whose ids are not those of `tokenizers`, or whose pairs are too long for
/// the model with `room` more tokens.
fn check_prepared(
    config: &TrainConfig,
    name: &str,
    corpus: &PreparedCorpus,
    tokenizers: &Tokenizers,
    languages: Option<&Languages>,
    room: usize,
) -> Result<(), TrainError> {
    // Tokenizers that were imported from those of another corpus can divide unusual text differently,
    // but their ids are the same.
    let is_same = |one: &Tokenizer, other: &Tokenizer| {
        let size = one.vocab_size();
        size == other.vocab_size() && (0..size as u32).all(|id| one.token(id) == other.token(id))
    };
    let own = with_special_tokens(config, corpus.tokenizers.clone(), languages)?;
    let mut problems = Vec::new();
    if !is_same(&own.source, &tokenizers.source) || !is_same(&own.target, &tokenizers.target) {
        problems.push(format!(
            "[data] `train`: the vocabulary of the prepared corpus \"{name}\" differs from that of the \
             other prepared corpora or of the weights to start from"
        ));
    }
    // Longer sides were dropped or truncated.
    let prepared_max = corpus.record.settings["data"]["max_len"].as_u64();
    let prepared_max = prepared_max.map_or(usize::MAX, |max_len| max_len as usize);
    let EncodingReport { longest_source, longest_target, .. } = corpus.record.encoding;
    let longest = longest_source.max(longest_target).min(prepared_max).saturating_add(room);
    let limit = config.model.max_len;
    if longest > limit {
        problems.push(format!(
            "[data] `train`: the prepared corpus \"{name}\" has sides of up to {longest} tokens with \
             its tag and languages, which exceeds `model.max_len` = {limit}"
        ));
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(TrainError::Problems { problems }),
    }
}

/// Learns the tokenizers from the pairs of all corpora, each once.
fn learn(
    config: &TrainConfig,
    corpora: &[Corpus<'_>],
    access: &DataAccess<'_>,
) -> Result<Tokenizers, TrainError> {
    let stop = access.stop;
    let tokenizers = Tokenizers::train_on_stream(&config.tokenizer, || {
        let streams = corpora.iter().filter_map(|corpus| match &corpus.pairs {
            CorpusPairs::Text(pairs) => Some(pairs.training()),
            CorpusPairs::Prepared(_) => None,
        });
        let streams: Vec<_> = streams.collect::<Result<_, DataError>>()?;
        let pairs = streams.into_iter().flatten();
        Ok::<_, TrainError>(pairs.map(move |pair| {
            check(stop)?;
            Ok(pair?.into_owned())
        }))
    })?;
    access.check()?;
    Ok(tokenizers)
}

/// Languages of a new multilingual model; `None` for a model of one language pair.
fn new_languages(config: &TrainConfig) -> Option<Languages> {
    let placement = config.data.language_tokens?;
    let mut languages = Languages {
        placement,
        token: LANGUAGE_TOKEN.into(),
        source: Vec::new(),
        target: Vec::new(),
        default_source: None,
        default_target: None,
    };
    for entry in &config.data.train {
        let data = corpus::with_entry(config, entry).data;
        for (list, code) in [
            (&mut languages.source, data.source_language),
            (&mut languages.target, data.target_language),
        ] {
            list.extend(code.filter(|code| !list.contains(code)));
        }
    }
    Some(languages)
}

/// Adds the tokens of languages and tags that `tokenizers` lack.
fn with_special_tokens(
    config: &TrainConfig,
    tokenizers: Tokenizers,
    languages: Option<&Languages>,
) -> Result<Tokenizers, TextError> {
    let tags = config.data.train.iter().filter_map(|entry| entry.tag.clone());
    let (mut source, mut target): (Vec<String>, Vec<String>) = (tags.collect(), Vec::new());
    if let Some(languages) = languages {
        let tokens = |codes: &[String]| -> Vec<String> {
            codes.iter().map(|code| languages.token_of(code)).collect()
        };
        match languages.placement {
            LanguagePlacement::TargetInSource => source.extend(tokens(&languages.target)),
            LanguagePlacement::BothSides => {
                source.extend(tokens(&languages.source));
                target.extend(tokens(&languages.target));
            }
        }
    }
    // Weights of an existing model have no rows for new tokens, so they must exist already.
    if config.from.is_some() {
        return Ok(tokenizers);
    }
    if config.tokenizer.joint || config.tokenizer.file.is_some() {
        source.append(&mut target);
        target.clone_from(&source);
    }
    Ok(Tokenizers {
        source: tokenizers.source.with_special_tokens(&source)?,
        target: tokenizers.target.with_special_tokens(&target)?,
    })
}

fn codes(data: &DataConfig, languages: &Languages) -> Result<LanguageCodes, TrainError> {
    LanguageCodes::choose(languages, data).map_err(|problems| TrainError::Problems { problems })
}

fn language_tokens(
    data: &DataConfig,
    languages: Option<&Languages>,
    tokenizers: &Tokenizers,
) -> Result<LanguageTokens, TrainError> {
    let Some(languages) = languages else { return Ok(LanguageTokens::default()) };
    Ok(LanguageTokens::new(languages, &codes(data, languages)?, tokenizers))
}

fn tag_id(tag: &str, tokenizers: &Tokenizers) -> Result<u32, TrainError> {
    tokenizers.source.special_id(tag).ok_or_else(|| {
        let problem =
            format!("[data] `tag` = \"{tag}\" is no special token of the bundle in `from`");
        TrainError::Problems { problems: vec![problem] }
    })
}

/// Returns the number of pairs of each corpus in an epoch: of `Σ weights` pairs, the fraction
/// `weight^(1 / temperature)` of each, and at least one.
fn proportions(weights: &[f64], temperature: f64) -> Vec<usize> {
    let scaled: Vec<f64> = weights.iter().map(|weight| weight.powf(1.0 / temperature)).collect();
    let (pairs, all): (f64, f64) = (weights.iter().sum(), scaled.iter().sum());
    scaled.iter().map(|scaled| ((pairs * scaled / all).round() as usize).max(1)).collect()
}

fn print_proportions(corpora: &[CorpusSummary], access: &DataAccess<'_>) {
    let all: usize = corpora.iter().map(|corpus| corpus.pairs_per_epoch).sum();
    for CorpusSummary { name, pairs, pairs_per_epoch, .. } in corpora {
        (access.print)(&format!(
            "mixture: {name}: {pairs_per_epoch} of {pairs} pairs in each epoch ({:.1} %)",
            100.0 * *pairs_per_epoch as f64 / all.max(1) as f64
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With temperature 1, the counts are the weights. With temperature 2, corpora of 900 and 100
    /// pairs have the fractions √900 : √100 = 3 : 1 of 1,000 pairs.
    #[test]
    fn proportions_follow_weights_and_temperature() {
        assert_eq!(proportions(&[900.0, 100.0], 1.0), [900, 100]);
        assert_eq!(proportions(&[900.0, 100.0], 2.0), [750, 250]);
        assert_eq!(proportions(&[29_000.0 * 0.5, 0.2], 1.0), [14_500, 1]);
        // Near equal parts at a high temperature.
        let [first, second] = proportions(&[900.0, 100.0], 1_000.0)[..] else { panic!() };
        assert!(first - second <= 2, "{first} {second}");
    }
}
