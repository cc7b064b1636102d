"""The registration of agents that hold no key, as far as an emulator needs one."""

import secrets

from pydantic import BaseModel, ConfigDict, StrictBool, StrictStr

from receiver.service.emulator.account.keys import ApiKeys
from receiver.service.emulator.api.calls import Answer, ApiCall, ApiOperation, CallRefused
from receiver.service.emulator.contracts import Account
from receiver.service.emulator.wire.issues import custom_issue, read_body, refusal
from receiver.service.emulator.wire.policy import RequestPolicy

PATH = "/v2/agent-signup"
_POLICY = RequestPolicy()


class SignupBody(BaseModel):
    """The body of POST /v2/agent-signup. Its names have underscores, as the service has them."""

    model_config = ConfigDict(extra="ignore")

    email: StrictStr
    """The address of the person who answers for the agent. Nothing is sent to it."""
    agent_name: StrictStr
    """The name of the agent."""
    accept_terms: StrictBool
    """Whether the terms are accepted. The emulator has none."""


class RegistrationOperations:
    """Says how to get a key here, and gives one where any key passes."""

    def __init__(self, keys: ApiKeys, account: Account) -> None:
        self._keys = keys
        self._account = account

    def operations(self) -> list[ApiOperation]:
        """Return the operations. Callers need no key for them."""
        return [
            ApiOperation("GET", PATH, self.explain, "account", needs_key=False),
            ApiOperation("POST", PATH, self.sign_up, "account", needs_key=False),
        ]

    async def explain(self, call: ApiCall) -> Answer:
        """Say how to get a key here."""
        return Answer({"success": True, "message": self._keys.advice})

    async def sign_up(self, call: ApiCall) -> Answer:
        """Give a key. CallRefused with status 403 where only the configured keys pass."""
        read = read_body(SignupBody, call.body, _POLICY)
        if "@" not in read.email.strip("@") or not read.agent_name.strip() or not read.accept_terms:
            rule = "email has to be an address, agent_name a text, and accept_terms true"
            raise refusal([custom_issue(rule)])
        if not self._keys.anyone_passes:
            raise CallRefused(403, self._keys.advice, hints=[self._keys.advice])
        key = f"fc-{secrets.token_hex(16)}"
        left = await self._account.remaining(self._keys.team_of(f"Bearer {key}"))
        answer = {
            "success": True,
            "api_key": key,
            "sponsor_status": "verified",
            "credit_limit": left,
            "credits_remaining": left,
            "message": "No mail was sent: this is an emulator, whose keys need no confirmation.",
        }
        return Answer(answer, 201)
