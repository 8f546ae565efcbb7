"""Sentences of treebanks, message catalogs and text files, for `sentence_splitting.py`.

    python sentence_corpora.py OUT --treebanks DIR... [--catalogs DIR...] [--lines LANGUAGE=FILE...]

- Treebanks: checkouts (or bare repositories) of Universal Dependencies, `UD_German-GSD` and so on. People divided their
  text into sentences. The files `*-dev.conllu` and, if there is one, half of `*-train.conllu` are for development;
  `*-test.conllu` is for testing.
- Catalogs: folders with `LANGUAGE/LC_MESSAGES/*.mo`, as in Debian packages. A message counts if its English original is
  one sentence: it ends in a full stop, and has no other mark at the end of a word. Halves by the hash of the original.
- Lines: text files, plain or gzip, with one sentence per line, as in a parallel corpus. Halves by the hash of the line.

Writes `OUT/{dev,test}/{SOURCE}.{LANGUAGE}.txt`. Only sentences that end in a mark are kept, because no program that
goes by marks can find the end of the others; `--all` keeps all sentences of treebanks.
"""

import argparse
import gettext
import gzip
import hashlib
import re
import subprocess
from collections import defaultdict
from pathlib import Path

import regex

MARK = regex.compile(r"[\p{Sentence_Terminal}…][\p{Pe}\p{Pf}\p{Pi}\"'’”»]*$")
GREEK_MARK = regex.compile(r"[\p{Sentence_Terminal}…;][\p{Pe}\p{Pf}\p{Pi}\"'’”»]*$")
LANGUAGES = {
    "Arabic": "ar", "Armenian": "hy", "Chinese": "zh", "Czech": "cs", "Dutch": "nl", "English": "en", "French": "fr",
    "German": "de", "Greek": "el", "Hindi": "hi", "Italian": "it", "Japanese": "ja", "Polish": "pl",
    "Portuguese": "pt", "Russian": "ru", "Spanish": "es", "Swedish": "sv", "Turkish": "tr", "Ukrainian": "uk",
}  # fmt: skip
CATALOGS = {
    "cs": "cs", "de": "de", "el": "el", "es": "es", "fr": "fr", "it": "it", "ja": "ja", "nl": "nl", "pl": "pl",
    "pt": "pt", "pt_BR": "pt", "ru": "ru", "sv": "sv", "tr": "tr", "uk": "uk", "zh_CN": "zh",
}  # fmt: skip


def ends_in_mark(text: str, language: str) -> bool:
    return bool((GREEK_MARK if language == "el" else MARK).search(text))


def half(text: str) -> str:
    return "dev" if hashlib.sha256(text.encode()).digest()[0] < 128 else "test"


def treebank_files(folder: Path):
    """Name and text of each `.conllu` file of a checkout or a bare repository."""
    if files := sorted(folder.glob("*.conllu")):
        yield from ((file.name, file.read_text()) for file in files)
        return
    git = ["git", "--git-dir", str(folder)]
    names = subprocess.run([*git, "ls-tree", "--name-only", "HEAD"], capture_output=True, text=True, check=True).stdout
    for name in names.split():
        if name.endswith(".conllu"):
            shown = subprocess.run([*git, "show", f"HEAD:{name}"], capture_output=True, text=True)
            if shown.returncode == 0:
                yield name, shown.stdout
            else:
                print(f"absent: {folder} {name}")


def treebank(folder: Path, every: bool):
    """Part, source, language and text of each sentence."""
    source = re.search(r"UD_(\w+)-(\w+)", str(folder))
    language = LANGUAGES[source[1]]
    for name, content in treebank_files(folder):
        part = "test" if "-test" in name else "dev"
        if "-train" in name and len(content) > 60_000_000:
            content = content[:60_000_000]
        for line in content.split("\n"):
            if line.startswith("# text = "):
                text = " ".join(line[9:].split())
                if every or ends_in_mark(text, language):
                    yield part, f"ud-{source[2].lower()}", language, text


def catalog(folder: Path):
    """Part, source, language and text of each message that is one sentence."""
    for file in sorted(folder.rglob("*.mo")):
        language = CATALOGS.get(file.parent.parent.name)
        if language is None:
            continue
        with file.open("rb") as stream:
            messages = gettext.GNUTranslations(stream)._catalog
        for original, text in messages.items():
            if not isinstance(original, str) or not text:
                continue
            words = original.split()
            one = len(words) > 4 and original[-1] == "." and not any(w[-1] in ".?!:" for w in words[:-1])
            plain = not re.search(r"[%<>&{}\\|\n]|\.\.", original + text)
            if one and plain and ends_in_mark(text, language):
                yield half(original), "messages", language, " ".join(text.split())


def lines(language: str, file: Path):
    opened = gzip.open(file, "rt") if file.suffix == ".gz" else file.open()
    with opened as stream:
        for line in stream:
            text = " ".join(line.split())
            if ends_in_mark(text, language):
                yield half(text), "lines", language, text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--treebanks", type=Path, nargs="*", default=[])
    parser.add_argument("--catalogs", type=Path, nargs="*", default=[])
    parser.add_argument("--lines", nargs="*", default=[], metavar="LANGUAGE=FILE")
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
    found = defaultdict(dict)
    for folder in args.treebanks:
        for number, (part, source, language, text) in enumerate(treebank(folder, args.all)):
            found[part, source, language][number] = text
    for folder in args.catalogs:
        for part, source, language, text in catalog(folder):
            found[part, source, language][text] = text
    for entry in args.lines:
        language, file = entry.split("=", 1)
        for part, source, language, text in lines(language, Path(file)):
            found[part, source, language][text] = text
    for (part, source, language), sentences in sorted(found.items()):
        path = args.out / part / f"{source}.{language}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{text}\n" for text in sentences.values()))
        print(f"{part} {source}.{language}: {len(sentences)} sentences")


if __name__ == "__main__":
    main()
