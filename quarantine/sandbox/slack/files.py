"""Files in the stand-in: a URL is asked for, the bytes are put there, and the upload is completed into a channel."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from quarantine.sandbox.slack.arguments import Refusal, Reply, from_json, invalid_arguments
from quarantine.sandbox.slack.workspace import Method, Workspace


@dataclass(frozen=True, slots=True)
class Upload:
    """A file on its way. It is in no channel before `complete`; `ts` is the message that brought it there."""

    id: str
    filename: str
    length: int
    content: bytes | None = None
    title: str = ""
    complete: bool = False
    channel: str = ""
    thread_ts: str = ""
    ts: str = ""


class Files:
    """`files.getUploadURLExternal` and `files.completeUploadExternal`. `base_url` is where the bytes are put."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._uploads: dict[str, Upload] = {}
        self._tickets: dict[str, str] = {}  # of upload URLs, to file ids
        self.base_url = ""

    @property
    def uploads(self) -> list[Upload]:
        """All files, complete or not, oldest first."""
        return list(self._uploads.values())

    def clear(self) -> None:
        """Forget them."""
        self._uploads.clear()
        self._tickets.clear()

    def methods(self) -> Mapping[str, tuple[str | None, Method]]:
        """What it offers, and the scope that each needs."""
        return {
            "files.getUploadURLExternal": ("files:write", self._url),
            "files.completeUploadExternal": ("files:write", self._complete),
        }

    def put(self, ticket: str, content: bytes) -> tuple[int, str]:
        """The bytes for an upload URL: status and answer. A URL is good for one file of the length that was said."""
        file = self._tickets.pop(ticket, "")
        upload = self._uploads.get(file)
        if upload is None:
            return 404, "file upload URL is unknown or was used"
        if len(content) != upload.length:
            return 400, f"{len(content)} bytes where {upload.length} were announced"
        self._uploads[file] = replace(upload, content=content)
        return 200, f"OK - {len(content)}"

    def _url(self, args: Mapping[str, Any]) -> Reply:
        name, length = str(args.get("filename") or ""), str(args.get("length") or "")
        if not name:
            raise invalid_arguments("missing required field: filename")
        if not length.isdecimal() or int(length) < 1:
            raise invalid_arguments("must be an integer of at least 1 [json-pointer:/length]")
        file = f"F{len(self._uploads) + 1:08d}"
        ticket = secrets.token_hex(16)
        self._uploads[file], self._tickets[ticket] = Upload(file, name, int(length)), file
        return {"file_id": file, "upload_url": f"{self.base_url}{ticket}"}

    def _complete(self, args: Mapping[str, Any]) -> Reply:
        named = from_json(args.get("files") or [], "invalid_arguments")
        if not isinstance(named, list) or not all(isinstance(f, dict) and isinstance(f.get("id"), str) for f in named):
            raise invalid_arguments("must be an array of objects with an id [json-pointer:/files]")
        found = [self._uploads.get(f["id"]) for f in named]
        uploads = [u for u in found if u is not None and u.content is not None and not u.complete]
        if not named or len(uploads) != len(named):
            raise Refusal("file_not_found")
        channel = str(args.get("channel_id") or "")
        thread, ts = str(args.get("thread_ts") or ""), ""
        if channel:
            self._workspace.writable({"channel": channel})
            comment = str(args.get("initial_comment") or "")
            ts = self._workspace.share(channel, comment, thread or None, tuple(u.id for u in uploads))
        for upload, said in zip(uploads, named, strict=True):
            title = str(said.get("title") or upload.filename)
            done = replace(upload, title=title, complete=True, channel=channel, thread_ts=thread, ts=ts)
            self._uploads[upload.id] = done
        return {"files": [{"id": u.id, "title": self._uploads[u.id].title} for u in uploads]}
