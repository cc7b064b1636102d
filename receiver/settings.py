"""All settings, read once from the environment, a `.env` file and the command line."""

import difflib
import json
import os
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from dotenv import dotenv_values
from dotenv.parser import parse_stream
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from receiver.core.addresses import is_loopback
from receiver.core.durations import parse_duration
from receiver.core.memory import memory_limit
from receiver.core.text import did_you_mean
from receiver.errors import ConfigurationError, NoApiKey
from receiver.service.schedule import SERVICE

if TYPE_CHECKING:  # the module loads every request class, and few programs need one
    from receiver.requests.webhooks import WebhookConfig

PREFIX = "RECEIVER_"
PLACEHOLDER = "the-webhook-secret-of-your-account"
"""The value of SECRETS in `.env.example`. Settings refuse it as a secret."""

_LINK = re.compile(r"(tcp|udp|sctp)://", re.IGNORECASE)
"""Value of a variable that Kubernetes sets for a Service: https://kubernetes.io/docs/concepts/services-networking/"""
_NAMES_OF_OTHERS = re.compile(
    r"(\w+_)?SERVICE_(HOST|PORT(_\w+)?)"  # Kubernetes, for a Service named receiver or receiver-something
    r"|(\w+_)?PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?"
    r"|VERSION|REVISION|COMMIT|SHA256|BUILD_DATE"  # images often describe themselves so
)
_HEADER_NAME = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"  # a token, RFC 9110, section 5.6.2
_MEBIBYTE = 1024 * 1024


