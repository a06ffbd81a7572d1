"""The page's files, and the page as one file that needs no server."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

TYPES: Final[Mapping[str, str]] = {
    "console.html": "text/html; charset=utf-8",
    "console.css": "text/css; charset=utf-8",
    "state.js": "text/javascript; charset=utf-8",
    "words.js": "text/javascript; charset=utf-8",
    "river.js": "text/javascript; charset=utf-8",
    "heat.js": "text/javascript; charset=utf-8",
    "panels.js": "text/javascript; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
}
"""The files in `static`, in the order in which the page loads them."""


def static(name: str) -> str:
    return (files("headrace.pipeline.console") / "static" / name).read_text(encoding="utf-8")


def whole_page(data: Mapping[str, Any]) -> str:
    """The page with its style, its code and its data in one file. The file's policy lets nothing else run or load."""
    page = static("console.html")
    style = static("console.css")
    names = [name for name in TYPES if name.endswith(".js")]
    scripts = [static(name) for name in names]
    # Between tags of HTML, `<` would end the script early.
    stored = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    page = page.replace('<link rel="stylesheet" href="console.css">', f"<style>{style}</style>")
    for name in names:
        page = page.replace(f'<script src="{name}" defer></script>', "")
    hashes = " ".join(f"'sha256-{_hash(script)}'" for script in scripts)
    policy = f"default-src 'none'; script-src {hashes}; style-src 'sha256-{_hash(style)}'; img-src data:; base-uri 'none'"
    page = page.replace(
        "<head>", f'<head>\n<meta http-equiv="Content-Security-Policy" content="{policy}">', 1
    )
    stored_data = f'<script type="application/json" id="stored">{stored}</script>'
    return page.replace(
        "</body>", stored_data + "".join(f"<script>{script}</script>" for script in scripts) + "</body>"
    )


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
