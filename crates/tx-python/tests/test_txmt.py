"""Tests of the package on the bundles of the repository and models that they are compared with."""

import json
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import txmt
from txmt.metrics import BLEU, CHRF, TER

FIXTURES = Path(__file__).parents[3] / "tests" / "fixtures"
BUNDLE = FIXTURES / "bundle-v1"
CASES = json.loads((FIXTURES / "bundle-v1.json").read_text(encoding="utf-8"))
MODELS = Path(__file__).parents[2] / "tx-convert" / "tests" / "fixtures"


@pytest.fixture(scope="module")
def translator():
    return txmt.Translator(BUNDLE)


def options(case):
    """Search options of the recorded hypotheses: `tests/bundle_formats.rs`."""
    return dict(beam_size=3, max_repeats=0, num_hypotheses=len(case["hypotheses"]))


def test_translations_are_those_of_the_library(translator):
    for case in CASES:
        if not case["hypotheses"]:
            assert translator.translate(case["source"]).text == ""
            continue
        found = translator.translate(case["source"], **options(case))
        expected = case["hypotheses"]
        assert found.hypotheses == [one["text"] for one in expected]
        assert found.scores == pytest.approx([one["score"] for one in expected], abs=1e-5)
        assert found.text == str(found) == expected[0]["text"]


def test_batches_and_streams_keep_their_order(translator):
    texts = [case["source"] for case in CASES] * 20
    whole = [one.text for one in translator.translate_batch(texts)]
    assert [one.text for one in translator(texts)] == whole
    assert translator(texts[0]).text == whole[0]
    read = []

    def source():
        for text in texts:
            read.append(text)
            yield text + "\n"

    stream = translator.translate_iterable(source(), max_batch_size=8)
    assert next(stream).text == whole[0] and len(read) == 8
    assert [one.text for one in stream] == whole[1:]


def test_tokens_go_in_and_come_out(translator):
    texts = [case["source"] for case in CASES if case["hypotheses"]]
    tokens = [translator.source_tokenizer.tokenize(text) for text in texts]
    found = translator.translate_batch(tokens, beam_size=2, num_hypotheses=2)
    expected = translator.translate_batch(texts, beam_size=2, num_hypotheses=2)
    for ours, theirs in zip(found, expected):
        assert ours.hypotheses == ours.tokens == theirs.tokens
        assert ours.scores == pytest.approx(theirs.scores, abs=1e-5)
    # As of CTranslate2: the special tokens are added, and no tokens have an empty translation.
    bare = [[token for token in one if token not in ("<bos>", "<eos>")] for one in tokens]
    again = translator.translate_batch([[], *bare], beam_size=2, num_hypotheses=2, return_scores=True)
    assert again[0].hypotheses == [[]] and again[0].text == ""
    assert [one.hypotheses for one in again[1:]] == [one.hypotheses for one in found]
    prefix = found[0].hypotheses[1][:1]
    [one] = translator.translate_batch(bare[:1], target_prefix=[prefix], beam_size=2)
    assert one.hypotheses[0][:1] == prefix
    [one] = translator.translate_batch(texts[:1], target_prefix=["il"])
    assert one.text.startswith("il")
    for sources, prefixes in [(bare, [["a"]]), (texts, ["a"]), (texts, [["a"]] * len(texts))]:
        with pytest.raises(txmt.OptionError, match="prefixes"):
            translator.translate_batch(sources, target_prefix=prefixes)
    with pytest.raises(txmt.OptionError, match="source 1 has"):
        translator.translate_batch([["il"], ["il"] * 10_000])


def test_a_bundle_can_be_in_memory(translator):
    files = {path.name: path.read_bytes() for path in BUNDLE.iterdir()}
    found = txmt.Translator("memory", files=files)
    text = CASES[0]["source"]
    assert found.translate(text).text == translator.translate(text).text
    del files["config.toml"]
    with pytest.raises(txmt.ModelError, match="config.toml"):
        txmt.Translator("memory", files=files)


def test_a_pipeline_translates_as_that_of_transformers(translator):
    translate = txmt.pipeline("translation_en_to_it", BUNDLE)
    text = CASES[0]["source"]
    expected = translator.translate(text, beam_size=4).text
    assert translate(text, num_beams=4, max_length=60) == [{"translation_text": expected}]
    assert len(translate([text, text])) == 2


def test_tokenizers(translator):
    tokenizer = translator.target_tokenizer
    ids = tokenizer.encode("il gatto")
    assert tokenizer.decode(ids) == "il gatto"
    assert [tokenizer.id_to_token(id) for id in ids] == tokenizer.tokenize("il gatto")
    assert tokenizer.token_to_id("<eos>") == 2 and 0 < len(tokenizer)
    same = txmt.Tokenizer(BUNDLE / "target.tokenizer.json")
    assert same.encode("il gatto") == ids


