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


class Probed:
    """A process that is asked whether it is ready."""

    listen: str

    @property
    def word(self) -> str:
        """What it says; empty where it cannot be reached."""
        return page(self.listen, "readyz")

    @property
    def leads(self) -> bool:
        """Whether it acts, and has what it needs."""
        return "all that it needs" in self.word

    @property
    def waits(self) -> bool:
        """Whether it is ready, and another one leads."""
        return "leads, and this one waits" in self.word
