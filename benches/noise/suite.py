"""Makes noisy variants of a test set, translates them and scores them.

    python suite.py --translate translate --model BUNDLE --source test.de --target test.en \
        --languages de-en --out OUT [--train-target train.en] [--only names,numbers]

Each variant is a pair of files in OUT. Cases of the source change; the reference is what a reader expects:
capitals for capitals, and otherwise the reference of the test set, with the emoji, placeholder, tag, name or
number that was put into both sides. The generator is independent of the noise that tx trains with: other
names and other symbols. Standard library only; random numbers have a fixed seed.
"""

import argparse
import json
import pathlib
import random
import re
import subprocess

NAMES = """Annika Mehmet Priya Oluwaseun Giulia Xiaoming Henrik Fatima Siobhan Wojciech Dmitri Aiko Lourdes
Thandiwe Ximena Björk Yusuf Ngozi Rafael Ingrid Kwame Leilani Mateusz Zeynep Tomasz Amélie Hiroshi Svetlana
Chidi Esperanza""".split()
EMOJI = "🚀 🥳 🤖 🍕 ☕ 💡 🐶 🌍 💔 🙈 📦 ✈️ 🎂 ⚽ 😴".split()
PLACEHOLDERS = "{user} %1$s {{count}} {0} %(total)d $t(home.title) {first_name}".split()
ADDRESSES = "https://example.org/a?b=1 info@example.com www.wetter-heute.de".split()
FINAL = ".!?…"
# Words that both languages have at the start of many sentences, for the variants with names and numbers.
SUBJECTS = {
    "de-en": ([("Ein Mann ", "A man "), ("Eine Frau ", "A woman "), ("Ein Junge ", "A boy "), ("Ein Mädchen ", "A girl ")],
              [("Zwei ", "Two "), ("Drei ", "Three "), ("Vier ", "Four ")]),
    "fr-en": ([("Tom ", "Tom "), ("Marie ", "Mary ")],
              [(" deux ", " two "), (" trois ", " three "), (" quatre ", " four "), (" cinq ", " five "), (" six ", " six "),
               (" sept ", " seven "), (" huit ", " eight "), (" dix ", " ten "), (" vingt ", " twenty ")]),
    "en-fr": ([("Tom ", "Tom "), ("Mary ", "Marie ")], [(" two ", " deux "), (" three ", " trois "), (" ten ", " dix ")]),
}


def typos(text, rng):
    words = text.split(" ")
    for index, word in enumerate(words):
        if len(word) < 4 or rng.random() > 0.15:
            continue
        at = rng.randrange(1, len(word) - 1)
        kind = rng.randrange(4)
        if kind == 0:
            word = word[:at] + word[at + 1:]
        elif kind == 1:
            word = word[:at] + word[at + 1] + word[at] + word[at + 2:]
        elif kind == 2:
            word = word[:at] + word[at] + word[at:]
        else:
            word = word[:at] + rng.choice("abcdefghijklmnopqrstuvwxyz") + word[at + 1:]
        words[index] = word
    return " ".join(words)


def swapped(pairs, patterns, values, rng):
    """Pairs in which a word of both sides is replaced, and the value of each."""
    found = []
    for source, target in pairs:
        for one, other in patterns:
            if source.count(one) == 1 and target.count(other) == 1:
                value = values(rng)
                # A pattern may begin with a space.
                put = lambda text, word: text.replace(word, word.replace(word.strip(), value))
                found.append((put(source, one), put(target, other), value))
                break
    return found


def variants(pairs, languages, rng):
    strip = lambda text: text.rstrip(FINAL + " ")
    yield "clean", [(s, t, None) for s, t in pairs]
    yield "upper", [(s.upper(), t.upper(), None) for s, t in pairs]
    yield "lower", [(s.lower(), t, None) for s, t in pairs]
    yield "no-punctuation", [(" ".join(re.sub(r"[.,;:!?…\"]", " ", s).split()), strip(t), None) for s, t in pairs]
    yield "typos", [(typos(s, rng), t, None) for s, t in pairs]
    items = [("emoji", EMOJI), ("placeholder", PLACEHOLDERS), ("address", ADDRESSES)]
    for name, values in items:
        rows = []
        for s, t in pairs:
            value = rng.choice(values)
            rows.append((f"{s} {value}", f"{t} {value}", value))
        yield name, rows
    yield "tags", [(f"<b>{s}</b>", f"<b>{t}</b>", "<b>") for s, t in pairs]
    joined = list(zip(pairs[0::2], pairs[1::2]))
    yield "concatenation", [(f"{a[0]} {b[0]}", f"{a[1]} {b[1]}", None) for a, b in joined]
    names, numbers = SUBJECTS[languages]
    yield "names", swapped(pairs, names, lambda rng: rng.choice(NAMES), rng)
    yield "numbers", swapped(pairs, numbers, lambda rng: str(rng.randrange(11, 10 ** rng.randint(2, 4))), rng)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("translate", "model", "source", "target", "languages", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--train-target", help="training text of the target: counts outputs with foreign words")
    parser.add_argument("--options", default="", help="further options of `translate`")
    parser.add_argument("--only", help="kinds of noise, between commas [default: all]")
    args = parser.parse_args()
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    read = lambda path: pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    pairs = list(zip(read(args.source), read(args.target)))
    known = set()
    if args.train_target:
        for line in read(args.train_target):
            known.update(re.findall(r"[^\W\d_]+", line.lower()))
    results = {}
    for name, rows in variants(pairs, args.languages, random.Random(1)):
        if not rows or args.only and name not in args.only.split(","):
            continue
        paths = {side: out / f"{name}.{side}" for side in ("source", "target", "hypothesis")}
        for side, column in (("source", 0), ("target", 1)):
            paths[side].write_text("".join(row[column] + "\n" for row in rows), encoding="utf-8")
        command = [args.translate, "--model", args.model, *args.options.split()]
        with open(paths["source"]) as source, open(paths["hypothesis"], "w") as hypothesis:
            subprocess.run(command, stdin=source, stdout=hypothesis, check=True, stderr=subprocess.DEVNULL)
        score = subprocess.run(
            [args.translate, "score", "--reference", paths["target"], "--hypothesis", paths["hypothesis"],
             "--metrics", "bleu,chrf", "--json"], capture_output=True, text=True, check=True).stdout
        hypotheses = read(paths["hypothesis"])
        kept = [value in line for (_, _, value), line in zip(rows, hypotheses) if value]
        result = {"lines": len(rows), **{one["name"]: one["score"] for one in json.loads(score)}}
        if kept:
            result["kept"] = round(100 * sum(kept) / len(kept), 1)
        if known:
            foreign = [set(re.findall(r"[^\W\d_]+", line.lower())) - known for line in hypotheses]
            sources = [set(re.findall(r"[^\W\d_]+", row[0].lower())) for row in rows]
            result["foreign"] = round(100 * sum(bool(f - s) for f, s in zip(foreign, sources)) / len(rows), 1)
        results[name] = result
        print(name, json.dumps(result), flush=True)
    (out / "results.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
