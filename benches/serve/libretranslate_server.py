"""LibreTranslate with the weights of a bundle.

    python libretranslate_server.py BUNDLE CTRANSLATE2_FOLDER PORT COMPUTE_TYPE BEAM SOURCE TARGET
        [INTER_THREADS INTRA_THREADS]

The program is `libretranslate` from PyPI, unchanged except for two parts whose files cannot be made from
a bundle: the tokenizer of its model package is that of the bundle, and its model for sentence boundaries
is replaced by a function that returns the text as one sentence. The second change makes it faster.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "compare"))

from bundle import Bundle

folder, converted, port, kind, beam, source, target, *threads = sys.argv[1:]
inter, intra = threads or ("2", "1")
home = tempfile.TemporaryDirectory()
package = Path(home.name) / "packages" / "model"
package.mkdir(parents=True)
(package / "model").symlink_to(Path(converted).resolve())
# The tokenizer of the package is replaced before this file is read.
(package / "sentencepiece.model").touch()
(package / "metadata.json").write_text(json.dumps({
    "package_version": "1.0", "argos_version": "1.9", "from_code": source, "from_name": source,
    "to_code": target, "to_name": target}))
os.environ |= {
    "XDG_DATA_HOME": home.name, "XDG_CONFIG_HOME": home.name, "XDG_CACHE_HOME": home.name,
    "ARGOS_PACKAGES_DIR": str(package.parent), "ARGOS_COMPUTE_TYPE": kind, "ARGOS_BEAM_SIZE": beam,
    "ARGOS_INTER_THREADS": inter, "ARGOS_INTRA_THREADS": intra}

import argostranslate.package
import argostranslate.sbd

bundle = Bundle(folder)


class Tokenizer:
    def __init__(self, _):
        pass

    def encode(self, sentence):
        return bundle.source.encode(sentence).tokens

    def decode(self, tokens):
        return bundle.target.decode([bundle.target.token_to_id(token) for token in tokens])


argostranslate.package.SentencePieceTokenizer = Tokenizer
argostranslate.sbd.MiniSBDSentencizer.split_sentences = lambda self, text: [text]

sys.argv = ["libretranslate", "--host", "127.0.0.1", "--port", port, "--disable-web-ui"]
from libretranslate.main import main

main()
