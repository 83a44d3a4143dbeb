"""A connection to one or several replicas of a txcoord server."""

from __future__ import annotations

import ipaddress
import itertools
import logging
import random
import threading
import time
from typing import Any, Callable, Iterator, List, Optional, Sequence, Set, Union

import grpc
from google.protobuf.message import Message

from txcoord import tls
from txcoord import transact as _transact
from txcoord.errors import TxcoordError, Unauthenticated, Unavailable, from_rpc
from txcoord.snapshots import Snapshot
from txcoord.v1 import operations_pb2_grpc, snapshots_pb2, snapshots_pb2_grpc, status_pb2_grpc
from txcoord.v1 import tables_pb2_grpc, transactions_pb2, transactions_pb2_grpc

# A snapshot of thousands of tables is past gRPC's 4 MiB.
_MAX_ANSWER = 64 << 20
# How long one try may take before the next replica is asked, where there are several: one that
# is paused neither answers nor goes away. Doubled with each try.
_TRY_FOR = 5.0
# Whoever waits at a prompt is told what for, once a call is going to take so long.
_TELL_AFTER = 2.0
_log = logging.getLogger("txcoord")
# How long a stream of Watch must have lasted to count as one that worked.
_STEADY = 5.0


class Client:
    """Talks to a txcoord server. Safe for use by several threads. A context manager.

    ``target`` is ``host:port``, ``unix:/path``, any other target of gRPC, or several replicas as
    a list ("a:7401,b:7401"): calls go to them in turn, and one whose answer is lost, or does not
    come, is repeated at the next.

    ``catalog`` goes out with every request that names none. ``retry_for`` bounds, in seconds, how
    long one call is repeated while its outcome is unknown or no server is reached; one that takes
    long for that says so in the log ``txcoord``. ``credentials``
    (``grpc.ssl_channel_credentials``) secure the connection. ``token``, a string or a function
    that returns one, is shown with every call; over the network only with ``credentials``.

    ``transactions``, ``tables``, ``snapshots``, ``status`` and ``operations`` are the generated
    stubs: catalog and the highest snapshot seen go out with every call, lost answers are repeated
    (every call of the contract may be), and errors are ``TxcoordError``.
    """

    def __init__(
        self,
        target: str,
        *,
        catalog: str = "",
        retry_for: float = 120.0,
        credentials: Optional[grpc.ChannelCredentials] = None,
        token: Union[str, Callable[[], str], None] = None,
        options: Sequence[Any] = (),
    ) -> None:
        targets = _targets(target)
        if token is not None and credentials is None and not all(map(_is_local, targets)):
            raise ValueError(f"a token would go to {target} in plain text: give credentials")
        self._catalog, self._retry_for, self._token = catalog, retry_for, token
        self._targets, self._plain, self._reached = targets, credentials is None, False
        self._channels = [_channel(t, credentials, options) for t in targets]
        self._turn = itertools.count()
        self._lock = threading.Lock()
        self._seen = 0
        self.transactions = _Service(self, transactions_pb2_grpc.TransactionServiceStub)
        self.tables = _Service(self, tables_pb2_grpc.TableServiceStub)
        self.snapshots = _Service(self, snapshots_pb2_grpc.SnapshotServiceStub)
        self.status = _Service(self, status_pb2_grpc.StatusServiceStub)
        self.operations = _Service(self, operations_pb2_grpc.OperationServiceStub)

    def close(self) -> None:
        """Ends the connections."""
        for channel in self._channels:
            channel.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    @property
    def latest_snapshot(self) -> int:
        """The highest snapshot version that any answer has named; 0 if none has.

        Hand it to another process's ``observe``, and what that reads contains what this one wrote.
        """
        with self._lock:
            return self._seen

    def observe(self, snapshot: int) -> None:
        """Makes every later call answer from a state that contains the snapshot."""
        with self._lock:
            self._seen = max(self._seen, snapshot)

    def transact(self, key: str, work: "Callable[[_transact.Tx], Any]", **options: Any) -> "_transact.Result":
        """Commits what ``work`` stages, all of it or nothing, once per key. See ``transact.transact``."""
        return _transact.transact(self, key, work, **options)

    def _abort(self, token: str, why: str, within: float) -> transactions_pb2.Outcome:
        request = transactions_pb2.AbortRequest(token=token, reason="".join(c if c.isprintable() else " " for c in why))
        return self._call(transactions_pb2_grpc.TransactionServiceStub, "Abort", request, within).outcome

    def outcome(self, key: str, resolve: bool = False) -> transactions_pb2.Outcome:
        """What became of a key. OPEN and NotFound are never final; with ``resolve`` what is
        undecided is aborted, so that the answer is."""
        answer = self.transactions.GetOutcome(transactions_pb2.GetOutcomeRequest(key=key, resolve=resolve))
        return answer.outcome

    def snapshot(
        self, tables: Sequence[str] = (), *, version: Optional[int] = None, tag: Optional[str] = None, timestamp: Any = None
    ) -> Snapshot:
        """The versions of tables that belong together: the latest, or those of a snapshot version,
        of a tag, or of a time (an aware ``datetime``), by one of them. Never older than what this
        client has seen, where none is given."""
        given = [name for name, v in (("version", version), ("tag", tag), ("timestamp", timestamp)) if v is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} are given: a snapshot is chosen by one of them")
        if timestamp is not None and timestamp.utcoffset() is None:
            raise ValueError(f"timestamp {timestamp} has no time zone: give one, as in datetime.now(timezone.utc)")
        request = snapshots_pb2.GetSnapshotRequest(tables=tables)
        if version is not None:
            request.version = version
        if tag is not None:
            request.tag = tag
        if timestamp is not None:
            request.timestamp.FromDatetime(timestamp)
        return Snapshot(self.snapshots.GetSnapshot(request).snapshot)

    def watch(self, after: int) -> Iterator[snapshots_pb2.SnapshotChange]:
        """Every snapshot after a version, once and in order. Connects again after a lost
        connection and goes on where it was, until that fails for ``retry_for`` seconds."""
        pauses, failing = _pauses(), time.monotonic()
        while True:
            opened, before = time.monotonic(), after
            try:
                request = snapshots_pb2.WatchSnapshotsRequest(after=after)
                for answer in self._stream(snapshots_pb2_grpc.SnapshotServiceStub, "WatchSnapshots", request):
                    if answer.snapshot.version != after + 1:
                        raise RuntimeError(f"snapshot {answer.snapshot.version} came after {after}")
                    after = answer.snapshot.version
                    yield answer.snapshot
                error: TxcoordError = Unavailable(grpc.StatusCode.UNAVAILABLE, "the server ended the stream")
            except TxcoordError as e:
                error = e
            if after > before or time.monotonic() - opened > _STEADY:
                pauses, failing = _pauses(), time.monotonic()
            if not error.repeatable or time.monotonic() - failing > self._retry_for:
                raise error
            time.sleep(next(pauses))

    def _call(self, stub: Any, method: str, request: Any, within: Optional[float] = None) -> Any:
        """Makes a call until its answer says something. ``request`` may be a function that makes
        the messages of a stream, anew for each try. ``within`` bounds all of it, also a try."""
        pauses, started, limit = _pauses(), time.monotonic(), _TRY_FOR
        bounded = within is not None or len(self._channels) > 1
        most = self._retry_for if within is None else within
        refusing: Set[grpc.Channel] = set()
        told = False
        while True:
            channel = self._next()
            try:
                return self._try(channel, stub, method, request, min(limit, within or limit) if bounded else None)
            except TxcoordError as error:
                self._diagnose(error)
                refusing = refusing | {channel} if error.out_of_reach else set()
                pause = max(next(pauses), error.retry_after)
                waited = time.monotonic() - started
                if len(refusing) == len(self._channels) or not error.repeatable or waited + pause > most:
                    raise
                if waited + pause > _TELL_AFTER and not told:
                    told = True
                    _log.warning("%s is repeated, for %.0f s more at most (retry_for): %s", method, most - waited, error)
            limit *= 2
            time.sleep(pause)

    def _diagnose(self, error: TxcoordError) -> None:
        """Gives up at once where no server has been reached yet, and the two do not agree on TLS:
        no repeating mends that."""
        self._reached = self._reached or not error.lost
        if self._reached:
            return
        words = tls.disagreement(error.message)
        if words is None and self._plain and any(map(tls.speaks, self._targets)):
            words = "the server speaks TLS: give credentials (grpc.ssl_channel_credentials)"
        if words is not None:
            raise Unauthenticated(grpc.StatusCode.UNAUTHENTICATED, words) from error

    def _try(self, channel: grpc.Channel, stub: Any, method: str, request: Any, limit: Optional[float]) -> Any:
        bound = getattr(stub(channel), method)
        sent = (self._fill(m) for m in request()) if callable(request) else self._fill(request)
        call = bound.future(sent, metadata=self._metadata(), wait_for_ready=False)
        try:
            # The server is not told of the limit: it would take it for the time after which the
            # caller wants to hear that publication is still pending.
            answer = call.result(timeout=limit)
        except grpc.FutureTimeoutError:
            call.cancel()
            raise Unavailable(grpc.StatusCode.CANCELLED, f"no answer in {limit:g} s") from None
        except grpc.FutureCancelledError:
            raise Unavailable(grpc.StatusCode.CANCELLED, "the call was cancelled") from None
        except grpc.RpcError as error:
            raise from_rpc(error, token_shown=self._token is not None) from None
        except BaseException:  # the caller's own, such as KeyboardInterrupt
            call.cancel()
            raise
        self._note(answer)
        return answer

    def _stream(self, stub: Any, method: str, request: Message) -> Iterator[Any]:
        call = getattr(stub(self._next()), method)(self._fill(request), metadata=self._metadata())
        try:
            for answer in call:
                self._note(answer)
                yield answer
        except grpc.RpcError as error:
            raise from_rpc(error, token_shown=self._token is not None) from None
        finally:
            call.cancel()

    def _next(self) -> grpc.Channel:
        return self._channels[next(self._turn) % len(self._channels)]

    def _metadata(self) -> Sequence[Any]:
        token = self._token() if callable(self._token) else self._token
        if token is None:
            return ()
        if not token.strip():  # and the caller is not anonymous instead
            raise ValueError("the token is empty: give one, or None to show none")
        if not (token.strip().isascii() and token.strip().isprintable()):
            raise ValueError("the token holds what no token does: blanks inside, control characters or letters beyond ASCII")
        return (("authorization", f"Bearer {token.strip()}"),)

    def _fill(self, request: Message) -> Message:
        """A copy with catalog and snapshot version, where the caller left them out."""
        filled = type(request)()
        filled.CopyFrom(request)
        header = filled
        if isinstance(filled, transactions_pb2.StageStreamRequest):
            if not filled.HasField("header"):
                return filled
            header = filled.header
        fields = header.DESCRIPTOR.fields_by_name
        if "catalog" in fields and not header.catalog:
            header.catalog = self._catalog
        if "at_least_snapshot" in fields and not header.at_least_snapshot:
            header.at_least_snapshot = self.latest_snapshot
        return filled

    def _note(self, answer: Message) -> None:
        self._reached = True
        if "latest_snapshot" in answer.DESCRIPTOR.fields_by_name:
            self.observe(answer.latest_snapshot)


