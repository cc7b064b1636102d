"""Bodies of scrapes: every field, default, limit and allowed value of both versions."""

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.emulator.failures import CallRefused
from receiver.emulator.options import EmulatorOptions
from receiver.emulator.scrapes import ScrapePlan
from receiver.emulator.wire.bodies import RequestPolicy
from receiver.emulator.wire.jobs import read_crawl
from receiver.emulator.wire.scrape import read_scrape
from tests.cases import for_each
from tests.emulator.wire.cases import RIGHT_PAGE_OPTIONS, URL, WRONG_PAGE_OPTIONS, WRONG_TYPES, paths_of, refused

GUARDED = RequestPolicy(threat_protection="on")
Version = Literal[1, 2]
BOTH = pytest.mark.parametrize("version", [1, 2])
JSON_WITH_CHECK = {"type": "json", "prompt": "prices", "checkPromptInjection": True}
"""A format as SDKs make it: they also have the check beside the formats."""


def read(version: Version = 2, policy: RequestPolicy = GUARDED, **body: Any) -> ScrapePlan:
    return read_scrape({"url": URL, **body}, version, policy)


def viewport(width: int, height: int) -> dict[str, Any]:
    return {"type": "screenshot", "viewport": {"width": width, "height": height}}


def test_version_1_has_the_defaults_of_its_document() -> None:
    """Section Scrape request: every default, and those of the facts where it has none."""
    assert read(1) == ScrapePlan(
        url=URL,
        version=1,
        formats=({"type": "markdown"},),
        only_main_content=True,
        only_clean_content=False,
        include_tags=(),
        exclude_tags=(),
        remove_base64_images=True,
        headers={},
        mobile=False,
        block_ads=True,
        skip_tls_verification=False,
        country="US",
        languages=(),
        proxy="basic",
        wait_for=0,
        timeout=30_000,
        actions=(),
        max_age=0,
        min_age=None,
        store_in_cache=True,
        lockdown=False,
        parsers=({"type": "pdf"},),
        zero_data_retention=False,
        redact_pii=False,
        threat_protection=None,
        diff_as_text=True,
        without_effect=(),
    )


def test_version_2_has_defaults_of_its_own() -> None:
    """The proxy is auto, the cache holds for two days, certificates go unchecked, and diffs are objects."""
    plan = read(2)

    assert (plan.version, plan.proxy, plan.max_age, plan.skip_tls_verification, plan.diff_as_text) == (
        2,
        "auto",
        172_800_000,
        True,
        False,
    )
    assert (plan.formats, plan.timeout, plan.parsers) == (({"type": "markdown"},), 30_000, ({"type": "pdf"},))


@BOTH
@for_each(("wrong", "path"), WRONG_PAGE_OPTIONS)
def test_a_wrong_option_is_refused_by_its_path(version: Version, wrong: dict[str, Any], path: str) -> None:
    """With status 400, code BAD_REQUEST and a list of issues."""
    assert path in paths_of(refused(lambda: read(version, **wrong)))


@BOTH
@for_each("right", RIGHT_PAGE_OPTIONS)
def test_a_right_option_passes_in_both_versions(version: Version, right: dict[str, Any]) -> None:
    """So do the keys that only SDKs know."""
    assert read(version, **right).url == URL


@for_each(
    ("formats", "extra"),
    [
        (["markdown", "html", "rawHtml", "links", "screenshot"], {}),
        (["screenshot@fullPage"], {}),
        (["json"], {"jsonOptions": {"prompt": "p"}}),
        (["json"], {"jsonOptions": {"schema": {"type": "object"}, "systemPrompt": "s"}}),
        (["json"], {"jsonOptions": {}}),
        (["extract"], {"extract": {"prompt": "p"}}),
        (["markdown", "changeTracking"], {"changeTrackingOptions": {"modes": ["git-diff", "json"], "tag": "t"}}),
        (["markdown", "changeTracking"], {}),
        ([], {}),
    ],
)
def test_version_1_takes_its_formats(formats: list[str], extra: dict[str, Any]) -> None:
    """They become objects, with their options inside."""
    assert [one["type"].partition("@")[0] for one in read(1, formats=formats, **extra).formats] == [
        name.partition("@")[0] for name in formats
    ]


