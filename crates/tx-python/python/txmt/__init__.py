"""Machine translation with tx: train, translate, score, convert and serve, without PyTorch."""

from __future__ import annotations

import os
from itertools import islice
from typing import Any, Iterable, Iterator, Mapping

from . import errors, metrics
from ._txmt import (
    Classifier,
    Config,
    FillMask,
    Generator,
    Server,
    Tokenizer,
    TrainingResult,
    Translation,
    Update,
    Validation,
    __version__,
    export,
    fetch,
    get_model,
    import_model,
    resume,
    train,
)
from ._txmt import Translator as _Translator
from .errors import Error, ModelError, OptionError
from .pipelines import pipeline

__all__ = [
    "Classifier", "Config", "Error", "FillMask", "Generator", "ModelError", "OptionError", "Server",
    "Tokenizer", "TrainingResult", "Translation", "Translator", "Update", "Validation",
    "__version__", "errors", "export", "fetch", "get_model", "import_model", "metrics",
    "pipeline", "resume", "serve", "train",
]


class Translator(_Translator):
    """Translates texts with a bundle."""

    def __call__(self, text: Any, **options: Any) -> Any:
        if isinstance(text, str):
            return self.translate(text, **options)
        return self.translate_batch(list(text), **options)

    def translate_iterable(
        self, source: Iterable[str], max_batch_size: int = 1024, **options: Any
    ) -> Iterator[Translation]:
        """Translates texts as they come, in their order; reads `max_batch_size` ahead."""
        texts = iter(source)
        while batch := [text.rstrip("\r\n") for text in islice(texts, max(1, max_batch_size))]:
            yield from self.translate_batch(batch, **options)


def serve(models: Mapping[str, str | os.PathLike[str]], **options: Any) -> None:
    """Serves models until Ctrl-C; options as of `Server`."""
    Server(models, **options).wait()
