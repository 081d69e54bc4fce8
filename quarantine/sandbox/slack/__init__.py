"""A stand-in for Slack, strict where Slack is, and able to fail on demand: for tests and the demo.

Its Web API, Socket Mode, and the people who click.
"""

from quarantine.sandbox.slack.acts import View, signed
from quarantine.sandbox.slack.people import Person
from quarantine.sandbox.slack.server import Fault, FaultKind, SlackServer, serve_slack
from quarantine.sandbox.slack.sockets import Delivery
from quarantine.sandbox.slack.workspace import ALL_SCOPES, Ephemeral, Message

__all__ = [
    "ALL_SCOPES",
    "Delivery",
    "Ephemeral",
    "Fault",
    "FaultKind",
    "Message",
    "Person",
    "SlackServer",
    "View",
    "serve_slack",
    "signed",
]
