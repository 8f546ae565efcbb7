//! Hostile archives.

use std::io::Read;

use tx_text::compression::ExpansionLimit;

use super::{super::input::Limits, *};

/// Limits small enough for tests.
fn strict(limits: Limits) -> ReadOptions {
    ReadOptions { limits, ..languages("en", "it") }
}

/// Reader of `len` zeros that are never all in memory.
fn zeros(len: u64) -> impl Read {
    std::io::repeat(0).take(len)
}

#[test]
fn bombs_end_with_an_error() {
    let folder = Folder::new();
    let limit = Limits {
        expansion: ExpansionLimit { bytes: 1 << 20, ..ExpansionLimit::default() },
        ..Limits::default()
    };
    let bomb = |mut packer: Box<dyn Write + '_>| {
        std::io::copy(&mut zeros(50 << 20), &mut packer).unwrap();
    };
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    bomb(Box::new(&mut gzip));
    let mut zstd = ::zstd::Encoder::new(Vec::new(), 3).unwrap();
    bomb(Box::new(&mut zstd));
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    zip.start_file("pairs.tsv", SimpleFileOptions::default()).unwrap();
    bomb(Box::new(&mut zip));
    for (name, bytes) in [
        ("b.gz", gzip.finish().unwrap()),
        ("b.zst", zstd.finish().unwrap()),
        ("b.zip", zip.finish().unwrap().into_inner()),
    ] {
        let path = folder.file(name, bytes);
        // Detection reads only the beginning, so the format is given.
        let options = ReadOptions { format: Some(Format::Csv), ..strict(limit) };
        fails(&path, &options, &[name, "bomb"]);
    }
}

#[test]
fn the_ratio_is_limited_above_a_harmless_size() {
    let folder = Folder::new();
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    std::io::copy(&mut std::io::repeat(b'\n').take(80 << 20), &mut packer).unwrap();
    let path = folder.file("b.gz", packer.finish().unwrap());
    let options = ReadOptions { format: Some(Format::Jsonl), ..languages("en", "it") };
    // 80 MiB of empty lines, with a compression ratio of 1,000.
    fails(&path, &options, &["exceeds the limit of 67108864 bytes"]);
}

#[test]
fn a_line_or_record_without_end_is_refused() {
    let folder = Folder::new();
    let long = vec![b'x'; (16 << 20) + 1];
    let path = folder.file("long.tsv", [b"a\tb\n", long.as_slice()].concat());
    fails(&path, &languages("en", "it"), &["line 2 is longer than 16777216 bytes"]);
    let limit = Limits { record_bytes: 50_000, ..Limits::default() };
    let quote = ["a,b\n\"c".as_bytes(), &long[..100_000]].concat();
    fails(&folder.file("q.csv", quote), &strict(limit), &["an unclosed quote"]);
    let unit = format!("<tmx><body><tu><tuv lang='en'><seg>{}", "x".repeat(100_000));
    fails(&folder.file("u.tmx", unit), &strict(limit), &["a unit is longer than 50000 bytes"]);
    // Many short units do not count as one long unit.
    let many = folder.file(
        "m.tmx",
        tmx().replace("</body>", &format!("{}</body>", "<!-- comment -->\n".repeat(10_000))),
    );
    assert_eq!(read(&many, &strict(limit)).unwrap(), expected());
    let rows = folder.file("r.csv", csv_with(",", "").repeat(5_000));
    assert_eq!(read(&rows, &strict(limit)).unwrap().len(), 15_000);
}

/// Tar archive whose first header has `kind`, the size `size` and a content that zeros complete; a
/// member follows.
fn tar_with_header(kind: ::tar::EntryType, size: u64, content: &str) -> Vec<u8> {
    let mut header = ::tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_cksum();
    let mut archive = GzEncoder::new(Vec::new(), Compression::fast());
    archive.write_all(header.as_bytes()).unwrap();
    archive.write_all(content.as_bytes()).unwrap();
    let padding = size.div_ceil(512) * 512 - content.len() as u64;
    std::io::copy(&mut zeros(padding), &mut archive).unwrap();
    archive.write_all(&tar(&[("short.tsv", b"good\tbuono\n")])).unwrap();
    archive.finish().unwrap()
}

#[test]
fn headers_of_tar_members_are_limited() {
    let folder = Folder::new();
    // A record of attributes is its length, a key and a value.
    let attributes = format!("17 path=good.tsv\n883 comment={}\n", "x".repeat(870));
    for (kind, content) in [
        (::tar::EntryType::GNULongName, "good.tsv\0"),
        (::tar::EntryType::XHeader, attributes.as_str()),
    ] {
        let path = folder.file("names", tar_with_header(kind, content.len() as u64, content));
        let member = PathBuf::from(format!("{}!good.tsv", path.display()));
        let pairs = [SentencePair::new("good", "buono")];
        assert_eq!(read(&member, &languages("en", "it")).unwrap(), pairs, "{kind:?}");
        let path = folder.file("names", tar_with_header(kind, 64 << 20, content));
        let problem = "the headers of a member are longer than 1048576 bytes";
        fails(&path, &languages("en", "it"), &[problem]);
    }
}

