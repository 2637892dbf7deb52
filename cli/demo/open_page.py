"""The user's browser, for a page, if there is a screen to show it on."""

from __future__ import annotations

import os
import sys
import webbrowser


def open_page(url: str) -> bool:
    """Open the page; return whether a browser was started. A text browser never is."""
    graphical = sys.platform in ("darwin", "win32")
    if not graphical and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False
