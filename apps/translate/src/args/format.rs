//! Format of the input: lines, or a file with markup.

use std::{
    io::{self, IsTerminal},
    path::Path,
};

use clap::ValueEnum;
use tx_markup::{FileFormat, OfficeFormat, SubtitleFormat};

use crate::{
    args::{Invalid, TranslateArgs},
    usage::Usage,
};

/// Format of the input and the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One text per line
    Lines,
    /// Plain text, whose tags and placeholders are kept
    Text,
    /// HTML
    Html,
    /// XML
    Xml,
    /// Subtitles in the format SubRip
    Srt,
    /// Subtitles in the format WebVTT
    Vtt,
    /// Office Open XML
    Docx,
    /// OpenDocument
    Odt,
}

impl Format {
    /// Format of a file as a whole; none for lines.
    fn of_file(self) -> Option<FileFormat> {
        match self {
            Self::Lines => None,
            Self::Text => Some(FileFormat::Text),
            Self::Html => Some(FileFormat::Html),
            Self::Xml => Some(FileFormat::Xml),
            Self::Srt => Some(FileFormat::Subtitles(SubtitleFormat::Srt)),
            Self::Vtt => Some(FileFormat::Subtitles(SubtitleFormat::Vtt)),
            Self::Docx => Some(FileFormat::Office(OfficeFormat::Docx)),
            Self::Odt => Some(FileFormat::Office(OfficeFormat::Odt)),
        }
    }
}

impl TranslateArgs {
    /// Returns the format of a file that is translated as a whole; none for lines.
    ///
    /// # Errors
    ///
    /// If an option has no effect in this format.
    pub fn file_format(&self) -> Result<Option<FileFormat>, Usage> {
        let extension = self.input.as_deref().and_then(Path::extension);
        let by_extension = || {
            let format = FileFormat::of_extension(&extension?.to_string_lossy());
            // Plain text is lines unless its format is given.
            format.filter(|format| *format != FileFormat::Text)
        };
        let Some(format) = self.format.map_or_else(by_extension, Format::of_file) else {
            return match self.output {
                Some(_) => Err(Usage::new(
                    "`--output` has no effect on lines, which are written to standard output",
                )),
                None => Ok(None),
            };
        };
        let search = &self.translator.search;
        let options = [
            ("alignment", self.alignment.is_some()),
            ("interactive", self.interactive),
            ("invalid", self.invalid != Invalid::default()),
            ("json", self.json),
            ("n-best", search.n_best.is_some_and(|n_best| n_best > 1)),
            ("prefix", self.prefix.is_some()),
            ("prefix-file", self.prefix_file.is_some()),
            ("samples", search.samples.is_some_and(|samples| samples > 1) && search.mbr.is_none()),
            ("split", self.split.split.is_some()),
        ];
        if let Some((option, _)) = options.iter().find(|(_, given)| *given) {
            let problem =
                format!("`--{option}` needs lines: `--format lines` reads a file as lines");
            return Err(Usage::new(problem));
        }
        let is_office = matches!(format, FileFormat::Office(_));
        if is_office && self.output.is_none() && io::stdout().is_terminal() {
            return Err(Usage::new(
                "a document is not written to a terminal: `--output` is needed",
            ));
        }
        Ok(Some(format))
    }
}