@for_each(
    "body",
    [
        {"formats": ["json"]},
        {"jsonOptions": {"prompt": "p"}},
        {"formats": ["extract"]},
        {"extract": {}},
        {"formats": ["screenshot", "screenshot@fullPage"]},
        {"formats": [{"type": "markdown"}]},
        {"formats": ["summary"]},
        {"formats": ["json"], "jsonOptions": {"prompt": "p" * 10_001}},
        {"formats": ["json"], "jsonOptions": {"schema": []}},
        {"formats": ["json"], "jsonOptions": {"schema": {"type": "no type"}}},
        {"formats": ["markdown", "changeTracking"], "changeTrackingOptions": {"modes": ["diff"]}},
        {"formats": ["markdown", "changeTracking"], "changeTrackingOptions": {"tag": 5}},
        {"parsePDF": "yes"},
        {"zeroDataRetention": 1},
        {"location": {"country": "us"}},
        {"onlyCleanContent": True},
    ],
)
def test_version_1_refuses(body: dict[str, Any]) -> None:
    """What only version 2 has, formats without their options, and options without their format."""
    refused(lambda: read(1, **body))


def test_options_of_version_1_are_inside_of_its_formats() -> None:
    """So the rest of the emulator knows one form only."""
    schema = {"type": "object", "properties": {"price": {"type": "number", "default": None}}}
    plan = read(
        1,
        formats=["markdown", "json", "changeTracking", "screenshot@fullPage"],
        jsonOptions={"schema": schema, "prompt": "the price", "systemPrompt": "short"},
        changeTrackingOptions={"modes": ["git-diff"], "tag": "nightly"},
        parsePDF=False,
    )

    assert plan.formats == (
        {"type": "markdown"},
        {"type": "json", "prompt": "the price", "schema": schema, "systemPrompt": "short"},
        {"type": "changeTracking", "modes": ["git-diff"], "tag": "nightly"},
        {"type": "screenshot", "fullPage": True},
    )
    assert plan.parsers == ()


@for_each(
    "formats",
    [
        [
            "markdown",
            "html",
            "rawHtml",
            "links",
            "images",
            "summary",
            "branding",
            "product",
            "menu",
            "audio",
            "video",
        ],
        ["rawBase64"],
        ["screenshot"],
        [{"type": "screenshot", "fullPage": True, "quality": 1, "viewport": {"width": 7680, "height": 4320}}],
        [{"type": "json", "prompt": "p"}],
        [{"type": "json", "schema": {"type": "object"}}],
        [{"type": "deterministicJson", "schema": {}}],
        ["markdown", "changeTracking"],
        ["markdown", {"type": "changeTracking", "modes": ["json"], "schema": {}, "prompt": "p", "tag": "t"}],
        [{"type": "attributes", "selectors": [{"selector": "a", "attribute": "href"}]}],
        [{"type": "question", "question": "q"}, {"type": "highlights", "query": "q"}],
        [{"type": "query", "prompt": "p", "mode": "directQuote"}],
        [{"type": "markdown"}, "markdown"],
    ],
)
def test_version_2_takes_its_formats(formats: list[Any]) -> None:
    """As names or as objects; the plan has objects, each once."""
    plan = read(formats=formats)

    assert {one["type"] for one in plan.formats} == {
        one if isinstance(one, str) else one["type"] for one in formats
    }
    assert len(plan.formats) == len({str(one) for one in plan.formats})


