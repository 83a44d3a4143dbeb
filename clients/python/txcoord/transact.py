"""Transactions: begin under a key, stage changes of several tables, commit once."""

from __future__ import annotations

import json
import threading
import time
import uuid
from datetime import timezone
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Set, Tuple, Union

from txcoord import arrow as _arrow
from txcoord import errors
from txcoord.read import blind
from txcoord.v1 import common_pb2 as common
from txcoord.v1 import tables_pb2, transactions_pb2 as pb

# From this size on the actions of a part are streamed, in chunks of this size (the contract's limit).
_CHUNK = 1 << 20
_STREAM_ABOVE = 1 << 20
# How many seconds somebody who gives up waits for the answer to the abort.
_ABORT_FOR = 5.0
# How much of an exception's text goes into the abort's reason.
_REASON = 250

Actions = Union[bytes, str, Iterable[Mapping[str, Any]]]


class Result:
    """A committed transaction: ``outcome`` says which versions of which tables hold the change.

    ``already_committed``: an earlier run of the same key did it. What this run has staged is no
    part of it, and files that it wrote are used by nobody.
    """

    def __init__(self, outcome: pb.Outcome, already_committed: bool = False) -> None:
        self.outcome, self.already_committed = outcome, already_committed

    def __repr__(self) -> str:
        again = ", already committed" if self.already_committed else ""
        return f"<Result {self.outcome.transaction_id}: {self.versions}, snapshot {self.snapshot}{again}>"

    @property
    def snapshot(self) -> int:
        """The first snapshot that contains the change; 0 while tables are pending."""
        return self.outcome.committed.snapshot_version

    @property
    def versions(self) -> Dict[str, int]:
        """The Delta version that holds the change, by table; -1 while it is pending."""
        return {t.table: t.version for t in self.outcome.committed.tables}

    @property
    def not_applied(self) -> List[str]:
        """Tables on which an operator gave the change up for good; on most days, none."""
        given_up = pb.DELIVERY_STATE_NOT_APPLIED
        return [t.table for t in self.outcome.committed.tables if t.state == given_up]


