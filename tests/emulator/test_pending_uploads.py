"""Files that are sent to an address of their own, and parsed by a reference afterwards."""

from datetime import timedelta

import pytest

from receiver.core.clock import VirtualClock
from receiver.emulator.content.uploads import MAX_BYTES, PendingUploads
from receiver.emulator.failures import CallRefused
from tests.emulator.answering import CheckedService, Json, checked_service
from tests.emulator.content.files import pdf

NO_KEY = {"headers": {"Authorization": ""}}


async def announced(service: CheckedService, name: str = "a.pdf", **more: object) -> Json:
    answer = await service.ask("POST", "/v2/parse/upload-url", {"filename": name, **more})
    data: Json = answer["data"]
    return data


async def test_a_file_is_sent_without_a_key_and_parsed_once() -> None:
    async with checked_service() as service:
        data = await announced(service, contentType="application/pdf", declaredSizeBytes=3)
        path = data["uploadUrl"].removeprefix("http://emulator.test")
        early = await service.ask("POST", "/v2/parse", {"uploadRef": data["uploadRef"]}, status=400)
        await service.ask("PUT", path, content=pdf("One", "Two"), headers={**data["headers"], "Authorization": ""})
        body = {
            "uploadRef": data["uploadRef"],
            "formats": ["markdown"],
            "parsers": [{"type": "pdf", "maxPages": 1}],
        }
        stranger = {"headers": {"Authorization": "Bearer fc-other"}}
        await service.ask("POST", "/v2/parse", body, status=400, **stranger)
        parsed = await service.ask("POST", "/v2/parse", body)
        again = await service.ask("POST", "/v2/parse", body, status=400)

    assert "has not come yet" in early["error"]
    assert (parsed["data"]["markdown"], parsed["data"]["metadata"]["totalPages"]) == ("One", 2)
    assert "or was parsed" in again["error"]


async def test_what_cannot_be_taken_is_refused() -> None:
    async with checked_service() as service:
        await service.ask("POST", "/v2/parse/upload-url", {"filename": "a.doc"}, status=400)
        await service.ask("POST", "/v2/parse/upload-url", {"filename": ""}, status=400)
        too_large = {"filename": "a.pdf", "declaredSizeBytes": MAX_BYTES + 1}
        await service.ask("POST", "/v2/parse/upload-url", too_large, status=400)
        await service.ask("PUT", "/v2/parse/upload/unknown", content=b"x", status=404)
        data = await announced(service)
        path = data["uploadUrl"].removeprefix("http://emulator.test")
        await service.ask("PUT", path, content=b"", status=400)
        await service.clock.advance(timedelta(minutes=10))
        await service.ask("PUT", path, content=b"x", status=404)


async def test_ten_files_of_a_team_wait_at_most_for_ten_minutes() -> None:
    async with checked_service() as service:
        for _ in range(10):
            await announced(service)
        refused = await service.ask("POST", "/v2/parse/upload-url", {"filename": "a.pdf"}, status=429)
        await service.clock.advance(timedelta(minutes=10))
        await announced(service)

    assert refused["code"] == "PARSE_UPLOAD_UNPARSED_LIMIT_REACHED"


def test_the_memory_of_all_teams_is_bounded() -> None:
    uploads = PendingUploads(VirtualClock())
    file = bytes(MAX_BYTES)
    references = [uploads.announce(f"team-{number}", "a.pdf", "")[0] for number in range(5)]
    for reference in references[:4]:
        uploads.put(reference, file)
    with pytest.raises(CallRefused) as refused:
        uploads.put(references[4], b"x")
    uploads.put(references[0], file)

    assert refused.value.status == 503
    assert uploads.take("team-0", references[0]).data == file
    uploads.put(references[4], b"x")