def test_scores_of_given_translations(translator):
    found = translator.score_batch(["the cat sleeps ."], ["il gatto dorme ."])[0]
    assert found.tokens[-1] == "<eos>" and len(found.tokens) == len(found.log_probs)
    assert all(score < 0 for score in found.log_probs)
    with pytest.raises(txmt.OptionError, match="1 sources and 2 targets"):
        translator.score_batch(["a"], ["b", "c"])


def test_attention_and_alignment(translator):
    maps = translator.attention("the cat sleeps .", "il gatto dorme .")
    for kind in ("encoder", "decoder", "cross"):
        weights = maps[kind]
        assert isinstance(weights, np.ndarray) and weights.dtype == np.float32
        assert weights.shape[2:] == (len(maps[f"{kind}_rows"]), len(maps[f"{kind}_columns"]))
        assert np.allclose(weights.sum(-1), 1, atol=1e-5)
    links, source, target = translator.align("the cat sleeps .", "il gatto dorme .")
    assert target == ["il", "gatto", "dorme", "."] and len(source) == 4
    assert all(0 <= s < 4 and 0 <= t < 4 for s, t in links)


def test_ensembles_and_precisions(translator):
    both = txmt.Translator.ensemble([BUNDLE, BUNDLE])
    assert both.translate("the cat sleeps .").text == translator.translate("the cat sleeps .").text
    assert txmt.Translator(BUNDLE, compute_type="int8").translate("the cat sleeps .").text
    with pytest.raises(txmt.OptionError, match="compute_type"):
        txmt.Translator(BUNDLE, compute_type="int4")
    with pytest.raises(txmt.OptionError, match="an ensemble"):
        txmt.Translator.ensemble([])


def test_errors_have_classes_and_hints(translator):
    with pytest.raises(txmt.ModelError, match="is not a bundle") as error:
        txmt.Translator("/nowhere")
    assert error.value.hint and error.value.hint in str(error.value)
    assert issubclass(txmt.OptionError, ValueError) and issubclass(txmt.ModelError, txmt.Error)
    with pytest.raises(txmt.OptionError, match="`beam`"):
        translator.translate("a", beam_size=0)
    with pytest.raises(txmt.OptionError, match="built without `cuda`"):
        txmt.Translator(BUNDLE, device="cuda")
    with pytest.raises(TypeError, match="beams"):
        translator.translate("a", beams=4)
    with pytest.raises(TypeError):
        translator.translate("a", beam_size="four")
    with pytest.raises(txmt.ModelError, match="task `translate`, expected `classify`"):
        txmt.Classifier(BUNDLE)


def test_metrics_are_those_of_sacrebleu():
    sacrebleu = pytest.importorskip("sacrebleu.metrics")
    generator = np.random.default_rng(1)
    words = "the a cat dog sees , . it's 1,000.5 sleeps Ünder große".split()
    line = lambda: " ".join(generator.choice(words, generator.integers(0, 12)))
    for _ in range(int(os.environ.get("TX_CASES", "60"))):
        count, references = int(generator.integers(1, 8)), int(generator.integers(1, 4))
        hypotheses = [line() for _ in range(count)]
        lists = [[line() for _ in range(count)] for _ in range(references)]
        for ours, theirs in [
            (BLEU(), sacrebleu.BLEU()),
            (BLEU(lowercase=True, tokenize="intl", smooth_method="floor"),
             sacrebleu.BLEU(lowercase=True, tokenize="intl", smooth_method="floor")),
            (CHRF(word_order=2), sacrebleu.CHRF(word_order=2)),
            (TER(normalized=True), sacrebleu.TER(normalized=True)),
        ]:
            found, expected = (metric.corpus_score(hypotheses, lists) for metric in (ours, theirs))
            assert str(found) == str(expected)
            assert float(found) == pytest.approx(expected.score, abs=1e-9)
            assert found.signature == ours.get_signature() == str(theirs.get_signature())
    with pytest.raises(txmt.OptionError):
        BLEU().corpus_score(["a"], [["a", "b"]])
    with pytest.raises(txmt.OptionError, match="score a corpus first"):
        BLEU().get_signature()
    with pytest.raises(txmt.OptionError, match="tokenize"):
        BLEU(tokenize="none-such")


