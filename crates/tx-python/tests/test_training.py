"""Tests of training, serving and the program."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest

import txmt

FIXTURES = Path(__file__).parents[3] / "tests" / "fixtures"
BUNDLE = FIXTURES / "bundle-v1"
SETTINGS = {
    "model.d_model": 16,
    "model.d_ff": 16,
    "model.n_heads": 2,
    "train.epochs": 2,
    "train.batch": {"sentences": 16},
    "data.train_pairs": 64,
    "data.valid_pairs": 8,
    "validation.every_steps": 3,
}


def config():
    found = txmt.Config("reverse")
    for key, value in SETTINGS.items():
        found.set(key, value)
    return found


def weights(run):
    return hashlib.sha256((Path(run) / "model.safetensors").read_bytes()).hexdigest()


def program(*arguments, **options):
    command = [sys.executable, "-m", "txmt", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, **options)


def test_a_run_is_that_of_the_program_with_and_without_stops(tmp_path):
    settings = [f"--set={key}={value}" for key, value in SETTINGS.items() if key != "train.batch"]
    settings.append("--set=train.batch={ sentences = 16 }")
    done = program("train", "--recipe", "reverse", *settings, "--device", "cpu", "--run", tmp_path / "a")
    assert done.returncode == 0, done.stderr
    updates, validations = [], []
    result = txmt.train(config(), tmp_path / "b", on_update=updates.append, on_validation=validations.append)
    assert weights(tmp_path / "a") == weights(tmp_path / "b")
    assert [update.step for update in updates] == list(range(1, 9))
    assert (result.step, result.epoch, result.interrupted) == (8, 2, False)
    assert result.run == tmp_path / "b"
    assert result.metrics == validations[-1].metrics and result.metrics["loss"] > 0
    assert any(validation.is_best for validation in validations)
    assert updates[0].as_dict()["loss"] == updates[0].loss > 0

    again = []

    def stop_at_three(update):
        again.append(update)
        return update.step < 3

    assert txmt.train(config(), tmp_path / "c", on_update=stop_at_three).interrupted
    assert not txmt.resume(tmp_path / "c", on_update=again.append).interrupted
    assert weights(tmp_path / "c") == weights(tmp_path / "a")
    assert [one.loss for one in again] == [one.loss for one in updates]
    more = txmt.resume(tmp_path / "c", changes={"train.epochs": 3})
    assert (more.step, more.epoch) == (12, 3)


def test_exceptions_of_callbacks_propagate_and_leave_a_checkpoint(tmp_path):
    def fail(validation):
        raise LookupError(f"at {validation.step}")

    with pytest.raises(LookupError, match="at 3"):
        txmt.train(config(), tmp_path / "run", on_validation=fail)
    with pytest.raises(txmt.ModelError, match="already contains a run") as raised:
        txmt.train(config(), tmp_path / "run")
    assert "txmt.resume" in raised.value.hint
    assert txmt.resume(tmp_path / "run").step == 8


def test_an_interrupt_stops_a_run_with_a_checkpoint(tmp_path):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    long = config()
    long.set("train.epochs", 100_000)
    timer = threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        txmt.train(long, tmp_path / "run")
    assert time.monotonic() - start < 10
    assert txmt.resume(tmp_path / "run", on_update=lambda update: False).interrupted


def test_a_configuration_is_checked(tmp_path):
    with pytest.raises(txmt.OptionError, match="no recipe `phrasbook`") as raised:
        txmt.Config("phrasbook")
    assert "phrasebook" in raised.value.hint
    wrong = config()
    wrong.set("train.epoch", 3)
    with pytest.raises(txmt.OptionError, match="epoch"):
        wrong.to_toml()
    wrong = config()
    wrong.set("model.n_heads", 3)
    with pytest.raises(txmt.OptionError, match="n_heads"):
        txmt.train(wrong, tmp_path / "run")
    with pytest.raises(TypeError, match="complex"):
        wrong.set("train.epochs", 1j)
    endless = []
    endless.append(endless)
    with pytest.raises(txmt.OptionError, match="more than 8 levels"):
        wrong.set("train.batch", endless)
    with pytest.raises(TypeError, match="generator"):
        wrong.set("train.batch", (number for number in range(3)))
    reset = config()
    reset.set("data.valid_pairs", None)
    path = tmp_path / "config.toml"
    path.write_text(config().to_toml(), encoding="utf-8")
    assert txmt.Config(path=path).to_toml() == config().to_toml()
    with pytest.raises(txmt.ModelError, match="no run to resume"):
        txmt.resume(tmp_path / "nothing")


def test_own_files_are_trained_on(tmp_path):
    for name, line in [("train.en", "the cat sleeps"), ("train.it", "il gatto dorme")]:
        (tmp_path / name).write_text(f"{line}\n" * 40, encoding="utf-8")
    small = config()
    for key, value in {
        "data.train_source": tmp_path / "train.en", "data.train_target": tmp_path / "train.it",
        "data.valid_source": tmp_path / "train.en", "data.valid_target": tmp_path / "train.it",
    }.items():
        small.set(key, value)
    result = txmt.train(small, tmp_path / "run", on_update=lambda update: update.step < 2)
    assert result.step == 2


def test_the_server_answers_until_it_is_stopped():
    with txmt.Server({"en-it": BUNDLE}, port=0) as server:
        body = json.dumps({"q": "the cat sleeps .", "source": "en", "target": "it"}).encode()
        request = urllib.request.Request(
            f"{server.url}/translate", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as answer:
            text = json.load(answer)["translatedText"]
        assert text == txmt.Translator(BUNDLE).translate("the cat sleeps .").text
        with pytest.raises(txmt.OptionError, match="cannot listen"):
            txmt.Server({"en-it": BUNDLE}, port=server.port)
        url = server.url
    with pytest.raises(OSError):
        urllib.request.urlopen(url, timeout=5)
    server.stop()
    with pytest.raises(txmt.ModelError):
        txmt.Server({"en-it": "none-such"}, port=0)


def test_the_server_leaves_the_signals_to_python():
    code = f"""if True:
        import signal, threading, txmt
        signal.signal(signal.SIGINT, signal.default_int_handler)
        server = txmt.Server({{"en-it": {str(BUNDLE)!r}}}, port=0)
        threading.Timer(0.5, lambda: signal.raise_signal(signal.SIGINT)).start()
        try:
            server.wait()
        except KeyboardInterrupt:
            print("stopped")
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "stopped\n", done.stderr


