"""Every setting: its name, kind, default and meaning."""

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_serializer, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from receiver.core.addresses import is_loopback, is_private, shown_address
from receiver.core.text import counted, plain_reason
from receiver.core.units import written_size
from receiver.errors import ConfigurationError, NoApiKey
from receiver.runtime.log_lines import event_log
from receiver.runtime.processes import memory_limit
from receiver.service.schedule import SERVICE
from receiver.settings.environment import PREFIX, PlatformSource, WithoutLinks, refuse_unknown_names, variable_of
from receiver.settings.values import (
    Age,
    AlertUrl,
    BearerToken,
    HeaderName,
    LogLevel,
    NameList,
    Seconds,
    SecretList,
    ServiceAddress,
    Size,
    StandardSecret,
    UrlPath,
    as_text,
    is_utf8,
)

if TYPE_CHECKING:  # they take long to load, and few programs need them
    from receiver.core.attention import AttentionLimits
    from receiver.requests.webhooks import WebhookConfig

_MEBIBYTE = 1024 * 1024
_LEAST_MEMORY = 64 * _MEBIBYTE
"""An idle worker was seen with 54 MiB. With less than this it would restart for ever."""
_PORTS = 65_536
_FOLLOWS = "default_factory_not_called"
"""The default depends on another setting, which is wrong."""


