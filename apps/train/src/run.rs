//! From the command line to a trained bundle.

use std::{
    io::{Write, stderr},
    path::PathBuf,
};

use tx_train::{Layers, Outcome, TrainError, Trainer};

use crate::args::RunArgs;

/// Trains, and says what to do with the result.
pub fn train(args: RunArgs) -> anyhow::Result<()> {
    let (kind, device) = args.device.open()?;
    let trainer = match &args.resume {
        Some(run) => Trainer::resume(run, device, |layers| lay(&args, layers))?,
        None => {
            let mut layers = match (&args.config, &args.recipe) {
                (Some(path), _) => Layers::file(path)?,
                (None, Some(name)) => Layers::recipe(name)?,
                (None, None) if args.source.is_some() || args.tsv.is_some() => {
                    Layers::recipe("small")?
                }
                (None, None) => Layers::recipe("phrasebook")?,
            };
            lay(&args, &mut layers)?;
            let config = layers.finish()?;
            let name = config.recipe.clone().unwrap_or_else(|| "custom".into());
            let run = args.run.clone().unwrap_or_else(|| PathBuf::from("runs").join(name));
            Trainer::new(config, run, device)
        }
    };
    if !args.quiet {
        writeln!(stderr(), "device: {}", kind.name())?;
    }
    let outcome = trainer.quiet(args.quiet).run()?;
    if !args.quiet {
        write!(stderr(), "{}", farewell(&outcome))?;
    }
    Ok(())
}

/// Lays what the command line says over the configuration.
fn lay(args: &RunArgs, layers: &mut Layers) -> Result<(), TrainError> {
    let files = [
        ("data.train_source", &args.source),
        ("data.train_target", &args.target),
        ("data.train_tsv", &args.tsv),
        ("data.valid_source", &args.valid_source),
        ("data.valid_target", &args.valid_target),
        ("data.valid_tsv", &args.valid_tsv),
    ];
    for (key, path) in files {
        if let Some(path) = path {
            layers.set_value("data.source", "files");
            layers.set_value(key, path.to_string_lossy().into_owned());
        }
    }
    if let Some(seed) = args.seed {
        layers.set_value("train.seed", seed as i64);
    }
    args.set.iter().try_for_each(|setting| layers.set(setting))
}

/// The best model, and a command to try it with.
fn farewell(outcome: &Outcome) -> String {
    let run = outcome.run.display();
    let mut text = match &outcome.state.best {
        Some(best) => format!("bundle: {run} (best of epoch {})\n", best.epoch),
        None => return format!("nothing was left to train in {run}\n"),
    };
    // Cargo tells its children where it is.
    let translate = if std::env::var_os("CARGO").is_some() {
        "cargo run --release --bin translate --"
    } else {
        "translate"
    };
    if let Some(example) = outcome.examples.first() {
        let example = example.replace('\'', "'\\''");
        text += &format!("try it:\n  {translate} --model {run} --text '{example}'\n");
    }
    text
}