@for_each(
    ("body", "path"),
    [
        ({"formats": ["json"]}, "formats.0"),
        ({"formats": [{"type": "json"}]}, "formats.0"),
        ({"formats": ["attributes"]}, "formats.0"),
        ({"formats": ["screenshot@fullPage"]}, "formats.0"),
        ({"formats": [{"type": "json", "prompt": "p" * 10_001}]}, "formats.0.prompt"),
        ({"formats": [{"type": "json", "schema": "x"}]}, "formats.0.schema"),
        ({"formats": ["markdown", {"type": "json", "schema": {"type": 5}}]}, "formats.1.schema"),
        ({"formats": [{"type": "json", "prompt": "p"}, {"type": "deterministicJson", "prompt": "p"}]}, "formats"),
        ({"formats": ["screenshot", {"type": "screenshot", "fullPage": True}]}, "formats"),
        ({"formats": ["rawBase64", "markdown"]}, "formats"),
        ({"formats": [{"type": "screenshot", "quality": 101}]}, "formats.0.quality"),
        (
            {"formats": [viewport(7681, 1)]},
            "formats.0.viewport.width",
        ),
        (
            {"formats": [viewport(1, 4321)]},
            "formats.0.viewport.height",
        ),
        (
            {"formats": [{"type": "attributes", "selectors": [{}]}]},
            "formats.0.selectors.0.attribute",
        ),
        ({"formats": [{"type": "question"}]}, "formats.0.question"),
        ({"formats": [{"type": "markdown", "colour": 1}]}, "formats.0"),
        ({"formats": ["markdown"] * 101}, "formats"),
        ({"minAge": -1}, "minAge"),
        ({"lockdown": "yes"}, "lockdown"),
        ({"onlyCleanContent": 1}, "onlyCleanContent"),
        ({"redactPII": "yes"}, "redactPII"),
        ({"parsers": "pdf"}, "parsers"),
        ({"parsers": ["docx"]}, "parsers.0"),
        ({"parsers": [{"type": "pdf", "maxPages": 0}]}, "parsers.0.maxPages"),
        ({"parsers": [{"type": "pdf", "maxPages": 10_001}]}, "parsers.0.maxPages"),
        ({"parsers": [{"type": "pdf", "mode": "slow"}]}, "parsers.0.mode"),
        ({"zeroDataRetention": "yes"}, "zeroDataRetention"),
        ({"auditMetadata": {"username": "u" * 1025}}, "auditMetadata.username"),
        ({"profile": {"name": ""}}, "profile.name"),
        ({"jsonOptions": {}}, ""),
        ({"parsePDF": True}, ""),
    ],
)
def test_version_2_refuses(body: dict[str, Any], path: str) -> None:
    """What only version 1 has, and every limit of its own fields."""
    assert path in paths_of(refused(lambda: read(2, **body)))


def test_version_2_reads_every_option_of_its_own() -> None:
    """A lower-case country is fine, and what is redacted is not told apart."""
    plan = read(
        location={"country": "de", "languages": ["de-DE"]},
        minAge=5,
        maxAge=9,
        lockdown=True,
        onlyCleanContent=True,
        redactPII={"mode": "fast", "replaceStyle": "mask"},
        parsers=[{"type": "pdf", "mode": "fast", "maxPages": 3}, "image"],
        zeroDataRetention=True,
        skipTlsVerification=False,
    )

    assert (plan.country, plan.languages, plan.min_age, plan.max_age) == ("DE", ("de-DE",), 5, 9)
    assert plan.lockdown
    assert plan.only_clean_content
    assert plan.redact_pii
    assert plan.zero_data_retention
    assert not plan.skip_tls_verification
    assert plan.parsers == ({"type": "pdf", "mode": "fast", "maxPages": 3}, {"type": "image"})
    assert read(parsers=[]).parsers == ()


@for_each(
    ("body", "timeout"),
    [
        ({}, 30_000),
        ({"formats": [{"type": "json", "prompt": "p"}]}, 60_000),
        ({"formats": ["markdown", "changeTracking"]}, 60_000),
        ({"proxy": "stealth"}, 120_000),
        ({"proxy": "enhanced"}, 120_000),
        ({"proxy": "enhanced", "timeout": 5_000}, 5_000),
        ({"timeout": 9_000_000}, 300_000),
    ],
)
def test_the_time_out_of_version_2_follows_the_work(body: dict[str, Any], timeout: int) -> None:
    """And no page may take more than 5 minutes."""
    assert read(**body).timeout == timeout


@BOTH
@for_each("body", [{"headers": {"Cookie": "a"}}, {"actions": [{"type": "scrape"}]}])
def test_actions_and_headers_keep_a_page_out_of_the_cache(version: Version, body: dict[str, Any]) -> None:
    """Also if storeInCache is true; version 2 then checks certificates."""
    plan = read(version, storeInCache=True, **body)

    assert not plan.store_in_cache
    assert not plan.skip_tls_verification


@for_each(
    ("version", "origin", "diff", "as_text"),
    [
        (1, None, "auto", True),
        (1, "api", "auto", True),
        (1, "python-sdk@4.53.2", "auto", False),
        (1, "js-sdk@1", "auto", False),
        (2, None, "auto", False),
        (1, None, "object", False),
        (2, "python-sdk", "string", True),
    ],
)
def test_the_form_of_a_diff(version: Version, origin: str | None, diff: Any, as_text: bool) -> None:
    """Decision 1: SDKs get objects, the document's own shape is a text."""
    body = {"url": URL} | ({} if origin is None else {"origin": origin})

    assert read_scrape(body, version, RequestPolicy(diff=diff)).diff_as_text is as_text


