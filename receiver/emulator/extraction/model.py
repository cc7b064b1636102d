"""Questions to a language model at any endpoint for OpenAI's chat completions."""

import asyncio
import json
from typing import Any

import httpx

from receiver.errors import ReceiverError

Json = dict[str, Any]

MAX_ANSWER = 4_000_000
"""Bytes of an answer that are read."""
MAX_PAGE = 200_000
"""Characters of a page that a model gets."""
LONGEST_SECONDS = 60.0
"""Real seconds for an answer."""


class ModelFailed(ReceiverError):
    """The model gave no usable answer. The text says why to the caller of the API."""


class LanguageModel:
    """One endpoint and one model."""

    def __init__(
        self, url: str, *, key: str | None = None, name: str, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._url = url.rstrip("/").removesuffix("/chat/completions") + "/chat/completions"
        self._name = name
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._client = httpx.AsyncClient(headers=headers, transport=transport, timeout=LONGEST_SECONDS)

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    async def ask(self, system: str, text: str, *, schema: Json | None = None, seconds: float | None = None) -> Any:
        """Return the JSON value of the answer. Raises ModelFailed if there is none."""
        form: Json = {"type": "json_object"}
        if schema is not None:
            form = {"type": "json_schema", "json_schema": {"name": "page", "schema": schema}}
        answer = await self.say(system, text, form=form, seconds=seconds)
        try:
            return json.loads(_unfenced(answer), parse_constant=_refuse)
        except (ValueError, RecursionError):
            raise ModelFailed("the model's answer is not JSON") from None

    async def say(self, system: str, text: str, *, form: Json | None = None, seconds: float | None = None) -> str:
        """Return the answer as a text. Raises ModelFailed if there is none."""
        body: Json = {
            "model": self._name,
            "temperature": 0,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": text}],
        }
        if form is not None:
            body["response_format"] = form
        limit = LONGEST_SECONDS if seconds is None else min(LONGEST_SECONDS, seconds)
        try:
            async with asyncio.timeout(limit):
                return _content(await self._post(body))
        except TimeoutError:
            raise ModelFailed(f"the model did not answer within {limit:.0f} s") from None
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            raise ModelFailed(f"the model cannot be reached: {type(exc).__name__}") from None

    async def _post(self, body: Json) -> bytes:
        async with self._client.stream("POST", self._url, json=body) as response:
            if response.status_code != 200:
                raise ModelFailed(f"the model's endpoint answered {response.status_code}")
            parts: list[bytes] = []
            size = 0
            async for part in response.aiter_bytes():
                size += len(part)
                if size > MAX_ANSWER:
                    raise ModelFailed("the model's answer is too long")
                parts.append(part)
        return b"".join(parts)


def _content(answer: bytes) -> str:
    try:
        message = json.loads(answer)["choices"][0]["message"]
        refusal, content = message.get("refusal"), message.get("content")
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        raise ModelFailed("the endpoint's answer is not a chat completion") from None
    if refusal:
        raise ModelFailed(f"the model refused: {str(refusal)[:200]}")
    if not isinstance(content, str) or not content.strip():
        raise ModelFailed("the model's answer is empty")
    return content


def _unfenced(text: str) -> str:
    """Return the answer without the fence that models put around JSON."""
    lines = text.strip().split("\n")
    return "\n".join(lines[1:-1]) if len(lines) > 2 and lines[0].startswith("```") else text


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
