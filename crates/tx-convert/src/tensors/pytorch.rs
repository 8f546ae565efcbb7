//! Tensors of PyTorch files, `.bin` and `.pt`: the archives that `torch.save` writes, and its files
//! before version 1.6, which are a sequence of pickles followed by the values.
//!
//! One reader decides what a file contains, so that what is checked is what is read. Other files
//! that PyTorch accepts, such as TAR archives and plain pickles, are rejected.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use serde::Deserialize;
use zip::{CompressionMethod, ZipArchive};

use super::{
    Scalar, Tensor, Tensors, elements,
    pickle::{Pickle, Storage, TensorView},
    safetensors::shards,
};
use crate::{
    error::ConvertError,
    source_files::{SourceFiles, regular_file},
};

/// Largest pickle in bytes. The pickle of a model with 1,000 tensors has 150 kB.
const MAX_PICKLE: u64 = 16 << 20;
/// Maximum number of bytes of all tensors, in multiples of the file. Tied matrices occur up to four
/// times in a model.
const MAX_REPEATS: u64 = 8;

/// Name of the pickle in an archive.
const PICKLE: &str = "data.pkl";
/// Number at the start of an old file, in little-endian order: 0x1950a86a20f9469cfc6c.
const MAGIC: &[u8] = b"\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
/// Version of old files.
const PROTOCOL: i64 = 1001;

/// Index of a model in shards: the file of each tensor.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Tensors {
    /// Opens a file written by `torch.save`. With `key`, the tensors are those of the dictionary
    /// under this key of the saved object.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is damaged, contains classes other than those of tensors, or a tensor
    /// that is not in the file.
    pub(crate) fn open_pytorch(path: &Path, key: Option<&str>) -> Result<Self, ConvertError> {
        let mut tensors = Self::new(path);
        tensors.add_pytorch(path, key)?;
        Ok(tensors)
    }

    /// Names of the tensors that [`open_pytorch`](Self::open_pytorch) opens. Their values are not read.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or its pickle is damaged or contains other classes.
    pub(crate) fn pytorch_names(
        path: &Path,
        key: Option<&str>,
    ) -> Result<Vec<String>, ConvertError> {
        with_pickle(path, |pickle| {
            let tensors = pickle.tensors(key)?;
            Ok(tensors.into_iter().map(|(name, _)| name.to_owned()).collect())
        })
    }

    /// Options in a file written by `torch.save`: for each of `names`, the value in the first of the
    /// `dictionaries` that has one. A dictionary is named by the path of keys to it.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or its pickle is damaged or contains other classes.
    pub(crate) fn pytorch_options<'a>(
        path: &Path,
        dictionaries: &[&[&str]],
        names: &[&'a str],
    ) -> Result<BTreeMap<&'a str, Scalar>, ConvertError> {
        with_pickle(path, |pickle| {
            let value = |name: &&'a str| {
                let mut places = dictionaries.iter().map(|keys| [*keys, &[*name]].concat());
                Some((*name, places.find_map(|keys| pickle.scalar(&keys))?))
            };
            Ok(names.iter().filter_map(value).collect())
        })
    }

    /// Opens the shards that an index, `pytorch_model.bin.index.json`, names.
    ///
    /// # Errors
    ///
    /// Same as [`open_safetensors_index`](Self::open_safetensors_index).
    pub(crate) fn open_pytorch_index(
        index: &Path,
        files: &mut SourceFiles,
    ) -> Result<Self, ConvertError> {
        let content = files.json::<Index>(index)?;
        let mut tensors = Self::new(index);
        for shard in shards(index, content.weight_map.values())? {
            let path = index.with_file_name(shard);
            files.add(&path)?;
            tensors.add_pytorch(&path, None)?;
        }
        tensors.check_index(content.weight_map.keys())?;
        Ok(tensors)
    }

    fn add_pytorch(&mut self, path: &Path, key: Option<&str>) -> Result<(), ConvertError> {
        let problem = |problem: String| ConvertError::File { path: path.to_owned(), problem };
        let size = regular_file(path)?;
        let mut file = File::open(path)
            .map_err(|source| ConvertError::Read { path: path.to_owned(), source })?;
        let read = |file: &mut File| {
            let pickles = Pickles::read(file, size)?;
            let pickle = Pickle::read(&pickles.object)?;
            let places = pickles.places(file, &pickle, size)?;
            tensors(&pickle, key, &places, size)
        };
        let windows = read(&mut file).map_err(problem)?;
        let (open, file) = (Arc::new(Mutex::new(file)), path.into());
        for (name, shape, element, window) in windows {
            let open = open.clone();
            let read =
                move || window.read(&mut open.lock().unwrap_or_else(PoisonError::into_inner));
            self.insert(name, Tensor::new(&file, shape, element, read))?;
        }
        Ok(())
    }
}

