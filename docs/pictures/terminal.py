#!/usr/bin/env python3
"""Records `train` and `translate` in a terminal and renders the recording as an animated SVG.

    cargo build --release --bins
    python3 docs/pictures/terminal.py target/release docs/pictures/terminal.svg

Runs the real programs in a pseudo-terminal. A third argument names a folder for the trained run. Only the waiting time is
shortened: the animation shows one frame for every few seconds of training. Without animation (print, reduced motion) the
SVG shows the last frame. Needs Python 3.9 on Linux or macOS, and no package.
"""

import html
import os
import pty
import re
import select
import shutil
import struct
import sys
import tempfile
import time

COLUMNS, ROWS = 116, 26
CHARACTER, LINE, MARGIN = 8.4, 19, 14
# Seconds of the animation for a frame of output, and after a command has ended.
FRAME, PAUSE, LAST = 0.18, 1.4, 5.0
# Seconds of real time between two frames of a progress line.
SAMPLE = 2.0


class Screen:
    """The terminal functions that the programs use: carriage return, erase, cursor up, bold and colors."""

    def __init__(self):
        self.lines, self.row, self.column, self.style = [[]], 0, 0, ""
        # Rows that continue the one above, because it was full.
        self.continued = set()

    def feed(self, text):
        position = 0
        while position < len(text):
            escape = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])").match(text, position)
            if escape:
                self.control(*escape.groups())
                position = escape.end()
                continue
            character = text[position]
            position += 1
            if character == "\n":
                self.row += 1
                while len(self.lines) <= self.row:
                    self.lines.append([])
            elif character == "\r":
                self.column = 0
            elif character >= " ":
                if self.column == 0:
                    self.continued.discard(self.row)
                elif self.column == COLUMNS:
                    self.feed("\n\r")
                    self.continued.add(self.row)
                line = self.lines[self.row]
                line += [(" ", "")] * (self.column + 1 - len(line))
                line[self.column] = (character, self.style)
                self.column += 1

    def control(self, numbers, letter):
        first = int(numbers) if numbers.isdigit() else None
        line = self.lines[self.row]
        if letter == "A":
            self.row = max(0, self.row - (first or 1))
        elif letter == "B":
            self.row = min(len(self.lines) - 1, self.row + (first or 1))
        elif letter == "C":
            self.column += first or 1
        elif letter == "D":
            self.column = max(0, self.column - (first or 1))
        elif letter == "G":
            self.column = (first or 1) - 1
        elif letter == "K":
            self.lines[self.row] = [] if first == 2 else line[: self.column]
        elif letter == "J":
            self.lines[self.row] = line[: self.column]
            del self.lines[self.row + 1 :]
        elif letter == "m":
            for code in (numbers or "0").split(";"):
                names = {"1": "bold", "2": "dim", "31": "red", "32": "green", "33": "yellow", "36": "cyan"}
                self.style = "" if code in ("", "0") else names.get(code, self.style)

    def frame(self):
        """The last rows, each as a list of (text, style)."""
        rows = []
        for line in self.lines[max(0, len(self.lines) - ROWS) :]:
            spans = []
            for character, style in line:
                if spans and spans[-1][1] == style:
                    spans[-1][0] += character
                else:
                    spans.append([character, style])
            rows.append(spans)
        return rows


class Recording:
    def __init__(self, folder):
        self.screen, self.frames, self.folder = Screen(), [], folder

    def keep(self, seconds):
        frame = self.screen.frame()
        if self.frames and self.frames[-1][0] == frame:
            self.frames[-1][1] += seconds
        else:
            self.frames.append([frame, seconds])

    def type(self, command):
        """Shows a prompt and a command."""
        self.screen.style = "green"
        self.screen.feed("$ ")
        self.screen.style = "bold"
        for start in range(0, len(command), 12):
            self.screen.feed(command[start : start + 12])
            self.keep(0.08)
        self.screen.style = ""
        self.screen.feed("\r\n")
        self.keep(0.4)

    def run(self, arguments):
        """Runs a program and keeps frames of its output."""
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(self.folder)
            os.environ.update(TERM="xterm-256color", COLUMNS=str(COLUMNS), LINES=str(ROWS))
            os.execv(arguments[0], arguments)
        import fcntl
        import termios

        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        pending, sampled, lines = b"", time.monotonic(), len(self.screen.lines)
        while True:
            ready, _, _ = select.select([terminal], [], [], 0.2)
            if ready:
                try:
                    read = os.read(terminal, 65536)
                except OSError:
                    read = b""
                if not read:
                    break
                pending += read
                # Up to the last complete character.
                text = pending.decode("utf-8", errors="ignore")
                pending = pending[len(text.encode()) :]
                self.screen.feed(text)
            now = time.monotonic()
            if now - sampled >= SAMPLE or len(self.screen.lines) > lines:
                sampled, lines = now, len(self.screen.lines)
                self.keep(FRAME)
        _, status = os.waitpid(child, 0)
        if status != 0:
            sys.exit(f"{' '.join(arguments)} failed with status {status}")
        if self.screen.column > 0:
            self.screen.feed("\r\n")
        self.keep(PAUSE)


