"""Metrics with the interface of sacreBLEU, and its numbers."""

from ._txmt import BLEU, CHRF, TER, Score

__all__ = ["BLEU", "CHRF", "TER", "Score"]
