//! `translate score`: scores of translations against references.

use std::{
    fs,
    io::{BufReader, Write, stdin},
    path::Path,
};

use anyhow::Context;
use tx_cli::{
    allocator::SmallPages,
    terminal::{stderr, stdout},
};
use tx_eval::{
    Corpus, Metric, SegmentStatistics,
    confidence::{self, Resampling},
    paired::{self, SystemResult},
};
use tx_infer::{Bundle, Sampling, TermAccuracy};
use tx_text::{Lines, TextError, lines::read_lines};

use crate::usage::Usage;

mod args;
mod report;

use args::{MetricName, ModelSystemArgs, Paired, Tokenize};
pub use args::{ScoreArgs, tokenizer_hint};
use report::{Column, Digits, Single};

/// Lines with a separate period at the end from which text seems to be tokenized, as in sacreBLEU.
const TOKENIZED_LINES: usize = 100;

/// Prints the scores of one system, or a comparison of several.
pub fn score(args: ScoreArgs) -> anyhow::Result<()> {
    if let Some(problem) = args.problem() {
        return Err(Usage::new(problem).into());
    }
    let references =
        args.reference.iter().map(|path| read(path)).collect::<anyhow::Result<Vec<_>>>()?;
    let systems = systems(&args, references[0].len())?;
    warn_of_tokenized_text(&args, &systems)?;
    let names: Vec<String> = systems.iter().map(|system| system.name.clone()).collect();
    let metrics = args.metrics(terms(&args, references[0].len())?);
    // By metric, then by system.
    let mut statistics: Vec<Vec<SegmentStatistics>> = metrics.iter().map(|_| Vec::new()).collect();
    for system in &systems {
        let corpus = Corpus::new(&system.lines, &references)
            .with_context(|| format!("cannot score `{}`", system.name))?;
        for (metric, found) in metrics.iter().zip(&mut statistics) {
            found.push(metric.statistics(&corpus)?);
        }
    }

    let found = metrics.iter().zip(&statistics);
    let digits = Digits(args.width);
    let mut output = stdout();
    if args.sentence_level {
        let columns: Vec<_> =
            found.map(|(metric, systems)| line_scores(&**metric, &systems[0])).collect();
        match args.json {
            true => report::lines_json(&mut output, &columns),
            false => report::lines(&mut output, &columns, digits),
        }?;
    } else if let [_] = &names[..] {
        let scores = found
            .map(|(metric, systems)| single(&**metric, &systems[0], &args))
            .collect::<anyhow::Result<Vec<_>>>()?;
        match args.json {
            true => report::singles_json(&mut output, &scores, digits),
            false => report::singles(&mut output, &scores, digits),
        }?;
    } else {
        let columns = found
            .map(|(metric, systems)| column(&**metric, systems, &args))
            .collect::<anyhow::Result<Vec<_>>>()?;
        match args.json {
            true => report::table_json(&mut output, &names, &columns),
            false => report::table(&mut output, &names, &columns, digits),
        }?;
    }
    Ok(())
}

/// Translations of one system, with its name.
struct System {
    name: String,
    lines: Vec<String>,
}

/// Warns, as sacreBLEU does, if BLEU tokenizes text that seems to be tokenized already.
fn warn_of_tokenized_text(args: &ScoreArgs, systems: &[System]) -> anyhow::Result<()> {
    if !args.metrics.contains(&MetricName::Bleu) || args.bleu.tokenize == Tokenize::None {
        return Ok(());
    }
    for System { name, lines } in systems {
        let tokenized = lines.iter().filter(|line| line.ends_with(" .")).count();
        if tokenized >= TOKENIZED_LINES {
            writeln!(
                stderr(),
                "warning: `{name}` has {tokenized} lines that end in a tokenized period (` .`); BLEU \
                 of text that is not detokenized is not comparable"
            )?;
        }
    }
    Ok(())
}

/// Reads a source of `expected` lines.
fn sources(args: &ScoreArgs, source: &Path, expected: usize) -> anyhow::Result<Vec<String>> {
    let sources = read_lines(source)?;
    anyhow::ensure!(
        sources.len() == expected,
        "`{}` has {} lines, but `{}` has {expected}",
        source.display(),
        sources.len(),
        args.reference[0].display(),
    );
    Ok(sources)
}

/// Returns the terminology accuracy with the glossary, if there is one.
fn terms(args: &ScoreArgs, expected: usize) -> anyhow::Result<Option<TermAccuracy>> {
    let ModelSystemArgs { source: Some(source), translator, .. } = &args.translate else {
        return Ok(None);
    };
    let Some(glossary) = translator.glossary.open()? else { return Ok(None) };
    let sources = sources(args, source, expected)?;
    Ok(Some(TermAccuracy { glossary: glossary.into(), sources }))
}