def svg(frames):
    width, height = COLUMNS * CHARACTER + 2 * MARGIN, ROWS * LINE + 2 * MARGIN + 22
    total = sum(seconds for _, seconds in frames)
    at, steps, pictures, known = 0.0, [], [], {}
    for index, (rows, seconds) in enumerate(frames):
        steps.append(f"{100 * at / total:.3f}%{{transform:translateY({-index * height}px)}}")
        at += seconds
        lines = []
        for row, spans in enumerate(rows):
            y = index * height + MARGIN + 22 + row * LINE + 14
            # Equal lines are stored once.
            column, parts = 0, []
            for text, style in spans:
                if text.strip():
                    x = MARGIN + column * CHARACTER
                    name = f' class="{style}"' if style else ""
                    parts.append(f'<tspan x="{x:.1f}"{name}>{html.escape(text.rstrip())}</tspan>')
                column += len(text)
            if parts:
                name = known.setdefault("".join(parts), f"l{len(known)}")
                lines.append(f'<use href="#{name}" y="{y}"/>')
        pictures.append("".join(lines))
    last = -(len(frames) - 1) * height
    texts = "\n".join(f'<text id="{name}">{parts}</text>' for parts, name in known.items())
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" viewBox="0 0 {width:.0f} {height}">
<title>A terminal: train, then translate</title>
<style>
text {{ font: 14px "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #d7dde4; white-space: pre; }}
.bold {{ font-weight: 700; fill: #fff; }} .dim {{ fill: #8b949e; }}
.green {{ fill: #7ee787; }} .red {{ fill: #ff7b72; }} .yellow {{ fill: #e3b341; }} .cyan {{ fill: #79c0ff; }}
#film {{ transform: translateY({last}px); }}
@media (prefers-reduced-motion: no-preference) {{ #film {{ animation: film {total:.2f}s step-end infinite; }} }}
@media print {{ #film {{ animation: none; }} }}
@keyframes film {{ {"".join(steps)} }}
</style>
<defs>
{texts}
</defs>
<rect width="100%" height="100%" rx="9" fill="#161b22"/>
<circle cx="18" cy="16" r="5" fill="#ff5f56"/><circle cx="36" cy="16" r="5" fill="#ffbd2e"/><circle cx="54" cy="16" r="5" fill="#27c93f"/>
<svg y="26" width="100%" height="{height - 26}" viewBox="0 26 {width:.0f} {height - 26}"><g id="film">
{chr(10).join(pictures)}
</g></svg>
</svg>
"""


def main():
    programs, output = os.path.abspath(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory() as folder:
        # Looks like a checkout after the first command, so that the program suggests the commands for one.
        os.makedirs(f"{folder}/target/release")
        open(f"{folder}/target/CACHEDIR.TAG", "w").close()
        shutil.copy(f"{programs}/train", f"{folder}/target/release/train")
        recording = Recording(folder)
        recording.type("cargo run --release --bin train")
        recording.run([f"{folder}/target/release/train"])
        for text in ["Where is the cat?", "My friends have a red car."]:
            recording.type(f"cargo run --release --bin translate -- --model runs/phrasebook --text '{text}'")
            recording.run([f"{programs}/translate", "--model", "runs/phrasebook", "--text", text])
        recording.keep(LAST)
        with open(output, "w", encoding="utf-8") as file:
            file.write(svg(recording.frames))
        lines = []
        for row, line in enumerate(recording.screen.lines):
            text = "".join(character for character, _ in line)
            if row in recording.screen.continued:
                lines[-1] += text
            else:
                lines.append(text)
        print("\n".join(line.rstrip() for line in lines))
        if len(sys.argv) > 3:
            shutil.move(f"{folder}/runs", sys.argv[3])


if __name__ == "__main__":
    main()
