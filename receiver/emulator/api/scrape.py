"""The operations on one page or one uploaded file: scrape, the document of an earlier scrape, and parse."""

import asyncio
from collections.abc import Callable
from typing import Literal

import msgspec
from typing_extensions import override

from receiver.emulator.api.calls import Answer, ApiCall, ApiOperation, OperationFamily, UploadedFile, failure_body
from receiver.emulator.clock import wire_time
from receiver.emulator.content.kinds import UPLOAD_FORMATS
from receiver.emulator.content.uploads import MAX_BYTES, PendingUploads, type_of_upload
from receiver.emulator.contracts import Account
from receiver.emulator.failures import CallRefused, ScrapeFailed, TooManyAtOnce
from receiver.emulator.scrapes import Json, ScrapePlan, Scraper
from receiver.emulator.scraping.cache import KeptScrapes, ScrapeExpired
from receiver.emulator.scraping.scraper import PageScraper
from receiver.emulator.wire.bodies import RequestPolicy
from receiver.emulator.wire.scrape import read_parse_options, read_upload_request

ReadScrape = Callable[[Json, Literal[1, 2]], ScrapePlan]
"""Reads the body of a scrape of a version. It raises CallRefused."""

_NO_TOOLS = "The emulator has no tools of Alexandria. A scrape of the page that a tool is for has its content"
"""The answer to `scrape_alexandria` and `find_tools` of the service's SDK."""


class ScrapeOperations(OperationFamily):
    """Scrapes one page for a call, charges for it, and keeps the document for a day."""

    def __init__(self, *, scraper: Scraper, read: ReadScrape, account: Account, kept: KeptScrapes) -> None:
        self._scraper = scraper
        self._read = read
        self._account = account
        self._kept = kept

    @override
    def operations(self) -> list[ApiOperation]:
        return [
            ApiOperation("POST", "/v1/scrape", self.scrape, "scrape"),
            ApiOperation("POST", "/v2/scrape", self.scrape, "scrape"),
            ApiOperation("GET", "/v2/scrape/{id}", self.find, "crawlStatus"),
        ]

    async def scrape(self, call: ApiCall) -> Answer:
        """Scrape the page of a call. A page that cannot be scraped is an answer too, with its code."""
        if call.version == 2 and "alexandria" in call.body:
            raise CallRefused(501, _NO_TOOLS, code="NOT_IMPLEMENTED")
        plan = self._read(call.body, call.version)
        try:
            page = await self._scraper.scrape(plan, history_team=call.team)
        except TooManyAtOnce:
            raise
        except ScrapeFailed as exc:
            if exc.credits:
                await self._account.charge(call.team, exc.credits)
            return Answer(failure_body(exc), exc.status)
        await self._account.charge(call.team, page.credits)
        if not plan.zero_data_retention:
            await self._kept.put(call.team, page)
        body: Json = {"success": True, "data": page.document}
        if page.warning is not None and call.version == 2:
            body["warning"] = page.warning
        return Answer(body)

    async def find(self, call: ApiCall) -> Answer:
        """Answer with the document of an earlier scrape."""
        scrape_id = call.uuid()
        try:
            document = await self._kept.find(call.team, scrape_id)
        except ScrapeExpired:
            raise CallRefused(404, "Job expired") from None
        if document is None:
            raise CallRefused(404, "Job not found")
        return Answer({"success": True, "data": msgspec.Raw(document)})


UPLOAD_PATH = "/v2/parse/upload/{ref}"
_PART = "file"


class ParseOperations(OperationFamily):
    """Reads one uploaded file for a call, and charges for it as for a page."""

    def __init__(
        self,
        *,
        files: PageScraper,
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

    @override
    def operations(self) -> list[ApiOperation]:
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
        if reference is None:
            upload = _upload(call)
        else:
            sent = self._waiting.take(call.team, str(reference))
            upload = UploadedFile(sent.name, sent.content_type, sent.data or b"")
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

    async def formats(self, call: ApiCall) -> Answer:
        """List the kinds of files, and which of them can be read."""
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
