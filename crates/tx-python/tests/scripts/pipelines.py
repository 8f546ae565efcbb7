"""A script for transformers: translates by a pipeline, one text and several."""
import sys

from transformers import pipeline

translate = pipeline("translation_en_to_it", model=sys.argv[1])
texts = [line.strip() for line in open(sys.argv[2], encoding="utf-8")]
single = translate(texts[0], num_beams=4, max_length=40)
print(single[0]["translation_text"])
for text, result in zip(texts, translate(texts, num_beams=4, max_length=40)):
    print(text, "->", result["translation_text"])
assert single == translate(texts[:1], num_beams=4, max_length=40)