class _Service:
    """The stub of a service whose calls the client repeats and translates."""

    def __init__(self, client: Client, stub: Any) -> None:
        self._client, self._stub = client, stub

    def __getattr__(self, method: str) -> Callable[[Any], Any]:
        if method == "WatchSnapshots":
            return lambda request: self._client._stream(self._stub, method, request)
        if method.startswith("_") or not hasattr(self._stub(self._client._channels[0]), method):
            raise AttributeError(method)
        return lambda request: self._client._call(self._stub, method, request)


def _pauses() -> Iterator[float]:
    """Pauses between tries in seconds: growing, and at random."""
    for n in itertools.count():
        yield min(0.02 * 2**n, 5.0) * random.uniform(0.5, 1.5)


def _channel(target: str, credentials: Optional[grpc.ChannelCredentials], options: Sequence[Any]) -> grpc.Channel:
    ours = [
        ("grpc.max_receive_message_length", _MAX_ANSWER),
        ("grpc.enable_retries", 0),  # _call knows better what may be repeated
        ("grpc.keepalive_time_ms", 20_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.initial_reconnect_backoff_ms", 50),
        ("grpc.min_reconnect_backoff_ms", 50),
        ("grpc.max_reconnect_backoff_ms", 3_000),
        *options,
    ]
    if credentials is None:
        return grpc.insecure_channel(target, ours)
    return grpc.secure_channel(target, credentials, ours)


def _targets(target: str) -> List[str]:
    """The replicas of a list of addresses; other targets of gRPC are one."""
    if target.startswith(("http://", "https://")):
        raise ValueError(f"target {target!r} is no address of a server: give host:port")
    if "://" in target or target.startswith(("ipv4:", "ipv6:", "unix:", "unix-abstract:", "dns:")):
        return [target]
    targets = target.split(",")
    for one in targets:
        host, _, port = one.rpartition(":")
        if not host or not port.isdigit():  # gRPC would take 443
            raise ValueError(f"target {target!r}: {one!r} is no address of a server: give host:port, or unix:/path")
    return targets


def _is_local(target: str) -> bool:
    """Whether a target is this machine, whatever a name server says."""
    if target.startswith(("unix:", "unix-abstract:")):
        return True
    addresses = target.split(":///")[-1]
    for kind in ("ipv4:", "ipv6:"):
        addresses = addresses[len(kind):] if addresses.startswith(kind) else addresses
    return all(_is_loopback(a) for a in addresses.split(","))


def _is_loopback(address: str) -> bool:
    host = address[1:].split("]")[0] if address.startswith("[") else address.rsplit(":", 1)[0]
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
