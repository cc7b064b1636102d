"""The operations on batch scrapes, in both versions."""

from receiver.service.emulator.api.calls import Answer, ApiCall, ApiOperation
from receiver.service.emulator.api.jobs import JobOperations, start_body, translated_failures
from receiver.service.emulator.jobs.engine import JobEngine
from receiver.service.emulator.wire.jobs import read_batch
from receiver.service.emulator.wire.policy import RequestPolicy


class BatchOperations:
    """Starts batch scrapes, and lets them grow."""

    def __init__(self, engine: JobEngine, policy: RequestPolicy) -> None:
        self._engine = engine
        self._policy = policy

    async def start(self, call: ApiCall) -> Answer:
        """Start a batch scrape, or add its URLs to another one."""
        plan = read_batch(call.body, call.version, self._policy)
        with translated_failures():
            grows = plan.append_to_id is not None
            job = await (self._engine.append if grows else self._engine.start)(plan, call.team)
        answer = start_body(job, call)
        if plan.invalid_urls is not None:
            answer["invalidURLs"] = list(plan.invalid_urls)
        return Answer(answer)


def batch_operations(engine: JobEngine, policy: RequestPolicy) -> list[ApiOperation]:
    """Return the operations on batch scrapes."""
    batches, jobs = BatchOperations(engine, policy), JobOperations(engine)
    operations = []
    for version in ("/v1", "/v2"):
        operations += [
            ApiOperation("POST", f"{version}/batch/scrape", batches.start, "scrape"),
            ApiOperation("GET", f"{version}/batch/scrape/{{id}}", jobs.status, "crawlStatus"),
            ApiOperation("DELETE", f"{version}/batch/scrape/{{id}}", jobs.cancel, "crawlStatus"),
            ApiOperation("GET", f"{version}/batch/scrape/{{id}}/errors", jobs.errors, "crawlStatus"),
        ]
    return operations