def _split(value: Any) -> Any:
    """Accept a JSON list or values separated by commas."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except ValueError:
            raise ValueError("this starts like a JSON list but is not valid JSON") from None
    return [part.strip() for part in value.split(",") if part.strip()]


def _usable(values: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
    for value in values:
        if not value.get_secret_value():
            raise ValueError("a secret must not be empty")
        if value.get_secret_value() == PLACEHOLDER:
            raise ValueError(f"{PLACEHOLDER!r} is the placeholder of .env.example; replace it with the real secret")
        if not _is_utf8(value.get_secret_value()):
            raise ValueError("a secret is not UTF-8 text")
    return values


def _sendable(value: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[A-Za-z0-9._~+/-]+=*", value.get_secret_value()):  # RFC 6750, section 2.1
        raise ValueError("a bearer token may have only letters, digits and the characters . _ ~ + / -")
    return value


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # bytes of the environment that could not be decoded
        return False
    return True


def _seconds(value: Any) -> Any:
    """Accept plain seconds beside ISO 8601 durations; numbers in strings come from the environment."""
    try:
        return timedelta(seconds=float(value)) if isinstance(value, str | int | float) else value
    except (ValueError, OverflowError):
        return value


def _age(value: Any) -> Any:
    """Accept a duration as people write it, such as `30d`."""
    return parse_duration(value) if isinstance(value, str) else value


def _default_in_flight(max_body: int) -> int:
    """Return an eighth of the memory limit: intake keeps up to four copies of a body in memory."""
    return max(max_body, min(256 * _MEBIBYTE, memory_limit() // 8))


def _clean_path(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._~/-]*", value):
        raise ValueError("a path may have only letters, digits and the characters . _ ~ / -")
    return "/" + value.strip("/")


SecretList = Annotated[tuple[SecretStr, ...], NoDecode, BeforeValidator(_split), AfterValidator(_usable)]
Seconds = Annotated[timedelta, BeforeValidator(_seconds), Field(gt=timedelta(0), le=timedelta(days=365))]
Age = Annotated[timedelta, BeforeValidator(_age), Field(gt=timedelta(0), le=timedelta(days=36_500))]
HeaderName = Annotated[str, Field(pattern=_HEADER_NAME)]


class Settings(BaseSettings):
    """The settings of one deployment. Every field is the variable `RECEIVER_<NAME>`, in the environment or `.env`.

    Raises ConfigurationError for a wrong value, and for a variable or keyword that looks like a setting but is
    unknown. The error names the variable and never shows its value.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_file=".env", env_file_encoding="utf-8", extra="ignore", frozen=True
    )

    store: str = Field("sqlite:///receiver.db", description="Where deliveries are kept: sqlite:///FILE")
    secrets: SecretList = Field(
        (), description="Webhook secrets, a JSON list or separated by commas; any may match"
    )
    signature_header: HeaderName = Field("X-Firecrawl-Signature", description="Header with the signature")
    token_header: HeaderName | None = Field(None, description="Static header to check instead of a signature")
    tokens: SecretList = Field((), description="Values of the static header; any may match")
    allow_unsigned: bool = Field(False, description="Accept deliveries without any authentication")
    handlers: str = Field("handlers:router", description="The router with your handlers, as module:name")
    path: Annotated[str, AfterValidator(_clean_path)] = Field("/webhooks", description="Path of the endpoint")
    host: str = Field("127.0.0.1", description="Address to listen on; 0.0.0.0 for all")
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on; 0 for a free one; $PORT if unset")
    ack_deadline: Seconds = Field(
        timedelta(seconds=5), lt=SERVICE.timeout, description="Seconds within which every delivery is answered"
    )
    read_timeout: Seconds = Field(timedelta(seconds=4), description="Seconds a request body may take to arrive")
    max_body: int = Field(32 * _MEBIBYTE, gt=0, description="Bytes of the longest body that is accepted")
    max_in_flight: int = Field(
        default_factory=lambda known: _default_in_flight(known.get("max_body", 0)),
        gt=0,
        description="Bytes that may be received or written at one time",
    )
    concurrency: int = Field(32, gt=0, description="Handlers running at one time in a worker")
    threads: int = Field(8, gt=0, description="Threads for handlers that are plain functions")
    processes: int = Field(
        default_factory=lambda: os.cpu_count() or 1,
        gt=0,
        description='Processes for handlers with run_in="process"',
    )
    max_memory: int = Field(
        default_factory=lambda: memory_limit() * 3 // 4,
        gt=0,
        description="Bytes of memory; a worker that needs more releases its work and restarts",
    )
    search: bool = Field(False, description="Keep an index of URLs, titles and errors, for `events list --text`")
    lease: Seconds = Field(
        timedelta(seconds=60), description="Seconds until others may claim the work of a dead worker"
    )
    grace: Seconds = Field(timedelta(seconds=25), description="Seconds a stopping worker lets handlers finish")
    retention_bodies: Age | None = Field(
        None, description="How long bodies of finished deliveries are kept, such as 30d; for ever if unset"
    )
    retention_keys: Age | None = Field(
        None, description="How long finished deliveries are kept, such as 90d; a retry after that is stored as new"
    )
    base_url: str = Field(
        "https://api.firecrawl.dev", description="Address of the service, for handlers that call it"
    )
    api_key: SecretStr | None = Field(None, description="Key of the service, for handlers that call it")
    backfill: bool = Field(False, description="Let workers import missing events from the service; needs API_KEY")
    public_url: str | None = Field(
        None, description="URL at which the service reaches this receiver, without PATH; for jobs started here"
    )
    log_level: Annotated[str, AfterValidator(str.upper)] = Field(
        "INFO", pattern="(?i)^(debug|info|warning|error)$", description="debug, info, warning or error"
    )
    json_logs: bool = Field(False, description="Write log lines as JSON objects")
    metrics: bool = Field(False, description="Serve Prometheus metrics at /metrics, of the endpoint and the worker")
    metrics_token: Annotated[SecretStr, AfterValidator(_sendable)] | None = Field(
        None, description="Bearer token for the metrics; without it only this machine may read them"
    )
    metrics_host: str = Field("127.0.0.1", description="Address on which a worker serves its metrics")
    metrics_port: int = Field(
        9464, ge=0, le=65535, description="Port on which a worker serves its metrics; 0 for a free one"
    )

    def __init__(self, **values: Any) -> None:
        _refuse_unknown_names(values)
        try:
            super().__init__(**values)
        except ValidationError as exc:
            raise ConfigurationError(_first_error(exc)) from None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for name, value in self:
            if isinstance(value, str) and not value.isascii() and not _is_utf8(value):
                raise ValueError(f"{PREFIX}{name.upper()} is not UTF-8 text")
        if bool(self.tokens) != bool(self.token_header):
            raise ValueError(f"{PREFIX}TOKENS and {PREFIX}TOKEN_HEADER belong together: set both or neither")
        if self.path in ("/healthz", "/readyz"):
            raise ValueError(f"{PREFIX}PATH must not be the path of a health check")
        if self.backfill and self.api_key is None:
            raise ValueError(f"{PREFIX}BACKFILL needs {PREFIX}API_KEY")
        if self.metrics and self.path == "/metrics":
            raise ValueError(f"{PREFIX}PATH must not be the path of the metrics")
        if self.read_timeout > self.ack_deadline:
            raise ValueError(f"{PREFIX}READ_TIMEOUT must not be longer than {PREFIX}ACK_DEADLINE")
        if self.retention_bodies and self.retention_keys and self.retention_bodies > self.retention_keys:
            raise ValueError(f"{PREFIX}RETENTION_BODIES must not be longer than {PREFIX}RETENTION_KEYS")
        if self.max_body > self.max_in_flight:
            raise ValueError(f"{PREFIX}MAX_IN_FLIGHT must not be less than {PREFIX}MAX_BODY")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Put `PORT` and `DATABASE_URL` of the platform last: they apply if nothing else is set."""
        environment = _WithoutLinks(settings_cls, env_settings)
        return init_settings, environment, dotenv_settings, _PlatformSource(settings_cls)

    @property
    def authenticated(self) -> bool:
        """Whether a delivery must have a valid signature or token."""
        return bool(self.secrets or self.tokens)

    def plain_secrets(self) -> tuple[str, ...]:
        """Return the webhook secrets in the clear, for signing and verifying only."""
        return tuple(secret.get_secret_value() for secret in self.secrets)

    def plain_tokens(self) -> tuple[str, ...]:
        """Return the static header's values in the clear, for comparing only."""
        return tuple(token.get_secret_value() for token in self.tokens)

    def plain_other_secrets(self) -> tuple[str, ...]:
        """Return the other secrets in the clear, only for masking them in kept headers."""
        others = (self.metrics_token, self.api_key)
        return tuple(other.get_secret_value() for other in others if other is not None)

    def plain_metrics_token(self) -> str | None:
        """Return the token for the metrics in the clear, for comparing only."""
        return None if self.metrics_token is None else self.metrics_token.get_secret_value()

    def plain_api_key(self) -> str:
        """Return the service's key in the clear, for a client only. Raises NoApiKey if it is not set."""
        if self.api_key is None:
            raise NoApiKey(f"no {PREFIX}API_KEY is set: take it from your account at the service")
        return self.api_key.get_secret_value()

    def webhook(self, *, events: Sequence[str] = (), metadata: Mapping[str, str] | None = None) -> "WebhookConfig":
        """Return the `webhook` field of a request, so that the service sends a job's events to this receiver.

        `events` are short or full names; without it the service sends all events. `metadata` comes back in every
        delivery. If TOKENS is set, the service sends the first token in the static header. Raises
        ConfigurationError if PUBLIC_URL is not set or the service could not call it, and ValueError for metadata
        that the service would refuse.
        """
        from receiver.requests.webhooks import WebhookConfig  # loaded only here, as above

        if self.public_url is None:
            raise ConfigurationError(
                f"no {PREFIX}PUBLIC_URL is set: set it to the URL at which the service reaches this "
                "receiver, such as https://hooks.example.com"
            )
        url = self.public_url.rstrip("/") + self.path
        try:
            WebhookConfig(url=url)
        except ValidationError as exc:
            raise ConfigurationError(f"{PREFIX}PUBLIC_URL: {_first_reason(exc)}") from None
        headers = {self.token_header: self.plain_tokens()[0]} if self.token_header else {}
        return WebhookConfig(url=url, headers=headers, metadata=metadata or {}, events=tuple(events))

    def require_safe_metrics(self) -> None:
        """Raise ConfigurationError if other machines could read the metrics without a token."""
        for name, host in (("HOST", self.host), ("METRICS_HOST", self.metrics_host)):
            if self.metrics and self.metrics_token is None and not is_loopback(host):
                raise ConfigurationError(
                    f"{PREFIX}METRICS is on, and {PREFIX}{name} {host} can be reached from outside: "
                    f"set {PREFIX}METRICS_TOKEN to the bearer token that the scraper sends"
                )

    def require_authentication(self) -> None:
        """Raise ConfigurationError if there is neither a secret nor a token and ALLOW_UNSIGNED is not set.

        A loopback address makes no difference: a proxy on this machine forwards requests from everywhere.
        """
        if self.authenticated or self.allow_unsigned:
            return
        raise ConfigurationError(
            f"no {PREFIX}SECRETS and no {PREFIX}TOKENS are set, so anybody could send deliveries: "
            f"set {PREFIX}SECRETS to the webhook secret of your account, or set {PREFIX}ALLOW_UNSIGNED=true"
        )


