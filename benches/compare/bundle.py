"""Bundles of tx for the comparison programs: tokenizers, and export to CTranslate2.

The bundle's format is in docs/bundle-format.md.
"""

import subprocess
import tomllib
from pathlib import Path

from tokenizers import Tokenizer


class Bundle:
    """Configuration and tokenizers of a bundle."""

    def __init__(self, folder):
        folder = Path(folder)
        self.model = tomllib.loads((folder / "config.toml").read_text())["model"]
        self.source = self._tokenizer(folder / "source.tokenizer.json")
        self.target = self._tokenizer(folder / "target.tokenizer.json")

    @staticmethod
    def _tokenizer(path):
        tokenizer = Tokenizer.from_file(str(path))
        # `<eos>` in a text is five characters, not a special token.
        tokenizer.encode_special_tokens = True
        return tokenizer


def export(translate, bundle, folder):
    """Writes the bundle for CTranslate2 to `folder`, which must not contain files, with the program
    `translate`."""
    subprocess.run([translate, "export", "--model", bundle, "--format", "ctranslate2",
                    "--output", folder], check=True)
