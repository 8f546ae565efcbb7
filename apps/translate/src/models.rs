//! `translate models`: models of a catalogue, and their bundles.

use std::{io::Write, path::PathBuf};

use clap::{Args, Subcommand, ValueHint};
use tx_catalogue::{Catalogue, Entry, Store};
use tx_cli::{
    download::DownloadArgs,
    terminal::{printable, stderr, stdout},
};
use tx_fetch::{Cache, Fetcher};

/// Arguments of `translate models`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  translate models list --source en
  translate models get argos-en-it
  translate --model argos-en-it --text 'The cat sleeps.'
  translate serve --model argos-en-it")]
pub struct ModelsArgs {
    #[command(subcommand)]
    command: ModelsCommand,
}

#[derive(Debug, Subcommand)]
enum ModelsCommand {
    /// List the models of the catalogue: name, languages, whether it was downloaded, license; and
    /// downloaded models of other catalogues
    List(ListArgs),

    /// Print the files of a model, with their sizes and checksums, and where its bundle is
    Info(InfoArgs),

    /// Download a model and write its bundle, which --model finds by the name of the model
    ///
    /// Prints the folder of the bundle. The size and the checksum of a file that the catalogue does not
    /// have are recorded at its first download.
    Get(GetArgs),

    /// Delete the bundle of a model
    Remove(RemoveArgs),
}

/// Catalogues.
#[derive(Debug, Args)]
struct CatalogueArgs {
    /// Further catalogue, whose models replace those of the same names (repeatable)
    #[arg(long, value_name = "FILE|URL")]
    catalogue: Vec<String>,

    /// Network access and output
    #[command(flatten)]
    download: DownloadArgs,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Source language, as a code such as en
    #[arg(long, value_name = "CODE")]
    source: Option<String>,

    /// Target language, as a code such as it
    #[arg(long, value_name = "CODE")]
    target: Option<String>,

    /// List downloaded models only
    #[arg(long)]
    downloaded: bool,

    #[command(flatten)]
    catalogue: CatalogueArgs,
}

#[derive(Debug, Args)]
struct InfoArgs {
    /// Name of the model
    name: String,

    #[command(flatten)]
    catalogue: CatalogueArgs,
}

#[derive(Debug, Args)]
struct GetArgs {
    /// Name of the model
    name: String,

    /// Folder with the files of the model, downloaded by other means
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    from: Option<PathBuf>,

    #[command(flatten)]
    catalogue: CatalogueArgs,
}

#[derive(Debug, Args)]
struct RemoveArgs {
    /// Name of the model
    name: String,
}

impl CatalogueArgs {
    /// Opens all catalogues, with the fetcher that downloads them.
    fn open(&self) -> anyhow::Result<(Catalogue, Fetcher)> {
        let fetcher = self.download.fetcher()?;
        let catalogue = self.catalogue.iter().try_fold(Catalogue::shipped()?, |all, from| {
            Ok::<_, anyhow::Error>(all.with(Catalogue::open(from, &fetcher)?))
        })?;
        Ok((catalogue, fetcher))
    }
}

/// Runs a command on the models of the catalogue.
pub fn models(args: ModelsArgs) -> anyhow::Result<()> {
    match args.command {
        ModelsCommand::List(args) => list(&args),
        ModelsCommand::Info(args) => info(&args),
        ModelsCommand::Get(args) => get(&args),
        ModelsCommand::Remove(args) => Ok(Store::in_cache(&Cache::of_user()?).remove(&args.name)?),
    }
}

fn list(args: &ListArgs) -> anyhow::Result<()> {
    let (catalogue, fetcher) = args.catalogue.open()?;
    let downloaded = Store::in_cache(fetcher.cache()).names()?;
    let is = |wanted: &Option<String>, code: &str| wanted.as_deref().is_none_or(|it| it == code);
    let mut output = stdout();
    for entry in catalogue.entries() {
        let Entry { name, source, target, license, .. } = entry;
        let has = downloaded.binary_search(name).is_ok();
        if is(&args.source, source) && is(&args.target, target) && (has || !args.downloaded) {
            let state = if has { "downloaded" } else { "-" };
            writeln!(output, "{name}\t{source}\t{target}\t{state}\t{}", printable(license))?;
        }
    }
    // Models of catalogues that were not given.
    if args.source.is_none() && args.target.is_none() {
        for name in downloaded.iter().filter(|name| catalogue.entry(name).is_err()) {
            writeln!(output, "{name}\t-\t-\tdownloaded\t-")?;
        }
    }
    Ok(())
}

fn info(args: &InfoArgs) -> anyhow::Result<()> {
    let (catalogue, fetcher) = args.catalogue.open()?;
    let entry = catalogue.entry(&args.name)?;
    let store = Store::in_cache(fetcher.cache());
    let mut output = stdout();
    let mut line = |key: &str, value: &str| writeln!(output, "{key:<10} {}", printable(value));
    line("name", &entry.name)?;
    line("languages", &format!("{} to {}", entry.source, entry.target))?;
    line("format", entry.format().map_or("unknown", |format| format.name()))?;
    line("license", &entry.license)?;
    for file in &entry.files {
        let size = file.bytes.map_or("size unknown".to_owned(), |bytes| format!("{bytes} bytes"));
        let hash = file.sha256.as_deref().unwrap_or("checksum unknown");
        line("file", &format!("{}, {size}, {hash}", file.url))?;
    }
    let bundle = store.bundle(&entry.name);
    line("bundle", &bundle.map_or("not downloaded".to_owned(), |it| it.display().to_string()))?;
    Ok(())
}

fn get(args: &GetArgs) -> anyhow::Result<()> {
    let (catalogue, fetcher) = args.catalogue.open()?;
    let entry = catalogue.entry(&args.name)?;
    let store = Store::in_cache(fetcher.cache());
    if !args.catalogue.download.quiet {
        writeln!(stderr(), "license: {}", printable(&entry.license))?;
    }
    let bundle = match &args.from {
        Some(folder) => store.get_from(entry, folder)?,
        None => store.get(entry, &fetcher)?,
    };
    writeln!(stdout(), "{}", bundle.display())?;
    Ok(())
}