def test_the_program_has_the_commands_of_train_and_translate(tmp_path):
    done = program("translate", "--model", BUNDLE, "--text", "the cat sleeps .")
    assert done.stdout.strip() == txmt.Translator(BUNDLE).translate("the cat sleeps .").text
    assert program("--version").stdout.strip() == f"txmt {txmt.__version__}"
    done = program("translate", "--model", "none-such")
    assert done.returncode == 1 and "`txmt models get`" in done.stderr
    assert program("train", "--set", "a").returncode == 2
    toy = ["--recipe", "toy", "--set", "train.max_steps=1", "--set", "model.d_model=16", "--device", "cpu"]
    done = program("train", "sweep", "--out", tmp_path / "sweep", "--", *toy)
    assert done.returncode == 0, done.stderr


def test_the_program_ends_at_an_interrupt():
    command = [sys.executable, "-m", "txmt", "serve", "--model", f"en-it={BUNDLE}", "--listen", "127.0.0.1:0"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while "listening" not in (line := server.stderr.readline()):
        assert server.poll() is None
    # A server that answers handles signals.
    urllib.request.urlopen(json.loads(line)["url"] + "health").close()
    server.send_signal(signal.SIGINT)
    assert server.wait(30) == 0


def test_downloads_need_a_network(tmp_path, monkeypatch):
    monkeypatch.setenv("TX_CACHE", str(tmp_path))
    with pytest.raises(txmt.OptionError, match="no model `none-such`"):
        txmt.get_model("none-such")
    with pytest.raises(txmt.Error, match="none-such"):
        txmt.fetch("none-such", source="en", target="it")


def tiny(recipe, run):
    small = txmt.Config(recipe)
    for key, value in {
        "model.d_model": 16, "model.d_ff": 16, "model.n_heads": 2, "data.train_pairs": 200,
        "data.valid_pairs": 10, "train.max_steps": 2,
    }.items():
        small.set(key, value)
    txmt.train(small, run)
    return run


def test_models_of_the_other_tasks(tmp_path):
    classifier = txmt.Classifier(tiny("classify", tmp_path / "classify"))
    first, second = classifier.classify_batch(["where is the cat?", "the cat is here."])
    classify = txmt.pipeline("text-classification", tmp_path / "classify")
    label, score = first[0]
    assert classify("where is the cat?") == [{"label": label, "score": score}]
    assert len(classify(["a", "b"])) == 2 and len(classify("a", top_k=2)) == 2
    assert sum(probability for _, probability in first) == pytest.approx(1, abs=1e-5)
    assert {label for label, _ in second} == set(classifier.labels)
    assert len(classifier.classify_batch(["a"], top_k=1)[0]) == 1
    fill = txmt.FillMask(tiny("fill-mask", tmp_path / "fill-mask"), top_k=2)
    masks = fill("the <mask> is <mask>.")
    assert [len(mask) for mask in masks] == [2, 2] and masks[0][0]["score"] >= masks[0][1]["score"]
    fill = txmt.pipeline("fill-mask", tmp_path / "fill-mask", top_k=2)
    assert fill("the <mask> is <mask>.") == masks
    assert {"score", "token", "token_str"} == fill("the <mask> is here.")[0].keys()
    with pytest.raises(txmt.OptionError, match="is unknown"):
        txmt.pipeline("summarize", tmp_path)


def test_a_text_is_generated_in_parts(tmp_path):
    generator = txmt.Generator(tiny("generate", tmp_path / "generate"))
    options = dict(beam_size=1, max_decoding_length=12)
    [(text, _score), *_others] = generator.generate_batch(["the cat"], **options)[0]
    generate = txmt.pipeline("text-generation", tmp_path / "generate")
    assert generate("the cat", num_beams=1, max_new_tokens=12) == [{"generated_text": text}]
    assert len(generate(["a", "b"], max_new_tokens=2, do_sample=True, top_k=5, seed=1)) == 2
    parts = []
    assert generator.generate("the cat", parts.append, **options) == text
    assert text == "the cat" + "".join(parts) and len(parts) > 2
    first = []

    def once(part):
        first.append(part)
        return False

    assert generator.generate("the cat", once, **options) == "the cat" + parts[0]
    assert first == parts[:1]

    def fail(part):
        raise LookupError(part)

    with pytest.raises(LookupError):
        generator.generate("the cat", fail, **options)
