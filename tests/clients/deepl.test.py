"""The Python client of DeepL, pointed at the server."""

import os

import deepl

client = deepl.Translator("any-key", server_url=os.environ["TX_URL"].rstrip("/"))
one = client.translate_text("the cat sleeps .", source_lang="EN", target_lang="IT")
assert one.text and one.detected_source_lang == "EN", one
many = client.translate_text(["the cat is in the house", "the dog"], target_lang="IT")
assert len(many) == 2 and all(result.text for result in many), many
html = client.translate_text("<p>the <b>cat</b></p>", source_lang="EN", target_lang="IT", tag_handling="html")
assert html.text.startswith("<p>") and html.text.endswith("</p>"), html.text
assert [language.code for language in client.get_source_languages()] == ["EN"]
assert [language.code for language in client.get_target_languages()] == ["IT"]
try:
    client.translate_text("the cat", target_lang="JA")
    raise AssertionError("an unknown language is an error")
except deepl.DeepLException as error:
    assert "not supported" in str(error), error
print("deepl: ok")
