//! Translation of text with markup: HTML, XML, placeholders, subtitles and office documents.
//!
//! A [`File`] contains texts in one [`Format`]. A [`Plan`] divides a text into sentences without markup, and
//! composes the answer of their translations, whose word alignments place the markup. [`translate()`] does so for
//! many texts; a program with its own queue of sentences uses [`Plan`] and [`Done`]. The crate opens no file, and
//! bounds what it reads and writes, because files can be hostile.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use tx_infer::{Aligner, AlignmentOptions, Deadline, Device, Translator};
//! use tx_markup::{Format, PlanOptions, translate};
//!
//! let translator = Translator::open("runs/phrasebook", &Device::Cpu)?;
//! let aligner = Aligner::new(translator.engine().clone(), AlignmentOptions::default());
//! let options = PlanOptions { format: Format::Html, ..PlanOptions::default() };
//! let deadline = Deadline::after(Duration::from_secs(10));
//! let texts = ["<p>Where is the <b>cat</b>?</p>".to_owned()];
//! let translated = translate(&texts, &translator, &aligner, &options, &deadline, |_| {})?;
//! assert_eq!(translated, ["<p>Dov'è il <b>gatto</b>?</p>"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod file;
mod office;
mod subtitles;

mod plan;
mod translate;
mod unit;

mod layout;
mod markup;

mod error;

#[cfg(test)]
mod fixture;

pub use error::MarkupError;
pub use file::{File, FileFormat};
pub use layout::LineBreaks;
pub use markup::{Format, TagOptions, placeholders::words as placeholders_of};
pub use office::{Document, OfficeFormat};
pub use plan::{Partial, Plan, PlanOptions, SentenceResult};
pub use subtitles::{SubtitleFormat, Subtitles};
pub use translate::translate;
pub use unit::{Done, Unit};
