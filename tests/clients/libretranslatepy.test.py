"""The Python client of LibreTranslate."""

import os
import urllib.error

from libretranslatepy import LibreTranslateAPI

client = LibreTranslateAPI(os.environ["TX_URL"])
text = client.translate("the cat sleeps .", "en", "it")
assert isinstance(text, str) and text, text
assert client.detect("the cat is sleeping in the house")[0]["language"] == "en"
assert {language["code"] for language in client.languages()} == {"en", "it"}
try:
    client.translate("the cat", "en", "xx")
    raise AssertionError("an unknown language is an error")
except urllib.error.HTTPError as error:
    assert error.code == 400, error
print("libretranslatepy: ok")
