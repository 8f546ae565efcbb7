//! File with a figure: output options and formats.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use crate::{png, usage::Usage};

/// Output file.
#[derive(Debug, Args)]
pub struct OutArgs {
    /// Output file; its extension, .html, .svg or .png, selects the format
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub out: PathBuf,

    /// Print nothing but errors
    #[arg(short, long)]
    pub quiet: bool,
}

/// Format of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Page with text.
    Html,
    /// Vector graphics.
    Svg,
    /// Picture.
    Png,
}

impl Format {
    /// Returns the format that the extension of a file selects.
    ///
    /// # Errors
    ///
    /// If the extension is another one.
    pub fn of(path: &Path) -> Result<Self, Usage> {
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        match extension.as_str() {
            "html" | "htm" => Ok(Self::Html),
            "svg" => Ok(Self::Svg),
            "png" => Ok(Self::Png),
            _ => {
                let problem = format!("`{}` does not end with .html, .svg or .png", path.display());
                Err(Usage::new(problem)
                    .with_hint("the extension selects the format, as in `--out figure.svg`"))
            }
        }
    }

    /// Returns the content of a file with the figure `svg`; `html` makes a page of it.
    ///
    /// # Errors
    ///
    /// Those of [`png::render`].
    pub fn content(self, svg: &str, html: impl FnOnce() -> String) -> anyhow::Result<Vec<u8>> {
        match self {
            Self::Html => Ok(html().into_bytes()),
            Self::Svg => Ok(svg.as_bytes().to_vec()),
            Self::Png => png::render(svg),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_selects_the_format() {
        for (name, format) in [
            ("a.html", Format::Html),
            ("a/b.HTM", Format::Html),
            ("a.svg", Format::Svg),
            ("a.b.png", Format::Png),
        ] {
            assert_eq!(Format::of(name.as_ref()).unwrap(), format, "{name}");
        }
        assert!(Format::of("a.json".as_ref()).is_err());
        let content = Format::Svg.content("<svg/>", || "page".into()).unwrap();
        assert_eq!(content, b"<svg/>");
        assert_eq!(Format::Html.content("<svg/>", || "page".into()).unwrap(), b"page");
    }
}
