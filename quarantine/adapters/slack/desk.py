"""What becomes of what people do on Slack: they are looked at, their word is appended as a request, and told so.

Nothing is decided here: a request is one row more for the leader's next cycle, which checks it against what is then.
Each click gets an answer that its author alone sees, whatever it is.

Slack is told that we have somebody's word once it is on record, or once its author knows that it is not: whatever kills
this process before, Slack tells the person that nothing came of it, and may send it again. What is only shown asks for
no record, so Slack is told at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from urllib.parse import urlsplit

import structlog
from slack_sdk import WebClient

from quarantine.adapters.slack import commands
from quarantine.adapters.slack.api import asked, reply
from quarantine.adapters.slack.backlog import Record, Rest
from quarantine.adapters.slack.commands import Views
from quarantine.adapters.slack.forms import form, shown
from quarantine.adapters.slack.interactions import Click, Form, Nothing, Slash, Word, parse, requested
from quarantine.adapters.slack.people import Member, Members, Outsider
from quarantine.adapters.slack.seen import Act, Seen
from quarantine.adapters.slack.tally import Tally
from quarantine.core.decision import Request, RequestKind
from quarantine.core.errors import NotifierRefused, NotifierUnavailable, QuarantineError, Refused, UsageError
from quarantine.core.units import format_duration

_REPLY_AT = frozenset({"https://hooks.slack.com", "https://hooks.slack-gov.com"})
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


Lines = Sequence[str]


@dataclass(frozen=True, slots=True)
class _Heard:
    """What became of somebody's word, and what they are told."""

    recorded: bool
    lines: Callable[[], Lines]


class _InDoubt(Exception):
    """The record gave no answer: the word, about this node, may be there. `why`: what was raised."""

    def __init__(self, node: str, why: Exception) -> None:
        super().__init__(node)
        self.node, self.why = node, why


