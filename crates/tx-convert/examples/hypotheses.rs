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
use tx_engine::PackedTransformer;
use tx_infer::{
    Bundle, Cancellation, Device, EarlyStopping, Hypothesis, LanguagePlacement, Precision, Request,
    SearchOptions,
};
use tx_model::DecoderStart;
use tx_text::special::{BOS, EOS, PAD};

/// Lines whose logits are printed, for a target with the ids of the source.
const FORCED: usize = 3;
/// Tokens of such a target.
const FORCED_TOKENS: usize = 8;

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
    let model = bundle.pack::<PackedTransformer>(Precision::F32)?;
    let mut out = io::stdout().lock();
    for (number, line) in io::stdin().lock().lines().enumerate() {
        let mut ids = source.encode(&line?)?;
        ids.splice(0..0, first);
        let mut found = serde_json::Map::new();
        found.insert("ids".into(), json!(ids));
        if number < FORCED {
            let start = start_id(bundle.config.decoder_start);
            let mut decoding = model.start(&[&ids]);
            let target = ids.iter().take(FORCED_TOKENS).copied();
            let logits = [start].into_iter().chain(target).map(|id| decoding.step_logits(&[id]));
            found.insert("logits".into(), json!(logits.collect::<Vec<_>>()));
        }
        for &beam in &beams {
            let options = with_beam(&recommended, beam);
            let request = Request { forced_first: forced, ..Request::new(&ids, 0) };
            let hypotheses = engine.search_requests(&[request], &options, &Cancellation::new())?;
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

/// Id of the first input of the decoder.
fn start_id(start: DecoderStart) -> u32 {
    match start {
        DecoderStart::Pad => PAD,
        DecoderStart::Eos => EOS,
        DecoderStart::Bos | DecoderStart::Zero => BOS,
    }
}