@BOTH
def test_threat_protection_is_refused_unless_the_team_has_it(version: Version) -> None:
    """Section Errors, 4 and 5: status 403."""
    for policy, override in (("off", {}), ("mandatory", {"mode": "off"})):
        with pytest.raises(CallRefused) as caught:
            read(version, RequestPolicy(threat_protection=policy), threatProtection=override)  # type: ignore[arg-type]
        assert caught.value.status == 403
    allowed = RequestPolicy(threat_protection="mandatory")

    assert read(version, allowed, threatProtection={"mode": "normal"}).threat_protection == {"mode": "normal"}
    assert read(version, GUARDED, threatProtection={"mode": "off"}).threat_protection == {"mode": "off"}


@for_each(
    ("version", "body", "names"),
    [
        (2, {}, ()),
        (2, {"mobile": False, "blockAds": True, "fastMode": False, "origin": "x"}, ()),
        (2, {"mobile": True, "waitFor": 5, "blockAds": False}, ("mobile", "blockAds", "waitFor")),
        (2, {"proxy": "enhanced"}, ("proxy",)),
        (2, {"location": {"country": "DE"}, "fastMode": True}, ("location.country", "fastMode")),
        (2, {"formats": [JSON_WITH_CHECK]}, ("checkPromptInjection",)),
        (2, {"formats": ["links", {**JSON_WITH_CHECK, "checkPromptInjection": False}]}, ()),
        (2, {"formats": [JSON_WITH_CHECK], "checkPromptInjection": False}, ()),
        (2, {"profile": {"name": "p"}, "auditMetadata": {"username": "u"}}, ("profile", "auditMetadata")),
        (1, {"changeTrackingOptions": {"tag": "t"}}, ("changeTrackingOptions",)),
        (1, {"lockdown": True, "redactPII": True}, ("lockdown", "redactPII")),
    ],
)
def test_options_without_effect_are_named(version: Version, body: dict[str, Any], names: tuple[str, ...]) -> None:
    """They end in the answer's warning, unless they have their default anyway."""
    assert read(version, **body).without_effect == names


def test_a_parser_of_pdfs_may_use_an_older_name() -> None:
    """The service still takes `pageMarkdown`, which is `pages` now; a newer name counts more."""
    older = {"type": "pdf", "pageMarkdown": True, "maxPages": 2}

    assert read(parsers=[older]).parsers == ({"type": "pdf", "maxPages": 2, "pages": True},)
    assert read(parsers=["pdf", {**older, "pages": False}]).parsers[1]["pages"] is False
    assert paths_of(refused(lambda: read(parsers=[{"type": "image", "pageMarkdown": True}]))) == ["parsers.0"]
    assert paths_of(refused(lambda: read(parsers=[{"type": "pdf", "pageMarkdown": 1}]))) == ["parsers.0"]


def test_only_the_format_json_may_have_a_check_of_its_own() -> None:
    wrong = {"type": "summary", "checkPromptInjection": True}
    (unknown,) = refused(lambda: read(formats=[JSON_WITH_CHECK, wrong])).details or []

    assert (unknown["keys"], unknown["path"]) == (["checkPromptInjection"], ["formats", 1])
    assert read(formats=[JSON_WITH_CHECK]).formats == ({"type": "json", "prompt": "prices"},)


@BOTH
@for_each(
    ("written", "read_as"),
    [
        ("example.com", "http://example.com"),
        ("  https://example.com/a?b=c#d ", "https://example.com/a?b=c#d"),
        ("HTTPS://Example.com", "https://Example.com"),
        ("example.com:8080/x", "http://example.com:8080/x"),
        ("http://localhost:3000", "http://localhost:3000"),
        ("localhost:3000/a", "http://localhost:3000/a"),
        ("http://app.localhost", "http://app.localhost"),
        ("http://127.0.0.1", "http://127.0.0.1"),
        ("http://[::1]:80/", "http://[::1]:80/"),
        ("https://example.com/a b", "https://example.com/a%20b"),
        ("https://münchen.example/ä", "https://münchen.example/ä"),
        ("https://docs.acme.test", "https://docs.acme.test"),
    ],
)
def test_a_url_may_lack_its_scheme(version: Version, written: str, read_as: str) -> None:
    """It gets http://, and otherwise stays as it was written."""
    assert read(version, url=written).url == read_as