class Desk:
    """Takes payloads from any thread. Words are recorded by one thread, one after another; what is left by another."""

    def __init__(self, client: WebClient, members: Members, answers: Answers, *, now: Callable[[], datetime]) -> None:
        """`client` has the bot's token, and must not retry by itself."""
        self._client = client
        self._members = members
        self._answers = answers
        self._now = now
        self._seen = Seen()
        self.tally = Tally()

    def check(self) -> None:
        """As `Members.check`."""
        self._members.check()

    def take(self, kind: str, payload: object, settled: Callable[[bool], None]) -> Record | Rest | None:
        """One payload. `settled` is called once it is known whether Slack may be told that we have it.

        For what is only shown that is at once: Slack gives three seconds, and a form must be open by then. Returns
        what is left to do: a `Record` where it is somebody's word, or what may take longer. Asks nobody anything.
        """
        said = parse(kind, payload)
        if isinstance(said, Nothing):
            settled(True)
            return partial(self._passed_over, said)
        act = (said.word.value if not isinstance(said, Slash) else "", said.person.id, said.occasion)
        if _for_the_record(said):
            return Record(lambda: self._record(said, act, settled))
        settled(True)
        return None if self._seen.again(act) else lambda: self._tell_all(said, lambda: self._shown(said))

    def _passed_over(self, said: Nothing) -> None:
        self.tally.more("garbled")
        structlog.get_logger().info("a payload of Slack was passed over", why=said.why)

    def _record(self, said: Click | Form | Slash, act: Act, settled: Callable[[bool], None]) -> Rest | None:
        """Append it, or tell its author why not. What failed counts as not delivered yet: Slack may send it again."""
        if self._seen.again(act):
            settled(True)
            return None
        try:
            heard = self._heard(said)
        except _InDoubt as doubt:
            self._seen.forget(act)
            settled(self._tell(said, self._doubted(doubt)))
            if not isinstance(doubt.why, QuarantineError):
                raise doubt.why from None
            return None
        except QuarantineError as error:
            self._seen.forget(act)
            settled(self._tell(said, self._untaken(error)))
            return None
        except Exception:
            self._seen.forget(act)
            settled(self._tell(said, self._defect()))
            raise
        if heard.recorded:
            settled(True)
            return lambda: self._tell_all(said, heard.lines)
        told = self._tell(said, heard.lines())
        if not told:
            self._seen.forget(act)
        settled(told)
        return None

    def _ask(self, request: Request) -> None:
        """Append it. Raises _InDoubt where it may be there all the same: the answer to a commit can be lost."""
        try:
            self._answers.ask(request)
        except (Refused, UsageError):
            raise  # an answer: it is not there
        except Exception as error:
            raise _InDoubt(request.node, error) from error

    def _tell_all(self, said: Click | Form | Slash, lines: Callable[[], Lines]) -> None:
        """Find out what is to be told, and tell it."""
        try:
            found = lines()
        except QuarantineError as error:
            found = self._untaken(error)
        except Exception:
            self._tell(said, self._defect())
            raise
        if found:
            self._tell(said, found)

    def _doubted(self, doubt: _InDoubt) -> Lines:
        self.tally.more("failed")
        log = structlog.get_logger()
        log.warning("whether what a person asked on Slack was taken is not known", error=str(doubt.why))
        seen = f"/quarantine explain {doubt.node} shows it"
        return (f"It is not known whether this was taken; {seen}. Asking again does no harm.",)

    def _untaken(self, error: QuarantineError) -> Lines:
        self.tally.more("failed")
        structlog.get_logger().warning("what a person asked on Slack was not taken", error=str(error))
        return ("This could not be taken: the controller's record cannot be reached now. Try again in a minute.",)

    def _defect(self) -> Lines:
        self.tally.more("failed")
        return ("This could not be taken, by a defect of the controller's: its log tells more.",)

    def _shown(self, said: Click | Form | Slash) -> Lines:
        """What asks for nothing of the record."""
        member = self._members.who(said.person.id, said.person.team)
        if isinstance(member, Outsider):
            return self._no(f"Nothing was done: {member.why}.")
        if isinstance(said, Slash):
            self.tally.more("taken")
            return commands.answer(said, member, self._answers.views, self._now()).lines
        if said.word is Word.EVIDENCE:
            self.tally.more("taken")
            return self._answers.evidence(said.about.case) or ["There is no evidence of this case on record."]
        if (over := self._answers.standing(said.about.case)) is not None:
            return self._no(f"Nothing was done: {over}")
        return self._open(said) if isinstance(said, Click) else ()

    def _heard(self, said: Click | Form | Slash) -> _Heard:
        """Somebody's word, appended where it is one that can be given."""
        member = self._members.who(said.person.id, said.person.team)
        if isinstance(member, Outsider):
            return self._refused(f"Nothing was done: {member.why}.")
        if isinstance(said, Slash):
            found = commands.answer(said, member, self._answers.views, self._now())
            if found.request is not None:
                self._ask(found.request)
            self.tally.more("taken")
            return _Heard(found.request is not None, lambda: found.lines)
        if (over := self._answers.standing(said.about.case)) is not None:
            return self._refused(f"Nothing was done: {over}")
        return self._form(said, member) if isinstance(said, Form) else self._approve(said, member)

    def _approve(self, said: Click, member: Member) -> _Heard:
        if member.unsure:
            return self._refused(f"Nothing was done: {member.unsure}; try again in a minute, or use the command line.")
        self._ask(requested(said, member, self._now(), kind=RequestKind.APPROVE))
        what = f"another machine may be asked for in place of {said.about.node}"
        return _Heard(True, partial(self._swap, said, member, what))

    def _form(self, said: Form, member: Member) -> _Heard:
        if said.word is Word.DISMISS and not said.reason:
            return self._refused("Nothing was done: a false alarm needs a reason, since the record is read later.")
        now = self._now()
        until = now + said.wait if said.wait is not None else None
        self._ask(requested(said, member, now, kind=_KINDS[said.word], until=until))
        if said.wait is not None and until is not None:
            end = f"{until.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
            span = format_duration(said.wait)
            what = f"no other machine is asked for in place of {said.about.node} for {span}, until {end}"
            return _Heard(True, partial(self._swap, said, member, what))
        what = f"case {said.about.case} was a false alarm, and {said.about.node} goes back in service"
        return _Heard(True, partial(self._yes, what))

    def _swap(self, said: Click | Form, member: Member, what: str) -> Lines:
        """What is told of a word about a swap, once it is on record."""
        if (why := self._answers.no_say(said.about.case, member.groups)) is not None:
            return self._vain(why)
        return self._yes(what)

    def _open(self, said: Click) -> Lines:
        """Ask why. The trigger lasts three seconds: where they are over, the person clicks again."""
        try:
            asked(
                self._client,
                "views.open",
                lambda: self._client.views_open(trigger_id=said.trigger, view=form(said.word, said.about)),
            )
        except (NotifierUnavailable, NotifierRefused) as error:
            self.tally.more("failed")
            structlog.get_logger().warning("a form could not be opened on Slack", error=str(error))
            return ["Nothing was done: Slack did not open the form in time. Click again."]
        return ()

    def _tell(self, said: Click | Form | Slash, lines: Lines) -> bool:
        """Only the one who acted sees it: whether they do. What cannot be told is no reason to undo what was done."""
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
            self.tally.more("failed")
            structlog.get_logger().warning("an answer could not be given on Slack", error=str(error))
            return False
        return True

    def _reply(self, url: str, text: str, blocks: list[dict[str, object]]) -> None:
        """At the URL that came with a command, which must be Slack's own: what we say goes nowhere else."""
        parts = urlsplit(url)
        own = urlsplit(self._client.base_url)
        origin = f"{parts.scheme}://{parts.netloc}"
        if origin not in _REPLY_AT and origin != f"{own.scheme}://{own.netloc}":
            raise NotifierRefused("the URL for the answer to a command is not one of Slack's: nothing was sent there")
        reply(url, text, blocks, timeout=self._client.timeout)

    def _yes(self, what: str) -> Lines:
        self.tally.more("taken")
        return (f"Your word is with the controller: {what}. Its next cycle decides, and the record names you.",)

    def _vain(self, why: str) -> Lines:
        """A word that is recorded with its refusal, as every word is."""
        return self._no(f"Your word is recorded, and nothing is done by it: {why}")

    def _refused(self, why: str) -> _Heard:
        return _Heard(False, partial(self._no, why))

    def _no(self, why: str) -> Lines:
        self.tally.more("refused")
        return (why,)


def _for_the_record(said: Click | Form | Slash) -> bool:
    """Whether it is somebody's word, which must not be lost; all else only shows something."""
    if isinstance(said, Slash):
        return commands.asks(said)
    return isinstance(said, Form) or said.word is Word.APPROVE
