"""Tests of settings: names, sources, errors of one line, and no secret in any text."""

import os
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from receiver.cli.scaffold import env_example
from receiver.console import shown_settings
from receiver.errors import ConfigurationError
from receiver.settings import Settings, as_variables, export_env_file, load_reading_settings, load_settings
from receiver.stores import open_store
from receiver.stores.postgres.store import PostgresStore

pytestmark = pytest.mark.usefixtures("bare_environment")

HIDDEN = "hidden-value-1"
MEBIBYTE = 1024 * 1024


@pytest.fixture
def env_file(bare_environment: Path) -> Path:
    """Return the path of `.env` in the working folder. The file does not exist yet."""
    return bare_environment / ".env"


def refusal(*args: Any, **flags: Any) -> str:
    """Return the error of loading settings. It must be one line without a secret."""
    with pytest.raises(ConfigurationError) as caught:
        load_settings(*args, **flags)
    text = str(caught.value)
    assert "\n" not in text
    assert HIDDEN not in "".join(traceback.format_exception(caught.value))
    return text


def test_the_defaults_are_the_documented_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """The defaults are a public promise, so a change must be deliberate."""
    monkeypatch.setattr("receiver.settings.model.memory_limit", lambda: 16 * 1024 * MEBIBYTE)
    settings = load_settings()

    assert settings.model_dump() == {
        "store": "sqlite:///receiver.db",
        "secrets": (),
        "signature_header": "X-Firecrawl-Signature",
        "token_header": None,
        "tokens": (),
        "allow_unsigned": False,
        "handlers": "handlers:router",
        "path": "/webhooks",
        "host": "127.0.0.1",
        "port": 8000,
        "ack_deadline": timedelta(seconds=5),
        "read_timeout": timedelta(seconds=4),
        "web_processes": 1,
        "max_body": 32 * MEBIBYTE,
        "max_in_flight": 256 * MEBIBYTE,
        "workers": 1,
        "concurrency": 32,
        "threads": 8,
        "processes": 2,
        "max_memory": 12 * 1024 * MEBIBYTE,
        "search": False,
        "lease": timedelta(seconds=60),
        "grace": timedelta(seconds=25),
        "retention_bodies": None,
        "retention_keys": None,
        "base_url": "https://api.firecrawl.dev",
        "api_key": None,
        "backfill": False,
        "public_url": None,
        "log_level": "INFO",
        "json_logs": False,
        "metrics": False,
        "metrics_token": None,
        "metrics_host": "127.0.0.1",
        "metrics_port": 9464,
        "traces": False,
        "alert_url": None,
        "alert_secret": None,
        "alert_on_dead": True,
        "alert_quarantined": True,
        "alert_backlog_older_than": timedelta(minutes=5),
        "alert_no_delivery_for": None,
        "alert_refused_more_than": None,
        "console_host": "127.0.0.1",
        "console_port": 8001,
        "console_password": None,
        "console_names": (),
        "console_behind_proxy": False,
        "console_read_only": False,
    }


