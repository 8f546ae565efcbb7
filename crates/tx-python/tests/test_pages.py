"""Python blocks of the pages: those of a page run in order, in one namespace and one folder.

The folder contains a corpus of 100 pairs and the run `runs/de-en`, as in `.ci/docs`. Training stops after four updates. A
comment before the fence excludes a block: `<!-- skip: the reason -->`.
"""

import re
from pathlib import Path

import pytest

import txmt

ROOT = Path(__file__).parents[3]
PAGES = ["docs/tutorial.md", "docs/python.md", "crates/tx-python/README.md"]
BLOCK = re.compile(r"^(?:<!-- skip: (.*) -->\n)?```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOUNS = {"Katze": "cat", "Hund": "dog", "Vogel": "bird", "Pferd": "horse", "Haus": "house", "Garten": "garden",
         "Tür": "door", "Tisch": "table", "Buch": "book", "Brief": "letter"}
ADJECTIVES = {"rot": "red", "blau": "blue", "grün": "green", "schwarz": "black", "weiß": "white", "alt": "old",
              "neu": "new", "klein": "small", "groß": "big", "gut": "good"}


class Logger:
    """Logger of python.md, which stands for one such as `wandb.init()`."""

    def log(self, values, step):
        assert all(isinstance(value, (int, float)) for value in values.values()) and step > 0


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Working folder with a corpus and a run."""
    monkeypatch.chdir(tmp_path)
    sides = {
        "de": [f"das {noun} ist {how} ." for noun in NOUNS for how in ADJECTIVES],
        "en": [f"the {noun} is {how} ." for noun in NOUNS.values() for how in ADJECTIVES.values()],
    }
    for side, lines in sides.items():
        for name, part in [("all", lines), ("train", lines[:80]), ("valid", lines[80:90]), ("test", lines[90:])]:
            Path(f"{name}.{side}").write_text("\n".join(part) + "\n", encoding="utf-8")
    train, resume = txmt.train, txmt.resume

    def short_train(config, run, **options):
        config.set("train.max_steps", 4)
        config.set("validation.sentences", 8)
        if 'source = "phrasebook"' in config.to_toml():
            config.set("data.train_pairs", 2000)
            config.set("data.valid_pairs", 100)
        return train(config, run, **options)

    def short_resume(run, changes=None, **options):
        return resume(run, changes={**(changes or {}), "train.max_steps": 8}, **options)

    monkeypatch.setattr(txmt, "train", short_train)
    monkeypatch.setattr(txmt, "resume", short_resume)
    config = txmt.Config("small")
    config.set("data.train_source", "train.de")
    config.set("data.train_target", "train.en")
    txmt.train(config, "runs/de-en")
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_the_python_blocks_of_the_pages_run(page, folder):
    text = (ROOT / page).read_text(encoding="utf-8")
    namespace = {"__name__": "__main__", "logger": Logger()}
    run = 0
    for block in BLOCK.finditer(text):
        if block[1]:
            continue
        # Empty lines, so that an error names the line of the page.
        before = "\n" * text.count("\n", 0, block.start(2))
        exec(compile(before + block[2], page, "exec"), namespace)
        run += 1
    if run == 0:
        pytest.skip(f"{page}: every block is excluded")