class _WithoutLinks(PydanticBaseSettingsSource):
    """The environment, without the addresses that Kubernetes puts into the variables of our ports."""

    def __init__(self, settings_cls: type[BaseSettings], environment: PydanticBaseSettingsSource) -> None:
        super().__init__(settings_cls)
        self._environment = environment

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        return {name: value for name, value in self._environment().items() if not _is_link(name, value)}


class _PlatformSource(PydanticBaseSettingsSource):
    """Variables without our prefix that hosting platforms set."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if port := os.environ.get("PORT"):
            found["port"] = port
        database = os.environ.get("DATABASE_URL", "")
        if database.startswith(("postgres://", "postgresql://")):
            found["store"] = database
        return found


def load_settings(env_file: Path = Path(".env"), /, **flags: Any) -> Settings:
    """Read all settings. A flag that is None is ignored. Raises ConfigurationError with a message of one line."""
    given = {name: value for name, value in flags.items() if value is not None}
    return Settings(_env_file=env_file, **given)


def _first_error(error: ValidationError) -> str:
    """Return the first error as text, without the input: it may be a secret."""
    place = error.errors(include_input=False, include_url=False, include_context=False)[0]["loc"]
    return (f"{PREFIX}{str(place[0]).upper()}: " if place else "") + _first_reason(error)


def _first_reason(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    return first["msg"].removeprefix("Value error, ")


def export_env_file(env_file: Path = Path(".env")) -> None:
    """Export the other variables of a `.env` file to the environment, for handlers. Keep variables that are set."""
    for name, value in _read_env_file(env_file).items():
        if value is not None and not name.upper().startswith(PREFIX):
            os.environ.setdefault(name, value)


def _refuse_unknown_names(values: Mapping[str, Any]) -> None:
    """Raise ConfigurationError for an unknown name. Ignoring it could leave a deployment without its secrets."""
    for name in values:
        if not name.startswith("_"):  # pydantic's own arguments, such as _env_file
            _require_known(name, prefix="", origin="the arguments", known=list(Settings.model_fields))
    known = [name.upper() for name in Settings.model_fields]
    for name, value in os.environ.items():
        own = name.upper().removeprefix(PREFIX)
        if name.upper().startswith(PREFIX) and not _NAMES_OF_OTHERS.fullmatch(own) and not _is_link(own, value):
            _require_known(name, prefix=PREFIX, origin="the environment", known=known)
    env_file = values.get("_env_file", Settings.model_config["env_file"])
    for name in _read_env_file(Path(env_file)) if env_file is not None else ():
        if name.upper().startswith(PREFIX):
            _require_known(name, prefix=PREFIX, origin=str(env_file), known=known)


def _require_known(name: str, *, prefix: str, origin: str, known: Sequence[str]) -> None:
    own = name.upper().removeprefix(prefix) if prefix else name
    if own not in known:
        close = difflib.get_close_matches(own, known, n=1)
        hint = did_you_mean([f"{prefix}{one}" for one in close])
        raise ConfigurationError(f"unknown setting {name} in {origin}{hint}")


def _is_link(name: str, value: object) -> bool:
    return name.upper().endswith("PORT") and isinstance(value, str) and bool(_LINK.match(value))


def _read_env_file(env_file: Path) -> Mapping[str, str | None]:
    if not env_file.exists():
        return {}
    try:
        text = env_file.read_text(encoding="utf-8")
    except OSError as exc:
        raise ConfigurationError(f"cannot read {env_file}: {exc.strerror}") from exc
    except UnicodeDecodeError:
        raise ConfigurationError(f"{env_file} is not UTF-8 text") from None
    for binding in parse_stream(StringIO(text)):
        if binding.error or (binding.key is not None and binding.value is None):
            # The parser would skip the line, for example after an open quote, and it may contain the secrets.
            raise ConfigurationError(f"{env_file}, line {binding.original.line}: expected NAME=value")
    return dotenv_values(env_file)
