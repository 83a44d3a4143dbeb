"""Errors of calls: by gRPC code, with the server's reason and details."""

from __future__ import annotations

from typing import Any, Optional

import grpc
from google.rpc import error_details_pb2, status_pb2

from txcoord.v1 import errors_pb2

_DOMAIN = "txcoord"

# Details by the full name of their message, and the attribute that holds them.
_DETAILS = {
    "txcoord.v1.ConflictDetail": ("conflict", errors_pb2.ConflictDetail),
    "txcoord.v1.LimitDetail": ("limit", errors_pb2.LimitDetail),
    "txcoord.v1.FieldDetail": ("field", errors_pb2.FieldDetail),
    "txcoord.v1.FrozenDetail": ("frozen", errors_pb2.FrozenDetail),
    "txcoord.v1.FeatureDetail": ("feature", errors_pb2.FeatureDetail),
    "txcoord.v1.TransactionDetail": ("transaction", errors_pb2.TransactionDetail),
    "txcoord.v1.TableDetail": ("table", errors_pb2.TableDetail),
    "txcoord.v1.OwnerDetail": ("owner", errors_pb2.OwnerDetail),
}


class TxcoordError(Exception):
    """What a server answered, or that none did.

    ``code`` is the gRPC code, ``reason`` the stable name of what went wrong (``ErrorReason``
    without its prefix; empty if no txcoord server made the error), ``retry_after`` how many
    seconds the server asks to wait. Details that do not apply are None.
    """

    def __init__(self, code: grpc.StatusCode, message: str, reason: str = "", retry_after: float = 0.0, **details: Any) -> None:
        super().__init__(f"{reason or code.name}: {message}")
        self.code, self.message, self.reason, self.retry_after = code, message, reason, retry_after
        for name, _ in _DETAILS.values():
            setattr(self, name, details.get(name))

    @property
    def lost(self) -> bool:
        """No server of ours made the error, so the call may have been carried out."""
        if self.reason:
            return False
        if self.code is grpc.StatusCode.INTERNAL:  # also gRPC's word for what it cannot encode
            return "serializing" not in self.message
        return self.code in (
            grpc.StatusCode.UNAVAILABLE,
            grpc.StatusCode.UNKNOWN,
            grpc.StatusCode.CANCELLED,
            grpc.StatusCode.DEADLINE_EXCEEDED,
        )

    @property
    def repeatable(self) -> bool:
        """The same call may be answered otherwise."""
        waits = self.code is grpc.StatusCode.RESOURCE_EXHAUSTED and self.retry_after > 0
        return self.lost or waits or self.code is grpc.StatusCode.UNAVAILABLE

    @property
    def out_of_reach(self) -> bool:
        """The server was not given the location of the table; another one may have been."""
        table = getattr(self, "table", None)
        return table is not None and table.out_of_reach


class Invalid(TxcoordError):
    """The request has to be mended; ``field`` or ``limit`` says where."""


class NotFound(TxcoordError):
    """No such catalog, table or snapshot; or a transaction not known there, which is never final."""


class Aborted(TxcoordError):
    """The transaction is aborted, for ever."""


class Conflict(Aborted):
    """It is aborted because of ``conflict``."""


class Expired(Aborted):
    """It is aborted because its deadline passed."""


class AlreadyExists(TxcoordError):
    """It is done already, or the name is taken. Never repeat it."""


class Precondition(TxcoordError):
    """Something else has to be done first; ``reason`` says what."""


class Frozen(Precondition):
    """A table takes no commits; ``frozen`` says why."""


class OutOfRange(TxcoordError):
    """The read point, or the snapshot, is too old."""


class Exhausted(TxcoordError):
    """A quota is used up; ``retry_after`` says how long to wait."""


class Unavailable(TxcoordError):
    """No server answered, or the outcome is unknown: the same call may be repeated."""


class DataLoss(TxcoordError):
    """A log or the journal is damaged; an operator has to look."""


class Unauthenticated(TxcoordError):
    """Not without other credentials."""


class Denied(TxcoordError):
    """These credentials do not allow it."""


_BY_CODE = {
    grpc.StatusCode.INVALID_ARGUMENT: Invalid,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ABORTED: Aborted,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExists,
    grpc.StatusCode.FAILED_PRECONDITION: Precondition,
    grpc.StatusCode.OUT_OF_RANGE: OutOfRange,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Exhausted,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.DATA_LOSS: DataLoss,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: Denied,
}
_BY_REASON = {"CONFLICT": Conflict, "EXPIRED": Expired, "TABLE_FROZEN": Frozen}


class NothingStaged(ValueError):
    """The function returned and had staged nothing."""


class TransactionFailed(Exception):
    """A transaction that was begun did not commit; ``__cause__``, a TxcoordError, is why.

    With an ``Unavailable`` as cause it may or may not be committed: ``Client.outcome`` tells, and
    ``transact`` with the same key finds out by itself. ``open``: the attempt was given up and no
    answer to its abort came, so what it staged is kept until its deadline.
    """

    def __init__(self, tx: Any, runs: int, cause: BaseException, why: str = "") -> None:
        super().__init__(f"transaction {tx.id} (key {tx.key!r}, attempt {tx.attempt}){why}: {cause}")
        self.transaction_id, self.key, self.attempt, self.token = tx.id, tx.key, tx.attempt, tx.token
        self.runs, self.open = runs, tx.open


def from_rpc(error: grpc.RpcError, token_shown: bool = True) -> TxcoordError:
    """The error of a call, with the details that its trailers carry."""
    code = error.code() or grpc.StatusCode.UNKNOWN
    reason, retry_after, details = "", 0.0, {}
    for detail in _status(error).details:
        if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            info = error_details_pb2.ErrorInfo()
            detail.Unpack(info)
            if info.domain == _DOMAIN:
                reason = info.reason
        elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
            wait = error_details_pb2.RetryInfo()
            detail.Unpack(wait)
            retry_after = wait.retry_delay.seconds + wait.retry_delay.nanos / 1e9
        elif detail.TypeName() in _DETAILS:
            name, kind = _DETAILS[detail.TypeName()]
            details[name] = kind.FromString(detail.value)
    lost = not reason and code not in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
    kind = _BY_REASON.get(reason) or _BY_CODE.get(code, TxcoordError)
    message = error.details() or ""
    if kind in (Unauthenticated, Denied) and not token_shown:
        message += "; this client shows no token: Client(..., token=...)"
    made = kind(code, message, reason, retry_after, **details)
    if lost and made.lost and kind is not Unavailable:
        made = Unavailable(code, error.details() or "")  # whatever gRPC calls a broken connection
    return made


def _status(error: grpc.RpcError) -> status_pb2.Status:
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            return status_pb2.Status.FromString(value)
    return status_pb2.Status()


def reason_of(error: Optional[BaseException]) -> str:
    """The server's reason; empty for other errors."""
    return error.reason if isinstance(error, TxcoordError) else ""


def frozen(table: Any) -> Frozen:
    """The error for a described table that takes no commits."""
    freeze = table.freeze
    detail = errors_pb2.FrozenDetail(
        table=table.name, table_id=table.id, cause=freeze.cause, transaction_id=freeze.transaction_id, reason=freeze.reason, since=freeze.since
    )
    words = f"table {table.name} takes no commits: {table.freeze.reason}; `txcoord tables why {table.name}` says what to do"
    return Frozen(grpc.StatusCode.FAILED_PRECONDITION, words, "TABLE_FROZEN", frozen=detail)