def test_paired_tests_are_those_of_sacrebleu():
    significance = pytest.importorskip("sacrebleu.significance")
    metrics = pytest.importorskip("sacrebleu.metrics")
    generator = np.random.default_rng(2)
    words = "the a cat dog sees sleeps runs here".split()
    reference = [" ".join(generator.choice(words, 8)) for _ in range(30)]

    def system(share):
        worse = lambda word: word if generator.random() > share else str(generator.choice(words))
        return [" ".join(worse(word) for word in line.split()) for line in reference]

    systems = [("base", system(0.5)), ("good", system(0.3)), ("bad", system(0.6))]
    for kind, samples in [("bs", 200), ("ar", 300)]:
        found = txmt.metrics.PairedTest(
            systems, {"BLEU": BLEU(), "TER": TER()}, [reference], kind, n_samples=samples
        )()
        expected = significance.PairedTest(
            systems, {"BLEU": metrics.BLEU(), "TER": metrics.TER()}, [reference], kind, n_samples=samples
        )()
        assert found[0].keys() == expected[0].keys()
        assert all(found[0][name] == str(expected[0][name]) for name in found[0])
        assert found[1]["System"] == expected[1]["System"]
        for name in ("BLEU", "TER"):
            for ours, theirs in zip(found[1][name], expected[1][name]):
                assert ours.score == pytest.approx(theirs.score, abs=1e-9)
                for one, other in [(ours.p_value, theirs.p_value), (ours.mean, theirs.mean)]:
                    assert one == pytest.approx(other, abs=1e-9)
    with pytest.raises(txmt.OptionError, match="test_type"):
        txmt.metrics.PairedTest(systems, {"BLEU": BLEU()}, [reference], "other")()


def test_functions_of_metrics():
    assert txmt.metrics.corpus_bleu(["a b c d"], [["a b c d"]]).score == pytest.approx(100)
    assert txmt.metrics.sentence_bleu("a b", ["a b"]).score == pytest.approx(100)
    assert txmt.metrics.corpus_chrf(["ab"], [["ab"]], word_order=2).name == "chrF2++"
    assert txmt.metrics.sentence_chrf("ab", ["ab"]).score == pytest.approx(100)
    assert txmt.metrics.corpus_ter(["a b"], [["a c"]]).score == pytest.approx(50)
    assert txmt.metrics.sentence_ter("a b", ["a b"]).score == 0


def test_terms_are_translated_as_in_a_glossary(tmp_path, translator):
    glossary = tmp_path / "terms.tsv"
    glossary.write_text("cat\tgatto\n", encoding="utf-8")
    with_terms = txmt.Translator(BUNDLE, glossary=glossary)
    assert "gatto" in with_terms.translate("the cat sleeps .").text.split()
    text = "we sleep ."
    assert with_terms.translate(text).text == translator.translate(text).text
    with pytest.raises(txmt.OptionError, match="`beam` of at least 2"):
        with_terms.translate("the cat sleeps .", beam_size=1)
    glossary.write_text("cat", encoding="utf-8")
    with pytest.raises(txmt.ModelError, match="glossary"):
        txmt.Translator(BUNDLE, glossary=glossary)


def test_models_are_imported_and_exported(tmp_path):
    notes = txmt.import_model(MODELS / "firefox", tmp_path / "bundle")
    assert any("shortlist" in note for note in notes)
    shortlist = tmp_path / "bundle" / "shortlist.safetensors"
    translator = txmt.Translator(tmp_path / "bundle", shortlist=shortlist)
    assert translator.translate("nobody paints it today .").text == "niemand malt es heute ."
    txmt.export(BUNDLE, "onnx", tmp_path / "onnx")
    assert (tmp_path / "onnx" / "encoder_model.onnx").stat().st_size > 1000
    with pytest.raises(txmt.OptionError, match="unknown format"):
        txmt.export(BUNDLE, "paper", tmp_path / "paper")
    with pytest.raises(txmt.ModelError, match="no known model format|is no"):
        txmt.import_model(tmp_path / "onnx", tmp_path / "other")


def test_threads_share_a_translator(translator):
    expected = translator.translate("the cat sleeps .").text
    found = []

    def work():
        for _ in range(20):
            found.append(translator.translate("the cat sleeps .").text)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 160


def test_a_stream_passes_on_the_parts_of_the_greedy_translation(translator):
    parts = []
    found = translator.translate_stream("the cat sleeps .", parts.append)
    assert "".join(parts) == found == translator.translate("the cat sleeps .", beam_size=1).text
    assert len(parts) > 1
    stopped = []
    found = translator.translate_stream("the cat sleeps .", lambda part: bool(stopped.append(part)))
    assert found == "".join(stopped) and len(stopped) == 1

    def fail(part):
        raise ValueError(part)

    with pytest.raises(ValueError):
        translator.translate_stream("the cat sleeps .", fail)


def test_an_interrupt_ends_a_call(translator):
    # A shell's background jobs ignore SIGINT, and Python leaves it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    texts = ["the cat sleeps . " * 5] * 200_000
    timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        translator.translate_batch(texts, beam_size=4)
    assert time.monotonic() - start < 5
