"""Which operations are metered, and whether their tokens count as stored or as retrieved.

Consolidation is metered at the rate of raw memories: a checkout retrieves its batch, a commit stores its entries,
inspect and date-search retrieve what they return, delete-ids counts the deleted rows. Replays and empty checkouts are
not metered at all.
"""

from __future__ import annotations

from typing import Final

INGEST: Final = "ingest"
UPLOAD: Final = "upload"
SEARCH: Final = "search"
PREPARE: Final = "prepare"
DATE_SEARCH: Final = "date_search"
INSPECT: Final = "inspect"
CHECKOUT: Final = "checkout"
COMMIT: Final = "commit"
DELETE_IDS: Final = "delete_ids"

STORAGE = frozenset((INGEST, UPLOAD, COMMIT))
RETRIEVAL = frozenset((SEARCH, PREPARE, DATE_SEARCH, INSPECT, CHECKOUT))
OPERATIONS = STORAGE | RETRIEVAL | {DELETE_IDS}