class Tx:
    """One attempt of a transaction. Safe for use by several threads; parts of one table are put
    together in the order in which their ``stage`` calls return."""

    def __init__(self, client: Any, key: str, attempt: int, begun: pb.BeginResponse) -> None:
        self._client, self._lock = client, threading.Lock()
        self.key, self.attempt = key, attempt
        self.id, self.token = begun.transaction_id, begun.token
        self.deadline = begun.deadline.ToDatetime(timezone.utc)
        self._tables: Dict[str, List[str]] = {}
        self._reads: List[pb.ReadParticipant] = []
        self._releases: List[str] = []
        self._new: Set[str] = set()
        #: The abort is recorded.
        self.aborted = False
        #: The attempt was given up, and perhaps its abort is not recorded.
        self.open = False

    def stage(self, table: str, actions: Actions, read: Optional[common.ReadDeclaration] = None) -> pb.StagedPart:
        """Stores Delta actions of a table and makes them part of the transaction.

        ``actions`` are lines as they would stand in a commit file, or the actions as dicts.
        ``read`` is what the change was made from; left out, it is ``blind()``. Data files that
        actions name have to be written before. The answer's ``hint`` says if a commit would fail
        as things stand.
        """
        return self._stage({"table": table, "read": read or blind()}, _lines(actions), "")

    def create(self, name: str, table: pb.NewTable, actions: Actions = b"", rows: Any = None, **options: Any) -> pb.StagedPart:
        """Makes a new table part of the transaction, with the actions of its version 0, or with
        ``rows``, an Arrow table that is written as ``append`` does, with its ``options``."""
        if rows is not None:
            if actions:
                raise ValueError(f"{name}: actions and rows are given: rows are written as files, and their actions made, by create itself")
            actions = _arrow.write(_arrow.described(name, table), rows, self.id, **options)
        with self._lock:
            self._new.add(name)
        return self._stage({"table": name, "create": table}, _lines(actions), name)

    def alter(self, table: str, change: pb.TableAlteration, actions: Actions = b"") -> pb.StagedPart:
        """Changes schema, properties or comments of a table."""
        return self._stage({"table": table, "alter": change}, _lines(actions), "")

    def append(self, table: str, data: Any, **options: Any) -> Optional[pb.StagedPart]:
        """Writes an Arrow table as Parquet files under the table's folder, and stages them. One
        without rows changes nothing, and the answer is None.

        Needs pyarrow, and access to the folder. See ``txcoord.arrow.write``.
        """
        if table in self._new:
            raise ValueError(f"table {table} begins in this transaction: give its rows to create (rows=…)")
        described = self._client.tables.DescribeTable(tables_pb2.DescribeTableRequest(table=table))
        if described.table.HasField("freeze"):
            raise errors.frozen(described.table)
        adds = _arrow.write(described, data, self.id, **options)
        return self.stage(table, adds) if adds else None

    def read_only(self, table: str, read: common.ReadDeclaration) -> None:
        """Declares a table that the transaction depends on and does not write."""
        with self._lock:
            self._reads.append(pb.ReadParticipant(table=table, read=read))

    def release(self, table: str) -> None:
        """Takes a table out of the catalog with the transaction. Its files stay."""
        with self._lock:
            self._releases.append(table)

    def extend(self, ttl: float) -> None:
        """Moves the deadline to ``ttl`` seconds from now."""
        request = pb.BeginRequest(token=self.token)
        request.ttl.FromNanoseconds(int(ttl * 1e9))
        begun = self._client.transactions.Begin(request)
        self.token, self.deadline = begun.token, begun.deadline.ToDatetime(timezone.utc)

    def _stage(self, header: Dict[str, Any], actions: bytes, name: str) -> pb.StagedPart:
        if len(actions) <= _STREAM_ABOVE:
            request = pb.StageRequest(token=self.token, actions=actions, **header)
            part = self._client.transactions.Stage(request).part
        else:
            part = self._client.transactions.StageStream(lambda: self._chunks(header, actions)).part
        with self._lock:
            digests = self._tables.setdefault(name or part.table_id, [])
            if part.digest not in digests:
                digests.append(part.digest)
        return part

    def _chunks(self, header: Dict[str, Any], actions: bytes) -> Iterable[pb.StageStreamRequest]:
        yield pb.StageStreamRequest(header=pb.StageHeader(token=self.token, **header))
        for at in range(0, len(actions), _CHUNK):
            yield pb.StageStreamRequest(chunk=actions[at : at + _CHUNK])

    def _request(self, wait: "pb.Wait.ValueType", wait_limit: Optional[float], verify_files: bool) -> pb.CommitRequest:
        with self._lock:
            tables = [pb.TableParts(table=t, digests=d) for t, d in self._tables.items()]
            request = pb.CommitRequest(
                token=self.token, tables=tables, reads=self._reads, releases=self._releases, wait=wait, verify_files=verify_files
            )
        if wait_limit is not None:
            request.wait_limit.FromNanoseconds(int(wait_limit * 1e9))
        return request

    @property
    def _is_empty(self) -> bool:
        return not self._tables and not self._releases


def new_key() -> str:
    """A random key, for work that is done within this call or not at all: a job that starts anew
    cannot find it again."""
    return str(uuid.uuid4())


def transact(
    client: Any,
    key: str,
    work: Callable[[Tx], Any],
    *,
    runs: int = 10,
    ttl: Optional[float] = None,
    wait_decided: bool = False,
    wait_limit: Optional[float] = None,
    verify_files: bool = False,
) -> Result:
    """Commits what ``work`` stages, all of it or nothing, once per key.

    The key names the piece of work ("orders-2026-11-29"), not the try. If it is committed already,
    ``work`` does not run and the result says so. ``work`` runs again, from the start and as the
    next attempt of the key, when a conflict, a passed deadline or a read point that is too old
    lost the attempt, ``runs`` times at most; so it has to read again what it depends on. It does
    not run again when it lost the same changes to the same conflict twice. When it raises, the
    transaction is aborted, and the exception goes on.

    ``ttl`` bounds in seconds how long each attempt may stay open. ``wait_limit`` bounds the wait
    for all tables after the decision: the transaction is committed then, and tables may be
    pending. ``wait_decided`` answers as soon as the decision is durable, where every table is
    fenced. ``verify_files`` has the server look for each added file before it decides.
    """
    if not key:
        raise ValueError("the key is empty: name the piece of work, so that it is done once; txcoord.new_key() makes one for work that need not be found again")
    wait = pb.WAIT_DECIDED if wait_decided else pb.WAIT_PUBLISHED
    attempt, run, before = 1, 0, None
    while True:
        begun = _begin(client, key, attempt, ttl)
        if isinstance(begun, Result):
            return begun
        tx, run = begun, run + 1
        try:
            work(tx)
            if tx._is_empty:
                raise errors.NothingStaged(f"transaction {key!r} has nothing to commit: stage or append something with rows, or do not begin it")
        except BaseException as error:
            done = _give_up(tx, error, f"{type(error).__name__}: {error}")
            if done is not None:
                return done
            if not _is_lost(tx, error):
                raise
            loss = error
        else:
            request = tx._request(wait, wait_limit, verify_files)
            try:
                return Result(client.transactions.Commit(request).outcome)
            except errors.TxcoordError as error:
                done = _after(tx, error)
                if done is not None:
                    return done
                if not _is_lost(tx, error):
                    raise errors.TransactionFailed(tx, run, error) from error
                loss = error
        now = _loss_of(tx, loss)
        if now is not None and before is not None and _same(now, before):
            raise errors.TransactionFailed(tx, run, loss, f", after {run} runs that lost to the same conflict") from loss
        if run >= runs:
            raise errors.TransactionFailed(tx, run, loss, f", after {run} runs, as many as it may have") from loss
        before, attempt = now, tx.attempt + 1
        time.sleep(min(0.01 * 2**run, 1.0))


