"""Pipelines with the interface of transformers."""

from __future__ import annotations

import os
from typing import Any, Callable, Optional, Union

from ._txmt import Classifier, FillMask, Generator, Translator
from .errors import OptionError

_Texts = Union[str, list[str]]

# Names of search options in transformers.
_NAMES = {
    "num_beams": "beam_size",
    "num_return_sequences": "num_hypotheses",
    "max_new_tokens": "max_decoding_length",
    "max_length": "max_decoding_length",
    "top_k": "sampling_topk",
    "top_p": "sampling_topp",
    "temperature": "sampling_temperature",
}


def _options(options: dict[str, Any]) -> dict[str, Any]:
    """Search options of transformers with the names of this package."""
    samples = options.get("do_sample", False)
    kept = {name: value for name, value in options.items() if name != "do_sample"}
    if not samples:
        kept = {name: value for name, value in kept.items() if name not in ("top_k", "top_p", "temperature")}
    return {_NAMES.get(name, name): value for name, value in kept.items()}


def pipeline(
    task: str, model: Union[str, os.PathLike[str]], *, device: str = "cpu", **arguments: Any
) -> Callable[..., Any]:
    """Returns a function for a task: "translation" (also "translation_xx_to_yy"), "text-classification",
    "text-generation" or "fill-mask". It takes a text or a list of texts, and returns what the pipeline of
    transformers returns."""
    if task == "translation" or task.startswith("translation_"):
        return _translation(Translator(model, device, **arguments))
    if task in ("text-classification", "sentiment-analysis"):
        return _classification(Classifier(model, device, **arguments))
    if task == "text-generation":
        return _generation(Generator(model, device, **arguments))
    if task == "fill-mask":
        return _fill_mask(FillMask(model, device, **arguments))
    raise OptionError(f"the task {task!r} is unknown")


def _translation(model: Translator) -> Callable[..., Any]:
    def translate(texts: _Texts, **options: Any) -> list[dict[str, str]]:
        batch = [texts] if isinstance(texts, str) else list(texts)
        found = model.translate_batch(batch, **_options(options))
        return [{"translation_text": one.text} for one in found]

    return translate


def _classification(model: Classifier) -> Callable[..., Any]:
    def classify(texts: _Texts, top_k: Optional[int] = 1) -> list[Any]:
        batch = [texts] if isinstance(texts, str) else list(texts)
        found = [
            [{"label": label, "score": score} for label, score in one]
            for one in model.classify_batch(batch, top_k)
        ]
        best: list[Any] = [one[0] for one in found] if top_k == 1 else found
        return best[0] if top_k != 1 and isinstance(texts, str) else best

    return classify


def _generation(model: Generator) -> Callable[..., Any]:
    def generate(texts: _Texts, **options: Any) -> list[Any]:
        batch = [texts] if isinstance(texts, str) else list(texts)
        found = [
            [{"generated_text": text} for text, _ in one]
            for one in model.generate_batch(batch, **_options(options))
        ]
        return found[0] if isinstance(texts, str) else found

    return generate


def _fill_mask(model: FillMask) -> Callable[..., Any]:
    def fill(texts: _Texts) -> list[Any]:
        batch = [texts] if isinstance(texts, str) else list(texts)
        # A text with one mask has a list of candidates, others a list for each mask.
        found: list[Any] = [masks[0] if len(masks) == 1 else masks for masks in map(model, batch)]
        return found[0] if isinstance(texts, str) else found

    return fill
