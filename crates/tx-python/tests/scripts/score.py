"""A script for sacreBLEU: scores two systems, and tests their difference."""
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest

references = [["the cat sleeps here", "a dog runs", "two birds sing in the park", "it rains"] * 5]
first = ["the cat sleeps", "a dog runs", "two birds in the park", "it rains"] * 5
second = ["a cat sleeps here", "the dog runs away", "two birds sing", "it snows"] * 5
for metric in (BLEU(), BLEU(lowercase=True, tokenize="intl"), CHRF(word_order=2), TER()):
    for system in (first, second):
        score = metric.corpus_score(system, references)
        print(score, f"{score.score:.6f}", metric.get_signature())
print(BLEU(effective_order=True).sentence_score(first[0], [references[0][0]]))
signatures, scores = PairedTest(
    [("first", first), ("second", second)], {"BLEU": BLEU(), "chrF": CHRF()}, references, "bs", n_samples=200
)()
for name, signature in signatures.items():
    print(name, signature)
    for system, result in zip(scores["System"], scores[name]):
        print(system, f"{result.score:.6f}", result.p_value)
