"""Machine translation with models of tx: translate, score and convert, on a CPU without PyTorch."""

from __future__ import annotations

from itertools import islice
from typing import Any, Iterable, Iterator

from . import errors, metrics
from ._txmt import (
    Classifier,
    FillMask,
    Generator,
    Tokenizer,
    Translation,
    __version__,
    export,
    import_model,
)
from ._txmt import Translator as _Translator
from .errors import Error, ModelError, OptionError

__all__ = [
    "Classifier", "Error", "FillMask", "Generator", "ModelError", "OptionError", "Tokenizer",
    "Translation", "Translator", "__version__", "errors", "export", "import_model", "metrics",
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