/// Applies `read` to the pickle of the saved object.
fn with_pickle<T>(
    path: &Path,
    read: impl FnOnce(&Pickle<'_>) -> Result<T, String>,
) -> Result<T, ConvertError> {
    let problem = |problem: String| ConvertError::File { path: path.to_owned(), problem };
    let size = regular_file(path)?;
    let mut file =
        File::open(path).map_err(|source| ConvertError::Read { path: path.to_owned(), source })?;
    let pickles = Pickles::read(&mut file, size).map_err(problem)?;
    let pickle = Pickle::read(&pickles.object).map_err(problem)?;
    read(&pickle).map_err(problem)
}

/// Name, shape, element type and position of each tensor.
type Windows = Vec<(String, Vec<usize>, super::ElementType, Window)>;

/// Finds the tensors of a pickle in the file.
///
/// # Errors
///
/// If they are larger than the file in total, or a name is given twice.
fn tensors(
    pickle: &Pickle<'_>,
    key: Option<&str>,
    places: &Places,
    size: u64,
) -> Result<Windows, String> {
    let mut left = size.saturating_mul(MAX_REPEATS);
    let mut names = HashSet::new();
    let mut windows = Vec::new();
    for (name, view) in pickle.tensors(key)? {
        // A pickle can repeat a name without repeating its bytes.
        if !names.insert(name) {
            return Err(format!("it has the tensor `{name}` twice"));
        }
        let TensorView { storage, offset, shape, stride, extent } = view;
        let bytes = elements(shape).and_then(|count| count.checked_mul(storage.width));
        left = bytes
            .and_then(|bytes| left.checked_sub(bytes as u64))
            .ok_or_else(|| format!("its tensors have more than {MAX_REPEATS} times its size"))?;
        let start = places.of(storage)?;
        let window = Window {
            // The view is in its storage, and the storage in the file.
            start: start + (*offset as u64) * storage.width as u64,
            bytes: extent * storage.width,
            width: storage.width,
            shape: shape.clone(),
            stride: stride.clone(),
            is_big_endian: places.is_big_endian,
        };
        windows.push((name.to_owned(), shape.clone(), storage.element, window));
    }
    Ok(windows)
}

/// Pickles of a file.
struct Pickles {
    /// Pickle of the saved object.
    object: Vec<u8>,
    layout: Layout,
}

/// Layout of a file.
enum Layout {
    /// Archive, with the folder of the pickle.
    Archive { prefix: String },
    /// Old file: the keys of its storages in order, and the position of the first one.
    Sequence { keys: Vec<String>, start: u64 },
}

impl Pickles {
    /// Reads the pickles.
    ///
    /// # Errors
    ///
    /// If the file is neither an archive nor an old file of PyTorch, or a pickle is too large.
    fn read(file: &mut File, size: u64) -> Result<Self, String> {
        let mut start = Vec::new();
        file.take(4).read_to_end(&mut start).map_err(text)?;
        file.rewind().map_err(text)?;
        match start.starts_with(b"PK\x03\x04") {
            true => Self::of_archive(file, size),
            false if start.starts_with(b"\x80") => Self::of_sequence(file),
            false => Err("it is neither an archive nor a checkpoint of PyTorch".to_owned()),
        }
    }

    fn of_archive(file: &mut File, size: u64) -> Result<Self, String> {
        let mut archive = ZipArchive::new(BufReader::new(file)).map_err(text)?;
        let mut found = None;
        for index in 0..archive.len() {
            let entry = archive.by_index_raw(index).map_err(text)?;
            let name = entry.name().map_err(text)?;
            if name == PICKLE || name.ends_with("/data.pkl") {
                let name = name.into_owned();
                if found.replace((index, name)).is_some() {
                    return Err(format!("it contains several files `{PICKLE}`"));
                }
            }
        }
        let (index, name) = found.ok_or_else(|| format!("it contains no `{PICKLE}`"))?;
        let prefix = name.strip_suffix(PICKLE).unwrap_or_default().to_owned();
        let (_, bytes) = stored(&mut archive, index)?;
        let most = MAX_PICKLE.min(size);
        if bytes > most {
            return Err(format!("its `{PICKLE}` has {bytes} bytes, more than {most}"));
        }
        let mut object = Vec::new();
        archive.by_index(index).map_err(text)?.take(most).read_to_end(&mut object).map_err(text)?;
        Ok(Self { object, layout: Layout::Archive { prefix } })
    }

    /// Pickles of an old file: magic number, version, machine, the saved object, and the order of
    /// its storages.
    fn of_sequence(file: &mut File) -> Result<Self, String> {
        let mut bytes = Vec::new();
        file.take(MAX_PICKLE).read_to_end(&mut bytes).map_err(text)?;
        let rest = |at: usize| bytes.get(at..).unwrap_or_default();
        let magic = Pickle::read(&bytes)?;
        if !magic.is_long(MAGIC) {
            return Err("it is a pickle, but not a checkpoint of PyTorch".to_owned());
        }
        let mut at = magic.length;
        let version = Pickle::read(rest(at))?;
        if !version.is_int(PROTOCOL) {
            return Err(format!("its version is not {PROTOCOL}"));
        }
        at += version.length;
        let machine = Pickle::read(rest(at))?;
        if machine.denies("little_endian") {
            return Err("it was written by a big-endian machine".to_owned());
        }
        at += machine.length;
        let object = at..at + Pickle::read(rest(at))?.length;
        let keys = Pickle::read(rest(object.end))?;
        let start = (object.end + keys.length) as u64;
        let keys = keys.texts()?.into_iter().map(str::to_owned).collect();
        let object = bytes.get(object).unwrap_or_default().to_vec();
        Ok(Self { object, layout: Layout::Sequence { keys, start } })
    }

    /// Finds the storages of the object in the file.
    ///
    /// # Errors
    ///
    /// If one is missing, compressed, damaged or not in the file.
    fn places(&self, file: &mut File, pickle: &Pickle<'_>, size: u64) -> Result<Places, String> {
        match &self.layout {
            Layout::Archive { prefix } => Places::of_archive(file, prefix, pickle, size),
            Layout::Sequence { keys, start } => {
                Places::of_sequence(file, keys, *start, pickle, size)
            }
        }
    }
}

/// Positions of the storages in a file.
struct Places {
    /// First byte and number of bytes by key.
    places: HashMap<String, (u64, u64)>,
    is_big_endian: bool,
}

impl Places {
    fn of_archive(
        file: &mut File,
        prefix: &str,
        pickle: &Pickle<'_>,
        size: u64,
    ) -> Result<Self, String> {
        file.rewind().map_err(text)?;
        let mut archive = ZipArchive::new(BufReader::new(file)).map_err(text)?;
        let mut order = String::new();
        let byteorder = format!("{prefix}byteorder");
        if let Some(index) = archive.index_for_name_raw(byteorder.as_bytes()) {
            stored(&mut archive, index)?;
            let entry = archive.by_index(index).map_err(text)?;
            entry.take(16).read_to_string(&mut order).map_err(text)?;
        }
        let is_big_endian = match order.as_str() {
            "" | "little" => false,
            "big" => true,
            other => return Err(format!("its `byteorder` is `{other}`, expected little or big")),
        };
        let mut places = HashMap::new();
        let mut left = size;
        for Storage { key, .. } in pickle.storages() {
            if places.contains_key(*key) {
                continue;
            }
            let name = format!("{prefix}data/{key}");
            let index = archive
                .index_for_name_raw(name.as_bytes())
                .ok_or_else(|| format!("it has no storage `{name}`"))?;
            let (start, bytes) = stored(&mut archive, index)?;
            // Entries that overlap would be read again and again.
            left = left.checked_sub(bytes).ok_or("its storages are larger than the file")?;
            // The checksum is compared at the end of the entry.
            let mut entry = archive.by_index(index).map_err(text)?;
            let read = io::copy(&mut entry, &mut io::sink());
            read.map_err(|error| format!("its storage `{name}`: {error}"))?;
            places.insert((*key).to_owned(), (start, bytes));
        }
        Ok(Self { places, is_big_endian })
    }

    /// Each storage is the number of its elements, in 8 bytes, and its elements.
    fn of_sequence(
        file: &mut File,
        keys: &[String],
        mut at: u64,
        pickle: &Pickle<'_>,
        size: u64,
    ) -> Result<Self, String> {
        let mut known: HashMap<&str, usize> = HashMap::new();
        for storage in pickle.storages() {
            if *known.entry(storage.key).or_insert(storage.width) != storage.width {
                return Err(format!("its storage `{}` has two types", storage.key));
            }
        }
        let mut places = HashMap::new();
        for key in keys {
            let width = known.get(key.as_str());
            let width = *width.ok_or_else(|| format!("no tensor has its storage `{key}`"))?;
            let mut count = [0; 8];
            file.seek(SeekFrom::Start(at)).map_err(text)?;
            file.read_exact(&mut count).map_err(|error| format!("its storage `{key}`: {error}"))?;
            let bytes = u64::from_le_bytes(count).checked_mul(width as u64);
            let start = at + count.len() as u64;
            let end = bytes.and_then(|bytes| start.checked_add(bytes)).filter(|end| *end <= size);
            at = end.ok_or_else(|| format!("its storage `{key}` is not in the file"))?;
            places.insert(key.clone(), (start, at - start));
        }
        Ok(Self { places, is_big_endian: false })
    }

    /// First byte of a storage.
    ///
    /// # Errors
    ///
    /// If the file has fewer elements than the pickle says.
    fn of(&self, storage: &Storage<'_>) -> Result<u64, String> {
        let Storage { key, width, count, .. } = storage;
        let (start, bytes) = self.places.get(*key).ok_or_else(|| format!("no storage `{key}`"))?;
        match count.checked_mul(*width).filter(|needed| *needed as u64 <= *bytes) {
            Some(_) => Ok(*start),
            None => {
                Err(format!("its storage `{key}` has {bytes} bytes, expected {count} elements"))
            }
        }
    }
}

/// Position and number of bytes of an entry, which `torch.save` never compresses.
fn stored<R: Read + Seek>(archive: &mut ZipArchive<R>, index: usize) -> Result<(u64, u64), String> {
    let entry = archive.by_index_raw(index).map_err(text)?;
    let problem = |problem: &str| {
        let name = entry.name().map(|name| name.into_owned()).unwrap_or_default();
        format!("its `{name}` {problem}")
    };
    if entry.compression() != CompressionMethod::Stored || entry.encrypted() {
        return Err(problem("is compressed or encrypted"));
    }
    if entry.compressed_size() != entry.size() {
        return Err(problem("has two sizes"));
    }
    let start = entry.data_start().ok_or_else(|| problem("has no position"))?;
    Ok((start, entry.size()))
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Bytes of a tensor in the file.
struct Window {
    start: u64,
    /// Bytes from the first to the last element.
    bytes: usize,
    /// Bytes of an element.
    width: usize,
    shape: Vec<usize>,
    stride: Vec<usize>,
    is_big_endian: bool,
}

impl Window {
    /// Reads the elements in row-major order, each in little-endian order.
    fn read(&self, file: &mut File) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.bytes];
        file.seek(SeekFrom::Start(self.start))?;
        file.read_exact(&mut bytes)?;
        if !self.is_contiguous() {
            bytes = self.gather(&bytes);
        }
        if self.is_big_endian {
            bytes.chunks_mut(self.width).for_each(<[u8]>::reverse);
        }
        Ok(bytes)
    }

    fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        self.shape.iter().zip(&self.stride).rev().all(|(&size, &stride)| {
            let fits = size <= 1 || stride == expected;
            expected = size.saturating_mul(expected);
            fits
        })
    }

    /// Elements of a view whose neighbors are not adjacent, such as a transposed matrix.
    fn gather(&self, bytes: &[u8]) -> Vec<u8> {
        let count = elements(&self.shape).unwrap_or_default();
        let mut gathered = Vec::with_capacity(count * self.width);
        let mut position = vec![0; self.shape.len()];
        let mut at = 0;
        for _ in 0..count {
            let start = at * self.width;
            gathered.extend_from_slice(bytes.get(start..start + self.width).unwrap_or_default());
            // The next position: the last dimension that does not overflow is increased.
            for ((place, &size), &stride) in
                position.iter_mut().zip(&self.shape).zip(&self.stride).rev()
            {
                *place += 1;
                if *place < size {
                    at += stride;
                    break;
                }
                *place = 0;
                at -= size.saturating_sub(1) * stride;
            }
        }
        gathered
    }
}

#[cfg(test)]
mod tests;
