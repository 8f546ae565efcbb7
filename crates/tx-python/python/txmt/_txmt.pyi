"""Compiled part of txmt."""

import os
from pathlib import Path
from types import TracebackType
from typing import Any, Callable, Mapping, Optional, Union, final


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

    `model_path` is a bundle, or the name of a model of `get_model`. `compute_type` is "default" (that of
    the bundle), "float32" or "int8". `threads` is the number of threads, by default one per core;
    `inter_threads` × `intra_threads` are those of CTranslate2. With `files`, the bundle consists of these
    contents by name, and `model_path` has no meaning. `shortlist` is a file of `translate shortlist`.
    `glossary` is a file with a term, a tab and its translation in each line, or a .csv or .tbx file; it needs a
    `beam_size` of at least 2.

    Keyword options of a call have the names of CTranslate2 and, if not given, the values of the
    bundle: `beam_size`, `num_hypotheses`, `patience`, `length_penalty`, `word_penalty`, `coverage_penalty`,
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
        inter_threads: Optional[int] = None,
        intra_threads: Optional[int] = None,
        source_lang: Optional[str] = None,
        target_lang: Optional[str] = None,
        shortlist: Optional[_Path] = None,
        glossary: Optional[_Path] = None,
        files: Optional[Mapping[str, bytes]] = None,
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
    def translate_stream(self, text: str, callback: Callable[[str], Any], **options: Any) -> str:
        """Translates one text by greedy search, calls `callback` with each part as soon as it is generated, and
        returns the parts. The search stops if the callback returns `False`."""
    def translate_batch(
        self,
        source: Union[list[str], list[list[str]]],
        target_prefix: Union[list[str], list[list[str]], None] = None,
        **options: Any,
    ) -> list[Translation]:
        """Translates texts, or lists of tokens. Translations begin with the prefixes. Special tokens around
        a source are added unless they are there."""
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
    def generate(self, prompt: str, callback: Callable[[str], Any], **options: Any) -> str:
        """Continues one text, and calls `callback` with each part as soon as it is generated. The search
        stops if the callback returns `False`."""

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
    def get_signature(self) -> str: ...
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
    def get_signature(self) -> str: ...
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
    def get_signature(self) -> str: ...
    def sentence_score(self, hypothesis: str, references: list[str]) -> Score: ...

def paired_test(
    systems: list[list[str]],
    metric: Union[BLEU, CHRF, TER],
    references: list[list[str]],
    test_type: str,
    n_samples: int,
    seed: int,
) -> tuple[list[tuple[float, Optional[float], Optional[float], Optional[float]]], str, str]: ...

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

@final
class Config:
    """Configuration of a training run: a recipe, or the file `path`, and values that override it.

    Without arguments, it is the recipe `small`, for your own files. The keys are those of
    `docs/configuration.md`.
    """

    def __new__(cls, recipe: Optional[str] = None, *, path: Optional[_Path] = None) -> Config: ...
    def set(self, key: str, value: Any) -> None:
        """Sets a value, as in `set("train.epochs", 3)`; `None` resets it to its default."""
    def to_toml(self) -> str:
        """All values, as a file has them. An `OptionError` lists invalid values."""

@final
class Update:
    """An update of the weights."""

    @property
    def step(self) -> int:
        """Number of the update, from 1."""
    @property
    def epoch(self) -> int:
        """Epoch, from 1."""
    @property
    def seconds(self) -> float:
        """Seconds of training and validation so far, over all sessions of the run."""
    @property
    def took(self) -> float:
        """Seconds of the update."""
    @property
    def loss(self) -> float:
        """Loss in nats per target token, with smoothing and dropout."""
    @property
    def nll(self) -> float:
        """Negative log-likelihood in nats per target token."""
    @property
    def accuracy(self) -> float:
        """Fraction of target tokens predicted correctly."""
    @property
    def learning_rate(self) -> float: ...
    @property
    def gradient_norm(self) -> float:
        """Norm of the gradient, before clipping."""
    @property
    def source_tokens(self) -> int: ...
    @property
    def target_tokens(self) -> int: ...
    def as_dict(self) -> dict[str, float]:
        """All numbers by name."""

@final
class Validation:
    """A validation of the model."""

    @property
    def step(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def is_best(self) -> bool:
        """Whether the bundle in the folder of the run is this model now."""
    @property
    def metrics(self) -> dict[str, float]:
        """Metrics by name: `loss`, `perplexity`, `accuracy` and those of the task, such as `bleu`."""

@final
class TrainingResult:
    """Result of a training run."""

    @property
    def run(self) -> Path:
        """Folder of the run, which is a bundle."""
    @property
    def step(self) -> int:
        """Number of updates."""
    @property
    def epoch(self) -> int:
        """Number of complete epochs."""
    @property
    def interrupted(self) -> bool:
        """Whether a callback or Ctrl-C has stopped the run."""
    @property
    def metrics(self) -> dict[str, float]:
        """Metrics of the last validation."""
    @property
    def examples(self) -> list[str]:
        """First validation inputs."""

def train(
    config: Config,
    run: _Path,
    *,
    on_update: Optional[Callable[[Update], Any]] = None,
    on_validation: Optional[Callable[[Validation], Any]] = None,
    device: str = "cpu",
    fetch: bool = False,
    progress: bool = False,
) -> TrainingResult:
    """Trains a model in the folder `run`, which must not contain a run.

    `on_update` and `on_validation` are called with each update and each validation. If one returns
    `False`, or raises an exception, or Ctrl-C is pressed, the run stops with a checkpoint, from which
    `resume` continues exactly. `fetch` downloads the corpora that the configuration names.
    `progress` prints lines to standard error.
    """

def resume(
    run: _Path,
    *,
    step: Optional[int] = None,
    take: Optional[str] = None,
    changes: Optional[Mapping[str, Any]] = None,
    on_update: Optional[Callable[[Update], Any]] = None,
    on_validation: Optional[Callable[[Validation], Any]] = None,
    device: str = "cpu",
    fetch: bool = False,
    progress: bool = False,
) -> TrainingResult:
    """Continues a run from its last checkpoint, or from that of update `step`.

    `changes` overrides values of the configuration, such as `{"train.epochs": 10}`. If the
    configuration file or the data has changed, `take` decides: "old" or "new".
    """

@final
class Server:
    """HTTP server, which runs until it is stopped: `docs/serving.md`.

    `models` maps names, such as "en-de", to bundles. Port 0 selects a free one. `keys` is a file of
    API keys. It is a context manager.
    """

    def __new__(
        cls,
        models: Mapping[str, _Path],
        *,
        host: str = "127.0.0.1",
        port: int = 5000,
        threads: Optional[int] = None,
        compute_type: str = "default",
        keys: Optional[_Path] = None,
    ) -> Server: ...
    @property
    def url(self) -> str: ...
    @property
    def port(self) -> int: ...
    def stop(self) -> None:
        """Stops the server after the requests in progress."""
    def wait(self) -> None:
        """Waits until the server is stopped; Ctrl-C stops it."""
    def __enter__(self) -> Server: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None: ...

def fetch(
    name: str,
    *,
    source: str = "",
    target: str = "",
    subset: Optional[str] = None,
    split: Optional[str] = None,
    revision: Optional[str] = None,
    progress: bool = False,
) -> list[Path]:
    """Downloads a corpus into the cache, unless it is there; returns the paths of its files."""

def get_model(name: str, *, progress: bool = False) -> Path:
    """Downloads a model of the catalogue; returns the folder of its bundle. `Translator` finds it by
    its name, too."""

def main(arguments: list[str]) -> int:
    """Runs the program `txmt`."""
