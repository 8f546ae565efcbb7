"""Writes a corpus of English and German dialogues whose pronouns depend on the sentence before.

    python dialogues.py --out data --documents 6000 [--seed 1]

`It is expensive.` is `Er ist teuer.`, `Sie ist teuer.` or `Es ist teuer.`, by the gender of the noun of the sentence
before. An empty line ends a dialogue. OUT has:

- `train.en`, `train.de`, `valid.en`, `valid.de`: dialogues
- `test.en`, `test.de`: other dialogues, and `wrong-1.de`, `wrong-2.de`: the lines with a pronoun with those of the
  two other genders, and empty lines otherwise, for `translate force --contrastive`
- `single.en`, `single.de`: the test sentences without a pronoun, each alone

Documents of the parts differ; each noun is in all parts. Standard library only; random numbers have a fixed seed.
"""

import argparse
import pathlib
import random

# English noun, German noun; by gender.
NOUNS = {
    "m": """table Tisch, chair Stuhl, car Wagen, coat Mantel, cake Kuchen, train Zug, letter Brief, key Schlüssel,
        garden Garten, apple Apfel, cupboard Schrank, dog Hund""",
    "f": """lamp Lampe, clock Uhr, bag Tasche, door Tür, bottle Flasche, kitchen Küche, flower Blume, newspaper Zeitung,
        jacket Jacke, bridge Brücke, guitar Gitarre, cat Katze""",
    "n": """book Buch, house Haus, picture Bild, bed Bett, window Fenster, bicycle Fahrrad, dress Kleid, glass Glas,
        knife Messer, ship Schiff, room Zimmer, horse Pferd""",
}
ADJECTIVES = """new neu, old alt, expensive teuer, beautiful schön, big groß, small klein, red rot, good gut, bad schlecht,
    strange seltsam, heavy schwer, ugly hässlich"""
# Nominative and accusative.
ARTICLES = {"m": ("der", "den"), "f": ("die", "die"), "n": ("das", "das")}
INDEFINITE = {"m": "einen", "f": "eine", "n": "ein"}
PRONOUNS = {"m": ("er", "ihn"), "f": ("sie", "sie"), "n": ("es", "es")}


def words(text):
    return [tuple(entry.split()) for entry in text.split(",")]


def upper(text):
    return text[0].upper() + text[1:]


def statement(rng, gender, noun, adjectives):
    """A sentence with the noun, in both languages."""
    english, german = noun
    adjective = rng.choice(adjectives)
    nominative, accusative = ARTICLES[gender]
    return rng.choice([
        (f"The {english} is {adjective[0]}.", f"{upper(nominative)} {german} ist {adjective[1]}."),
        (f"I have bought a {english}.".replace(" a a", " an a"), f"Ich habe {INDEFINITE[gender]} {german} gekauft."),
        (f"Do you see the {english}?", f"Siehst du {accusative} {german}?"),
        (f"We are looking for the {english}.", f"Wir suchen {accusative} {german}."),
        (f"Here is the {english}.", f"Hier ist {nominative} {german}."),
    ])


def reply(rng, adjectives):
    """A sentence with a pronoun: English, and German for each gender."""
    adjective, number = rng.choice(adjectives), rng.randrange(6)

    def german(gender):
        nominative, accusative = PRONOUNS[gender]
        return [
            f"{upper(nominative)} ist {adjective[1]}.",
            f"Ist {nominative} {adjective[1]}?",
            f"Wo ist {nominative}?",
            f"Ich mag {accusative}.",
            f"Ich habe {accusative} gestern gesehen.",
            f"{upper(nominative)} gehört meinem Bruder.",
        ][number]

    english = [
        f"It is {adjective[0]}.",
        f"Is it {adjective[0]}?",
        "Where is it?",
        "I like it.",
        "I saw it yesterday.",
        "It belongs to my brother.",
    ][number]
    return english, german


def dialogue(rng, nouns, adjectives):
    """Lines: English, German and wrong German sentences. After each noun there is at most one pronoun."""
    lines = []
    for _ in range(rng.randint(1, 3)):
        gender, noun = rng.choice(nouns)
        lines.append((*statement(rng, gender, noun, adjectives), []))
        if rng.random() < 0.8:
            english, german = reply(rng, adjectives)
            lines.append((english, german(gender), [german(other) for other in "mfn" if other != gender]))
    return tuple((english, german, tuple(wrong)) for english, german, wrong in lines)


def write(path, documents, column):
    path.write_text("\n\n".join("\n".join(map(column, document)) for document in documents) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--documents", type=int, default=6_000, help="number of training dialogues")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    nouns = [(gender, noun) for gender, text in NOUNS.items() for noun in words(text)]
    adjectives = words(ADJECTIVES)
    seen, documents = set(), []
    while len(documents) < args.documents + 600:
        document = dialogue(rng, nouns, adjectives)
        # A dialogue of several lines occurs once.
        if len(document) > 1 and document not in seen:
            seen.add(document)
            documents.append(document)
    parts = {"test": documents[:400], "valid": documents[400:600], "train": documents[600:]}
    args.out.mkdir(parents=True, exist_ok=True)
    for part, documents in parts.items():
        write(args.out / f"{part}.en", documents, lambda line: line[0])
        write(args.out / f"{part}.de", documents, lambda line: line[1])
    for number in range(2):
        wrong = lambda line: line[2][number] if line[2] else ""
        write(args.out / f"wrong-{number + 1}.de", parts["test"], wrong)
    single = [[line] for line in dict.fromkeys(line for document in parts["test"] for line in document if not line[2])]
    for name, column in (("single.en", 0), ("single.de", 1)):
        (args.out / name).write_text("".join(f"{document[0][column]}\n" for document in single))


if __name__ == "__main__":
    main()
