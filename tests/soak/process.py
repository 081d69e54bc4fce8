"""The world's process: it is told when it is, and what is to be counted."""

from __future__ import annotations

import logging
import os
from datetime import datetime
from multiprocessing.connection import Connection
from pathlib import Path

import requests
import structlog

from tests.soak.world import Size, World


def live(pipe: Connection, folder: Path, size: Size, start: datetime) -> None:
    """The process: make the world, tell its settings, and go on at each word until there is none."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable(logging.CRITICAL)
    os.environ["NO_PROXY"] = "127.0.0.1"
    world = World(folder, size, start)
    try:
        pipe.send((world.settings(folder), world.secrets))
        while True:
            try:
                word, given = pipe.recv()
            except EOFError:
                return
            match word:
                case "tick":
                    world.tick(given)
                    pipe.send(None)
                case "count":
                    text = requests.get(given, timeout=20).text
                    series = sum(not line.startswith("#") for line in text.splitlines())
                    pipe.send({"rows": world.rows(), "told": world.told(), "series": series})
                case "unforeseen":
                    pipe.send(world.unforeseen)
                case _:
                    return
    finally:
        world.close()
