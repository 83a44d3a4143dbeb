"""What a transaction had read of a table when it made its change.

Delta's log does not hold this, so the client declares it. Nothing is assumed: a read point
that defaulted to "now" would miss what came between the reading and the writing.
"""

from __future__ import annotations

from typing import Mapping, Optional

from txcoord.v1 import common_pb2 as common


def blind() -> common.ReadDeclaration:
    """Nothing was read: the change only adds files and sets application versions.

    Only such changes share versions, and never conflict with appends of others.
    """
    return common.ReadDeclaration(blind=True)


def at_version(version: int, what: Optional[common.ReadSet] = None) -> common.ReadDeclaration:
    """The table's Delta version that was read, and what of it.

    Without ``what``, write/write conflicts are found, and write skew is not.
    """
    return common.ReadDeclaration(version=version, read_set=what)


def at_snapshot(snapshot: int, what: Optional[common.ReadSet] = None) -> common.ReadDeclaration:
    """``at_version`` with the version that the table has in a snapshot."""
    return common.ReadDeclaration(snapshot_version=snapshot, read_set=what)


def whole_table() -> common.ReadSet:
    """Every concurrent change of the table is a conflict."""
    return common.ReadSet(whole_table=True)


def files(*paths: str) -> common.ReadSet:
    """A concurrent removal of one of these files is a conflict. Paths as the log has them."""
    return common.ReadSet(files=common.FileSet(paths=paths))


def partitions(*any_of: Mapping[str, Optional[str]]) -> common.ReadSet:
    """Concurrent changes in partitions that fit any of the matches are conflicts.

    A match gives partition columns their values as Delta writes them; None is null, and columns
    that are left out may have any value.
    """
    matches = [
        common.PartitionMatch(
            all_of=[common.PartitionCondition(column=c, value=match[c]) for c in sorted(match)]
        )
        for match in any_of
    ]
    return common.ReadSet(partitions=common.PartitionPredicate(any_of=matches))