#[test]
fn too_many_members_are_refused() {
    let folder = Folder::new();
    let names: Vec<String> = (0..20).map(|n| format!("{n}.txt")).collect();
    let members: Vec<(&str, &[u8])> = names.iter().map(|n| (n.as_str(), &b"x"[..])).collect();
    let limit = Limits { members: 10, ..Limits::default() };
    for bytes in [deflated(&members), tar(&members)] {
        fails(&folder.file("many", bytes), &strict(limit), &["more than 10 members"]);
    }
}

#[test]
fn unsafe_names_and_links_are_skipped() {
    let folder = Folder::new();
    let evil: &[u8] = b"evil\tevil\n";
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default();
    for name in ["../evil.tsv", "/etc/evil.tsv", "a/../../evil.tsv", "c:\\evil.tsv", "a\x1b[2J.tsv"]
    {
        archive.start_file(name, options).unwrap();
        archive.write_all(evil).unwrap();
    }
    archive.add_symlink("link.tsv", "/etc/passwd", options).unwrap();
    archive.start_file("good.tsv", options).unwrap();
    archive.write_all(b"good\tbuono\n").unwrap();
    let zip = archive.finish().unwrap().into_inner();

    let mut archive = ::tar::Builder::new(Vec::new());
    let mut add = |name: &[u8], kind, link: &str, bytes: &[u8]| {
        let mut header = ::tar::Header::new_ustar();
        // `set_path` would reject this name.
        header.as_mut_bytes()[..name.len()].copy_from_slice(name);
        header.set_entry_type(kind);
        header.set_size(bytes.len() as u64);
        if !link.is_empty() {
            header.set_link_name(link).unwrap();
        }
        header.set_cksum();
        archive.append(&header, bytes).unwrap();
    };
    add(b"../evil.tsv", ::tar::EntryType::Regular, "", evil);
    add(b"/etc/evil.tsv", ::tar::EntryType::Regular, "", evil);
    add(b"a/../../evil.tsv", ::tar::EntryType::Regular, "", evil);
    add(b"soft.tsv", ::tar::EntryType::Symlink, "/etc/passwd", b"");
    add(b"hard.tsv", ::tar::EntryType::Link, "/etc/passwd", b"");
    add(b"device.tsv", ::tar::EntryType::Char, "", b"");
    add(b"pipe.tsv", ::tar::EntryType::Fifo, "", b"");
    add(b"good.tsv", ::tar::EntryType::Regular, "", b"good\tbuono\n");
    let tar = archive.into_inner().unwrap();

    for bytes in [zip, tar] {
        let path = folder.file("evil", bytes);
        let expected = [SentencePair::new("good", "buono")];
        assert_eq!(read(&path, &languages("en", "it")).unwrap(), expected);
        for name in ["../evil.tsv", "/etc/evil.tsv", "link.tsv", "soft.tsv", "hard.tsv"] {
            let member = PathBuf::from(format!("{}!{name}", path.display()));
            fails(&member, &languages("en", "it"), &["not found", "good.tsv"]);
        }
    }
    // Reading the archive wrote no file beside it.
    assert_eq!(fs::read_dir(folder.0.path()).unwrap().count(), 1);
}

/// Found by `a_hundred_thousand_mutated_files_do_no_harm`; reading took over half an hour.
#[test]
fn a_parquet_header_without_end_is_an_error() {
    let path = Path::new(FIXTURES).join("endless_header.parquet");
    let begun = std::time::Instant::now();
    for (source, target) in [("en", "de"), ("de", "en"), ("en", "it")] {
        assert!(read(&path, &languages(source, target)).is_err());
    }
    assert!(begun.elapsed() < std::time::Duration::from_secs(10));
}

#[test]
fn inconsistent_archives_are_rejected() {
    let folder = Folder::new();
    let text = tsv().repeat(100);
    let whole = zip(CompressionMethod::Stored, &[("pairs.tsv", text.as_bytes())]);
    let mut flipped = whole.clone();
    let at = whole.windows(5).position(|w| w == b"Where").unwrap();
    flipped[at] = b'T';
    fails(&folder.file("crc.zip", flipped), &languages("en", "it"), &["checksum"]);
    let options = languages("en", "it");
    fails(&folder.file("cut.zip", &whole[..whole.len() / 2]), &options, &["cannot read `"]);
    let whole = tar(&[("pairs.tsv", text.as_bytes())]);
    fails(&folder.file("cut.tar", &whole[..whole.len() / 2]), &options, &["cannot read `"]);
    let nested = deflated(&[("inner.zip", &deflated(&[("pairs.tsv", text.as_bytes())]))]);
    fails(&folder.file("n.zip", nested), &options, &["an archive inside an archive"]);
    let empty = deflated(&[]);
    fails(&folder.file("e.zip", empty), &options, &["members: none"]);
}
