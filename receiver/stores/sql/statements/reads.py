"""All statements that read, in one dialect."""

from receiver.stores.sql.dialect import Dialect
from receiver.stores.sql.statements.deliveries import DeliveryStatements
from receiver.stores.sql.statements.filters import Filters
from receiver.stores.sql.statements.jobs import JobStatements
from receiver.stores.sql.statements.work import HealthStatements, QuarantineStatements, WorkStatements


class Reads:
    """Made once for each kind of database."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.filters = Filters(dialect)
        self.deliveries = DeliveryStatements(dialect)
        self.jobs = JobStatements(dialect)
        self.work = WorkStatements()
        self.health = HealthStatements(dialect)
        self.quarantine = QuarantineStatements()
