//! Scores of translations against references.

use std::{
    fs,
    io::{BufReader, Write, stdin},
    path::Path,
};

use anyhow::Context;
use clap::{CommandFactory, error::ErrorKind};
use tx_eval::{
    Corpus, Metric, SegmentStatistics,
    confidence::{self, Resampling},
    paired::{self, SystemResult},
};
use tx_infer::{
    SearchOptions, Translator,
    tx_text::TextError,
    tx_text::{Lines, lines::read_lines},
};

use crate::terminal::{stderr, stdout};

mod args;
mod report;

pub use args::ScoreArgs;
use args::{Paired, TranslateArgs};
use report::{Column, Digits, Single};

/// Prints the scores that `args` ask for.
pub fn score(args: ScoreArgs) -> anyhow::Result<()> {
    if let Some(problem) = args.problem() {
        crate::args::Cli::command().error(ErrorKind::ArgumentConflict, problem).exit();
    }
    let references =
        args.reference.iter().map(|path| read(path)).collect::<anyhow::Result<Vec<_>>>()?;
    let systems = systems(&args, references[0].len())?;
    let names: Vec<String> = systems.iter().map(|system| system.name.clone()).collect();
    let metrics = args.metrics();
    // For each metric those of all systems.
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

/// Translations with the name they are known by.
struct System {
    name: String,
    lines: Vec<String>,
}

/// Reads what to score, or makes it; `expected` lines of it.
fn systems(args: &ScoreArgs, expected: usize) -> anyhow::Result<Vec<System>> {
    if let TranslateArgs { model: Some(model), source: Some(source), .. } = &args.translate {
        let sources = read_lines(source)?;
        // Not after hours of translating.
        anyhow::ensure!(
            sources.len() == expected,
            "`{}` has {} lines, but `{}` has {expected}",
            source.display(),
            sources.len(),
            args.reference[0].display(),
        );
        let lines = translate(&args.translate, model, &sources)?;
        return Ok(vec![System { name: model.display().to_string(), lines }]);
    }
    if args.hypothesis.is_empty() {
        let lines = Lines::new(Box::new(BufReader::new(stdin())), "standard input");
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

/// The lines of a file as the sacreBLEU program reads them: they end at line feeds only, white space
/// at their ends is dropped, and a byte order mark is a character of the first line.
fn read(path: &Path) -> anyhow::Result<Vec<String>> {
    let lines = Lines::open(path)?.with_byte_order_mark();
    let lines = lines.map(|line| Ok(trim_end(&line?))).collect::<anyhow::Result<Vec<_>>>()?;
    if lines.is_empty() {
        return Err(TextError::Empty { path: path.into() }.into());
    }
    Ok(lines)
}

/// The lines of standard input as the sacreBLEU program reads them: as those of a file, but a carriage
/// return ends a line too.
fn standard_input(lines: Lines) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for line in lines.with_byte_order_mark() {
        found.extend(line?.split('\r').map(trim_end));
    }
    Ok(found)
}

fn trim_end(line: &str) -> String {
    // What Python takes for white space: Unicode's, and four separators of ASCII.
    let end = line.trim_end_matches(|c: char| c.is_whitespace() || ('\x1c'..='\x1f').contains(&c));
    end.to_owned()
}

fn translate(
    args: &TranslateArgs,
    model: &Path,
    sources: &[String],
) -> anyhow::Result<Vec<String>> {
    let (_, device) = args.device.open()?;
    let options = SearchOptions {
        beam: args.beam.into(),
        length_penalty: args.length_penalty,
        ..SearchOptions::default()
    };
    let mut translator = Translator::open(model, &device)?.with_options(options)?;
    if let Some(threads) = args.threads {
        translator = translator.with_threads(threads.get());
    }
    let translations = translator.translate_batch(sources)?;
    for (index, _) in translations.iter().enumerate().filter(|(_, found)| found.truncated) {
        let (line, max_len) = (index + 1, translator.config().max_len);
        writeln!(
            stderr(),
            "warning: line {line} of the source was truncated to the {max_len} tokens that this \
             model can read"
        )?;
    }
    let lines: Vec<String> = translations.into_iter().map(|translation| translation.text).collect();
    if let Some(path) = &args.output {
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
    let asked = &args.resampling;
    let resampling = |default: Resampling| Resampling {
        samples: asked.paired_n.map_or(default.samples, |n| n.get()),
        seed: asked.seed,
    };
    let found = match asked.paired {
        Some(Paired::Bootstrap) => {
            paired::bootstrap(metric, systems, resampling(Resampling::BOOTSTRAP))?
        }
        Some(Paired::Randomization) => {
            let samples = asked.confidence.then_some(asked.confidence_n.get());
            let trials = resampling(Resampling::RANDOMIZATION);
            paired::randomization(metric, systems, trials, samples)?
        }
        None => return unpaired(metric, systems, args),
    };
    Ok(Column { name: metric.name(), signature: found.signature, systems: found.systems })
}

/// Each system by itself.
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
    Ok(Column { name: metric.name(), signature, systems: compared })
}

fn intervals(args: &ScoreArgs) -> Resampling {
    Resampling { samples: args.resampling.confidence_n.get(), seed: args.resampling.seed }
}
