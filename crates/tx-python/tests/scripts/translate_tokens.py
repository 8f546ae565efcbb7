"""A script for CTranslate2: translates lines of tokens, n-best, with a forced beginning."""
import sys

import ctranslate2

translator = ctranslate2.Translator(sys.argv[1], device="cpu", inter_threads=1, intra_threads=2)
lines = [line.split() for line in open(sys.argv[2], encoding="utf-8")]
results = translator.translate_batch(
    lines, beam_size=4, num_hypotheses=2, return_scores=True, max_batch_size=32, max_decoding_length=30
)
for tokens, result in zip(lines, results):
    print("source:", " ".join(tokens))
    for hypothesis, score in zip(result.hypotheses, result.scores):
        print(f"{score:9.4f}", " ".join(hypothesis))
prefix = results[0].hypotheses[1][:1]
forced = translator.translate_batch(lines[:1], target_prefix=[prefix], beam_size=2)
print("forced:", " ".join(forced[0].hypotheses[0]))
assert forced[0].hypotheses[0][:1] == prefix
