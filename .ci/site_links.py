#!/usr/bin/env python3
"""Checks the internal links of generated HTML pages: files and anchors.

    site_links.py FOLDER URL

FOLDER contains the pages, and URL is the address at which they are published: links to it are internal too. Exits with 1
if a link is broken. Links into a part of api/ that was not built are counted, not checked. Links in the pages of rustdoc are not
checked: rustdoc checks those that it writes, and the pages repeat texts of other crates, whose links are broken there.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit


class Page(HTMLParser):
    """Links and anchors of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = set(), {"", "top"}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id" or (name == "name" and tag == "a"):
                self.anchors.add(value)
            elif name in ("href", "src") and value is not None and tag != "base":
                self.links.add(value)


def main(folder, url):
    pages = {
        path.relative_to(folder).as_posix(): Page(path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.html"))
    }
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    checked = unbuilt = broken = 0
    for name, page in pages.items():
        if name.startswith("api/rust/"):
            continue
        for link in sorted(page.links):
            full = urljoin(url + name, link)
            if not full.startswith(url):
                if urlsplit(full).netloc == urlsplit(url).netloc:
                    print(f"{name}: link outside of the site: {link}")
                    broken += 1
                continue
            parts = urlsplit(full[len(url):])
            target, anchor = unquote(parts.path), parts.fragment
            if target == "" or target.endswith("/"):
                target += "index.html"
            part = re.match(r"api/\w+/", target)
            if part and not (folder / part[0]).exists():
                unbuilt += 1
                continue
            checked += 1
            if target not in files:
                print(f"{name}: link to missing {link}")
            elif target in pages and not {anchor, unquote(anchor)} & pages[target].anchors:
                print(f"{name}: link to missing anchor {link}")
            else:
                continue
            broken += 1
    print(f"links of {len(pages)} pages: {checked} checked, {broken} broken, {unbuilt} into parts of api/ that are not built")
    return broken == 0 and checked > 0


if __name__ == "__main__":
    sys.exit(not main(Path(sys.argv[1]), sys.argv[2]))
