"""What a listing says that an event is about."""

import pytest

from receiver.core.subjects import MAX_SUBJECT_LENGTH, Subject, subject_of
from receiver.service.samples import encode, load_sample, sample_names


def of_sample(name: str) -> Subject:
    payload = load_sample(name)
    return subject_of(payload["type"], payload.get("id") or payload.get("jobId"), encode(payload))


@pytest.mark.parametrize("name", sample_names())
def test_every_known_event_says_what_it_is_about(name: str) -> None:
    """Only a foreign envelope says nothing. The URL is the page's, as the typed event has it."""
    found = of_sample(name)

    assert (found.text is None) == name.startswith("threat_protection.")
    if ".page" in name:
        assert found.url is not None
        assert found.text == found.url


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("crawl.page.error", "https://example.com/old/brochure.zip"),
        ("crawl.page.404", "https://example.com/winter-offer"),
        ("monitor.page.object", "https://example.com/hours"),
        ("agent.action", "https://example.com/prices"),
        ("crawl.started", "start of job 019f2c10-0001-7a00-8b00-000000001eef"),
        ("crawl.completed.v0", "end of job 019f2c10-0015-7a00-8b00-00000002899b"),
        ("agent.failed", "end of job 019f2c10-0004-7a00-8b00-000000007bbc: Max credits exceeded"),
        (
            "monitor.check.completed",
            "9 same, 2 changed, 1 new; monitor 019f2c10-0005-7a00-8b00-000000009aab",
        ),
        (
            "monitor.check.completed.failed",
            "monitor 019f2c10-0005-7a00-8b00-000000009aab: Monitor check exceeded the running timeout.",
        ),
    ],
)
def test_the_text_names_the_page_the_check_or_the_job(name: str, text: str) -> None:
    """A job that failed also tells its error."""
    assert of_sample(name).text == text


@pytest.mark.parametrize(
    ("body", "subject"),
    [
        (b'{"data":[{"metadata":{"title":["Gears","x"]}}]}', Subject(None, "Gears")),
        (
            b'{"data":[{"metadata":{"sourceURL":" ","url":"https://a.b/"}}]}',
            Subject("https://a.b/", "https://a.b/"),
        ),
        (b'\xef\xbb\xbf{"data":[{"url":"https://a.b/","x":"\\ud83d"}]}', Subject("https://a.b/", "https://a.b/")),
        (b'{"data":[],"error":"slow"}', Subject(None, "slow")),
        (b'{"data":[{"metadata":{"sourceURL":5}}]}', Subject()),
        (b'{"data":[{"metadata":{"sourceURL":"\xff"}}]}', Subject()),
        (b'{"data":[[1]]}', Subject()),
        (b'{"data":"x"}', Subject()),
        (b'{"data":[null]}', Subject()),
        (b'{"data":' + b"[" * 100_000, Subject()),
        (b"", Subject()),
        (b"no JSON", Subject()),
        (b"[]", Subject()),
    ],
)
def test_any_body_can_be_read(body: bytes, subject: Subject) -> None:
    """What is missing or odd tells nothing."""
    assert subject_of("odd.type", "job-1", body) == subject


def test_a_text_is_bounded() -> None:
    """A URL of a megabyte does not fill a listing."""
    found = subject_of("crawl.page", None, b'{"data":[{"url":"%s"}]}' % (b"x" * 100_000))

    assert found.url == "x" * MAX_SUBJECT_LENGTH
