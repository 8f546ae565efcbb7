"""Compiled part of txmt."""

import os
from typing import Any, Optional, Union, final


__version__: str

_Path = Union[str, os.PathLike[str]]

@final
class Translation:
    """Translations of one source, best first."""

    @property
    def text(self) -> str:
        """The best translation."""
    @property
    def hypotheses(self) -> Any:
        """Texts; lists of tokens if the source was one."""
    @property
    def scores(self) -> list[float]:
        """Score of each hypothesis: its log-probability, divided by the length penalty."""
    @property
    def tokens(self) -> list[list[str]]:
        """Tokens of each hypothesis, without `<eos>`."""
    @property
    def truncated(self) -> bool:
        """Whether the source has more tokens than the model can read."""
    @property
    def unknown(self) -> list[str]:
        """Words of the source that are not in the vocabulary."""

@final
class Scored:
    """Log-probabilities of the tokens of a given translation."""

    @property
    def tokens(self) -> list[str]: ...
    @property
    def log_probs(self) -> list[float]: ...

@final
class Tokenizer:
    """Tokenizer of one side."""

    def __new__(cls, path: _Path) -> Tokenizer: ...
    def encode(self, text: str) -> list[int]:
        """Ids of a text, special tokens included."""
    def tokenize(self, text: str) -> list[str]:
        """Tokens of a text, special tokens included."""
    def decode(self, ids: list[int]) -> str:
        """Text of ids, without special tokens."""
    def token_to_id(self, token: str) -> Optional[int]: ...
    def id_to_token(self, id: int) -> Optional[str]: ...
    def __len__(self) -> int: ...

class Translator:
    """Translates texts with a bundle.

    `compute_type` is "default" (that of the bundle), "float32" or "int8". `threads` is the number of
    threads, by default one per core. `shortlist` is a file of `translate shortlist`.

    Keyword options of a call have the names of CTranslate2 and, if not given, the values of the
    bundle: `beam_size`, `num_hypotheses`, `patience`, `length_penalty`, `coverage_penalty`,
    `repetition_penalty`, `no_repeat_ngram_size`, `max_repeats`, `max_decoding_length`,
    `min_decoding_length`, `sampling_topk`, `sampling_topp`, `sampling_temperature`, `seed`,
    `replace_unknowns`, `disable_unk`.
    """

    def __new__(
        cls,
        model_path: _Path,
        device: str = "cpu",
        *,
        compute_type: str = "default",
        threads: Optional[int] = None,
        source_lang: Optional[str] = None,
        target_lang: Optional[str] = None,
        shortlist: Optional[_Path] = None,
    ) -> Translator: ...
    @staticmethod
    def ensemble(
        model_paths: list[_Path],
        device: str = "cpu",
        *,
        compute_type: str = "default",
        threads: Optional[int] = None,
        source_lang: Optional[str] = None,
        target_lang: Optional[str] = None,
    ) -> Translator:
        """Averages the probabilities of several models with the same tokenizers."""
    @property
    def source_tokenizer(self) -> Tokenizer: ...
    @property
    def target_tokenizer(self) -> Tokenizer: ...
    def translate(self, text: str, **options: Any) -> Translation:
        """Translates one text."""
    def translate_batch(
        self, source: Union[list[str], list[list[str]]], **options: Any
    ) -> list[Translation]:
        """Translates texts, or lists of tokens with their special tokens."""
    def score_batch(self, source: list[str], target: list[str]) -> list[Scored]:
        """Scores given translations: forced decoding."""
    def attention(self, source: str, target: Optional[str] = None) -> dict[str, Any]:
        """Attention weights of a pair, by default of the translation: arrays `encoder`, `decoder` and
        `cross` of the shape `[layers, heads, queries, keys]`, and lists of tokens `…_rows` and
        `…_columns`."""
    def align(
        self, source: str, target: Optional[str] = None
    ) -> tuple[list[tuple[int, int]], list[str], list[str]]:
        """Links of source and target words, both from 0, and the words of both sides."""

@final
class Classifier:
    """Assigns labels to texts."""

    def __new__(cls, model_path: _Path, device: str = "cpu") -> Classifier: ...
    @property
    def labels(self) -> list[str]: ...
    @property
    def tokenizer(self) -> Tokenizer: ...
    def classify_batch(
        self, texts: list[str], top_k: Optional[int] = None
    ) -> list[list[tuple[str, float]]]:
        """Labels of each text with their probabilities, best first."""

@final
class Generator:
    """Continues texts."""

    def __new__(cls, model_path: _Path, device: str = "cpu") -> Generator: ...
    @property
    def tokenizer(self) -> Tokenizer: ...
    def generate_batch(
        self, prompts: list[str], **options: Any
    ) -> list[list[tuple[str, float]]]:
        """Texts that continue each prompt with their scores, best first; options as of `Translator`."""

@final
class FillMask:
    """Replaces `<mask>` in texts."""

    def __new__(cls, model_path: _Path, device: str = "cpu", *, top_k: int = 5) -> FillMask: ...
    @property
    def tokenizer(self) -> Tokenizer: ...
    def __call__(self, text: str) -> list[list[dict[str, Any]]]:
        """Candidates of each mask: `score`, `token` (its id) and `token_str`."""

@final
class Score:
    """A score. Its text is the line that sacreBLEU prints."""

    @property
    def score(self) -> float: ...
    @property
    def name(self) -> str: ...
    @property
    def signature(self) -> str: ...
    @property
    def text(self) -> str: ...
    def __float__(self) -> float: ...

@final
class BLEU:
    """BLEU (Papineni et al. 2002), as sacreBLEU computes it."""

    def __new__(
        cls,
        lowercase: bool = False,
        tokenize: str = "13a",
        smooth_method: str = "exp",
        smooth_value: Optional[float] = None,
        effective_order: bool = False,
    ) -> BLEU: ...
    def corpus_score(self, hypotheses: list[str], references: list[list[str]]) -> Score: ...
    def sentence_score(self, hypothesis: str, references: list[str]) -> Score: ...

@final
class CHRF:
    """chrF and chrF++ (Popović 2015, 2017)."""

    def __new__(
        cls,
        char_order: int = 6,
        word_order: int = 0,
        beta: int = 2,
        lowercase: bool = False,
        whitespace: bool = False,
        eps_smoothing: bool = False,
    ) -> CHRF: ...
    def corpus_score(self, hypotheses: list[str], references: list[list[str]]) -> Score: ...
    def sentence_score(self, hypothesis: str, references: list[str]) -> Score: ...

@final
class TER:
    """Translation edit rate (Snover et al. 2006)."""

    def __new__(
        cls,
        normalized: bool = False,
        no_punct: bool = False,
        asian_support: bool = False,
        case_sensitive: bool = False,
    ) -> TER: ...
    def corpus_score(self, hypotheses: list[str], references: list[list[str]]) -> Score: ...
    def sentence_score(self, hypothesis: str, references: list[str]) -> Score: ...

def import_model(
    path: _Path,
    output: _Path,
    *,
    format: Optional[str] = None,
    heads: Optional[int] = None,
    source_language: Optional[str] = None,
    target_language: Optional[str] = None,
    source_eos: Optional[bool] = None,
) -> list[str]:
    """Writes a model of another toolkit as a bundle; returns notes."""

def export(model_path: _Path, format: str, output: _Path) -> None:
    """Writes a bundle for another toolkit: "ctranslate2", "transformers", "marian" or "onnx"."""
