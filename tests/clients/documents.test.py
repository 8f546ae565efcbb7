"""Translates a .docx of python-docx and an .odt of odfpy, and reads the answers with these packages."""

import io
import json
import os
import urllib.request
import uuid

import docx
from odf import opendocument, style, teletype, text

url = os.environ["TX_URL"]


def fetch(path, body=None, kind="application/json"):
    request = urllib.request.Request(path, data=body, headers={"Content-Type": kind} if body else {})
    with urllib.request.urlopen(request) as answer:
        return answer.read()


def translate(sentence):
    body = json.dumps({"q": sentence, "source": "en", "target": "it"}).encode()
    return json.loads(fetch(url + "translate", body))["translatedText"]


def translate_file(name, content):
    boundary = uuid.uuid4().hex
    parts = [f'--{boundary}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
             for key, value in [("source", "en"), ("target", "it")]]
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode()
    body = b"".join(parts) + head + content + f"\r\n--{boundary}--\r\n".encode()
    answer = json.loads(fetch(url + "translate_file", body, f"multipart/form-data; boundary={boundary}"))
    return io.BytesIO(fetch(answer["translatedFileUrl"]))


# Office Open XML: a heading, bold and italic words, a table, a header, a page break.
document = docx.Document()
document.add_heading("the red house", 1)
paragraph = document.add_paragraph("the cat ")
paragraph.add_run("sleeps").bold = True
paragraph.add_run(" . The dog ")
paragraph.add_run("eats").italic = True
paragraph.add_run(" .")
table = document.add_table(rows=1, cols=2)
table.rows[0].cells[0].text = "the dog"
table.rows[0].cells[1].text = "42"
document.add_page_break()
document.sections[0].header.paragraphs[0].text = "the house"
content = io.BytesIO()
document.save(content)
found = docx.Document(translate_file("a.docx", content.getvalue()))
assert found.paragraphs[0].text == translate("the red house"), found.paragraphs[0].text
assert found.paragraphs[0].style.name == "Heading 1"
assert found.paragraphs[1].text == translate("the cat sleeps . The dog eats ."), found.paragraphs[1].text
runs = found.paragraphs[1].runs
assert sum(bool(run.bold) for run in runs) == 1 and sum(bool(run.italic) for run in runs) == 1
cells = [cell.text for cell in found.tables[0].rows[0].cells]
assert cells == [translate("the dog"), "42"], cells
assert found.sections[0].header.paragraphs[0].text == translate("the house")
assert "w:br" in found.paragraphs[2]._p.xml

# OpenDocument: a heading and a bold word.
document = opendocument.OpenDocumentText()
bold = style.Style(name="Bold", family="text")
bold.addElement(style.TextProperties(fontweight="bold"))
document.automaticstyles.addElement(bold)
document.text.addElement(text.H(outlinelevel=1, text="the red house"))
paragraph = text.P(text="the cat ")
paragraph.addElement(text.Span(stylename=bold, text="sleeps"))
paragraph.addText(" .")
document.text.addElement(paragraph)
content = io.BytesIO()
document.write(content)
found = opendocument.load(translate_file("a.odt", content.getvalue()))
headings, paragraphs = found.getElementsByType(text.H), found.getElementsByType(text.P)
assert teletype.extractText(headings[0]) == translate("the red house")
assert teletype.extractText(paragraphs[0]) == translate("the cat sleeps .")
spans = paragraphs[0].getElementsByType(text.Span)
assert len(spans) == 1 and spans[0].getAttribute("stylename") == "Bold"
print("documents: ok")
