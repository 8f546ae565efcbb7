"""Server with the stack of LibreTranslate (Flask, waitress, CTranslate2) and the weights of a bundle.

    python ctranslate2_server.py BUNDLE CTRANSLATE2_FOLDER PORT COMPUTE_TYPE BEAM [INTER_THREADS INTRA_THREADS]

It translates one sentence a request and does not divide text into sentences, which LibreTranslate does in addition.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "compare"))

import ctranslate2
from bundle import Bundle
from flask import Flask, jsonify, request
from waitress import serve

folder, converted, port, kind, beam, *threads = sys.argv[1:]
inter, intra = map(int, threads or (2, 1))
bundle = Bundle(folder)
translator = ctranslate2.Translator(converted, compute_type=kind, inter_threads=inter, intra_threads=intra)
app = Flask(__name__)


@app.post("/translate")
def translate():
    tokens = bundle.source.encode(request.get_json()["q"]).tokens
    found = translator.translate_batch([tokens], beam_size=int(beam), max_decoding_length=2 * len(tokens) + 10)
    ids = [bundle.target.token_to_id(token) for token in found[0].hypotheses[0]]
    return jsonify(translatedText=bundle.target.decode(ids))


# LibreTranslate has four threads by default.
serve(app, host="127.0.0.1", port=int(port), threads=4)
