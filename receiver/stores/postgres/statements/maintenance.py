"""The SQL that keeps a store small."""

from collections.abc import Sequence

from receiver.stores.postgres.statements.job_rows import ADD_WITHOUT_PRUNED, LOCK_SUMMED, REMOVE_OF_PRUNED

REMOVE_BODIES = "DELETE FROM bodies WHERE seq = ANY(:seqs)"

NOTE_PRUNED = "UPDATE deliveries SET pruned_at = :now WHERE seq = ANY(:seqs)"

REMOVE_ALL: Sequence[str] = (
    "DELETE FROM attempts WHERE work_id = ANY(ARRAY(SELECT id FROM work_items WHERE delivery_seq = ANY(:seqs)))",
    "DELETE FROM work_items WHERE delivery_seq = ANY(:seqs)",
    LOCK_SUMMED,
    REMOVE_OF_PRUNED,
    ADD_WITHOUT_PRUNED,
    "DELETE FROM deliveries WHERE seq = ANY(:seqs)",
)

ONCE_KEYS_BEFORE = "SELECT handler, key FROM once_keys WHERE asked_at < :before LIMIT :limit"

REMOVE_ONCE_KEY = "DELETE FROM once_keys WHERE handler = :handler AND key = :key"
