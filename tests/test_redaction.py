"""What is secret is taken out of whatever text it stands in, and nothing else is."""

from __future__ import annotations

import json
import os
from pathlib import Path, PosixPath
from threading import Thread
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine import redaction
from quarantine.redaction import HIDDEN, SHORTEST, Redactor

SECRETS = st.text(st.characters(exclude_characters="*", exclude_categories=["Cs"]), min_size=SHORTEST, max_size=40)


@given(SECRETS, SECRETS, st.text(), st.text())
def test_a_secret_is_in_no_text_however_it_is_written(first: str, second: str, before: str, after: str) -> None:
    redactor = Redactor([first, second])
    for secret in (first, second):
        for form in (secret, quote(secret, safe=""), json.dumps(secret)[1:-1]):
            assert form not in redactor.text(f"{before}|{form}|{after}").replace(HIDDEN, "\0")


@given(SECRETS.filter(lambda secret: not redaction._NAMES.search(secret)))
def test_what_is_nested_is_reached_and_stays_json(secret: str) -> None:
    hidden = Redactor([secret]).value({"why": [secret, {"deep": f"<{secret}>"}, 7, None], secret: (f"{secret}!", True)})
    assert json.loads(json.dumps(hidden)) == {
        "why": [HIDDEN, {"deep": f"<{HIDDEN}>"}, 7, None],
        HIDDEN: [f"{HIDDEN}!", True],
    }


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("postgresql+psycopg://u:p4ss@db/q", "postgresql+psycopg://u:***@db/q"),
        ("https://u@host/a:b@c", "https://u@host/a:b@c"),
        ("GET / Authorization: Bearer abcdefgh12345678.x", "GET / Authorization: Bearer ***"),
        ("'authorization': 'Basic cm9ib3Q6aHVzaDEyMw=='", "'authorization': 'Basic ***'"),
        ("basic authentication is not enough", "basic authentication is not enough"),
        ("a bearer of tidings-that-are-long", "a bearer of tidings-that-are-long"),
        ("a token such as xoxb-1234-abcd-EFGH", "a token such as ***"),
        ("give a bot token of the app (xoxb-…)", "give a bot token of the app (xoxb-…)"),
        ("https://hooks.slack.com/actions/T1/2/x", "https://hooks.slack.com/***"),
        ("ghp_0123456789abcdefABCD was sent", "*** was sent"),
        ("case q-5374bca7e7 on gpu-017: GPU-5c3f0d4e", "case q-5374bca7e7 on gpu-017: GPU-5c3f0d4e"),
    ],
)
def test_what_has_the_form_of_a_secret_is_hidden_and_no_word_of_ours(text: str, hidden: str) -> None:
    assert Redactor().text(text) == hidden


def test_a_short_secret_does_not_blot_out_the_text() -> None:
    assert Redactor(["gpu", ""]).text("gpu-hot: a gpu is hot") == "gpu-hot: a gpu is hot"


def test_what_is_called_a_secret_is_one() -> None:
    hidden = Redactor().value({"api_token": "abc", "token_file": "/run/token", "n": {"Password": "x", "held": None}})
    assert hidden == {"api_token": HIDDEN, "token_file": "/run/token", "n": {"Password": HIDDEN, "held": None}}


def test_a_rotated_file_is_followed_and_what_it_held_stays_hidden(tmp_path: Path) -> None:
    file = tmp_path / "token"
    redactor = Redactor([], [file])
    assert redactor.text("first-token") == "first-token", "it is not there yet"
    file.write_text("first-token\n")
    assert redactor.text("first-token") == HIDDEN
    file.write_text("the-second-token\n")
    assert redactor.text("first-token the-second-token") == f"{HIDDEN} {HIDDEN}"
    file.unlink()
    assert redactor.text("the-second-token") == HIDDEN


def test_a_file_that_is_rotated_all_the_time_is_remembered_as_it_was_of_late(tmp_path: Path) -> None:
    """The token of a service account is, thirty times a day, for as long as the process lives."""
    file = tmp_path / "token"
    redactor, tokens = Redactor(["of-settings"], [file]), [f"token-number-{n}" for n in range(10)]
    for n, token in enumerate(tokens):
        file.write_text(token)
        os.utime(file, ns=(n, n))
        assert redactor.text(token) == HIDDEN
    for again in range(5):  # one that is touched has not changed
        os.utime(file, ns=(len(tokens) + again, 0))
        redactor.text("")
    shown, hidden = tokens[: -redaction.REMEMBERED], tokens[-redaction.REMEMBERED :]
    assert [redactor.text(token) for token in shown] == shown
    assert {redactor.text(token) for token in (*hidden, "of-settings")} == {HIDDEN}


class Slow(PosixPath):
    """A file during whose reading something else happens; once."""

    meanwhile: Any = None

    def open(self, *args: Any, **options: Any) -> Any:
        do, self.meanwhile = self.meanwhile, None
        if do is not None:
            do()
        return super().open(*args, **options)


def test_files_that_are_rotated_together_are_all_known_to_two_threads(tmp_path: Path) -> None:
    """As kubelet does it; what one thread has begun to read must not be unknown to the other, nor forgotten by it."""
    one, other = tmp_path / "one", Slow(tmp_path / "other")
    one.write_text("of the first")
    other.write_text("of the other")
    redactor, told = Redactor([], [one, other]), []
    second = Thread(target=lambda: told.append(redactor.text("of the first, of the other")))

    def begin() -> None:
        second.start()
        second.join(0.2)  # it may have to wait for this one

    other.meanwhile = begin
    assert redactor.text("of the first, of the other") == f"{HIDDEN}, {HIDDEN}"
    second.join()
    assert told == [f"{HIDDEN}, {HIDDEN}"]
    assert redactor.text("of the first, of the other") == f"{HIDDEN}, {HIDDEN}"
