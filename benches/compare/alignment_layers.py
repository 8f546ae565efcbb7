"""Alignment error rate (AER) of each decoder layer of a bundle.

    python alignment_layers.py BUNDLE SOURCE TARGET --layers N --bitext SOURCE TARGET

The reference is eflomal 2.0.0 in both directions, which reads the pairs after those of `--bitext`: common links are sure,
and all links possible (Och and Ney 2003). Words are delimited by white space, as in `translate align`. eflomal reads
them in lower case and without punctuation at their ends.
"""

import argparse
import re
import subprocess
import tempfile
from pathlib import Path

Links = set[tuple[int, int]]


def bare(word: str) -> str:
    return re.sub(r"^\W+|\W+$", "", word.lower()) or word


def links(line: str) -> Links:
    return {(int(source), int(target)) for source, target in (link.split("-") for link in line.split())}


def reference(source: list[str], target: list[str]) -> list[tuple[Links, Links]]:
    """Links of each pair in both directions."""
    with tempfile.TemporaryDirectory() as folder:
        names = [Path(folder) / name for name in ("source", "target", "forward", "reverse")]
        for path, lines in zip(names, (source, target)):
            path.write_text("".join(" ".join(map(bare, line.split())) + "\n" for line in lines), encoding="utf-8")
        options = [part for pair in zip(("-s", "-t", "-f", "-r"), map(str, names)) for part in pair]
        subprocess.run(["eflomal-align", "--model", "3", *options], check=True, stderr=subprocess.DEVNULL)
        forward, reverse = (path.read_text().splitlines() for path in names[2:])
        return [(links(one), links(other)) for one, other in zip(forward, reverse)]


def error_rate(found: list[Links], expected: list[tuple[Links, Links]]) -> float:
    agreeing = total = 0
    for these, (forward, reverse) in zip(found, expected):
        sure, possible = forward & reverse, forward | reverse
        agreeing += len(these & sure) + len(these & possible)
        total += len(these) + len(sure)
    return 1 - agreeing / total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("bundle")
    parser.add_argument("files", nargs=2, type=Path)
    parser.add_argument("--bitext", nargs=2, type=Path, required=True)
    parser.add_argument("--layers", type=int, required=True, help="number of decoder layers")
    parser.add_argument("--translate", default="translate", help="program")
    args = parser.parse_args()

    texts = [path.read_text(encoding="utf-8").splitlines() for path in args.files]
    count = len(texts[0])
    bitext = [path.read_text(encoding="utf-8").splitlines() for path in args.bitext]
    expected = reference(*(own + other for own, other in zip(texts, bitext)))[:count]
    files = ["--source", str(args.files[0]), "--target", str(args.files[1])]
    for layer in range(1, args.layers + 1):
        command = [args.translate, "align", "--model", args.bundle, *files, "--alignment-layer", str(layer)]
        found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        print(f"layer {layer}: AER {100 * error_rate(list(map(links, found)), expected):.1f} %")


if __name__ == "__main__":
    main()