def _begin(client: Any, key: str, attempt: int, ttl: Optional[float]) -> Union[Tx, Result]:
    """The first attempt of the key, from the given one on, that is not decided; a key that is
    committed gives a result instead."""
    while True:
        request = pb.BeginRequest(key=key, attempt=attempt)
        if ttl is not None:
            request.ttl.FromNanoseconds(int(ttl * 1e9))
        begun = client.transactions.Begin(request)
        following = attempt
        for known in begun.known:
            if known.HasField("committed"):
                return Result(known, already_committed=True)
            if known.HasField("aborted"):
                following = max(following, known.attempt + 1)
        if following == attempt:
            return Tx(client, key, attempt, begun)
        attempt = following


def _after(tx: Tx, error: errors.TxcoordError) -> Optional[Result]:
    """What follows from a commit that failed: a result if another run of the key was quicker."""
    if error.reason in ("OTHER_DIGESTS", "KEY_COMMITTED"):
        try:
            outcome = tx._client.outcome(tx.key)
        except errors.TxcoordError:
            return None
        return Result(outcome, already_committed=True) if outcome.HasField("committed") else None
    # Unknown or final: unknown is left alone, an abort now would only guess.
    if isinstance(error, (errors.Unavailable, errors.Aborted, errors.AlreadyExists)):
        return None
    return _give_up(tx, error)


def _give_up(tx: Tx, cause: BaseException, why: str = "client gave up") -> Optional[Result]:
    """Aborts the attempt, so that the next one may commit and nothing stays open until its
    deadline. Where the next attempt would have done the work, and another run of the key was
    quicker, the work is done."""
    if isinstance(cause, errors.Aborted):
        return None
    try:
        outcome = tx._client._abort(tx.token, why[:_REASON], _ABORT_FOR)
    except errors.TxcoordError:
        tx.open = True
        return None
    tx.aborted = outcome.HasField("aborted")
    if outcome.HasField("committed") and isinstance(cause, errors.OutOfRange):
        return Result(outcome, already_committed=True)
    return None


def _is_lost(tx: Tx, error: BaseException) -> bool:
    """The attempt is recorded as aborted, for a reason that the next one may not meet."""
    if isinstance(error, errors.OutOfRange):
        return tx.aborted
    if isinstance(error, (errors.Conflict, errors.Expired)):
        return True
    return isinstance(error, errors.Aborted) and error.conflict is not None and error.conflict.rule == common.RULE_RESOLVED


_Loss = Tuple[Any, Any, Any]


def _loss_of(tx: Tx, error: BaseException) -> Optional[_Loss]:
    """A lost attempt: the conflict, and what was to be committed. Digests are over actions and
    read declaration. None for what is no conflict: time alone may heal it."""
    if not isinstance(error, errors.Conflict) or error.conflict is None:
        return None
    c = error.conflict
    committed = tx._request(pb.WAIT_PUBLISHED, None, False)
    committed.ClearField("token")
    return (c.rule, c.table_id, c.table, c.path), c.rule, committed.SerializeToString(deterministic=True)


def _same(a: _Loss, b: _Loss) -> bool:
    return a[0] == b[0] and (a[1] == common.RULE_PATH_EXISTS or a[2] == b[2])


def _lines(actions: Actions) -> bytes:
    if isinstance(actions, bytes):
        return actions
    if isinstance(actions, str):
        return actions.encode()
    return b"".join(json.dumps(a, separators=(",", ":"), ensure_ascii=False).encode() + b"\n" for a in actions)
