"""The operations of uploads: POST /v2/parse and GET /v2/parse/formats."""

import asyncio
from typing import Protocol

from receiver.service.emulator.api.calls import Answer, ApiCall, ApiOperation, UploadedFile
from receiver.service.emulator.content.uploads import UPLOAD_FORMATS, type_of_upload
from receiver.service.emulator.contracts import Account
from receiver.service.emulator.failures import CallRefused
from receiver.service.emulator.scrapes import Json, ScrapedPage, ScrapePlan
from receiver.service.emulator.scraping.kept import KeptScrapes
from receiver.service.emulator.wire.files import read_parse_options
from receiver.service.emulator.wire.policy import RequestPolicy

_PART = "file"


class FileReader(Protocol):
    """Makes documents of files."""

    async def read_file(
        self, plan: ScrapePlan, body: bytes, *, team: str, read_as: str, sent_as: str
    ) -> ScrapedPage:
        """Return the document of a file, within the plan's time-out. Raises ScrapeFailed for a bad file."""


class ParseOperations:
    """Reads one uploaded file for a call, and charges for it as for a page."""

    def __init__(self, *, files: FileReader, account: Account, kept: KeptScrapes, policy: RequestPolicy) -> None:
        self._files = files
        self._account = account
        self._kept = kept
        self._policy = policy

    def operations(self) -> list[ApiOperation]:
        """Return the operations."""
        return [
            ApiOperation("POST", "/v2/parse", self.parse, "scrape"),
            ApiOperation("GET", "/v2/parse/formats", self.formats, "account"),
        ]

    async def parse(self, call: ApiCall) -> Answer:
        """Read the file of a call. A file that cannot be read is an answer with the code of its failure."""
        plan = read_parse_options(call.body, self._policy)
        upload = _upload(call)
        read_as = await asyncio.to_thread(type_of_upload, upload.data, upload.name, upload.content_type)
        if read_as is None:
            known = ", ".join(end for one in UPLOAD_FORMATS if one.kind is not None for end in one.extensions)
            text = f"Files of this kind cannot be read; these can: {known}"
            raise CallRefused(400, text, code="UNSUPPORTED_FILE_TYPE")
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

    async def formats(self, call: ApiCall) -> Answer:
        """Answer with the kinds of files, and which of them can be read."""
        return Answer({"success": True, "data": {"formats": [one.wire() for one in UPLOAD_FORMATS]}})


def _upload(call: ApiCall) -> UploadedFile:
    upload = call.files.get(_PART)
    if upload is None:
        raise CallRefused(400, f"No file was uploaded: send it as the part {_PART!r} of a form", code="BAD_REQUEST")
    if not upload.data:
        raise CallRefused(400, "The uploaded file is empty", code="BAD_REQUEST")
    return upload
