"""How SQL databases differ in the statements that they share."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from receiver.core.search import Phrase
from receiver.stores.sql.connection import SqlConnection


class Dialect(Protocol):
    """How a database spells the parts that differ. A `name` is that of a value, without its colon."""

    body: str
    """The body in a row of `bodies`, called `b`, as `compression.decoded` takes it."""
    whole_bodies: str
    """The statement that returns all rows of `bodies`, each with its body."""
    has_key: str
    """The condition on deliveries, called `d`, that the key is the value `key`."""
    keys_from: str
    """The statement that returns keys from `:first` to below `:above`, some of them twice, at most `:rows` rows."""
    words_seq: str
    """The column of the index of words, called `s`, that has the seq of the delivery."""
    words_match: str
    """The condition on the index of words, called `s`, that an entry matches the query in the value `text`."""

    def snapshot(self, connection: SqlConnection) -> AbstractContextManager[None]:
        """Let the statements of a block, which only read, see the same state."""

    def array(self, values: Sequence[object]) -> object:
        """Return many values as one value of a statement, for `among` and `listed`."""

    def rows(self, rows: Sequence[Sequence[object]]) -> object:
        """Return many rows as one value of a statement."""

    def among(self, column: str, name: str) -> str:
        """Return the condition that a column is one of the values in an array."""

    def listed(self, name: str) -> str:
        """Return the values of an array as a source of rows, called `s`, with the column `value`."""

    def listed_order(self) -> str:
        """Return the ORDER BY that keeps the order of `listed` in a join; "" where the join keeps it."""

    def glob(self, column: str, name: str) -> str:
        """Return the condition that a column matches the pattern in a value."""

    def pattern(self, glob: str) -> str:
        """Return a glob as the value that `glob` compares with."""

    def ends_with(self, column: str, suffix: str) -> str:
        """Return the condition that a column ends with a text, as the indexes of the schema have it."""

    def before_dot(self, column: str) -> str:
        """Return the text of a column in front of its first dot, or all of it."""

    def by_index(self, name: str) -> str:
        """Return what makes a SELECT use an index, to be put behind its table; "" where nothing is needed."""

    def words_query(self, phrases: Sequence[Phrase]) -> str:
        """Return the value that `words_match` compares with: all the phrases have to occur."""

    def require_index(self, connection: SqlConnection) -> None:
        """Raise NoSearchIndex if there is no index of words, or ConfigurationError if it cannot be read."""
