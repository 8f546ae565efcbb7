"""Scripts for other packages run with this one: only the import and the names of files differ."""

import subprocess
import sys
from pathlib import Path

import pytest

import txmt

SCRIPTS = Path(__file__).parent / "scripts"
FIXTURES = Path(__file__).parents[3] / "tests" / "fixtures"
TEXTS = ["the cat sleeps .", "the dog eats the bread ."]


def run(name, replaced, *arguments):
    """Runs a script, after replacing lines of imports, and returns what it prints."""
    text = (SCRIPTS / name).read_text(encoding="utf-8")
    for old, new in replaced:
        assert old in text
        text = text.replace(old, new)
    done = subprocess.run([sys.executable, "-c", text, *arguments], capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_script_for_ctranslate2(tmp_path):
    translator = txmt.Translator(FIXTURES / "bundle-v1")
    tokens = [translator.source_tokenizer.tokenize(text) for text in TEXTS]
    lines = [" ".join(token for token in one if token not in ("<bos>", "<eos>")) for one in tokens]
    (tmp_path / "tokens").write_text("\n".join(lines) + "\n", encoding="utf-8")
    replaced = [("import ctranslate2", "import txmt as ctranslate2")]
    found = run("translate_tokens.py", replaced, FIXTURES / "bundle-v1", tmp_path / "tokens")
    best = translator.translate_batch(TEXTS, beam_size=4, max_decoding_length=30)
    for one in best:
        assert " ".join(one.tokens[0]) in found


def test_a_script_for_transformers(tmp_path):
    (tmp_path / "texts").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    replaced = [("from transformers import", "from txmt import")]
    found = run("pipelines.py", replaced, FIXTURES / "bundle-v1", tmp_path / "texts").splitlines()
    translator = txmt.Translator(FIXTURES / "bundle-v1")
    expected = [one.text for one in translator.translate_batch(TEXTS, beam_size=4, max_decoding_length=40)]
    assert found == [expected[0], *(f"{text} -> {one}" for text, one in zip(TEXTS, expected))]


def test_a_script_for_sacrebleu():
    pytest.importorskip("sacrebleu")
    replaced = [
        ("from sacrebleu.metrics import", "from txmt.metrics import"),
        ("from sacrebleu.significance import", "from txmt.metrics import"),
    ]
    assert run("score.py", replaced) == run("score.py", [])
