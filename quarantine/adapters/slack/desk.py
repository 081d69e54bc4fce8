"""What becomes of what people do on Slack: they are looked at, their word is appended as a request, and told so.

Nothing is decided here: a request is one row more for the leader's next cycle, which checks it against what is then.
Each click gets an answer that its author alone sees, whatever it is.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

import structlog
from slack_sdk import WebClient

from quarantine.adapters.slack import commands
from quarantine.adapters.slack.api import asked, reply
from quarantine.adapters.slack.commands import Views
from quarantine.adapters.slack.forms import form, shown
from quarantine.adapters.slack.interactions import Click, Form, Nothing, Slash, Word, parse, requested
from quarantine.adapters.slack.people import Member, Members, Outsider
from quarantine.core.decision import Request, RequestKind
from quarantine.core.errors import NotifierRefused, NotifierUnavailable, QuarantineError
from quarantine.core.units import format_duration

_REPLY_AT = frozenset({"https://hooks.slack.com", "https://hooks.slack-gov.com"})
_REMEMBERED = 1000  # acts, so that one delivered twice is answered once
_KINDS = {Word.APPROVE: RequestKind.APPROVE, Word.DEFER: RequestKind.DEFER, Word.DISMISS: RequestKind.RELEASE}


@dataclass(frozen=True, slots=True)
class Answers:
    """What the desk needs of the rest. Each may raise QuarantineError."""

    ask: Callable[[Request], None]  # append a request; the same id again changes nothing
    standing: Callable[[str], str | None]  # of a case's id: why nothing can be said to it any more, a whole sentence
    evidence: Callable[[str], Sequence[str]]  # of a case's id: lines of plain text
    views: Views
    # Of a case's id: why who is in these user groups has no say in its swap, a whole sentence; None where they have.
    no_say: Callable[[str, Collection[str]], str | None] = lambda _case, _groups: None


@dataclass(slots=True)
class Tally:
    """How many acts there were, since the start: for metrics."""

    taken: int = 0  # became a request, or were shown what they asked for
    refused: int = 0  # were told no: outsiders, cases that ended, commands that were not understood
    garbled: int = 0  # were nothing that we know
    failed: int = 0  # could not be carried out, or not be answered


class Desk:
    """Takes payloads one after another, in one thread."""

    def __init__(self, client: WebClient, members: Members, answers: Answers, *, now: Callable[[], datetime]) -> None:
        """`client` has the bot's token, and must not retry by itself."""
        self._client = client
        self._members = members
        self._answers = answers
        self._now = now
        self._seen: OrderedDict[tuple[str, str, str], None] = OrderedDict()
        self.tally = Tally()

    def check(self) -> None:
        """As `Members.check`."""
        self._members.check()

    def take(self, kind: str, payload: object) -> None:
        """One payload. Raises nothing but defects."""
        said = parse(kind, payload)
        if isinstance(said, Nothing):
            self.tally.garbled += 1
            structlog.get_logger().info("a payload of Slack was passed over", why=said.why)
            return
        word = said.word.value if not isinstance(said, Slash) else ""
        if self._again((word, said.person.id, said.occasion)):
            return
        try:
            lines = self._answer(said)
        except QuarantineError as error:
            self.tally.failed += 1
            structlog.get_logger().warning("what a person asked on Slack was not taken", error=str(error))
            lines = ["This could not be taken: the controller's record cannot be reached now. Try again in a minute."]
        except Exception:
            self.tally.failed += 1
            self._tell(said, ["This could not be taken, by a defect of the controller's: its log tells more."])
            raise
        if lines:
            self._tell(said, lines)

    def _answer(self, said: Click | Form | Slash) -> Sequence[str]:
        member = self._members.who(said.person.id, said.person.team)
        if isinstance(member, Outsider):
            return self._no(f"Nothing was done: {member.why}.")
        if isinstance(said, Slash):
            return self._command(said, member)
        if said.word is Word.EVIDENCE:
            self.tally.taken += 1
            return self._answers.evidence(said.about.case) or ["There is no evidence of this case on record."]
        return self._word(said, member)

    def _word(self, said: Click | Form, member: Member) -> Sequence[str]:
        if (over := self._answers.standing(said.about.case)) is not None:
            return self._no(f"Nothing was done: {over}")
        if isinstance(said, Form):
            return self._form(said, member)
        return self._approve(said, member) if said.word is Word.APPROVE else self._open(said)

    def _approve(self, said: Click, member: Member) -> Sequence[str]:
        if member.unsure:
            return self._no(f"Nothing was done: {member.unsure}; try again in a minute, or use the command line.")
        self._answers.ask(requested(said, member, self._now(), kind=RequestKind.APPROVE))
        if (why := self._answers.no_say(said.about.case, member.groups)) is not None:
            return self._vain(why)
        return self._yes(f"another machine may be asked for in place of {said.about.node}")

    def _form(self, said: Form, member: Member) -> Sequence[str]:
        if said.word is Word.DISMISS and not said.reason:
            return self._no("Nothing was done: a false alarm needs a reason, since the record is read later.")
        now = self._now()
        until = now + said.wait if said.wait is not None else None
        self._answers.ask(requested(said, member, now, kind=_KINDS[said.word], until=until))
        if said.wait is not None and (why := self._answers.no_say(said.about.case, member.groups)) is not None:
            return self._vain(why)
        if said.wait is not None and until is not None:
            end = f"{until.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
            span = format_duration(said.wait)
            return self._yes(f"no other machine is asked for in place of {said.about.node} for {span}, until {end}")
        return self._yes(f"case {said.about.case} was a false alarm, and {said.about.node} goes back in service")

    def _open(self, said: Click) -> Sequence[str]:
        """Ask why. The trigger lasts three seconds: where they are over, the person clicks again."""
        try:
            asked(
                self._client,
                "views.open",
                lambda: self._client.views_open(trigger_id=said.trigger, view=form(said.word, said.about)),
            )
        except (NotifierUnavailable, NotifierRefused) as error:
            self.tally.failed += 1
            structlog.get_logger().warning("a form could not be opened on Slack", error=str(error))
            return ["Nothing was done: Slack did not open the form in time. Click again."]
        return ()

    def _command(self, said: Slash, member: Member) -> Sequence[str]:
        found = commands.answer(said, member, self._answers.views, self._now())
        if found.request is not None:
            self._answers.ask(found.request)
        self.tally.taken += 1
        return found.lines

    def _tell(self, said: Click | Form | Slash, lines: Sequence[str]) -> None:
        """Only the one who acted sees it. What cannot be told is no reason to undo what was done."""
        blocks, text = shown(lines)
        try:
            if isinstance(said, Slash):
                self._reply(said.reply, text, blocks)
            else:
                channel, user = said.about.channel, said.person.id
                asked(
                    self._client,
                    "chat.postEphemeral",
                    lambda: self._client.chat_postEphemeral(channel=channel, user=user, text=text, blocks=blocks),
                )
        except (NotifierUnavailable, NotifierRefused) as error:
            self.tally.failed += 1
            structlog.get_logger().warning("an answer could not be given on Slack", error=str(error))

    def _reply(self, url: str, text: str, blocks: list[dict[str, object]]) -> None:
        """At the URL that came with a command, which must be Slack's own: what we say goes nowhere else."""
        parts = urlsplit(url)
        own = urlsplit(self._client.base_url)
        origin = f"{parts.scheme}://{parts.netloc}"
        if origin not in _REPLY_AT and origin != f"{own.scheme}://{own.netloc}":
            raise NotifierRefused("the URL for the answer to a command is not one of Slack's: nothing was sent there")
        reply(url, text, blocks, timeout=self._client.timeout)

    def _yes(self, what: str) -> Sequence[str]:
        self.tally.taken += 1
        return (f"Your word is with the controller: {what}. Its next cycle decides, and the record names you.",)

    def _vain(self, why: str) -> Sequence[str]:
        """A word that is recorded with its refusal, as every word is."""
        return self._no(f"Your word is recorded, and nothing is done by it: {why}")

    def _no(self, why: str) -> Sequence[str]:
        self.tally.refused += 1
        return (why,)

    def _again(self, act: tuple[str, str, str]) -> bool:
        """Whether this very act was delivered before."""
        if act in self._seen:
            return True
        self._seen[act] = None
        while len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return False
