//! Writing of bundles as one file.

use std::{
    io::{self, Write},
    path::Path,
};

use super::{
    CONFIG, Headers, PROVENANCE, QuantizedWeights, WEIGHTS, file_bytes::FileBytes, files::Files,
    tokenizers::tokenizer_files,
};
use crate::{
    error::InferError,
    file::{persist, temporary_beside},
    lexicon::LEXICON,
};

/// Writes the bundle at `from` as one file, a tar archive, which [`Bundle::open`](super::Bundle::open)
/// opens like the folder. Equal bundles give equal archives. An archive at `to` is replaced.
///
/// # Errors
///
/// Same as [`Bundle::open`](super::Bundle::open) without those of the values of weights;
/// [`InferError::Write`].
pub fn archive(from: &Path, to: &Path) -> Result<(), InferError> {
    let files = Files::open(from)?;
    let Headers { task, .. } = Headers::read(&files, QuantizedWeights::Mapped)?;
    // The weights are last, as they are written into a folder.
    let lexicon: &[&str] = if files.contains(LEXICON) { &[LEXICON] } else { &[] };
    let names = [&[CONFIG], tokenizer_files(task.kind()), lexicon, &[PROVENANCE, WEIGHTS]].concat();
    let contents = names.into_iter().map(|name| Ok((name, files.bytes(name)?)));
    let contents = contents.collect::<Result<Vec<_>, InferError>>()?;
    write(to, &contents).map_err(|source| InferError::Write { path: to.into(), source })
}

fn write(to: &Path, contents: &[(&str, FileBytes)]) -> io::Result<()> {
    let mut file = temporary_beside(to)?;
    let mut archive = tar::Builder::new(&mut file);
    for (name, bytes) in contents {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, &bytes[..])?;
    }
    archive.into_inner()?.flush()?;
    persist(file, to)
}
