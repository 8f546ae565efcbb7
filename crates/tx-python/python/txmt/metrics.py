"""Metrics with the interface of sacreBLEU, and its numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Optional, Sequence, Union

from ._txmt import BLEU, CHRF, TER, Score, paired_test

__all__ = [
    "BLEU", "CHRF", "PairedTest", "Result", "Score", "TER", "corpus_bleu", "corpus_chrf", "corpus_ter",
    "sentence_bleu", "sentence_chrf", "sentence_ter",
]


def corpus_bleu(hypotheses: list[str], references: list[list[str]], **options: Any) -> Score:
    """BLEU of a corpus; `references` has a list with a line for each hypothesis per reference."""
    return BLEU(**options).corpus_score(hypotheses, references)


def sentence_bleu(hypothesis: str, references: list[str], **options: Any) -> Score:
    """BLEU of a sentence, with the effective order."""
    return BLEU(**{"effective_order": True, **options}).sentence_score(hypothesis, references)


def corpus_chrf(hypotheses: list[str], references: list[list[str]], **options: Any) -> Score:
    """chrF of a corpus."""
    return CHRF(**options).corpus_score(hypotheses, references)


def sentence_chrf(hypothesis: str, references: list[str], **options: Any) -> Score:
    """chrF of a sentence."""
    return CHRF(**options).sentence_score(hypothesis, references)


def corpus_ter(hypotheses: list[str], references: list[list[str]], **options: Any) -> Score:
    """TER of a corpus."""
    return TER(**options).corpus_score(hypotheses, references)


def sentence_ter(hypothesis: str, references: list[str], **options: Any) -> Score:
    """TER of a sentence."""
    return TER(**options).sentence_score(hypothesis, references)


@dataclass(frozen=True)
class Result:
    """Score of a system, its p-value against the baseline, and its confidence interval."""

    score: float
    p_value: Optional[float] = None
    mean: Optional[float] = None
    ci: Optional[float] = None


class PairedTest:
    """Significance tests against the first system: paired bootstrap resampling ("bs", Koehn 2004) or
    approximate randomization ("ar", Riezler & Maxwell 2005).

    `n_samples` = 0 stands for 1,000 samples or 10,000 trials. A call returns the signatures and the results
    by the names of the metrics; the results of "System" are the names of the systems.
    """

    def __init__(
        self,
        named_systems: Sequence[tuple[str, list[str]]],
        metrics: Mapping[str, Union[BLEU, CHRF, TER]],
        references: list[list[str]],
        test_type: str = "bs",
        n_samples: int = 0,
        seed: int = 12345,
    ) -> None:
        self._systems = list(named_systems)
        self._metrics, self._references = dict(metrics), references
        self._options = (test_type, n_samples, seed)

    def __call__(self) -> tuple[dict[str, str], dict[str, list[Any]]]:
        lines = [lines for _, lines in self._systems]
        signatures: dict[str, str] = {}
        scores: dict[str, list[Any]] = {"System": [name for name, _ in self._systems]}
        for metric in self._metrics.values():
            found, name, signature = paired_test(lines, metric, self._references, *self._options)
            signatures[name] = signature
            scores[name] = [Result(*result) for result in found]
        return signatures, scores
