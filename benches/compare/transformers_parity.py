"""Compares an imported folder with `transformers`: token ids, and hypotheses of greedy and beam search.

    cargo build --release -p tx-convert --example hypotheses
    python transformers_parity.py --folder opus-mt-en-de --source test.en \\
        --program target/release/examples/hypotheses --bundle /tmp/bundle
"""

import argparse
import json
import pathlib
import subprocess
import sys

import torch
import transformers

BEAMS = [1, 4, 6]


def new_ids(tokenizer, config):
    """Ids of the bundle for the ids of the model: `<pad>`, `<bos>`, `<eos>`, `<unk>`, then the others."""
    unk = tokenizer.unk_token_id
    bos = config.bos_token_id if config.model_type == "m2m_100" else None
    special = [config.pad_token_id, bos, config.eos_token_id, unk]
    others = [i for i in range(config.vocab_size) if i not in special]
    return {old: new for new, old in enumerate(special + others) if old is not None}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", required=True, type=pathlib.Path)
    parser.add_argument("--source", required=True, type=pathlib.Path)
    parser.add_argument("--program", required=True)
    parser.add_argument("--bundle", required=True)
    parser.add_argument("--lines", type=int, default=1000)
    args = parser.parse_args()
    torch.set_grad_enabled(False)
    lines = args.source.read_text(encoding="utf-8").split("\n")[:args.lines]
    lines = [line for line in lines if line.strip()]

    command = [args.program, str(args.folder), args.bundle, ",".join(map(str, BEAMS))]
    found = subprocess.run(command, input="\n".join(lines) + "\n", encoding="utf-8", capture_output=True)
    if found.returncode:
        sys.exit(found.stderr)
    found = [json.loads(line) for line in found.stdout.splitlines()]
    assert len(found) == len(lines)

    tokenizer = transformers.AutoTokenizer.from_pretrained(args.folder, use_fast=False, split_special_tokens=True)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(args.folder).float().eval()
    ids = new_ids(tokenizer, model.config)
    convert = lambda sequence: [ids[i] for i in sequence]
    equal_ids = 0
    first = {beam: 0 for beam in BEAMS}
    every = {beam: 0 for beam in BEAMS}
    error = {beam: 0.0 for beam in BEAMS}
    for number, (line, ours) in enumerate(zip(lines, found)):
        source = tokenizer(line)["input_ids"]
        equal_ids += convert(source) == ours["ids"]
        for beam in BEAMS:
            out = model.generate(torch.tensor([source]), num_beams=beam, num_return_sequences=beam,
                                 return_dict_in_generate=True, output_scores=beam > 1)
            eos = model.config.eos_token_id
            theirs = []
            for sequence in out.sequences.tolist():
                sequence = sequence[1:]
                end = sequence.index(eos) + 1 if eos in sequence else len(sequence)
                theirs.append(convert(sequence[:end]))
            mine = [hypothesis["ids"] for hypothesis in ours[str(beam)]]
            first[beam] += mine[0] == theirs[0]
            every[beam] += mine == theirs
            if beam > 1 and mine == theirs:
                scores = [hypothesis["score"] for hypothesis in ours[str(beam)]]
                error[beam] = max(error[beam], *[abs(a - b) for a, b in zip(scores, out.sequences_scores.tolist())])
            if mine[0] != theirs[0]:
                print(f"line {number + 1}, beam {beam}: {mine[0]} instead of {theirs[0]}", file=sys.stderr)
    total = len(lines)
    print(f"sentences {total}, equal token ids {equal_ids}")
    for beam in BEAMS:
        print(f"beam {beam}: best hypothesis equal {first[beam]}, all hypotheses equal {every[beam]}, "
              f"largest difference of scores {error[beam]:.1e}")


if __name__ == "__main__":
    main()