@pytest.mark.parametrize(
    ("name", "written", "value"),
    [
        ("store", "sqlite:////data/r.db", "sqlite:////data/r.db"),
        ("signature_header", "X-Other-Signature", "X-Other-Signature"),
        ("allow_unsigned", "true", True),
        ("allow_unsigned", "1", True),
        ("allow_unsigned", "off", False),
        ("handlers", "app.hooks:main", "app.hooks:main"),
        ("path", "/hooks/in/", "/hooks/in"),
        ("path", "hooks", "/hooks"),
        ("path", "/", "/"),
        ("path", "", "/"),
        ("host", "0.0.0.0", "0.0.0.0"),
        ("port", "0", 0),
        ("ack_deadline", "9.5", timedelta(seconds=9.5)),
        ("ack_deadline", "PT8S", timedelta(seconds=8)),
        ("read_timeout", "0.25", timedelta(seconds=0.25)),
        ("max_body", "1024", 1024),
        ("max_body", "31MiB", 31 * MEBIBYTE),
        ("max_body", "32MB", 32_000_000),
        ("max_memory", "1.5GiB", 1536 * MEBIBYTE),
        ("max_in_flight", str(64 * MEBIBYTE), 64 * MEBIBYTE),
        ("concurrency", "1", 1),
        ("threads", "1", 1),
        ("lease", "120", timedelta(minutes=2)),
        ("grace", "1", timedelta(seconds=1)),
        ("grace", "2m", timedelta(minutes=2)),
        ("ack_deadline", "8s", timedelta(seconds=8)),
        ("read_timeout", "250ms", timedelta(milliseconds=250)),
        ("lease", "1.5m", timedelta(seconds=90)),
        ("base_url", "http://127.0.0.1:9", "http://127.0.0.1:9"),
        ("log_level", "debug", "DEBUG"),
        ("log_level", "Warning", "WARNING"),
        ("json_logs", "yes", True),
        ("metrics", "true", True),
        ("metrics_host", "::1", "::1"),
        ("metrics_port", "0", 0),
        ("traces", "true", True),
        ("alert_on_dead", "false", False),
        ("alert_quarantined", "false", False),
        ("alert_backlog_older_than", "1h", timedelta(hours=1)),
        ("alert_no_delivery_for", "1d", timedelta(days=1)),
        ("alert_refused_more_than", "0", 0),
    ],
)
def test_every_setting_is_read_from_the_environment(
    env_file: Path, monkeypatch: pytest.MonkeyPatch, name: str, written: str, value: object
) -> None:
    """It is also read from `.env`. The environment overrides `.env`, and a flag overrides both."""
    env_file.write_text(f"RECEIVER_{name.upper()}='{written}'\n")
    assert getattr(load_settings(), name) == value

    env_file.write_text(f"RECEIVER_{name.upper()}=nonsense {HIDDEN}\n")
    monkeypatch.setenv(f"RECEIVER_{name.upper()}", written)
    assert getattr(load_settings(), name) == value

    monkeypatch.setenv(f"receiver_{name}".upper(), "overruled")
    assert getattr(load_settings(**{name: written}), name) == value


@pytest.mark.parametrize(
    ("memory", "max_body", "max_in_flight"),
    [
        (220, 32, 32),
        (400, 32, 50),
        (400, 64, 64),
        (1024, 32, 128),
        (2048, 32, 256),
        (65_536, 32, 256),
        (9, 300, 300),
    ],
)
def test_the_default_limit_in_flight_is_an_eighth_of_the_memory(
    monkeypatch: pytest.MonkeyPatch, memory: int, max_body: int, max_in_flight: int
) -> None:
    """One body of the largest allowed size always fits. Values are in mebibytes."""
    monkeypatch.setattr("receiver.settings.model.memory_limit", lambda: memory * MEBIBYTE)

    assert load_settings(max_body=max_body * MEBIBYTE).max_in_flight == max_in_flight * MEBIBYTE


@pytest.mark.parametrize("line", env_example().replace("# RECEIVER_", "RECEIVER_").splitlines())
def test_each_line_of_the_example_changes_nothing_alone(env_file: Path, line: str) -> None:
    """Somebody removes one comment mark. An empty value is that of a setting that may be unset."""
    env_file.write_text(line.replace("the-webhook-secret-of-your-account", ""))

    assert load_settings() == load_settings(Path("none.env"))


