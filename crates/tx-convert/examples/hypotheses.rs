//! Imports a folder of `transformers`, and prints token ids and hypotheses of the lines of standard
//! input as JSON, for `benches/compare/transformers_parity.py`.
//!
//! ```sh
//! cargo run --release -p tx-convert --example hypotheses -- FOLDER BUNDLE 1,4,6 < lines
//! ```

use std::{
    error::Error,
    io::{self, BufRead, Write},
    path::PathBuf,
};

use serde_json::json;
use tx_convert::import::import;
use tx_infer::{
    Bundle, Cancellation, Device, EarlyStopping, Hypothesis, LanguagePlacement, Request,
    SearchOptions,
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1);
    let mut next = || args.next().ok_or("expected FOLDER BUNDLE BEAMS");
    let (folder, output) = (PathBuf::from(next()?), PathBuf::from(next()?));
    let beams = next()?.to_string_lossy().into_owned();
    let beams: Vec<usize> = beams.split(',').map(str::parse).collect::<Result<_, _>>()?;

    import(&folder, None)?.save(&output)?;
    let bundle = Bundle::open(&output)?;
    let source = &bundle.tokenizers.source;
    let recommended = bundle.search.clone().unwrap_or_default();
    let (mut first, mut forced) = (None, None);
    if let Some(languages) = &bundle.languages
        && languages.placement == LanguagePlacement::BothSides
    {
        let id = |code: &Option<String>| source.id(&languages.token_of(code.as_ref()?));
        (first, forced) = (id(&languages.default_source), id(&languages.default_target));
    }
    let engine = bundle.engine(&Device::Cpu)?;
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let mut ids = source.encode(&line?)?;
        ids.splice(0..0, first);
        let mut found = serde_json::Map::new();
        found.insert("ids".into(), json!(ids));
        for &beam in &beams {
            let options = with_beam(&recommended, beam);
            let request = Request { forced_first: forced, ..Request::new(&ids, 0) };
            let hypotheses =
                engine.search_requests(&[request], &options, &Cancellation::new())?;
            let hypotheses: Vec<_> = hypotheses
                .into_iter()
                .flatten()
                .map(|Hypothesis { ids, score, .. }| json!({ "ids": ids, "score": score }))
                .collect();
            found.insert(beam.to_string(), hypotheses.into());
        }
        writeln!(out, "{}", json!(found))?;
    }
    Ok(())
}

/// Recommended options with another beam, and the stopping rule of `generate()`.
fn with_beam(recommended: &SearchOptions, beam: usize) -> SearchOptions {
    let options = recommended.clone();
    match beam {
        1 => options.with_one_hypothesis(),
        _ => {
            let early_stopping = EarlyStopping::Improvement;
            SearchOptions { beam, n_best: beam, early_stopping, ..options }
        }
    }
}
