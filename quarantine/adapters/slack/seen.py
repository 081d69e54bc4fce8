"""Which acts of people were delivered before: Slack sends one again where it has no answer."""

from __future__ import annotations

import threading
from collections import OrderedDict

Act = tuple[str, str, str]  # a button's word or none, the person, the occasion
REMEMBERED = 1000  # acts, so that one delivered twice is answered once


class Seen:
    """The latest acts. For any thread."""

    def __init__(self) -> None:
        self._acts: OrderedDict[Act, None] = OrderedDict()
        self._lock = threading.Lock()

    def again(self, act: Act) -> bool:
        """Whether this very act was delivered before; it was from now on."""
        with self._lock:
            if act in self._acts:
                return True
            self._acts[act] = None
            while len(self._acts) > REMEMBERED:
                self._acts.popitem(last=False)
            return False

    def forget(self, act: Act) -> None:
        """It counts as not delivered."""
        with self._lock:
            self._acts.pop(act, None)
