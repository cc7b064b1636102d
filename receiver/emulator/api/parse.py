"""The operations of uploads: POST /v2/parse, with the file or after it, and GET /v2/parse/formats."""

import asyncio
from typing import Protocol

from receiver.emulator.api.calls import Answer, ApiCall, ApiOperation, UploadedFile
from receiver.emulator.clock import wire_time
from receiver.emulator.content.kinds import UPLOAD_FORMATS
from receiver.emulator.content.uploads import MAX_BYTES, PendingUploads, type_of_upload
from receiver.emulator.contracts import Account
from receiver.emulator.failures import CallRefused
from receiver.emulator.scrapes import Json, ScrapedPage, ScrapePlan
from receiver.emulator.scraping.cache import KeptScrapes
from receiver.emulator.wire.bodies import RequestPolicy
from receiver.emulator.wire.scrape import read_parse_options, read_upload_request

UPLOAD_PATH = "/v2/parse/upload/{ref}"
_PART = "file"


class FileReader(Protocol):
    """Makes documents of files."""

    async def read_file(
        self, plan: ScrapePlan, body: bytes, *, team: str, read_as: str, sent_as: str
    ) -> ScrapedPage:
        """Return the document of a file, within the plan's time-out. Raises ScrapeFailed for a bad file."""


class ParseOperations:
    """Reads one uploaded file for a call, and charges for it as for a page."""

    def __init__(
        self,
        *,
        files: FileReader,
        waiting: PendingUploads,
        account: Account,
        kept: KeptScrapes,
        policy: RequestPolicy,
    ) -> None:
        self._files = files
        self._waiting = waiting
        self._account = account
        self._kept = kept
        self._policy = policy

    def operations(self) -> list[ApiOperation]:
        """Return the operations."""
        return [
            ApiOperation("POST", "/v2/parse", self.parse, "scrape", takes="form"),
            ApiOperation("POST", "/v2/parse/upload-url", self.announce, "scrape"),
            ApiOperation("PUT", UPLOAD_PATH, self.upload, "scrape", needs_key=False, takes="bytes"),
            ApiOperation("GET", "/v2/parse/formats", self.formats, "account"),
        ]

    async def parse(self, call: ApiCall) -> Answer:
        """Read the file of a call. A file that cannot be read is an answer with the code of its failure."""
        options = dict(call.body)
        reference = options.pop("uploadRef", None)
        plan = read_parse_options(options, self._policy)
        upload = _upload(call) if reference is None else self._pending(call.team, reference)
        read_as = await asyncio.to_thread(type_of_upload, upload.data, upload.name, upload.content_type)
        if read_as is None:
            raise _unreadable()
        page = await self._files.read_file(
            plan, upload.data, team=call.team, read_as=read_as, sent_as=upload.content_type or read_as
        )
        await self._account.charge(call.team, page.credits)
        if not plan.zero_data_retention:
            await self._kept.put(call.team, page)
        body: Json = {"success": True, "data": page.document}
        if page.warning is not None:
            body["warning"] = page.warning
        return Answer(body)

    async def announce(self, call: ApiCall) -> Answer:
        """Answer with an address that takes a file without an API key, and the reference to parse it by."""
        read = read_upload_request(call.body, self._policy)
        if type_of_upload(b"", read.filename, read.content_type or "") is None:
            raise _unreadable()
        reference, upload = self._waiting.announce(call.team, read.filename, read.content_type or "")
        data: Json = {
            "uploadUrl": call.base_url + UPLOAD_PATH.replace("{ref}", reference),
            "uploadRef": reference,
            "method": "PUT",
            "headers": {"Content-Type": upload.content_type or "application/octet-stream"},
            "expiresAt": wire_time(upload.expires_at),
            "maxSizeBytes": MAX_BYTES,
        }
        return Answer({"success": True, "data": data})

    async def upload(self, call: ApiCall) -> Answer:
        """Take in the file for a reference. The address is the key."""
        self._waiting.put(call.path["ref"], call.files[""].data)
        return Answer({"success": True})

    def _pending(self, team: str, reference: object) -> UploadedFile:
        upload = self._waiting.take(team, str(reference))
        return UploadedFile(upload.name, upload.content_type, upload.data or b"")

    async def formats(self, call: ApiCall) -> Answer:
        """Answer with the kinds of files, and which of them can be read."""
        return Answer({"success": True, "data": {"formats": [one.wire() for one in UPLOAD_FORMATS]}})


def _unreadable() -> CallRefused:
    known = ", ".join(end for one in UPLOAD_FORMATS if one.kind is not None for end in one.extensions)
    text = f"Files of this kind cannot be read; these can: {known}"
    return CallRefused(400, text, code="UNSUPPORTED_FILE_TYPE")


def _upload(call: ApiCall) -> UploadedFile:
    upload = call.files.get(_PART)
    if upload is None:
        raise CallRefused(
            400,
            f"No file was uploaded: send it as the part {_PART!r} of a form, or an uploadRef as JSON",
            code="BAD_REQUEST",
        )
    if not upload.data:
        raise CallRefused(400, "The uploaded file is empty", code="BAD_REQUEST")
    return upload
