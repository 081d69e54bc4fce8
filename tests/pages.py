"""What a process serves about itself."""

from __future__ import annotations

import urllib.error
import urllib.request


def page(listen: str, name: str) -> str:
    """The page, also where it tells of trouble; empty where the process cannot be reached."""
    try:
        with urllib.request.urlopen(f"http://{listen}/{name}", timeout=2) as answer:
            text: str = answer.read().decode()
    except urllib.error.HTTPError as error:
        text = error.read().decode()
    except OSError:
        text = ""
    return text