/// Reads the translations to score, or translates a source of `expected` lines.
fn systems(args: &ScoreArgs, expected: usize) -> anyhow::Result<Vec<System>> {
    if let ModelSystemArgs { model: Some(model), source: Some(source), .. } = &args.translate {
        // Checked before translating, which may take hours.
        let sources = sources(args, source, expected)?;
        let lines = translate(args, model, &sources)?;
        return Ok(vec![System { name: model.display().to_string(), lines }]);
    }
    if args.hypothesis.is_empty() {
        let lines = Lines::from_stream(Box::new(BufReader::new(stdin())), "standard input")?;
        return Ok(vec![System {
            name: "standard input".to_owned(),
            lines: standard_input(lines)?,
        }]);
    }
    args.hypothesis
        .iter()
        .map(|path| Ok(System { name: path.display().to_string(), lines: read(path)? }))
        .collect()
}

/// Reads the lines of a file as the program `sacrebleu` does: they end at line feeds only, trailing
/// white space is removed, and a byte order mark is a character of the first line.
fn read(path: &Path) -> anyhow::Result<Vec<String>> {
    let lines = Lines::open(path)?.with_byte_order_mark();
    let lines = lines.map(|line| Ok(trim_end(&line?))).collect::<anyhow::Result<Vec<_>>>()?;
    if lines.is_empty() {
        return Err(TextError::Empty { path: path.into() }.into());
    }
    Ok(lines)
}

/// Reads the lines of standard input as the program `sacrebleu` does: like those of a file, except
/// that a carriage return ends a line too.
fn standard_input(lines: Lines) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for line in lines.with_byte_order_mark() {
        found.extend(line?.split('\r').map(trim_end));
    }
    Ok(found)
}

fn trim_end(line: &str) -> String {
    // White space as in Python: that of Unicode and four ASCII separators.
    let end = line.trim_end_matches(|c: char| c.is_whitespace() || ('\x1c'..='\x1f').contains(&c));
    end.to_owned()
}

/// Translates `sources` with the model that `args` name, as `translate` does.
fn translate(args: &ScoreArgs, model: &Path, sources: &[String]) -> anyhow::Result<Vec<String>> {
    let ModelSystemArgs { translator, output, .. } = &args.translate;
    let (_, device) = translator.device.open()?;
    let small_pages = SmallPages::new();
    let bundle = Bundle::open_for_model(model)?;
    let small_pages = small_pages.while_packing(bundle.weight_bytes());
    let seed = args.resampling.seed.unwrap_or(Sampling::default().seed);
    let translator = translator.translator(model, &bundle, &device, seed)?;
    drop(small_pages);
    let translations = translator.translate_document(sources)?;
    for (index, _) in translations.iter().enumerate().filter(|(_, found)| found.truncated) {
        let (line, max_len) = (index + 1, translator.config().max_len);
        writeln!(
            stderr(),
            "warning: line {line} of the source was truncated to {max_len} tokens, the maximum of \
             this model"
        )?;
    }
    let lines: Vec<String> = translations.into_iter().map(|translation| translation.text).collect();
    if let Some(path) = output {
        let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        fs::write(path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    Ok(lines)
}

fn line_scores(metric: &dyn Metric, statistics: &SegmentStatistics) -> report::Lines {
    report::Lines {
        name: metric.name(),
        signature: metric.signature(statistics.n_references()),
        scores: metric.line_scores(statistics),
    }
}

fn single(
    metric: &dyn Metric,
    statistics: &SegmentStatistics,
    args: &ScoreArgs,
) -> anyhow::Result<Single> {
    let confidence = match args.resampling.confidence {
        true => Some(confidence::estimate(metric, statistics, intervals(args))?),
        false => None,
    };
    Ok(Single { score: metric.score(statistics), confidence })
}

fn column(
    metric: &dyn Metric,
    systems: &[SegmentStatistics],
    args: &ScoreArgs,
) -> anyhow::Result<Column> {
    let options = &args.resampling;
    let resampling = |default: Resampling| Resampling {
        samples: options.paired_n.map_or(default.samples, |n| n.get()),
        seed: options.seed(),
    };
    let found = match options.paired {
        Some(Paired::Bootstrap) => {
            paired::bootstrap(metric, systems, resampling(Resampling::BOOTSTRAP))?
        }
        Some(Paired::Randomization) => {
            let samples = options.confidence.then_some(options.confidence_n.get());
            let trials = resampling(Resampling::RANDOMIZATION);
            paired::randomization(metric, systems, trials, samples)?
        }
        None => return unpaired(metric, systems, args),
    };
    // A difference of 0 is never exceeded, so that the tests find equal systems significant.
    let equal = systems.iter().map(|system| Some(system) == systems.first()).collect();
    Ok(Column { name: metric.name(), signature: found.signature, systems: found.systems, equal })
}

/// Scores each system on its own.
fn unpaired(
    metric: &dyn Metric,
    systems: &[SegmentStatistics],
    args: &ScoreArgs,
) -> anyhow::Result<Column> {
    let mut signature = metric.signature(systems[0].n_references());
    let mut compared = Vec::new();
    for statistics in systems {
        let Single { score, confidence } = single(metric, statistics, args)?;
        let interval = confidence.map(|found| {
            signature = found.signature;
            found.interval
        });
        compared.push(SystemResult { score: score.value, p_value: None, interval });
    }
    let equal = vec![false; compared.len()];
    Ok(Column { name: metric.name(), signature, systems: compared, equal })
}

fn intervals(args: &ScoreArgs) -> Resampling {
    Resampling { samples: args.resampling.confidence_n.get(), seed: args.resampling.seed() }
}