def _default_in_flight(known: Mapping[str, Any]) -> int:
    """Return an eighth of the memory limit: intake holds up to four copies of a body."""
    least: int = known.get("max_body", 0) * known.get("web_processes", 1)
    return max(least, min(256 * _MEBIBYTE, memory_limit() // 8))


class Settings(BaseSettings):
    """The settings of one deployment. Every field is the variable `RECEIVER_<NAME>`, in the environment or `.env`.

    An empty text means no value for a setting that may be unset. Raises ConfigurationError for wrong values, and
    for variables or keywords that look like settings but are unknown. The error names each of them and never shows
    a value.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_file=".env", env_file_encoding="utf-8", extra="ignore", frozen=True
    )

    _reads_environment: ClassVar[bool] = True

    store: str = Field(
        "sqlite:///receiver.db",
        description="Where deliveries are kept: sqlite:///FILE, or postgresql://USER:PASSWORD@HOST/DATABASE",
    )
    secrets: SecretList = Field(
        (), description="Webhook secrets, a JSON list or separated by commas; any may match"
    )
    signature_header: HeaderName = Field("X-Firecrawl-Signature", description="Header with the signature")
    token_header: HeaderName | None = Field(None, description="Static header to check instead of a signature")
    tokens: SecretList = Field((), description="Values of the static header; any may match")
    allow_unsigned: bool = Field(False, description="Accept deliveries without any authentication")
    handlers: str = Field("handlers:router", description="The router with your handlers, as module:name")
    path: UrlPath = Field("/webhooks", description="Path of the endpoint")
    host: str = Field("127.0.0.1", description="Address to listen on; 0.0.0.0 for all")
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on; 0 for a free one; $PORT if unset")
    ack_deadline: Seconds = Field(
        timedelta(seconds=5), lt=SERVICE.timeout, description="Time within which every delivery is answered"
    )
    read_timeout: Seconds = Field(timedelta(seconds=4), description="Time a request body may take to arrive")
    web_processes: int = Field(
        1, gt=0, description="Processes that answer requests; more than one only on many cores"
    )
    max_body: Size = Field(32 * _MEBIBYTE, description="Size of the longest body that is accepted")
    max_in_flight: Size = Field(
        default_factory=_default_in_flight,
        description="Memory for bodies that are received or written at one time",
    )
    workers: int = Field(1, gt=0, description="Worker processes that run handlers")
    concurrency: int = Field(32, gt=0, description="Handlers running at one time in a worker")
    threads: int = Field(8, gt=0, description="Threads for handlers that are plain functions")
    processes: int = Field(
        default_factory=lambda: os.cpu_count() or 1,
        gt=0,
        description='Processes for handlers with run_in="process"',
    )
    max_memory: Size = Field(
        default_factory=lambda known: memory_limit() * 3 // 4 // known.get("workers", 1),
        description="Memory of a worker, at least 64MiB; one that needs more releases its work and restarts",
    )
    search: bool = Field(False, description="Keep an index of URLs, titles and errors, for `events list --text`")
    lease: Seconds = Field(
        timedelta(seconds=60), description="Time until others may claim the work of a dead worker"
    )
    grace: Seconds = Field(timedelta(seconds=25), description="Time a stopping worker lets handlers finish")
    retention_bodies: Age | None = Field(
        None, description="How long bodies of finished deliveries are kept, such as 30d; for ever if unset"
    )
    retention_keys: Age | None = Field(
        None, description="How long finished deliveries are kept, such as 90d; a retry after that is stored as new"
    )
    base_url: ServiceAddress = Field(
        "https://api.firecrawl.dev", description="Address of the service, for handlers that call it"
    )
    api_key: SecretStr | None = Field(None, description="Key of the service, for handlers that call it")
    backfill: bool = Field(False, description="Let workers import missing events from the service; needs API_KEY")
    public_url: str | None = Field(
        None, description="URL at which the service reaches this receiver, without PATH; for jobs started here"
    )
    log_level: LogLevel = Field("INFO", description="Lowest level of log lines: debug, info, warning or error")
    json_logs: bool = Field(False, description="Write log lines as JSON objects")
    metrics: bool = Field(False, description="Serve Prometheus metrics at /metrics, of the endpoint and the worker")
    metrics_token: BearerToken | None = Field(
        None, description="Bearer token for the metrics; without it only this machine may read them"
    )
    metrics_host: str = Field("127.0.0.1", description="Address on which a worker serves its metrics")
    metrics_port: int = Field(
        9464, ge=0, le=65535, description="Port on which a worker serves its metrics; 0 for a free one"
    )
    traces: bool = Field(False, description="Send traces by OpenTelemetry, set up by OTEL_ variables; extra `otel`")

    alert_url: AlertUrl | None = Field(
        None, description="Where alerts are posted: the webhook URL of a chat, or any other; no alerts if unset"
    )
    alert_secret: StandardSecret | None = Field(
        None, description="Secret that signs alerts by Standard Webhooks, such as whsec_ and base64"
    )
    alert_on_dead: bool = Field(True, description="Alert about dead work items")
    alert_quarantined: bool = Field(True, description="Alert about requests in quarantine")
    alert_backlog_older_than: Age = Field(
        timedelta(minutes=5), description="Alert when work has been due for longer; the console shows it too"
    )
    alert_no_delivery_for: Age | None = Field(
        None, description="Alert when no delivery has come for longer; the console shows it too"
    )
    alert_refused_more_than: int | None = Field(
        None, ge=0, description="Alert when more requests than this were refused in 10 minutes"
    )

    console_host: str = Field("127.0.0.1", description="Address on which the console listens")
    console_port: int = Field(8001, ge=0, le=65535, description="Port of the console; 0 for a free one")
    console_password: SecretStr | None = Field(
        None, description="Password of the console; needed where other machines reach it"
    )
    console_names: NameList = Field(
        (), description="Host names at which the console is reached, besides this machine's own"
    )
    console_behind_proxy: bool = Field(
        False, description="A proxy in front of the console signs people in, so it needs no password"
    )
    console_read_only: bool = Field(False, description="Show the console without anything that changes the store")

    def __init__(self, **values: Any) -> None:
        given = values.get("_env_file", self.model_config["env_file"])
        env_file = None if given is None else Path(given)
        environment = os.environ if self._reads_environment else {}
        refuse_unknown_names(values, list(type(self).model_fields), env_file, environment)
        try:
            super().__init__(**values)
        except ValidationError as exc:
            raise ConfigurationError(
                "; ".join(
                    f"{variable_of(name, values, env_file)}: {reason}" if name else reason
                    for name, reason in _reasons(exc).items()
                )
            ) from None

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, self.shown_store() if name == "store" else value

    @field_serializer("store")
    def _without_password(self, store: str) -> str:
        return shown_address(store)

    @model_validator(mode="before")
    @classmethod
    def _leave_out_empty_values(cls, values: Any) -> Any:
        """Let an empty setting that may be unset have its default, as in `.env.example`."""
        return {name: value for name, value in values.items() if value != "" or not cls._may_be_unset(name)}

    @classmethod
    def _may_be_unset(cls, name: str) -> bool:
        field = cls.model_fields.get(name)
        return field is not None and (field.default_factory is not None or field.default is None)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if wrong := [*self._wrong_texts(), *self._wrong_pairs(), *self._too_little_for_all_processes()]:
            raise ValueError("; ".join(wrong))
        return self

    def _wrong_texts(self) -> Iterator[str]:
        for name, value in self:
            if isinstance(value, str) and not value.isascii() and not is_utf8(value):
                yield f"{PREFIX}{name.upper()} is not UTF-8 text"

    def _wrong_pairs(self) -> Iterator[str]:
        if bool(self.tokens) != bool(self.token_header):
            yield f"{PREFIX}TOKENS and {PREFIX}TOKEN_HEADER belong together: set both or neither"
        if self.path in ("/healthz", "/readyz"):
            yield f"{PREFIX}PATH must not be the path of a health check"
        if self.alert_secret is not None and self.alert_url is None:
            yield f"{PREFIX}ALERT_SECRET needs {PREFIX}ALERT_URL"
        if self.backfill and self.api_key is None:
            yield f"{PREFIX}BACKFILL needs {PREFIX}API_KEY"
        if self.metrics and self.path == "/metrics":
            yield f"{PREFIX}PATH must not be the path of the metrics"
        if self.read_timeout > self.ack_deadline:
            yield f"{PREFIX}READ_TIMEOUT must not be longer than {PREFIX}ACK_DEADLINE"
        if self.retention_bodies and self.retention_keys and self.retention_bodies > self.retention_keys:
            yield f"{PREFIX}RETENTION_BODIES must not be longer than {PREFIX}RETENTION_KEYS"

    def _too_little_for_all_processes(self) -> Iterator[str]:
        if self.max_body * self.web_processes > self.max_in_flight:
            each = f" for each of {self.web_processes} web processes" if self.web_processes > 1 else ""
            yield f"{PREFIX}MAX_IN_FLIGHT must not be less than {PREFIX}MAX_BODY{each}"
        if "max_memory" in self.model_fields_set and self.max_memory < _LEAST_MEMORY:
            least = written_size(_LEAST_MEMORY)
            yield f"{PREFIX}MAX_MEMORY must be at least {least}: an idle worker needs nearly that"
        if self.metrics_port + self.workers > _PORTS:
            yield f"{PREFIX}WORKERS is too many for the ports from {PREFIX}METRICS_PORT up"

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
        if not cls._reads_environment:
            return (init_settings,)
        environment = WithoutLinks(settings_cls, env_settings)
        return init_settings, environment, dotenv_settings, PlatformSource(settings_cls)

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
        others = (self.metrics_token, self.api_key, self.console_password, self.alert_url, self.alert_secret)
        return tuple(other.get_secret_value() for other in others if other is not None)

    def plain_metrics_token(self) -> str | None:
        """Return the token for the metrics in the clear, for comparing only."""
        return None if self.metrics_token is None else self.metrics_token.get_secret_value()

    def plain_console_password(self) -> str | None:
        """Return the password of the console in the clear, for comparing only."""
        return None if self.console_password is None else self.console_password.get_secret_value()

    def attention_limits(self) -> "AttentionLimits":
        """Return how long something may last before it needs attention."""
        from receiver.core.attention import AttentionLimits  # loaded only here, as above

        return AttentionLimits(self.alert_backlog_older_than, self.alert_no_delivery_for)

    def plain_api_key(self) -> str:
        """Return the service's key in the clear, for a client only. Raises NoApiKey if it is not set."""
        if self.api_key is None:
            raise NoApiKey(f"no {PREFIX}API_KEY is set: take it from your account at the service")
        return self.api_key.get_secret_value()

    def webhook(
        self, *, events: Sequence[str] = (), metadata: Mapping[str, object] | None = None
    ) -> "WebhookConfig":
        """Return the `webhook` field of a request that makes the service send a job's events to this receiver.

        `events` are short or full names; without it the service sends all events. `metadata` comes back in every
        delivery. If TOKENS is set, the service sends the first token in the static header. A service on this
        machine, such as `receiver emulate`, needs no PUBLIC_URL: it reaches HOST and PORT. Raises
        ConfigurationError if PUBLIC_URL is needed and not set, or the service could not call it, and ValueError for
        metadata that the service would refuse.
        """
        from receiver.requests.webhooks import WebhookConfig  # loaded only here, as above

        public_url = self.public_url or self._url_on_this_machine()
        if public_url is None:
            raise ConfigurationError(
                f"no {PREFIX}PUBLIC_URL is set: set it to the URL at which the service reaches this "
                "receiver, such as https://hooks.example.com"
            )
        url = public_url.rstrip("/") + self.path
        try:
            WebhookConfig(url=url)
        except ValidationError as exc:
            raise ConfigurationError(f"{PREFIX}PUBLIC_URL: {next(iter(_reasons(exc).values()))}") from None
        headers = {self.token_header: self.plain_tokens()[0]} if self.token_header else {}
        given = {"headers": headers, "metadata": metadata, "events": tuple(events)}
        return WebhookConfig(url=url, **{name: value for name, value in given.items() if value})

    def _url_on_this_machine(self) -> str | None:
        """Return the URL at which a service on this machine reaches the receiver; None for a service elsewhere."""
        if not is_loopback(urlsplit(self.base_url).hostname or ""):
            return None
        host = self.host if is_loopback(self.host) else "127.0.0.1"
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def shown_store(self) -> str:
        """Return STORE without user and password, for logs and errors."""
        return shown_address(self.store)

    def other_store(self) -> str | None:
        """Return STORE if a command needs `--store` for it: a database file other than the default."""
        is_default = self.store == type(self).model_fields["store"].default
        return None if is_default or not self.store.startswith("sqlite:") else self.store  # others have passwords

    def webhook_advice(self) -> str | None:
        """Return advice if PUBLIC_URL is a private address and the service is not: it cannot reach that."""
        host = urlsplit(self.public_url or "").hostname  # None without https://, which is another fault
        if host is None or not is_private(host):
            return None
        if is_private(urlsplit(self.base_url).hostname or ""):
            return None
        return (
            f"the service at {self.base_url} cannot reach {PREFIX}PUBLIC_URL, which is a private address: "
            "set it to a public URL, such as that of a tunnel"
        )

    def require_safe_metrics(self) -> None:
        """Raise ConfigurationError if other machines could read the metrics without a token."""
        for name, host in (("HOST", self.host), ("METRICS_HOST", self.metrics_host)):
            if self.metrics and self.metrics_token is None and not is_loopback(host):
                raise ConfigurationError(
                    f"{PREFIX}METRICS is on, and {PREFIX}{name} {host} can be reached from outside: "
                    f"set {PREFIX}METRICS_TOKEN to the bearer token that the scraper sends"
                )

    def require_safe_console(self) -> None:
        """Raise ConfigurationError if other machines could use the console without a password."""
        if self.console_password is None and not self.console_behind_proxy and not is_loopback(self.console_host):
            raise ConfigurationError(
                f"{PREFIX}CONSOLE_HOST {self.console_host} can be reached from outside: set "
                f"{PREFIX}CONSOLE_PASSWORD, or {PREFIX}CONSOLE_BEHIND_PROXY=true if a proxy signs people in"
            )

    def require_own_console_port(self) -> None:
        """Raise ConfigurationError if a console beside the endpoint could not have its port."""
        everywhere = {"0.0.0.0", "::"}  # noqa: S104 - compared, not bound
        overlap = self.host == self.console_host or everywhere & {self.host, self.console_host}
        if self.port and self.port == self.console_port and overlap:
            raise ConfigurationError(
                f"{PREFIX}PORT and {PREFIX}CONSOLE_PORT are both {self.port}: choose another port for one of them"
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


def _reasons(error: ValidationError) -> dict[str, str]:
    """Return the first reason for each wrong setting, without the input: it may be a secret."""
    found: dict[str, str] = {}
    for detail in error.errors(include_input=False, include_url=False):
        if detail["type"] == _FOLLOWS:
            continue
        found.setdefault(str(detail["loc"][0]) if detail["loc"] else "", plain_reason(detail))
    return found


def load_settings(env_file: Path = Path(".env"), /, **flags: Any) -> Settings:
    """Read all settings. A flag that is None is ignored. Raises ConfigurationError with a message of one line."""
    given = {name: value for name, value in flags.items() if value is not None}
    return Settings(_env_file=env_file, **given)


def load_reading_settings(**flags: Any) -> Settings:
    """Read all settings but the secrets, which may still be the placeholder, for a command that only reads."""
    return load_settings(secrets=(), **flags)


def as_variables(settings: Settings) -> dict[str, str]:
    """Return variables that give another process the same settings, without the defaults. They contain secrets."""
    return {
        f"{PREFIX}{name.upper()}": written
        for name in sorted(settings.model_fields_set)
        if (written := as_text(getattr(settings, name))) is not None
    }


class GivenSettings(Settings):  # here, because making the class takes some milliseconds and no command needs it
    """Settings with only given values and defaults, for tests: the machine must not decide the result of one."""

    _reads_environment: ClassVar[bool] = False

    def __init__(self, **values: Any) -> None:
        super().__init__(**values | {"_env_file": None})


log = event_log(__name__)

MIN_BYTES = 14
"""A key of HMAC needs 112 bits (NIST SP 800-131A Rev. 2, section 10). A shorter text cannot have them: no well-made
secret is shorter. The service does not document the length of its own. RFC 2104, section 3, asks for the 32 bytes
of the hash, but random text of half that length cannot be guessed either."""


def short_secret_advice(settings: Settings) -> Sequence[str]:
    """Return advice for each setting with such values, without the values."""
    given = (
        ("SECRETS", "secret", settings.plain_secrets(), "use the webhook secret of your account"),
        ("TOKENS", "token", settings.plain_tokens(), "use a random one, such as `openssl rand -hex 32` prints"),
    )
    return [
        f"{PREFIX}{name} has {counted(short, noun)} of less than {MIN_BYTES} bytes: attackers could guess "
        f"{'it' if short == 1 else 'them'} and send deliveries; {remedy}"
        for name, noun, values, remedy in given
        if (short := sum(len(value.encode()) < MIN_BYTES for value in values))
    ]


def log_short_secrets(settings: Settings) -> None:
    """Log the advice, a line for each setting."""
    for advice in short_secret_advice(settings):
        log.warning("secret_too_short", extra={"advice": advice})
