#!/usr/bin/env python3
"""Sentence pairs from the messages of programs: English and another language, from gettext catalogs.

    python3 program_messages.py --language de --output DIR *.deb|FOLDER|FILE.mo …

Reads the compiled catalogs (`.mo`) of the language in Debian packages, folders or files, cleans the
messages, and writes `{train,valid,test}.{en,LANGUAGE}`. A message with placeholders, markup, several
lines, an unusual length or an equal translation is dropped. Messages with the same English text, or the
same words in other case or punctuation, are in one part only. Needs nothing but Python, and `dpkg-deb`
for packages. The catalogs are under the licenses of their programs.
"""

import argparse
import gettext
import hashlib
import io
import re
import subprocess
import tarfile
from pathlib import Path

PLACEHOLDER = re.compile(r"[%{}<>\\|$@=~^*#/]|\b\w+\(|&\w+;|__|\d{4,}|\t|\n|https?:|www\.")
MNEMONIC = re.compile(r"\([&_]\w\)|[&_](?=\w)")
SPACES = re.compile(r"\s+")


def catalogs(path, language):
    """Yields the contents of the catalogs at `path`."""
    wanted = re.compile(rf"(^|/){language}(_[A-Z]+)?/LC_MESSAGES/[^/]+\.mo$")
    if path.suffix == ".deb":
        archive = subprocess.run(["dpkg-deb", "--fsys-tarfile", path], check=True, capture_output=True)
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
            for file in files:
                if file.isfile() and wanted.search(file.name):
                    yield files.extractfile(file).read()
    elif path.is_dir():
        for file in sorted(path.rglob("*.mo")):
            if wanted.search(str(file)):
                yield file.read_bytes()
    else:
        yield path.read_bytes()


def messages(content):
    """Yields the pairs of a catalog; of a message with plural forms, the singular."""
    translations = gettext.GNUTranslations(io.BytesIO(content))
    for key, target in translations._catalog.items():
        if isinstance(key, tuple):
            key, plural = key
            if plural != 0:
                continue
        # A context precedes the message.
        source = key.rsplit("\x04", 1)[-1]
        if source and isinstance(target, str):
            yield source, target


def clean(text):
    """Returns the text without accelerator keys, or None if it is no plain sentence."""
    text = SPACES.sub(" ", MNEMONIC.sub("", text.strip("\n"))).strip()
    text = text.removesuffix(":").removesuffix("…").removesuffix("...").strip()
    letters = sum(character.isalpha() or character == " " for character in text)
    if PLACEHOLDER.search(text) or letters < 0.85 * len(text) or not 3 <= len(text.split()) <= 30:
        return None
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--language", required=True)
    parser.add_argument("--output", required=True, type=Path)
    parser.add_argument("--train", type=int, default=20_000)
    parser.add_argument("--valid", type=int, default=1_000)
    parser.add_argument("--test", type=int, default=1_000)
    parser.add_argument("paths", nargs="+", type=Path)
    options = parser.parse_args()

    pairs = {}
    for path in options.paths:
        for content in catalogs(path, options.language):
            for source, target in messages(content):
                source, target = clean(source), clean(target)
                if not source or not target or source == target:
                    continue
                if not 0.4 < len(source) / len(target) < 2.5:
                    continue
                key = " ".join(re.findall(r"\w+", source.lower()))
                pairs.setdefault(key, (source, target))
    seen, unique = set(), []
    # A hash of the text orders the pairs, so that a pair stays in its part when packages are added.
    for key in sorted(pairs, key=lambda key: hashlib.sha256(key.encode()).digest()):
        folded = pairs[key][1].lower()
        if folded not in seen:
            seen.add(folded)
            unique.append(pairs[key])
    options.output.mkdir(parents=True, exist_ok=True)
    start = 0
    for part, count in [("test", options.test), ("valid", options.valid), ("train", options.train)]:
        chosen = unique[start : start + count]
        start += count
        for side, language in enumerate(["en", options.language]):
            text = "".join(pair[side] + "\n" for pair in chosen)
            (options.output / f"{part}.{language}").write_text(text, encoding="utf-8")
        print(f"{part}: {len(chosen)} pairs")
    print(f"of {len(unique)} distinct pairs")


if __name__ == "__main__":
    main()