@BOTH
@for_each(
    "written",
    [
        "",
        " ",
        "http://",
        "https:///path",
        "ftp://example.com",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "mailto:a@example.com",
        "data:text/html,x",
        "http://intranet",
        "intranet/x",
        "1.2.3",
        "http://example.com:99999",
        "http://exa\nmple.com",
        "http://" + "a" * 300 + ".com",
        "http://[::1",
        "http://\x00.com",
        "https://exa mple.com",
        "https://exa%20mple.com",
        "https://exa<mple.com/",
        "https://exa\\mple.com",
    ],
)
def test_a_wrong_url_is_refused(version: Version, written: str) -> None:
    """Only http and https, and a host with a top-level domain or an address."""
    assert paths_of(refused(lambda: read(version, url=written))) == ["url"]


def test_hosts_of_given_sites_need_no_top_level_domain() -> None:
    """Their origins are the user's own; with private networks every name may be one."""
    given_site = RequestPolicy.of(EmulatorOptions(sites={"http://intranet:8080": {"/": "x"}}))
    private = RequestPolicy.of(EmulatorOptions(allow_private=True))

    assert read(policy=given_site, url="http://intranet:8080/a").url == "http://intranet:8080/a"
    assert read(policy=private, url="http://wiki/a").url == "http://wiki/a"
    refused(lambda: read(policy=given_site, url="http://wiki"))
    refused(lambda: read(policy=private, url="http://wi ki"))


def test_a_missing_url_and_unknown_keys_are_told_together() -> None:
    """The text is that of the unknown keys, which one issue names."""
    error = refused(lambda: read_scrape({"a": 1, "b": 2, "formats": [{"type": "html", "c": 3}]}, 2))

    assert error.error.startswith("Unrecognized key in body")
    unknown = [issue for issue in error.details or [] if issue["code"] == "unrecognized_keys"]
    assert [(issue["path"], issue["keys"]) for issue in unknown] == [(["formats", 0], ["c"]), ([], ["a", "b"])]
    assert {"code": "invalid_type", "path": ["url"], "message": "Required"} in (error.details or [])


def test_a_header_never_stands_in_an_error() -> None:
    """Its value may be a secret."""
    error = refused(lambda: read(headers={"Cookie": "s3cret\r\n", "X": 5}, formats="s3cret"))

    assert "s3cret" not in str(error.details) + error.error


def test_many_issues_are_cut() -> None:
    """An answer does not grow with a hostile body."""
    body = {"url": URL, "excludeTags": list(range(50_000)), **{f"k{n}": 1 for n in range(5_000)}}
    error = refused(lambda: read_scrape(body, 2))

    assert 0 < len(error.details or []) <= 100


def test_issues_of_a_job_have_the_path_in_its_body() -> None:
    """Scrape options stand inside of a larger body."""
    error = refused(lambda: read_crawl({"url": URL, "scrapeOptions": {"timeout": 1}}, 2))

    assert paths_of(error) == ["scrapeOptions.timeout"]


FIELDS = [
    "url",
    "formats",
    "timeout",
    "waitFor",
    "maxAge",
    "minAge",
    "headers",
    "location",
    "actions",
    "parsers",
    "proxy",
    "excludeTags",
    "includeTags",
    "mobile",
    "jsonOptions",
    "extract",
    "changeTrackingOptions",
    "threatProtection",
    "origin",
    "profile",
    "redactPII",
    "agent",
    "x",
]
KEYS = [*FIELDS, "type", "schema", "modes", "selector"]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["markdown", "json", "changeTracking", "wait", "pdf", URL]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), inner),
    max_leaves=12,
)


@given(body=st.dictionaries(st.sampled_from(FIELDS), JSON), version=st.sampled_from([1, 2]))
def test_any_body_is_a_plan_or_the_services_400(body: dict[str, Any], version: Version) -> None:
    """Nothing else can come out of a reader."""
    try:
        plan = read_scrape(body, version, GUARDED)
    except CallRefused as exc:
        assert (exc.status, exc.code) == (400, "BAD_REQUEST")  # noqa: PT017 - one of two right ends
    else:
        assert plan.url.startswith("http")
        assert plan.timeout <= 300_000


@BOTH
@for_each("field", FIELDS)
@for_each("value", WRONG_TYPES)
def test_every_field_takes_every_type_without_a_crash(version: Version, field: str, value: Any) -> None:
    """A wrong type is an issue, never a fault of ours."""
    try:
        read(version, **{field: value})
    except CallRefused as exc:
        assert exc.status == 400  # noqa: PT017 - one of two right ends
