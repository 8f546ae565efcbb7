"""Writes a small corpus for each fuzz target: python3 fuzz/seeds.py [FOLDER], by default fuzz/corpus

Needs the standard library only. The seeds are fixtures of the tests, and small files made here.
"""

import gzip
import io
import struct
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "crates/tx-convert/tests/fixtures"
CORPUS = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "fuzz/corpus"


def write(target, name, content):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def varint(data, at):
    """Number at a position of a message, and the position behind it."""
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at


def field(data, wanted):
    """First field of a message with this number and a length; empty if there is none."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 2:
            length, at = varint(data, at)
            if key >> 3 == wanted:
                return data[at:at + length]
            at += length
        else:
            at = varint(data, at)[1] if key & 7 == 0 else at + {1: 8, 5: 4}[key & 7]
    return b""


def unicode(text):
    return b"X" + struct.pack("<I", len(text)) + text.encode()


def tensor(key, count, shape):
    """Pickle of a tensor of single precision, as protocol 2 writes it."""
    stride = [1] * len(shape)
    for index in reversed(range(len(shape) - 1)):
        stride[index] = stride[index + 1] * shape[index + 1]
    numbers = lambda values: b"(" + b"".join(b"J" + struct.pack("<i", n) for n in values) + b"t"
    storage = (b"((" + unicode("storage") + b"ctorch\nFloatStorage\n" + unicode(key)
               + unicode("cpu") + b"J" + struct.pack("<i", count) + b"tQ")
    return (b"ctorch._utils\n_rebuild_tensor_v2\n" + storage + b"K\x00" + numbers(shape)
            + numbers(stride) + b"\x89ccollections\nOrderedDict\n)RtR")


def archive(files):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as out:
        for name, text in files:
            out.writestr(name, text)
    return content.getvalue()


def main():
    for path in sorted((ROOT / "crates/tx-text/tests/fixtures/sentencepiece").glob("*.model.gz")):
        model = gzip.decompress(path.read_bytes())
        write("sentencepiece", path.stem, model)
        table = field(field(model, 3), 2)
        if len(table) < 1 << 16:
            write("charsmap", path.stem, table)
    # A table with one rule, `A` to `a`: size of the trie, units of the trie, texts.
    write("charsmap", "empty", struct.pack("<I", 4) + struct.pack("<I", 0) + b"a\0")
    units = [0] * 256
    units[0] = 1 << 10
    write("charsmap", "units", struct.pack("<I", 1024) + struct.pack("<256I", *units) + b"a\0")

    for kind in ["post", "pre", "words"]:
        model = (FIXTURES / "marian" / kind / "model.npz").read_bytes()
        write("npz", kind, model)
        with zipfile.ZipFile(io.BytesIO(model)) as arrays:
            array = arrays.read("special:model.yml.npy")
            names = [name for name in arrays.namelist() if not name.startswith("special:")]
            write("npz", f"{kind}.npy", b"npy" + arrays.read(names[0]))
        start = 10 + struct.unpack("<H", array[8:10])[0]
        write("npz", f"{kind}.yml", b"yaml" + array[start:])

    for kind in ["first", "last"]:
        write("pickle", kind, (FIXTURES / "tutorial" / kind / "tmodel_02.pt").read_bytes())
    entries = unicode("model_state_dict") + b"}(" + unicode("a") + tensor("0", 64, [8, 8]) + b"u"
    root = b"\x80\x02}(" + entries + b"u."
    write("pickle", "one", b"pickle" + root)
    write("pickle", "old", b"old" + root + b"\x80\x02](" + unicode("0") + b"e."
          + struct.pack("<Q", 64) + bytes(256))

    write("html", "page", "<html><body><p>The <b>cat</b> sleeps.<sup>1</sup><br>A <a href='#'>dog"
          "</a> eats.</p><ul><li translate=no>one<li>two</ul><pre>a\n b</pre><!-- c --></body>")
    write("html", "text", "Hello {name}, <x>click</x> %s at https://example.com &amp; go.\n\nBye 😀!")
    write("srt", "cues", "1\n00:00:01,000 --> 00:00:02,000\n- Yes.\n- <i>No.</i>\n\n2\n"
          "00:00:03,000 --> 00:00:04,000\n{\\an8}The cat\nsleeps.\n")
    write("srt", "crlf", "\ufeff1\r\n00:00:01,000 --> 00:00:02,000\r\n– Yes.\r\n2\r\n"
          "00:00:03,000 --> 00:00:04,000\r\n♪ la ♪\r\n")
    paragraph = ("<w:p><w:pPr/><w:r><w:rPr><w:b/></w:rPr><w:t>The </w:t><w:tab/></w:r><w:r><w:t "
                 "xml:space='preserve'>cat sleeps.</w:t></w:r></w:p>")
    word = f"<w:document><w:body>{paragraph}<w:tbl><w:tr><w:tc>{paragraph}</w:tc></w:tr></w:tbl>" \
           "</w:body></w:document>"
    text = "<office:document-content><office:body><office:text><text:p>The <text:span>cat" \
           "</text:span><text:s/>sleeps.</text:p></office:text></office:body></office:document-content>"
    write("docx", "document.xml", "xml" + word)
    write("docx", "content.xml", "xml" + text)
    write("docx", "docx", archive([("word/document.xml", word), ("[Content_Types].xml", "<Types/>")]))
    write("docx", "odt", archive([("content.xml", text)]))
    write("tmx", "memory", "<?xml version='1.0'?><tmx version='1.4'><header srclang='en'/><body><tu>"
          "<tuv xml:lang='en'><seg>The <bpt i='1'/>cat<ept i='1'/></seg></tuv><tuv xml:lang='de'>"
          "<seg>Die Katze &amp; &#x41;</seg></tuv></tu></body></tmx>")


if __name__ == "__main__":
    main()
