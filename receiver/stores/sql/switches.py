"""Which handlers an operator has switched off."""

from collections.abc import Mapping

from receiver.core.types import HandlerName, HandlerSwitch
from receiver.stores.sql.connection import SqlConnection
from receiver.stores.sql.statements.work import HealthStatements


def switches(connection: SqlConnection) -> Mapping[HandlerName, HandlerSwitch]:
    """Return the handlers that are not on."""
    return {name: HandlerSwitch(switch) for name, switch in connection.execute(HealthStatements.switches)}