def test_an_empty_variable_hides_the_line_of_the_file(env_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a value of `.env` can be unset for one command."""
    env_file.write_text("RECEIVER_API_KEY=fc-1\n")
    monkeypatch.setenv("RECEIVER_API_KEY", "")

    assert load_settings().api_key is None


def test_limits_of_memory_are_for_all_processes_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker has its part of the memory by default, and each web process can take the longest body."""
    monkeypatch.setattr("receiver.settings.model.memory_limit", lambda: 400 * MEBIBYTE)
    settings = load_settings(web_processes=4, workers=3)

    assert settings.max_memory == 100 * MEBIBYTE
    assert settings.max_in_flight == 4 * settings.max_body


def test_a_flag_that_was_not_given_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line passes None for such a flag."""
    monkeypatch.setenv("RECEIVER_HOST", "::1")

    assert load_settings(host=None, port=None).host == "::1"


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("one", ["one"]),
        ("one,two", ["one", "two"]),
        (" one , two ,", ["one", "two"]),
        ('["one", "two"]', ["one", "two"]),
        (' ["with, comma"]', ["with, comma"]),
        ('["clé"]', ["clé"]),
        ("clé,ключ", ["clé", "ключ"]),
        ("", []),
        (" , ", []),
        ("[]", []),
        ("with space", ["with space"]),
        ("a=b", ["a=b"]),
    ],
)
@pytest.mark.parametrize("name", ["SECRETS", "TOKENS"])
def test_secrets_are_a_json_list_or_separated_by_commas(
    monkeypatch: pytest.MonkeyPatch, name: str, written: str, values: list[str]
) -> None:
    """Both forms work for secrets and for tokens."""
    monkeypatch.setenv(f"RECEIVER_{name}", written)
    if values and name == "TOKENS":
        monkeypatch.setenv("RECEIVER_TOKEN_HEADER", "X-Token")
    settings = load_settings()

    assert list(settings.plain_secrets() if name == "SECRETS" else settings.plain_tokens()) == values
    assert settings.authenticated == bool(values)


@pytest.mark.parametrize(
    ("name", "written", "words"),
    [
        ("SECRETS", f'["{HIDDEN}"', "starts like a JSON list but is not valid JSON"),
        ("SECRETS", f'["{HIDDEN}", ""]', "a secret must not be empty"),
        ("SECRETS", f'["{HIDDEN}", 5]', "write a text"),
        ("SECRETS", f'[["{HIDDEN}"]]', "write a text"),
        ("SECRETS", f"{HIDDEN}\udcff", "UTF-8"),
        ("PORT", f"{HIDDEN}", "write a whole number"),
        ("PORT", "65536", "65535"),
        ("PORT", "-1", "0 or more"),
        ("ACK_DEADLINE", "10", "less than 10s"),
        ("ACK_DEADLINE", "0", "it has to be more than 0s"),
        ("ACK_DEADLINE", "-1", "it has to be more than 0s"),
        ("ACK_DEADLINE", "nan", "duration"),
        ("ACK_DEADLINE", "inf", "duration"),
        ("ACK_DEADLINE", "soon", "duration"),
        ("READ_TIMEOUT", "0", "it has to be more than 0s"),
        ("READ_TIMEOUT", "6", "RECEIVER_READ_TIMEOUT must not be longer than RECEIVER_ACK_DEADLINE"),
        ("MAX_BODY", "0", "it has to be more than 0"),
        ("MAX_IN_FLIGHT", str(31 * MEBIBYTE), "RECEIVER_MAX_IN_FLIGHT must not be less than RECEIVER_MAX_BODY"),
        ("MAX_IN_FLIGHT", "32M", "a size is"),
        ("MAX_MEMORY", "-1", "a size is"),
        ("MAX_MEMORY", "10MB", "RECEIVER_MAX_MEMORY must be at least 64MiB"),
        ("WEB_PROCESSES", "0", "it has to be more than 0"),
        ("WORKERS", "0", "it has to be more than 0"),
        ("WORKERS", "65000", "too many for the ports from RECEIVER_METRICS_PORT up"),
        ("CONCURRENCY", "0", "it has to be more than 0"),
        ("THREADS", "0", "it has to be more than 0"),
        ("LEASE", "0", "it has to be more than 0s"),
        ("GRACE", "-1", "it has to be more than 0s"),
        ("ALLOW_UNSIGNED", "perhaps", "write true or false"),
        ("JSON_LOGS", "perhaps", "write true or false"),
        ("LOG_LEVEL", "loud", "a level is debug, info, warning or error"),
        ("SIGNATURE_HEADER", "", "the name of a header may have only"),
        ("SIGNATURE_HEADER", "X Signature", "the name of a header may have only"),
        ("SIGNATURE_HEADER", "X-Signature:", "the name of a header may have only"),
        ("TOKEN_HEADER", "X-Token", "belong together"),
        ("TOKENS", HIDDEN, "belong together"),
        ("PATH", "/{path}", "a path may have only"),
        ("PATH", "/a b", "a path may have only"),
        ("PATH", "/a?b", "a path may have only"),
        ("METRICS", "perhaps", "write true or false"),
        ("METRICS_PORT", "65536", "it has to be 65535 or less"),
        ("METRICS_TOKEN", f"{HIDDEN} ", "a bearer token may have only"),
        ("METRICS_TOKEN", f"{HIDDEN}é", "a bearer token may have only"),
        ("METRICS_TOKEN", f"{HIDDEN}\udcff", "a bearer token may have only"),
    ],
)
def test_the_error_for_a_wrong_value_names_the_setting_and_hides_the_value(
    env_file: Path, monkeypatch: pytest.MonkeyPatch, name: str, written: str, words: str
) -> None:
    """The error is one line with the setting and the reason."""
    monkeypatch.setenv(f"RECEIVER_{name}", written)
    text = refusal()

    assert words in text
    assert f"RECEIVER_{name}" in text
    if written.isascii():
        monkeypatch.delenv(f"RECEIVER_{name}")
        env_file.write_text(f"RECEIVER_{name}='{written}'\n")
        assert refusal() == text


def test_the_error_for_a_wrong_flag_names_its_setting() -> None:
    """The error is the same as for the variable."""
    assert "RECEIVER_PORT" in refusal(port=70_000)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("RECEIVER_SECRETZ", "RECEIVER_SECRETS"),
        ("RECEIVER_SECRET", "RECEIVER_SECRETS"),
        ("RECEIVER_TOKEN", "RECEIVER_TOKENS"),
        ("receiver_ack_dedline", "RECEIVER_ACK_DEADLINE"),
        ("RECEIVER_XYZZY", None),
    ],
)
def test_an_unknown_name_is_refused_with_a_suggestion(
    env_file: Path, monkeypatch: pytest.MonkeyPatch, name: str, near: str | None
) -> None:
    """If it were ignored, a deployment could run without its secrets."""
    monkeypatch.setenv(name, HIDDEN)
    assert refusal() == f"unknown setting {name} in the environment" + (f"; did you mean {near}?" if near else "")

    monkeypatch.delenv(name)
    env_file.write_text(f"{name}={HIDDEN}\n")
    assert refusal().startswith(f"unknown setting {name} in .env")


@pytest.mark.parametrize(
    ("keyword", "near"),
    [("secret", "secrets"), ("token", "tokens"), ("SECRETS", None), ("max_bodies", "max_body"), ("xyzzy", None)],
)
def test_an_unknown_keyword_is_refused_with_a_suggestion(keyword: str, near: str | None) -> None:
    """If it were ignored, unsigned deliveries could be accepted."""
    hint = f"; did you mean {near}?" if near else ""
    values: dict[str, Any] = {keyword: (HIDDEN,)}
    ways: tuple[Callable[[], Settings], ...] = (
        lambda: Settings(**values),
        lambda: load_settings(**values),
        lambda: Settings.model_validate(values),
    )
    for make in ways:
        with pytest.raises(ConfigurationError) as caught:
            make()
        assert str(caught.value) == f"unknown setting {keyword} in the arguments{hint}"


def test_a_misspelt_variable_is_refused_when_code_makes_the_settings(
    env_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An app that mounts the receiver makes them in its code."""
    monkeypatch.setenv("RECEIVER_SECRET", HIDDEN)
    with pytest.raises(ConfigurationError, match="did you mean RECEIVER_SECRETS"):
        Settings()

    monkeypatch.delenv("RECEIVER_SECRET")
    env_file.write_text("RECEIVER_SECRET=x\n")
    with pytest.raises(ConfigurationError, match=r"RECEIVER_SECRET in \.env"):
        Settings()
    assert Settings(_env_file=None).secrets == ()


OF_A_SERVICE = {
    "RECEIVER_SERVICE_HOST": "10.0.0.1",
    "RECEIVER_SERVICE_PORT": "80",
    "RECEIVER_SERVICE_PORT_HTTP": "80",
    "RECEIVER_PORT": "tcp://10.0.0.1:80",
    "RECEIVER_PORT_80_TCP": "tcp://10.0.0.1:80",
    "RECEIVER_PORT_80_TCP_PROTO": "tcp",
    "RECEIVER_PORT_80_TCP_PORT": "80",
    "RECEIVER_PORT_80_TCP_ADDR": "10.0.0.1",
    "RECEIVER_METRICS_SERVICE_HOST": "10.0.0.2",
    "RECEIVER_METRICS_PORT": "tcp://10.0.0.2:9464",
    "RECEIVER_METRICS_PORT_9464_TCP_ADDR": "10.0.0.2",
}
"""What Kubernetes sets for the Services `receiver` and `receiver-metrics`."""


def test_variables_of_platforms_and_images_are_ignored(env_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The value of our own port then comes from another source."""
    for name, value in (OF_A_SERVICE | {"RECEIVER_VERSION": "1.2"}).items():
        monkeypatch.setenv(name, value)
    env_file.write_text("RECEIVER_PORT=9003\n")

    settings = load_settings()

    assert (settings.port, settings.metrics_port) == (9003, 9464)


def test_variables_without_our_prefix_are_ignored(env_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Handlers and other tools use the same `.env` file."""
    monkeypatch.setenv("SECRETS", "x")
    env_file.write_text("OTHER=1\nexport CHAT_URL=https://chat.example\n# RECEIVER_NOTHING=1\n\n")

    assert load_settings().secrets == ()


@pytest.mark.parametrize(
    "content",
    [
        f"RECEIVER_SECRETS\n# {HIDDEN}",
        f"RECEIVER_SECRETS {HIDDEN}",
        f"{HIDDEN}",
        f'RECEIVER_SECRETS="{HIDDEN}\n',
        f"RECEIVER_SECRETS='{HIDDEN}\nRECEIVER_PORT=9\n",
        f"RECEIVER SECRETS={HIDDEN}",
        f"={HIDDEN}",
    ],
)
def test_a_broken_env_file_is_refused_with_its_line(env_file: Path, content: str) -> None:
    """A line that cannot be read must be an error: it may contain the secrets."""
    env_file.write_text(content)

    assert ".env, line 1" in refusal()


def test_an_env_file_that_is_not_text_is_refused(env_file: Path) -> None:
    """The error is one line without a traceback."""
    env_file.write_bytes(b"\xff\xfe\x00")
    assert refusal() == ".env is not UTF-8 text"


def test_an_env_file_that_cannot_be_read_is_refused(env_file: Path) -> None:
    """The `.env` is a folder here."""
    env_file.mkdir()
    assert "cannot read .env" in refusal()


@pytest.mark.parametrize(
    "content",
    [
        "RECEIVER_SECRETS=s1\n",
        "\ufeffRECEIVER_SECRETS=s1\n",
        "export RECEIVER_SECRETS=s1\n",
        "RECEIVER_SECRETS = 's1'  # mine\n",
        'receiver_secrets="s1"\r\n',
        "A=1\n\n# RECEIVER\nRECEIVER_SECRETS=s1",
        "A='two\nlines'\nRECEIVER_SECRETS=s1",
    ],
    ids=repr,
)
def test_an_env_file_is_read_as_other_tools_read_it(env_file: Path, content: str) -> None:
    """The cases are a byte order mark, export, spaces, quotes over several lines and comments."""
    env_file.write_text(content, encoding="utf-8")

    assert load_settings().plain_secrets() == ("s1",)


def test_another_env_file_can_be_named(bare_environment: Path) -> None:
    """Errors then show the name of that file."""
    other = bare_environment / "other.env"
    other.write_text("RECEIVER_PORT=9\n")
    assert load_settings(other).port == 9

    other.write_text("RECEIVER_PORTS=9\n")
    assert f"unknown setting RECEIVER_PORTS in {other}" in refusal(other)


@pytest.mark.parametrize("url", ["postgres://u:p@h/d", "postgresql://u:p@h/d", "postgresql+psycopg://u:p@h/d"])
def test_port_and_database_url_of_the_platform_are_defaults(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """`$PORT` and a PostgreSQL `$DATABASE_URL` apply if our own variables are not set."""
    monkeypatch.setenv("PORT", "9001")
    monkeypatch.setenv("DATABASE_URL", url)
    settings = load_settings()
    assert (settings.port, settings.store) == (9001, url)
    assert isinstance(open_store(settings.store), PostgresStore)

    monkeypatch.setenv("RECEIVER_PORT", "9002")
    monkeypatch.setenv("RECEIVER_STORE", "sqlite:///own.db")
    settings = load_settings()
    assert (settings.port, settings.store) == (9002, "sqlite:///own.db")


def test_the_env_file_overrides_the_variables_of_the_platform(
    env_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator's settings are more important than those of the platform."""
    monkeypatch.setenv("PORT", "9001")
    env_file.write_text("RECEIVER_PORT=9003\n")

    assert load_settings().port == 9003


@pytest.mark.parametrize("url", ["mysql://h/d", "sqlite:///other.db", "", "postgresql", "postgres+x"])
def test_a_database_url_of_another_kind_is_ignored(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """It belongs to another program."""
    monkeypatch.setenv("DATABASE_URL", url)
    monkeypatch.setenv("PORT", "")

    assert (load_settings().store, load_settings().port) == ("sqlite:///receiver.db", 8000)


def test_no_secret_is_shown_by_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """repr, str, a dump, JSON and the console do not show it."""
    for name, value in {
        "SECRETS": f"{HIDDEN},other",
        "TOKENS": f'["{HIDDEN}"]',
        "TOKEN_HEADER": "X-Token",
        "API_KEY": HIDDEN,
        "METRICS_TOKEN": HIDDEN,
        "STORE": f"postgresql://user:{HIDDEN}@host/database",
    }.items():
        monkeypatch.setenv(f"RECEIVER_{name}", value)
    settings = load_settings()

    dumps = (repr(settings.model_dump()), settings.model_dump_json())
    for text in (repr(settings), str(settings), *dumps, repr(shown_settings(settings))):
        assert HIDDEN not in text
    assert settings.plain_secrets() == (HIDDEN, "other")
    assert settings.plain_tokens() == (HIDDEN,)
    assert settings.api_key is not None
    assert settings.api_key.get_secret_value() == HIDDEN
    assert settings.plain_metrics_token() == HIDDEN
    assert settings.store == f"postgresql://user:{HIDDEN}@host/database"


@pytest.mark.parametrize(
    "values",
    [
        {"secrets": [HIDDEN], "tokens": ["other"]},
        {"secrets": HIDDEN, "read_timeout": 9},
        {"secrets": {HIDDEN: 1}},
        {"secrets": [HIDDEN, ""]},
        {"tokens": HIDDEN},
        {"api_key": [HIDDEN]},
        {"metrics_token": f"{HIDDEN} {HIDDEN}"},
    ],
    ids=str,
)
def test_errors_of_settings_made_in_code_show_no_secret(values: dict[str, Any]) -> None:
    """`Settings` is public, and an app that mounts the receiver may log the error."""
    with pytest.raises((ConfigurationError, ValueError)) as caught:
        Settings(**values)

    assert HIDDEN not in "".join(traceback.format_exception(caught.value))


def test_wrong_settings_made_in_code_raise_a_configuration_error() -> None:
    """The docstring of `Settings` promises this."""
    with pytest.raises(ConfigurationError, match="RECEIVER_PORT"):
        Settings(port=70_000)


def test_settings_cannot_be_changed() -> None:
    """Other parts read values from them only once, at the start."""
    with pytest.raises(ValueError, match="frozen"):
        load_settings().port = 9  # type: ignore[misc]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "0.0.0.0", "", "192.168.0.1", "example.com"])
def test_deliveries_without_authentication_must_be_allowed_explicitly(host: str) -> None:
    """This also holds for loopback addresses: a proxy on this machine forwards requests from everywhere."""
    with pytest.raises(ConfigurationError, match=r"RECEIVER_SECRETS.*RECEIVER_ALLOW_UNSIGNED=true"):
        load_settings(host=host).require_authentication()

    for proof in ({"secrets": "s"}, {"tokens": "t", "token_header": "X-T"}, {"allow_unsigned": True}):
        load_settings(host=host, **proof).require_authentication()


def test_the_placeholder_of_the_example_is_refused_as_a_secret(env_file: Path) -> None:
    """Everybody knows it. The error for a copied file says that it is the placeholder."""
    env_file.write_text(env_example())

    assert "RECEIVER_SECRETS: 'the-webhook-secret-of-your-account' is the placeholder" in refusal()
    assert "placeholder" in refusal(tokens=["the-webhook-secret-of-your-account"], secrets=["s"])


def test_what_only_reads_needs_no_secret(env_file: Path) -> None:
    """A copied file is enough for it. All other settings are those of the file."""
    env_file.write_text(f"{env_example()}\nRECEIVER_STORE=sqlite:///other.db\n")

    settings = load_reading_settings()

    assert (settings.store, settings.secrets) == ("sqlite:///other.db", ())


@pytest.mark.parametrize("name", ["host", "metrics_host"])
def test_metrics_are_shown_to_the_network_only_with_a_token(name: str) -> None:
    """The error is one line before the server listens. `allow_unsigned` is only for deliveries."""
    settings = load_settings(**{name: "0.0.0.0", "metrics": True, "allow_unsigned": True})

    with pytest.raises(ConfigurationError) as caught:
        settings.require_safe_metrics()
    assert f"RECEIVER_{name.upper()} 0.0.0.0" in str(caught.value)
    assert "RECEIVER_METRICS_TOKEN" in str(caught.value)

    load_settings(**{name: "0.0.0.0"}).require_safe_metrics()
    load_settings(**{name: "0.0.0.0", "metrics": True, "metrics_token": "t"}).require_safe_metrics()
    load_settings(**{name: "localhost", "metrics": True}).require_safe_metrics()


def test_deliveries_and_metrics_cannot_have_the_same_path() -> None:
    """Without metrics the path is allowed."""
    assert "RECEIVER_PATH must not be the path of the metrics" in refusal(path="metrics/", metrics=True)
    assert load_settings(path="/metrics").path == "/metrics"


def test_the_env_file_is_exported_for_handlers(env_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only variables without our prefix are exported, and they do not replace existing ones."""
    monkeypatch.delenv("CHAT_URL", raising=False)
    monkeypatch.setenv("KEPT", "from the environment")
    env_file.write_text("CHAT_URL=https://chat\nKEPT=from the file\nRECEIVER_SECRETS=s\n")

    export_env_file()

    assert os.environ["CHAT_URL"] == "https://chat"
    assert os.environ["KEPT"] == "from the environment"
    assert "RECEIVER_SECRETS" not in os.environ
    monkeypatch.delenv("CHAT_URL")


def test_retention_is_written_as_a_duration(bare_environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An example of a duration is 30d."""
    monkeypatch.setenv("RECEIVER_RETENTION_BODIES", "36h")
    monkeypatch.setenv("RECEIVER_RETENTION_KEYS", "1w2d")

    settings = load_settings()

    assert settings.retention_bodies == timedelta(hours=36)
    assert settings.retention_keys == timedelta(days=9)


@pytest.mark.parametrize("written", ["30", "soon", "-1d", "0d", "1.5", "99999999999d", "36501d"])
def test_a_wrong_retention_is_refused(
    bare_environment: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    """The error has the name of the variable."""
    monkeypatch.setenv("RECEIVER_RETENTION_KEYS", written)

    with pytest.raises(ConfigurationError, match="RECEIVER_RETENTION_KEYS"):
        load_settings()


def test_bodies_cannot_be_kept_longer_than_their_deliveries(
    bare_environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delivery is pruned with its body."""
    monkeypatch.setenv("RECEIVER_RETENTION_BODIES", "31d")
    monkeypatch.setenv("RECEIVER_RETENTION_KEYS", "30d")

    with pytest.raises(ConfigurationError, match="BODIES must not be longer than RECEIVER_RETENTION_KEYS"):
        load_settings()


@pytest.mark.parametrize(
    ("public_url", "base_url", "advised"),
    [
        ("http://127.0.0.1:8000", "https://api.firecrawl.dev", True),
        ("http://localhost:8000", "https://api.firecrawl.dev", True),
        ("http://[::1]:8000", "https://api.firecrawl.dev", True),
        ("https://10.0.0.7", "https://api.firecrawl.dev", True),
        ("https://hooks.internal", "https://api.firecrawl.dev", True),
        ("https://hooks.example.com", "https://api.firecrawl.dev", False),
        ("http://127.0.0.1:8000", "http://127.0.0.1:3002", False),
        ("http://receiver:8000", "http://api:3002", False),
        (None, "https://api.firecrawl.dev", False),
    ],
)
def test_a_private_url_for_a_public_service_is_reported(public_url: str, base_url: str, advised: bool) -> None:
    """The service could never reach it. A service on this machine or in this network can."""
    settings = load_settings(public_url=public_url, base_url=base_url)

    assert ("RECEIVER_PUBLIC_URL" in (settings.webhook_advice() or "")) is advised


def test_backfill_needs_an_api_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error comes at the start, before any job is checked."""
    assert "RECEIVER_BACKFILL needs RECEIVER_API_KEY" in refusal(backfill=True)
    assert load_settings(backfill=True, api_key="fc-1").backfill


def test_all_wrong_settings_are_named_at_once(env_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has to start a server once for each of them."""
    env_file.write_text("RECEIVER_PORT=foo\nRECEIVER_GRACE=0s\nRECEIVER_METRICS=perhaps\n")
    assert refusal() == (
        "RECEIVER_PORT: write a whole number; RECEIVER_GRACE: it has to be more than 0s; "
        "RECEIVER_METRICS: write true or false"
    )

    env_file.write_text("RECEIVER_PATH=/healthz\nRECEIVER_BACKFILL=true\n")
    assert refusal() == (
        "RECEIVER_PATH must not be the path of a health check; RECEIVER_BACKFILL needs RECEIVER_API_KEY"
    )

    env_file.write_text("RECEIVER_PORTS=1\nRECEIVER_XYZZY=2\n")
    assert refusal() == (
        "unknown setting RECEIVER_PORTS in .env; did you mean RECEIVER_PORT? unknown setting RECEIVER_XYZZY in .env"
    )


def test_the_error_for_a_variable_of_the_platform_has_its_name(
    env_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is PORT only if our own variable does not set the port."""
    monkeypatch.setenv("PORT", "foo")
    assert refusal() == "PORT: write a whole number"

    env_file.write_text("RECEIVER_PORT=bar\n")
    assert refusal() == "RECEIVER_PORT: write a whole number"


def test_an_open_quotation_mark_is_named(env_file: Path) -> None:
    """The line looks like NAME=value."""
    env_file.write_text("A=1\nRECEIVER_SECRETS='abc\n")

    assert refusal() == ".env, line 2: a quotation mark is not closed, or text follows it"


def test_a_public_url_without_a_scheme_is_not_called_private() -> None:
    """`settings.webhook()` says what is wrong with it."""
    settings = load_settings(public_url="hooks.example.com")

    assert settings.webhook_advice() is None
    with pytest.raises(ConfigurationError, match="RECEIVER_PUBLIC_URL: write a whole address, with https://"):
        settings.webhook()


def test_another_process_gets_the_same_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever kind of value each has, and however it came here."""
    monkeypatch.setenv("RECEIVER_SECRETS", "one,two")
    monkeypatch.setenv("PORT", "8100")
    given = Settings(
        _env_file=None,
        handlers="mine:router",
        grace=timedelta(milliseconds=1500),
        retention_keys="90d",
        max_body="3MiB",
        console_names=("a.test", "b.test"),
        console_password="hunter2",
        metrics=True,
        public_url=None,
    )
    monkeypatch.delenv("PORT")

    for name, value in as_variables(given).items():
        monkeypatch.setenv(name, value)
    again = Settings(_env_file=None)

    assert again.model_copy(update={"max_memory": given.max_memory}) == given
    assert as_variables(again).keys() == as_variables(given).keys()
