"""The dashboard and the alerting rules of `examples/operate` ask only for metrics, labels and values that exist."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import promql_parser
import yaml
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from receiver.cli.main import receiver
from receiver.core.types import AttemptOutcome
from receiver.core.work import StoreFacts
from receiver.signals import contracts as signals
from receiver.signals.metrics.intake import IntakeMetrics
from receiver.signals.metrics.work import WorkMetrics
from tests.doubles import NOON
from tests.signals.exposition import SECOND, samples
from tests.signals.test_intake_metrics import Figures, accepted, duplicated
from tests.signals.test_work_metrics import BACKLOG, INDEX, FakeReports, failed, reader

FOLDER = Path(__file__).parents[2] / "examples" / "operate"
Labels = dict[str, dict[str, set[str]]]
OTHERS: Labels = {
    "up": {"job": {"receiver-web", "receiver-worker"}, "instance": set()},
    "receiver_signal_records_dropped_total": {"subscriber": set()},  # has samples only after records were dropped
}


class ReplicatedReports(FakeReports):
    """A store on a server with a standby: it has every figure that a store can have."""

    async def facts(self) -> StoreFacts:
        return StoreFacts(bytes=5_000, dead_rows=7, oldest_snapshot=90 * SECOND, standby_lag=SECOND)


async def exposed() -> Labels:
    """Return every metric of a web process and of a worker, with its labels and their values."""
    with (
        IntakeMetrics(Figures()) as intake,
        WorkMetrics([INDEX], reader(ReplicatedReports(replace(BACKLOG, next_runs={INDEX: NOON})))) as work,
    ):
        accepted()
        duplicated(conflict=True)
        intake.stopwatch()(200)
        failed(INDEX, AttemptOutcome.FAILED)
        asked = signals.JobAsked(job_id="j", reason="ended", outcome="failed", imported={"crawl.page": 1}, at=NOON)
        signals.job_asked.emit(asked)
        expositions = [await intake.exposition(), await work.exposition()]
    found: Labels = defaultdict(lambda: defaultdict(set))
    for exposition in expositions:
        for family in text_string_to_metric_families(exposition.decode()):
            for sample in family.samples:
                labels = found[sample.name]
                for name, value in sample.labels.items():
                    labels[name].add(value)
    return found | OTHERS


def queries() -> Iterator[tuple[str, str]]:
    """Yield every query of both files, with the name of its rule or panel."""
    for group in rules()["groups"]:
        yield from ((rule["alert"], rule["expr"]) for rule in group["rules"])
    for panel in dashboard()["panels"]:
        # Grafana puts a duration in its place: https://grafana.com/docs/grafana/latest/datasources/prometheus/template-variables/
        yield from ((panel["title"], one["expr"].replace("$__rate_interval", "5m")) for one in panel["targets"])


def rules() -> Any:
    return yaml.safe_load((FOLDER / "alert-rules.yaml").read_text(encoding="utf-8"))


def dashboard() -> Any:
    return json.loads((FOLDER / "grafana-dashboard.json").read_text(encoding="utf-8"))


def parts(node: Any) -> Iterator[Any]:
    """Yield a node of a parsed query and all that it contains."""
    yield node
    for name in ("args", "expr", "lhs", "rhs", "vector_selector"):
        below = getattr(node, name, None)
        for one in below if isinstance(below, list) else [below]:
            if one is not None:
                yield from parts(one)


def mistakes(query: str, metrics: Labels) -> list[str]:
    """Return what a query asks for that the receiver does not have."""
    nodes = list(parts(promql_parser.parse(query)))
    selectors = [(str(node.name), node) for node in nodes if isinstance(node, promql_parser.VectorSelector)]
    wrong = [f"no metric {metric}" for metric, _ in selectors if metric not in metrics]
    known = {name for metric, _ in selectors for name in metrics.get(metric, ())}
    for node in nodes:
        modifier = getattr(node, "modifier", None)
        wrong += [f"no label {name}" for name in (modifier.labels if modifier else ()) if name not in known]
    for metric, selector in selectors:
        for one in selector.matchers.matchers:
            values = metrics.get(metric, {}).get(one.name, set())
            pattern = one.value if one.op in (promql_parser.MatchOp.Re, promql_parser.MatchOp.NotRe) else None
            wanted = pattern.split("|") if pattern else [one.value]
            wrong += [f"no {one.name}={each}" for each in wanted if not any(re.fullmatch(each, v) for v in values)]
    return wrong


async def test_every_query_asks_for_what_the_metrics_have() -> None:
    """A metric that gets another name would leave a panel empty, and an alert silent."""
    metrics = await exposed()

    assert {name: wrong for name, query in queries() if (wrong := mistakes(query, metrics))} == {}


async def test_a_query_for_what_does_not_exist_is_found() -> None:
    """The check above can fail: by metric, by label and by value."""
    metrics = await exposed()

    assert mistakes("receiver_deliveries_totals > 0", metrics) == ["no metric receiver_deliveries_totals"]
    assert mistakes("sum by (kind) (receiver_deliveries_total)", metrics) == ["no label kind"]
    assert mistakes('receiver_answer_seconds_bucket{status="2XX"}', metrics) == ["no status=2XX"]


async def test_every_metric_of_the_receiver_is_on_the_dashboard_or_in_a_rule() -> None:
    """Nothing that is counted stays unseen."""
    text = " ".join(query for _, query in queries())
    asked = {re.sub("_bucket$", "", name) for name in re.findall(r"receiver_\w+", text)}
    metrics = {re.sub("_(bucket|sum|count|created)$", "", name) for name in await exposed()}

    assert {name for name in metrics if name.startswith("receiver_")} - asked == UNSEEN


UNSEEN = {
    "receiver_attempts_lost",  # receiver_leases_lost_total is its rate
    "receiver_store_dead_rows",  # a cause of slowness, which the panels of time show
    "receiver_received_bytes_total",
}


async def test_an_alert_that_waits_for_zero_sees_a_new_process() -> None:
    """A counter with labels has no series before its first event: then there is nothing to compare with 0."""
    with IntakeMetrics(Figures()) as intake:
        there = samples(await intake.exposition())
    waiting = [
        rule["expr"] for rule in rules()["groups"][0]["rules"] if re.search(r"increase.*== 0$", rule["expr"])
    ]

    assert waiting == ['sum(increase(receiver_answer_seconds_count{status="2xx"}[1d])) == 0']
    assert there["receiver_answer_seconds_count", "status=2xx"] == 0


def test_what_an_alert_says_is_complete() -> None:
    """Each rule has a severity and a text, names only labels that it keeps, and waits for durations that exist."""
    for rule in (one for group in rules()["groups"] for one in group["rules"]):
        texts = rule["annotations"]
        kept = {"job", "instance"} if "up{" in rule["expr"] else set(re.findall(r"by \((\w+)\)", rule["expr"]))
        assert set(texts) == {"summary", "description"}
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert set(re.findall(r"\$labels\.(\w+)", " ".join(texts.values()))) <= kept
        assert re.fullmatch(r"\d+[smhd]", rule.get("for", "0s"))


def test_the_commands_in_the_alerts_exist() -> None:
    """Somebody reads them at night. With `--help`, a command reads its options and does nothing else."""
    texts = " ".join(rule["annotations"]["description"] for group in rules()["groups"] for rule in group["rules"])

    for command in re.findall(r"`receiver (.*?)`", texts):
        result = CliRunner().invoke(receiver, [*command.split(), "--help"])
        assert result.exit_code == 0, result.output


def test_panels_do_not_overlap() -> None:
    """Each panel has its own place on the grid, which is 24 columns wide."""
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
